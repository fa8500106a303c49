"""`Prompt[OutputT]` (seed 4): a prompt in sections, which declares its answer by a type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.doors.sections import MarkdownSection, placed
from trustgraph_prompt.errors import ContractError, PromptRenderError, PromptValidationError

OutputT = TypeVar("OutputT")
OutputT_co = TypeVar("OutputT_co", covariant=True)

Container = Literal["object", "array"]


@dataclass(frozen=True)
class StructuredOutputConfig:
    """What a prompt declares of its answer: an instance of `dataclass_type`, or an array of such."""

    dataclass_type: type[Any]
    container: Container
    allow_extra_keys: bool = False

    @cached_property
    def contract(self) -> Contract:
        """The same as a contract: nothing is mended, scalars are converted where nothing is lost."""
        type = list[self.dataclass_type] if self.container == "array" else self.dataclass_type  # type: ignore[name-defined]
        extra: Literal["ignore", "forbid"] = "ignore" if self.allow_extra_keys else "forbid"
        return Contract.of(type, extra=extra, coerce=True, fences="strict")


@dataclass(frozen=True)
class RenderedPrompt(Generic[OutputT_co]):
    """A prompt filled in, and what it declares of its answer."""

    text: str
    structured_output: StructuredOutputConfig | None = None

    @property
    def output_type(self) -> type[Any] | None:
        """The type declared, of one element where an array is; None where nothing is declared."""
        return self.structured_output.dataclass_type if self.structured_output else None

    @property
    def container(self) -> Container | None:
        return self.structured_output.container if self.structured_output else None

    @property
    def allow_extra_keys(self) -> bool | None:
        return self.structured_output.allow_extra_keys if self.structured_output else None


@dataclass(slots=True)
class ResponseFormatParams:
    """What the section on the format of the answer says; the clause is ". Do not add extra keys." or "."."""

    article: Literal["a", "an"]
    container: Container
    extra_clause: str


class ResponseFormatSection(MarkdownSection[ResponseFormatParams]):
    """The section that a prompt with a declared answer ends with."""

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


class Prompt(Generic[OutputT]):
    """A prompt in sections. `Prompt[T]` and `Prompt[list[T]]` declare an answer; T is a dataclass or a model.

    `ns` and `key` say which prompt it is, `name` is for people. With `inject_output_instructions` the text
    ends with how to write the answer. Keys that T has no field for are refused unless `allow_extra_keys`.

    Raises `PromptValidationError` for another declaration, for sections of one path, and for an empty `ns` or
    `key`.
    """

    _declared: ClassVar[Any] = None
    _specialised: ClassVar[dict[Any, type[Prompt[Any]]]] = {}

    def __class_getitem__(cls, declared: Any) -> Any:
        if isinstance(declared, TypeVar):
            return super().__class_getitem__(declared)  # type: ignore[misc]
        if (cls, declared) not in cls._specialised:
            made = type(cls.__name__, (cls,), {"_declared": declared, "__module__": cls.__module__})
            cls._specialised[cls, declared] = made
        return cls._specialised[cls, declared]

    def __init__(
        self,
        *,
        ns: str,
        key: str,
        name: str | None = None,
        sections: Sequence[MarkdownSection[Any]] = (),
        inject_output_instructions: bool = True,
        allow_extra_keys: bool = False,
    ) -> None:
        if not (ns.strip() and key.strip()):
            raise PromptValidationError("a prompt needs `ns` and `key`")
        self.ns, self.key, self.name = ns.strip(), key.strip(), name or key
        self.inject_output_instructions = inject_output_instructions
        self.structured_output = self._output(allow_extra_keys)
        self.sections = tuple(sections)
        if self.structured_output is not None:
            self.sections += (ResponseFormatSection(self.structured_output),)
        self._placed = tuple(placed(self.sections))

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Of all sections, in the order in which they are read."""
        return tuple(place.path for place in self._placed)

    def render(self, *params: Any, inject_output_instructions: bool | None = None) -> RenderedPrompt[OutputT]:
        """The text, filled in from an instance for each type of parameters.

        Raises `PromptRenderError` for parameters that are missing, given twice, or of no section.
        """
        given = self._by_type(params)
        inject = (
            self.inject_output_instructions
            if inject_output_instructions is None
            else inject_output_instructions
        )
        left_out: tuple[str, ...] | None = None
        parts: list[str] = []
        for place in self._placed:
            if left_out is not None and place.path[: len(left_out)] == left_out:
                continue
            if isinstance(place.section, ResponseFormatSection) and not inject:
                continue
            filled = place.params(given)
            if place.section.is_enabled(filled):
                parts.append(place.section.render(filled, place.depth))
            else:
                left_out = place.path
        return RenderedPrompt("\n\n".join(parts), self.structured_output)

    def _by_type(self, params: Sequence[Any]) -> Mapping[type[Any], Any]:
        wanted = {place.section.params_type for place in self._placed}
        given: dict[type[Any], Any] = {}
        for one in params:
            if type(one) not in wanted:
                raise PromptRenderError("no section has these parameters", dataclass_type=type(one))
            if type(one) in given:
                raise PromptRenderError("parameters of one type were given twice", dataclass_type=type(one))
            given[type(one)] = one
        return given

    def _output(self, allow_extra_keys: bool) -> StructuredOutputConfig | None:
        declared = self._declared
        if declared is None:
            return None
        is_list = get_origin(declared) is list
        candidate = get_args(declared)[0] if is_list else declared
        if not _is_record(candidate):
            raise PromptValidationError("the answer is declared by no dataclass", dataclass_type=candidate)
        output = StructuredOutputConfig(candidate, "array" if is_list else "object", allow_extra_keys)
        try:
            _ = output.contract
        except ContractError as error:
            raise PromptValidationError(str(error), dataclass_type=candidate) from error
        return output


def _is_record(candidate: object) -> bool:
    return isinstance(candidate, type) and (
        is_dataclass(candidate) or hasattr(candidate, "model_json_schema")
    )
