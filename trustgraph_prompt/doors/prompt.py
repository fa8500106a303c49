"""`Prompt[OutputT]` (weakincentives): a prompt in sections that declares its answer by a type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args, get_origin
from weakref import WeakValueDictionary

from trustgraph_prompt.doors.declared_output import (
    Container,
    RenderedPrompt,
    ResponseFormatSection,
    StructuredOutputConfig,
)
from trustgraph_prompt.doors.sections import MarkdownSection, Placed, placed, written
from trustgraph_prompt.errors import ConfigError, ContractError, PromptRenderError, PromptValidationError
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.prompts.jinja_dialect import literally

if TYPE_CHECKING:  # for type checkers, a prompt without a declared answer is a Prompt[None]
    from typing_extensions import TypeVar as TypeVarWithDefault

    OutputT = TypeVarWithDefault("OutputT", default=None)
else:
    OutputT = TypeVar("OutputT")

_NOTHING = object()


class Prompt(Generic[OutputT]):
    """A prompt in sections. `Prompt[T]` and `Prompt[list[T]]` declare its answer, T a dataclass or a model.

    `ns` and `key` identify the prompt, `name` is for people. With `inject_output_instructions`, instructions
    about the answer are appended to the text. Keys that T has no field for are rejected unless
    `allow_extra_keys`.

    Raises `PromptValidationError` for any other type, for sections with the same path, and for an empty `ns`
    or `key`.
    """

    _declared: ClassVar[Any] = _NOTHING
    _specialised: ClassVar[MutableMapping[Any, type[Prompt[Any]]]] = WeakValueDictionary()

    def __class_getitem__(cls, declared: Any) -> Any:
        if isinstance(declared, TypeVar):
            return super().__class_getitem__(declared)  # type: ignore[misc]
        made = type(cls.__name__, (cls,), {"_declared": declared, "__module__": cls.__module__})
        try:
            return cls._specialised.setdefault((cls, declared), made)
        except TypeError:  # not hashable, therefore not a type, which `__init__` reports
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
        """The paths of all sections, in their order."""
        return tuple(place.path for place in self._placed)

    def render(
        self, *params: object, inject_output_instructions: bool | None = None
    ) -> RenderedPrompt[OutputT]:
        """Fill in the text from one instance of each type of parameters.

        Raises `PromptRenderError` for parameters that are missing, given twice, or of no section.
        """
        given = self._by_type(params)
        disabled: tuple[str, ...] | None = None
        parts: list[str] = []
        for place in self._shown(inject_output_instructions):
            if disabled is not None and place.path[: len(disabled)] == disabled:
                continue
            text = place.text(given)
            if text is None:
                disabled = place.path
            else:
                parts.append(text)
        return RenderedPrompt("\n\n".join(parts), self.structured_output)

    def entry(self) -> dict[str, Any]:
        """Convert the prompt to an entry of the config topic (plain JSON), from which workers serve it.

        Raises `PromptValidationError` for what an entry cannot express: `enabled`, fields of two types with
        the same name, and names that the template language reserves.
        """
        return self._entry_and_definition()[0]

    def definition(self) -> PromptDefinition:
        """Convert it to a definition with id `key`, whose contract builds instances. Raises as `entry`."""
        definition, output = self._entry_and_definition()[1], self.structured_output
        return definition if output is None else replace(definition, contract=output.contract)

    def _entry_and_definition(self) -> tuple[dict[str, Any], PromptDefinition]:
        """Each `${name}` becomes the term `name`; default parameters and defaults of fields become terms."""
        shown, output = self._shown(), self.structured_output
        entry = {
            "description": f"{self.name} ({self.ns})",
            "dialect": "jinja",
            "prompt": "\n\n".join(_template(place) for place in shown),
            **_terms(shown),
            **(_answer(output) if output is not None else {"response-type": "text"}),
        }
        try:
            definition = PromptDefinition.from_entry(self.key, entry)
        except ConfigError as error:
            raise PromptValidationError(str(error)) from error
        for place in _filled(shown):
            for name in sorted(place.section.names - definition.template.needs.named):
                raise _error(place, f"the template language reserves the name `{name}`")
        return entry, definition

    def _shown(self, inject: bool | None = None) -> list[Placed]:
        """All sections; without `inject`, the one about the format of the answer is left out."""
        if self.inject_output_instructions if inject is None else inject:
            return list(self._placed)
        return [place for place in self._placed if not isinstance(place.section, ResponseFormatSection)]

    def _by_type(self, params: Sequence[object]) -> Mapping[type[Any], Any]:
        wanted = {place.section.params_type for place in self._placed}
        given: dict[type[Any], Any] = {}
        for instance in params:
            kind = type(instance)
            if kind not in wanted:
                raise PromptRenderError(
                    f"no section has parameters of type {kind.__name__}", dataclass_type=kind
                )
            if kind in given:
                raise PromptRenderError(
                    f"parameters of type {kind.__name__} were given twice", dataclass_type=kind
                )
            given[kind] = instance
        return given

    def _output(self, allow_extra_keys: bool) -> StructuredOutputConfig | None:
        declared = self._declared
        if declared is _NOTHING:
            return None
        kind = get_args(declared)[0] if get_origin(declared) is list else declared
        if not (isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "model_json_schema"))):
            raise PromptValidationError(
                f"an answer is a dataclass, a model or a list of one, found {declared!r:.200}",
                dataclass_type=kind,
            )
        container: Container = "object" if kind is declared else "array"
        output = StructuredOutputConfig(kind, container, allow_extra_keys)
        try:
            _ = output.contract
        except ContractError as error:
            raise PromptValidationError(str(error), dataclass_type=kind) from error
        return output


def _template(place: Placed) -> str:
    section = place.section
    if isinstance(section, ResponseFormatSection):
        return literally(place.text({}) or "")
    if section.enabled is not None:
        raise _error(place, "an entry cannot express when a section is `enabled`")
    return section.fill(place.depth, lambda name: f"{{{{ {name} }}}}", literally)


def _terms(sections: Sequence[Placed]) -> dict[str, Any]:
    terms: dict[str, str] = {}
    declared: dict[str, tuple[type[Any] | None, str | None]] = {}
    for place in _filled(sections):
        defaults = dict(_defaults(place.section))
        for name in sorted(place.section.names):
            declaration = place.section.params_type, defaults.get(name)
            if declared.setdefault(name, declaration) != declaration:
                raise _error(place, f"`{name}` is a field of two types, or has two defaults")
            if name in defaults:
                terms[name] = defaults[name]
    return {"terms": terms} if terms else {}


def _defaults(section: MarkdownSection[Any]) -> Iterator[tuple[str, str]]:
    """The default of each field, as text."""
    for field in fields(section.params_type) if section.params_type else ():
        if section.default_params is not None:
            yield field.name, written(getattr(section.default_params, field.name))
        elif field.default_factory is not MISSING:
            yield field.name, written(field.default_factory())
        elif field.default is not MISSING:
            yield field.name, written(field.default)


def _answer(output: StructuredOutputConfig) -> dict[str, Any]:
    contract = output.contract
    return {
        "response-type": contract.format,
        "schema": contract.schema,
        "many": contract.many,
        "extra": contract.extra,
        "coerce": contract.coerce,
        "fences": contract.fences,
        "answer-format": "none",  # a section contains the instructions, unless they are not wanted
    }


def _filled(sections: Sequence[Placed]) -> list[Placed]:
    return [place for place in sections if not isinstance(place.section, ResponseFormatSection)]


def _error(place: Placed, message: str) -> PromptValidationError:
    return PromptValidationError(message, dataclass_type=place.section.params_type, section=place.path)
