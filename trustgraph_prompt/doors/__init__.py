"""The interfaces of TrustGraph, AION, weakincentives and StreetRace, on top of the same reader."""

from __future__ import annotations

from trustgraph_prompt.doors.declared_output import (
    RenderedPrompt,
    ResponseFormatParams,
    StructuredOutputConfig,
    parse_structured_output,
)
from trustgraph_prompt.doors.manager import PromptManager
from trustgraph_prompt.doors.prompt import Prompt
from trustgraph_prompt.doors.sections import MarkdownSection
from trustgraph_prompt.errors import OutputParseError, PromptRenderError, PromptValidationError

__all__ = [
    "MarkdownSection",
    "OutputParseError",
    "Prompt",
    "PromptManager",
    "PromptRenderError",
    "PromptValidationError",
    "RenderedPrompt",
    "ResponseFormatParams",
    "StructuredOutputConfig",
    "parse_structured_output",
]
