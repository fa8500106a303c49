"""The interfaces of the seeds, each with its own strictness over the one reader."""

from __future__ import annotations

from trustgraph_prompt.doors.manager import PromptManager
from trustgraph_prompt.doors.prompt import Prompt
from trustgraph_prompt.doors.sections import MarkdownSection
from trustgraph_prompt.doors.structured_output import (
    RenderedPrompt,
    ResponseFormatParams,
    StructuredOutputConfig,
    parse_structured_output,
)
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
