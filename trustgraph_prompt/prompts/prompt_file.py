"""A file in the schema language, compiled: entries of the config topic, and the examples to try them with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.config_files import check
from trustgraph_prompt.contract.from_language import parse_whole
from trustgraph_prompt.errors import (
    ConfigError,
    LanguageError,
    PromptError,
    TemplateError,
    first_of,
    raise_first,
)
from trustgraph_prompt.language import File, locate, to_json_schema
from trustgraph_prompt.language.nodes import ListOf, Name, Position, PromptDef
from trustgraph_prompt.language.parse import merge_prompts, read
from trustgraph_prompt.prompts import example
from trustgraph_prompt.prompts.definition import PromptDefinition, system_template
from trustgraph_prompt.prompts.entry import SCHEMA
from trustgraph_prompt.prompts.example import Example
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY
from trustgraph_prompt.prompts.source_map import SourceMap
from trustgraph_prompt.prompts.template import Template

Types = Mapping[str, Mapping[str, Any]]

_EXPECTING = "`expecting …` behind the name of the prompt"

_SAID_OTHERWISE = {
    "dialect": "no dialect: templates are Jinja here",
    "prompt": "`text: …`",
    "response-type": _EXPECTING,
    "schema": _EXPECTING,
    "object-schema": _EXPECTING,
    "many": _EXPECTING,
    "escalate": '`escalate if ~ "…"`',
}
"""Keys of an entry that are no clauses, and what is written instead."""

CLAUSES: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {key: value for key, value in SCHEMA["properties"].items() if key not in _SAID_OTHERWISE},
}
"""The clauses of a prompt beside its text, its examples and `escalate if`: keys of its entry."""


@dataclass(frozen=True, slots=True)
class CompiledFile:
    """What one file says: entries by config key, where each of them stands, and the examples."""

    entries: Mapping[str, Mapping[str, Any]]
    places: Mapping[str, SourceMap]
    examples: tuple[Example, ...]


def compile(source: str, where: str) -> CompiledFile:
    """What a text in the schema language says, as entries; `where` is the name of its file.

    Raises `ConfigError` with file, line and column for what is wrong first; the rest are its `others`.
    """
    try:
        file = parse_whole(source, where=where)
    except LanguageError as error:
        told = [error, *error.others, *_problems_of_texts(source, where)]
        raise first_of(sorted(told, key=_line_and_column)) from None
    prompts = [_Prompt(prompt, file, where, source) for prompt in file.prompts]
    of_system = SourceMap(where, file.system_at, source=source)
    problems = [
        *_problems_of_system(file, of_system),
        *(one for prompt in prompts for one in prompt.problems()),
    ]
    raise_first(problems)
    entries: dict[str, Mapping[str, Any]] = {prompt.key: prompt.entry for prompt in prompts}
    places = {prompt.key: prompt.places for prompt in prompts}
    if file.system is not None:
        entries[SYSTEM_KEY] = _system(file.system)
        places[SYSTEM_KEY] = of_system
    examples = tuple(one for prompt in prompts for one in prompt.examples())
    return CompiledFile(entries, places, examples)


def definition_of(
    file: File,
    prompt: PromptDef,
    *,
    types: Types | None = None,
    defaults: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> PromptDefinition:
    """A prompt of a file, compiled; `where` is the name of the file.

    `types` are those beside the language's own, as in `parse`. `defaults` are keys about answers, for prompts
    that do not say otherwise and expect more than a text. Raises `ConfigError` as `compile`.
    """
    declared = _Prompt(prompt, file, where, types=types, defaults=defaults)
    raise_first(list(declared.problems_of_clauses()))
    return declared.definition()


def _problems_of_texts(source: str, where: str) -> Iterator[ConfigError]:
    """What is wrong with the templates of a file that has other faults, as far as it can be read."""
    file, _ = merge_prompts(read(source)[0])
    yield from _problems_of_system(file, SourceMap(where, file.system_at, source=source))
    for prompt in file.prompts:
        yield from _Prompt(prompt, file, where, source).problems_of_text()


def _line_and_column(error: ConfigError) -> list[int]:
    return [int(part) for part in (error.where or "").split(":")[-2:] if part.isdecimal()]


def _system(text: str) -> dict[str, str]:
    return {"dialect": "jinja", "prompt": text}


def _problems_of_system(file: File, places: SourceMap) -> Iterator[ConfigError]:
    if file.system is not None:
        try:
            system_template(_system(file.system))
        except TemplateError as error:
            yield _in_template(error, places, "")


class _Prompt:
    """One prompt of a file, and the entry that it is."""

    def __init__(
        self,
        prompt: PromptDef,
        file: File,
        where: str | None,
        source: str = "",
        *,
        types: Types | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self._prompt = prompt
        self._file = file
        self._types = types
        self._defaults = {} if prompt.expecting is None else defaults or {}
        self.key = PREFIX + prompt.name
        self.places = SourceMap(where, prompt.at, prompt.places, source)

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of the config topic."""
        prompt = self._prompt
        entry = {"dialect": "jinja", **self._defaults, **prompt.settings, **self._answer()}
        if prompt.model is not None:
            entry["model"] = {"name": prompt.model, **prompt.settings.get("model", {})}
        if prompt.escalation is not None:
            entry["escalate"] = {"op": prompt.escalation.op, "value": prompt.escalation.value}
        return {**entry, "prompt": prompt.text}

    def _answer(self) -> dict[str, Any]:
        """What `expecting` says of the answer."""
        expected, layout = self._prompt.expecting, self._prompt.layout
        if expected is None:
            return {"response-type": "text"}
        many = isinstance(expected, ListOf)
        one = expected.item if isinstance(expected, ListOf) else expected
        schema = to_json_schema(self._file, one, types=self._types)
        answer = {"response-type": layout, **({"schema": schema} if schema else {})}
        return {**answer, "many": True} if many and layout == "json" else answer

    def definition(self) -> PromptDefinition:
        """The prompt, compiled. Raises `ConfigError` with the place of what is wrong, if nothing else is."""
        try:
            return PromptDefinition.from_entry(self._prompt.name, self.entry)
        except ConfigError as error:
            raise self._placed(error) from error

    def _placed(self, error: ConfigError) -> ConfigError:
        path = error.path
        if isinstance(error, TemplateError):
            return _in_template(error, self.places, "/text" if path == "/prompt" else path)
        return _at(error, self._place(path), path if path in self.places.parts else "")

    def examples(self) -> Iterator[Example]:
        """Its examples, of which `problems` found nothing wrong."""
        for one in self._prompt.examples:
            places = SourceMap(self.places.file, one.at, one.places)
            yield Example.from_settings(self._prompt.name, one.settings, name=one.name or "", places=places)

    def problems(self) -> Iterator[ConfigError]:
        """What is wrong with it, each with its place."""
        clauses = list(self.problems_of_clauses())
        yield from clauses
        if not clauses:
            try:
                self.definition()
            except ConfigError as error:
                yield error
        for given in self._prompt.examples:
            places = SourceMap(self.places.file, given.at, given.places)
            yield from _held(given.settings, example.SCHEMA, places)
            if not given.settings.keys() & {"reads", "reason"}:
                example_of = f"{self._prompt.name}: {given.name or 'an example'}"
                yield PromptError(
                    f"{example_of}: does not say what must be read of it",
                    where=places.of(),
                    found=", ".join(given.settings) or "no clauses",
                    expected="`reads` or `reason`",
                )

    def problems_of_text(self) -> Iterator[ConfigError]:
        """What is wrong with its template alone."""
        try:
            Template.compile(self._prompt.text)
        except TemplateError as error:
            yield _in_template(error, self.places, "/text")

    def problems_of_clauses(self) -> Iterator[ConfigError]:
        """What is wrong with its clauses, before they are taken together."""
        prompt, settings = self._prompt, self._prompt.settings
        if not prompt.name:
            yield PromptError("a prompt has a name", where=self.places.of(), found="", expected="one")
        for key, instead in _SAID_OTHERWISE.items():
            if key in settings:
                yield PromptError(
                    "this is said in another way here",
                    where=self.places.of(f"/{key}"),
                    path=f"/{key}",
                    found=settings[key],
                    expected=instead,
                )
        clauses = {key: value for key, value in settings.items() if key not in _SAID_OTHERWISE}
        yield from _held(clauses, CLAUSES, self.places)
        model = settings.get("model")
        if prompt.model is not None and isinstance(model, Mapping) and "name" in model:
            line = f" in line {prompt.model_at.line}" if prompt.model_at else ""
            yield PromptError(
                "the model is named twice",
                where=self.places.of("/model/name"),
                path="/model/name",
                found=model["name"],
                expected=f"none beside `using model`{line}, which says {prompt.model!r}",
            )

    def _place(self, path: str) -> str | None:
        """Where that stands which is at a path of the entry."""
        prompt = self._prompt
        if path.startswith("/schema"):
            expected = prompt.expecting
            of = expected.item if isinstance(expected, ListOf) else expected
            name = of.name if isinstance(of, Name) else ""
            return self.places.at(locate(self._file, name, path.removeprefix("/schema")) or self._expecting)
        if path == "/response-type":
            return self.places.at(self._expecting)
        return self.places.of(path)

    @property
    def _expecting(self) -> Position | None:
        return self._prompt.at if self._prompt.expecting is None else self._prompt.expecting.at


def _held(settings: Mapping[str, Any], schema: Mapping[str, Any], places: SourceMap) -> Iterator[ConfigError]:
    """What a schema does not allow in some clauses."""
    try:
        check(settings, schema, places.file or "", PromptError)
    except ConfigError as error:
        for one in (error, *error.others):
            yield _at(one, places.of(one.path), one.path)


def _in_template(error: TemplateError, places: SourceMap, path: str) -> TemplateError:
    """What is wrong with a template, said of its line where that is known."""
    if error.line is not None and (line := places.of_line(path, error.line)):
        return TemplateError(error.message.removeprefix(f"line {error.line}: "), where=line)
    return TemplateError(error.message, where=places.of(path), found=error.found, expected=error.expected)


def _at(error: ConfigError, where: str | None, path: str) -> ConfigError:
    """The same error, said of a place in the file."""
    return type(error)(error.message, where=where, path=path, found=error.found, expected=error.expected)
