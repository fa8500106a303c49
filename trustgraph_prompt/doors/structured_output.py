"""What a model answered to a `Prompt[T]` as instances of T (seed 4), read by the one reader."""

from __future__ import annotations

import re
from typing import TypeVar

from trustgraph_prompt.doors.prompt import RenderedPrompt, StructuredOutputConfig
from trustgraph_prompt.errors import OutputParseError, StructuredOutputInvalid
from trustgraph_prompt.reader import read

OutputT = TypeVar("OutputT")

_INDEX = re.compile(r"(?:/items)?/(\d+)(?:/|\Z)")


def parse_structured_output(text: str, rendered: RenderedPrompt[OutputT]) -> OutputT:
    """The answer as what its prompt declares: an instance, or a list of them.

    Where there are fenced blocks, nothing but these counts; else the whole text, else the value in it that is
    as declared. An array may be wrapped in an object (`items`). Raises `OutputParseError`, which says what is
    wrong, and where.
    """
    output = rendered.structured_output
    if output is None:
        raise OutputParseError("Prompt does not declare structured output.")
    if output.container not in ("object", "array"):
        raise OutputParseError(
            f"Unknown output container declared: {output.container}", dataclass_type=output.dataclass_type
        )
    try:
        built: OutputT = output.contract.build(read(text, output.contract).unwrap())
    except StructuredOutputInvalid as invalid:
        raise _parse_error(invalid, output) from invalid
    return built


def _parse_error(invalid: StructuredOutputInvalid, output: StructuredOutputConfig) -> OutputParseError:
    path = invalid.issues[0].path if invalid.issues else ""
    index = _INDEX.match(path) if output.container == "array" else None
    return OutputParseError(
        invalid.error_message,
        dataclass_type=output.dataclass_type,
        index=int(index[1]) if index else None,
        path=path,
        cause=invalid,
    )
