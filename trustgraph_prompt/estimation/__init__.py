"""Estimates what questions will take before they are asked: tokens, money and time."""

from __future__ import annotations

from trustgraph_prompt.estimation.answer_lengths import AnswerLengths, Sample
from trustgraph_prompt.estimation.calls import CallRange, Calls, Range
from trustgraph_prompt.estimation.estimate import Estimate, Pace, estimate
from trustgraph_prompt.estimation.questions import PlannedQuestion, count_tokens
from trustgraph_prompt.estimation.tokenizer import Tokenizer, choose_tokenizer

__all__ = [
    "AnswerLengths",
    "CallRange",
    "Calls",
    "Estimate",
    "Pace",
    "PlannedQuestion",
    "Range",
    "Sample",
    "Tokenizer",
    "choose_tokenizer",
    "count_tokens",
    "estimate",
]
