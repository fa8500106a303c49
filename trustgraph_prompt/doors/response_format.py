"""The section that a prompt with a declared answer ends with (seed 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trustgraph_prompt.doors.sections import MarkdownSection
from trustgraph_prompt.doors.structured_output import Container, StructuredOutputConfig


@dataclass(slots=True)
class ResponseFormatParams:
    """What the section says of the answer; the clause is ". Do not add extra keys." or "."."""

    article: Literal["a", "an"]
    container: Container
    extra_clause: str


class ResponseFormatSection(MarkdownSection[ResponseFormatParams]):
    """How the answer is to be written. Its words are seed 4's."""

    def __init__(self, output: StructuredOutputConfig) -> None:
        super().__init__(
            title="Response Format",
            key="response-format",
            template="""
            Return ONLY a single fenced JSON code block. Do not include any text
            before or after the block.

            The top-level JSON value MUST be ${article} ${container} that matches the fields
            of the expected schema${extra_clause}
            """,
            default_params=ResponseFormatParams(
                "an", output.container, "." if output.allow_extra_keys else ". Do not add extra keys."
            ),
        )
