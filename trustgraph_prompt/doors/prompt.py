"""`Prompt[OutputT]` (seed 4): a prompt in sections, which declares its answer by a type."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args, get_origin
from weakref import WeakValueDictionary

from trustgraph_prompt.doors.prompt_entry import defined, entry_of
from trustgraph_prompt.doors.sections import MarkdownSection, Placed, placed
from trustgraph_prompt.doors.structured_output import (
    Container,
    RenderedPrompt,
    ResponseFormatSection,
    StructuredOutputConfig,
)
from trustgraph_prompt.errors import ContractError, PromptRenderError, PromptValidationError
from trustgraph_prompt.prompts import PromptDefinition

if TYPE_CHECKING:  # a prompt that declares nothing is one of None, says who checks types
    from typing_extensions import TypeVar as TypeVarWithDefault

    OutputT = TypeVarWithDefault("OutputT", default=None)
else:
    OutputT = TypeVar("OutputT")

_NOTHING = object()


class Prompt(Generic[OutputT]):
    """A prompt in sections. `Prompt[T]` and `Prompt[list[T]]` declare an answer; T is a dataclass or a model.

    `ns` and `key` say which prompt it is, `name` is for people. With `inject_output_instructions` the text
    ends with how to write the answer. Keys that T has no field for are refused unless `allow_extra_keys`.

    Raises `PromptValidationError` for another declaration, for sections of one path, and for an empty `ns` or
    `key`.
    """

    _declared: ClassVar[Any] = _NOTHING
    _specialised: ClassVar[MutableMapping[Any, type[Prompt[Any]]]] = WeakValueDictionary()

    def __class_getitem__(cls, declared: Any) -> Any:
        if isinstance(declared, TypeVar):
            return super().__class_getitem__(declared)  # type: ignore[misc]
        made = type(cls.__name__, (cls,), {"_declared": declared, "__module__": cls.__module__})
        try:
            return cls._specialised.setdefault((cls, declared), made)
        except TypeError:  # what has no hash is no type either, as will be said
            return made

    def __init__(
        self,
        *,
        ns: str,
        key: str,
        name: str | None = None,
        sections: Sequence[MarkdownSection[Any]] | None = None,
        inject_output_instructions: bool = True,
        allow_extra_keys: bool = False,
    ) -> None:
        if not (isinstance(ns, str) and ns.strip() and isinstance(key, str) and key.strip()):
            raise PromptValidationError("a prompt needs `ns` and `key`")
        self.ns, self.key, self.name = ns.strip(), key.strip(), name or key.strip()
        self.inject_output_instructions = inject_output_instructions
        self.structured_output = self._output(allow_extra_keys)
        self.sections = tuple(sections or ())
        if self.structured_output is not None:
            self.sections += (ResponseFormatSection(self.structured_output),)
        self._placed = tuple(placed(self.sections))

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Of all sections, in the order in which they are read."""
        return tuple(place.path for place in self._placed)

    def render(
        self, *params: object, inject_output_instructions: bool | None = None
    ) -> RenderedPrompt[OutputT]:
        """The text, filled in from an instance for each type of parameters.

        Raises `PromptRenderError` for parameters that are missing, given twice, or of no section.
        """
        given = self._by_type(params)
        left_out: tuple[str, ...] | None = None
        parts: list[str] = []
        for place in self._shown(inject_output_instructions):
            if left_out is not None and place.path[: len(left_out)] == left_out:
                continue
            text = place.text(given)
            if text is None:
                left_out = place.path
            else:
                parts.append(text)
        return RenderedPrompt("\n\n".join(parts), self.structured_output)

    def entry(self) -> dict[str, Any]:
        """The prompt as an entry of the config topic, plain JSON, from which workers serve it.

        Raises `PromptValidationError` for what no entry can say: when a section is enabled, two types with
        one name for a field, and names that the template language keeps for itself.
        """
        return self._served()[0]

    def definition(self) -> PromptDefinition:
        """The same as a definition with id `key`; its contract builds instances. Raises as `entry`."""
        definition, output = self._served()[1], self.structured_output
        return definition if output is None else replace(definition, contract=output.contract)

    def _served(self) -> tuple[dict[str, Any], PromptDefinition]:
        shown = self._shown()
        entry = {"description": f"{self.name} ({self.ns})", **entry_of(shown, self.structured_output)}
        return entry, defined(self.key, entry, shown)

    def _shown(self, inject: bool | None = None) -> list[Placed]:
        """The sections, without the last one where the answer's format is not to be told."""
        if self.inject_output_instructions if inject is None else inject:
            return list(self._placed)
        return [place for place in self._placed if not isinstance(place.section, ResponseFormatSection)]

    def _by_type(self, params: Sequence[object]) -> Mapping[type[Any], Any]:
        wanted = {place.section.params_type for place in self._placed}
        given: dict[type[Any], Any] = {}
        for one in params:
            if type(one) not in wanted:
                raise PromptRenderError(
                    f"no section has parameters of type {type(one).__name__}", dataclass_type=type(one)
                )
            if type(one) in given:
                raise PromptRenderError(
                    f"parameters of type {type(one).__name__} were given twice", dataclass_type=type(one)
                )
            given[type(one)] = one
        return given

    def _output(self, allow_extra_keys: bool) -> StructuredOutputConfig | None:
        declared = self._declared
        if declared is _NOTHING:
            return None
        candidate = _candidate(declared)
        if not _is_record(candidate):
            raise PromptValidationError(
                f"an answer is declared by a dataclass, a model or a list of one, found {declared!r:.200}",
                dataclass_type=candidate,
            )
        container: Container = "object" if candidate is declared else "array"
        output = StructuredOutputConfig(candidate, container, allow_extra_keys)
        try:
            _ = output.contract
        except ContractError as error:
            raise PromptValidationError(str(error), dataclass_type=candidate) from error
        return output


def _candidate(declared: object) -> Any:
    """What is to be a dataclass."""
    return get_args(declared)[0] if get_origin(declared) is list else declared


def _is_record(candidate: object) -> bool:
    return isinstance(candidate, type) and (
        is_dataclass(candidate) or hasattr(candidate, "model_json_schema")
    )
