"""What a prompt declares of its answer, the section that says so, and answers read by it (weakincentives)."""

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
    """What a prompt declares of its answer: an instance of `dataclass_type`, or an array of such."""

    dataclass_type: type[Any]
    container: Container
    allow_extra_keys: bool = False

    @cached_property
    def contract(self) -> Contract:
        """The same as a contract: nothing is mended, scalars are converted where nothing is lost.

        Raises `ContractError` for a type that has no JSON.
        """
        type: Any = list[self.dataclass_type] if self.container == "array" else self.dataclass_type  # type: ignore[name-defined]
        extra: Literal["ignore", "forbid"] = "ignore" if self.allow_extra_keys else "forbid"
        return Contract.of(type, extra=extra, coerce=True, fences="strict")

    @property
    def response_schema(self) -> Mapping[str, Any] | None:
        """What `complete` may have a server hold its answer to: of an array, an object with it as `items`.

        None where no server takes it.
        """
        return server_schema(self.contract)


@dataclass(frozen=True)
class RenderedPrompt(Generic[OutputT_co]):
    """A prompt filled in, and what it declares of its answer: None where it declares nothing."""

    text: str
    structured_output: StructuredOutputConfig | None = None

    @property
    def output_type(self) -> type[Any] | None:
        """The type declared, of one element where an array is."""
        return self.structured_output.dataclass_type if self.structured_output else None

    @property
    def container(self) -> Container | None:
        return self.structured_output.container if self.structured_output else None

    @property
    def allow_extra_keys(self) -> bool | None:
        return self.structured_output.allow_extra_keys if self.structured_output else None


def parse_structured_output(text: str, rendered: RenderedPrompt[OutputT]) -> OutputT:
    """The answer as what its prompt declares: an instance, or a list of them.

    Where blocks are marked `json`, one of these is the answer, whole; else the whole text is; else the first
    value in it that is as declared. An array may be wrapped in an object (`items`). Raises
    `OutputParseError`, which says what is wrong, and where.
    """
    output = rendered.structured_output
    if output is None:
        raise OutputParseError("Prompt does not declare structured output.", output_content=text)
    if output.container not in get_args(Container):
        raise OutputParseError(
            f"Unknown output container declared: {output.container}",
            dataclass_type=output.dataclass_type,
            output_content=text,
        )
    if not isinstance(text, str):
        raise OutputParseError(
            f"expected the text of an answer, found {type(text).__name__}",
            dataclass_type=output.dataclass_type,
        )
    try:
        built: OutputT = output.contract.build(read(text, output.contract).unwrap())
    except StructuredOutputInvalid as invalid:
        raise _parse_error(invalid, text, output) from invalid
    except ContractError as error:  # of a declaration that no prompt has made
        raise OutputParseError(
            str(error), dataclass_type=output.dataclass_type, output_content=text
        ) from error
    return built


def _parse_error(
    invalid: StructuredOutputInvalid, text: str, output: StructuredOutputConfig
) -> OutputParseError:
    path = invalid.issues[0].path if invalid.issues else ""
    index = _INDEX.match(path) if output.container == "array" else None
    return OutputParseError(
        invalid.error_message,
        dataclass_type=output.dataclass_type,
        index=int(index[1]) if index else None,
        path=path,
        output_content=text,
        cause=invalid,
    )


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
