"""That a question is too long for the context of a model, in the words and numbers of servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_NAMES = frozenset(("context_length_exceeded", "exceed_context_size_error"))

_ABOUT = re.compile(
    r"context (?:length|size|window|limit)|maximum model length|max_model_len"
    r"|prompt is too long|input token count|input tokens exceed|tokens in the prompt",
    re.IGNORECASE,
)
_TOO_MUCH = re.compile(r"exceed|too (?:long|large|many)|longer than|maximum \w+ length is", re.IGNORECASE)

_NUMBER = r"(\d[\d,]{0,15})"
_QUESTION = (  # the first that is found
    rf"{_NUMBER} (?:tokens )?(?:in|from) (?:the|your) (?:input |chat )?(?:messages|prompt|input)\b",
    rf"(?:has|least) {_NUMBER} input tokens",
    rf"(?:request|input|prompt) \((?:length )?{_NUMBER}\b",
    rf"(?:messages resulted in|prompt contains|prompt is too long:|context limit:) {_NUMBER}\b",
    rf"input token count \({_NUMBER}\b",
    rf"\breceived {_NUMBER}\b",
    rf"\brequested {_NUMBER} tokens",
)
_ANSWER = (
    rf"{_NUMBER} (?:tokens )?(?:in|for) the completion",
    rf"(?:max_tokens|max_completion_tokens)\W+is too large: {_NUMBER}\b",
    rf"context limit: \S+ \+ {_NUMBER}\b",
)
_ALLOWED = (
    rf"(?:maximum|model'?s) (?:context|model) length (?:is|of)(?: only)? {_NUMBER}\b",
    rf"context (?:size|length|window) \(?(?:is |of )?(?:only )?{_NUMBER}\b",
    rf"> ?{_NUMBER}(?: maximum|,| |$)",
    rf"{_NUMBER} maximum context length",
    rf"tokens allowed \({_NUMBER}\b",
    rf"limit of {_NUMBER} tokens",
    rf"cannot exceed {_NUMBER}\b",
)


class TooLong(NamedTuple):
    """Tokens of a question, of the answer asked for, and what a server allows for both; None where untold."""

    question: int | None = None
    answer: int | None = None
    allowed: int | None = None

    def in_words(self, estimate: int | None) -> str:
        """What is wrong; `estimate` is how many tokens the question has where the server does not say so."""
        question = "more than the server takes"
        if known := self.question or estimate:
            question = f"{known:,} tokens" if self.question else f"about {known:,} tokens (estimated)"
        allowed = "the server does not say how many it allows"
        if self.allowed:
            allowed = f"the server allows {self.allowed:,}"
        if not self._is_of_both:
            return f"the question does not fit the model's context: it has {question}; {allowed}"
        answer = f"up to {self.answer:,}" if self.answer else "the rest of what was asked for"
        return (
            "question and answer together do not fit the model's context: "
            f"the question has {question}, the answer may have {answer}; {allowed}"
        )

    @property
    def _is_of_both(self) -> bool:
        """Whether the question would fit alone, as far as that is known."""
        if self.question and self.allowed:
            return self.question < self.allowed
        return self.answer is not None


def too_long(names: Iterable[str], error: Any, words: str) -> TooLong | None:
    """What a refusal says of the model's context; None where it is about something else."""
    if not _NAMES.intersection(names) and not (_ABOUT.search(words) and _TOO_MUCH.search(words)):
        return None
    told = error if isinstance(error, Mapping) else {}
    return TooLong(
        _count(told.get("n_prompt_tokens")) or _first(_QUESTION, words),  # llama.cpp
        _first(_ANSWER, words),
        _count(told.get("n_ctx")) or _first(_ALLOWED, words),
    )


def _first(patterns: Iterable[str], words: str) -> int | None:
    found = (re.search(pattern, words, re.IGNORECASE) for pattern in patterns)
    return next((_count(int(one[1].replace(",", ""))) for one in found if one), None)


def _count(value: Any) -> int | None:
    is_one = isinstance(value, int) and not isinstance(value, bool)
    return value if is_one and 0 < value < 10**12 else None
