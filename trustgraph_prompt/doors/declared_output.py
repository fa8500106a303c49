"""Declares the answer of a prompt, instructs the model, and reads the answer (weakincentives)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, get_args

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.server_schema import server_schema
from trustgraph_prompt.doors.sections import MarkdownSection
from trustgraph_prompt.errors import ContractError, OutputParseError, StructuredOutputInvalid
from trustgraph_prompt.reader import read

OutputT = TypeVar("OutputT")
OutputT_co = TypeVar("OutputT_co", covariant=True)

Container = Literal["object", "array"]

_INDEX = re.compile(r"(?:/items)?/(\d+)(?:/|\Z)")


@dataclass(frozen=True)
class StructuredOutputConfig:
    """The answer that a prompt declares: an instance of `dataclass_type`, or an array of them."""

    dataclass_type: type[Any]
    container: Container
    allow_extra_keys: bool = False

    @cached_property
    def contract(self) -> Contract:
        """The contract: broken JSON is not repaired, scalars are converted without loss.

        Raises `ContractError` for a type that JSON cannot represent.
        """
        type: Any = list[self.dataclass_type] if self.container == "array" else self.dataclass_type  # type: ignore[name-defined]
        extra: Literal["ignore", "forbid"] = "ignore" if self.allow_extra_keys else "forbid"
        return Contract.of(type, extra=extra, coerce=True, fences="strict")

    @property
    def response_schema(self) -> Mapping[str, Any] | None:
        """The schema for `complete`, an array as `items` of an object; None if no server can enforce it."""
        return server_schema(self.contract)


@dataclass(frozen=True)
class RenderedPrompt(Generic[OutputT_co]):
    """The text of a prompt and the answer that it declares, None without one."""

    text: str
    structured_output: StructuredOutputConfig | None = None

    @property
    def output_type(self) -> type[Any] | None:
        """The declared type, of an array that of its elements."""
        return self.structured_output.dataclass_type if self.structured_output else None

    @property
    def container(self) -> Container | None:
        return self.structured_output.container if self.structured_output else None

    @property
    def allow_extra_keys(self) -> bool | None:
        return self.structured_output.allow_extra_keys if self.structured_output else None


def parse_structured_output(text: str, rendered: RenderedPrompt[OutputT]) -> OutputT:
    """Read an answer as the type that its prompt declares: an instance, or a list of them.

    If code blocks are marked `json`, the whole content of one of them is the answer; otherwise the whole
    text, or else the first value in it that matches. An array may be wrapped in an object (`items`). Raises
    `OutputParseError`.
    """
    output = rendered.structured_output
    if output is None:
        raise OutputParseError("Prompt does not declare structured output.", output_content=text)
    if output.container not in get_args(Container):
        raise _parse_error(f"Unknown output container declared: {output.container}", text, output)
    if not isinstance(text, str):
        raise _parse_error(f"expected the text of an answer, found {type(text).__name__}", "", output)
    try:
        built: OutputT = output.contract.build(read(text, output.contract).unwrap())
    except StructuredOutputInvalid as invalid:
        raise _parse_error(invalid.error_message, text, output, invalid) from invalid
    except ContractError as error:  # the configuration was not made by a prompt, and is not checked yet
        raise _parse_error(str(error), text, output) from error
    return built


def _parse_error(
    message: str,
    text: str,
    output: StructuredOutputConfig,
    cause: StructuredOutputInvalid | None = None,
) -> OutputParseError:
    path = cause.issues[0].path if cause is not None and cause.issues else ""
    index = _INDEX.match(path) if output.container == "array" else None
    return OutputParseError(
        message,
        dataclass_type=output.dataclass_type,
        index=int(index[1]) if index else None,
        path=path,
        output_content=text,
        cause=cause,
    )


@dataclass(slots=True)
class ResponseFormatParams:
    """The parameters of the section; the clause is ". Do not add extra keys." or "."."""

    article: Literal["a", "an"]
    container: Container
    extra_clause: str


class ResponseFormatSection(MarkdownSection[ResponseFormatParams]):
    """The instructions about the answer, in the words of weakincentives."""

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
