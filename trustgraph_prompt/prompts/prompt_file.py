"""Compiles a file in the schema language into entries of the config topic and examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from trustgraph_prompt.config_files import check
from trustgraph_prompt.contract.from_language import parse_whole
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.errors import (
    ConfigError,
    LanguageError,
    PromptError,
    TemplateError,
    first_of,
    raise_first,
)
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.language import File, locate, to_json_schema
from trustgraph_prompt.language.nodes import ExampleDef, ListOf, Name, Position, PromptDef
from trustgraph_prompt.language.parse import merge_prompts, read
from trustgraph_prompt.prompts import example
from trustgraph_prompt.prompts.definition import PromptDefinition, system_template
from trustgraph_prompt.prompts.entry_schema import SCHEMA
from trustgraph_prompt.prompts.example import Example
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY
from trustgraph_prompt.prompts.shown_examples import answer_text
from trustgraph_prompt.prompts.source_map import SourceMap
from trustgraph_prompt.prompts.template import Template

Types = Mapping[str, Mapping[str, Any]]

_EXPECTING = "`expecting …` after the name of the prompt"

_NOT_CLAUSES = {
    "dialect": "no `dialect`: templates in this file are Jinja",
    "prompt": "`text: …`",
    "response-type": _EXPECTING,
    "schema": _EXPECTING,
    "object-schema": _EXPECTING,
    "many": _EXPECTING,
    "shown": "`show: true` in an `example`",
    "escalate": '`escalate if ~ "…"`',
}
"""Keys of an entry that are not clauses, and what to write instead."""

CLAUSES: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {key: value for key, value in SCHEMA["properties"].items() if key not in _NOT_CLAUSES},
}
"""The schema of a prompt's clauses other than its text, its examples and `escalate if`."""


@dataclass(frozen=True, slots=True)
class CompiledFile:
    """The contents of one file: entries and their places by config key, and the examples."""

    entries: Mapping[str, Mapping[str, Any]]
    places: Mapping[str, SourceMap]
    examples: tuple[Example, ...]


def compile_file(source: str, where: str) -> CompiledFile:
    """Compile a text in the schema language; `where` is the name of its file.

    Raises `ConfigError` with file, line and column for the first error; its `others` are the remaining ones.
    """
    try:
        file = parse_whole(source, where=where)
    except LanguageError as error:
        errors = [error, *error.others, *_problems_of_texts(source, where)]
        raise first_of(sorted(errors, key=_line_and_column)) from None
    if file == File():
        expected = "prompts, schemas or a system message"
        raise PromptError("the file declares nothing", where=where, found=source, expected=expected)
    prompts = [_DeclaredPrompt(prompt, file, where, source) for prompt in file.prompts]
    of_system = SourceMap(where, file.system_at, source=source)
    problems = [
        *_problems_of_system(file, of_system),
        *(problem for prompt in prompts for problem in prompt.problems()),
    ]
    raise_first(problems)
    entries: dict[str, Mapping[str, Any]] = {prompt.key: prompt.entry for prompt in prompts}
    places = {prompt.key: replace(prompt.places, rules=prompt.places_of_rules()) for prompt in prompts}
    if file.system is not None:
        entries[SYSTEM_KEY] = _system(file.system)
        places[SYSTEM_KEY] = of_system
    return CompiledFile(entries, places, tuple(chain.from_iterable(prompt.examples() for prompt in prompts)))


def definition_of(
    file: File,
    prompt: PromptDef,
    *,
    types: Types | None = None,
    defaults: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> PromptDefinition:
    """Compile one prompt of a file; `where` is the name of the file.

    `types` are schemas by name, in addition to the language's own types, as in `parse`. `defaults` are values
    of keys that the prompt does not set, unless it expects a text. Raises `ConfigError` as `compile_file`.
    """
    declared = _DeclaredPrompt(prompt, file, where, types=types, defaults=defaults)
    raise_first(list(declared.problems_of_clauses()))
    return declared.definition()


def _problems_of_texts(source: str, where: str) -> Iterator[ConfigError]:
    """The errors in the templates of a file with syntax errors, as far as it can be parsed."""
    file, _ = merge_prompts(read(source)[0])
    yield from _problems_of_system(file, SourceMap(where, file.system_at, source=source))
    for prompt in file.prompts:
        yield from _DeclaredPrompt(prompt, file, where, source).problems_of_text()


def _line_and_column(error: ConfigError) -> list[int]:
    return [int(part) for part in (error.where or "").split(":")[-2:] if part.isdecimal()]


def _system(text: str) -> dict[str, str]:
    return {"dialect": "jinja", "prompt": text}


def _problems_of_system(file: File, places: SourceMap) -> Iterator[ConfigError]:
    if file.system is not None:
        try:
            system_template(_system(file.system))
        except TemplateError as error:
            yield _in_template(error, places, "", file.system)


class _DeclaredPrompt:
    """One prompt of a file, and the entry that it becomes."""

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
        self._examples = [(given, SourceMap(where, given.at, given.places)) for given in prompt.examples]
        self._shown = [each for each in self._examples if each[0].settings.get("show") is True]

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of the config topic."""
        prompt = self._prompt
        entry = {"dialect": "jinja", **self._defaults, **prompt.settings, **self._answer()}
        if prompt.model is not None:
            entry["model"] = {"name": prompt.model, **prompt.settings.get("model", {})}
        if prompt.escalation is not None:
            entry["escalate"] = {"op": prompt.escalation.op, "value": prompt.escalation.value}
        if self._shown:
            entry["shown"] = [
                {key: value for key, value in given.settings.items() if key in ("terms", "reads")}
                for given, _ in self._shown
            ]
        return {**entry, "prompt": prompt.text}

    def _answer(self) -> dict[str, Any]:
        """The keys that follow from `expecting`."""
        expected, layout = self._prompt.expecting, self._prompt.layout
        if expected is None:
            return {"response-type": "text"}
        is_list = isinstance(expected, ListOf)
        item = expected.item if isinstance(expected, ListOf) else expected
        schema = to_json_schema(self._file, item, types=self._types)
        answer = {"response-type": layout, **({"schema": schema} if schema else {})}
        return {**answer, "many": True} if is_list and layout == "json" else answer

    def definition(self) -> PromptDefinition:
        """Compile the prompt, whose clauses are valid. Raises `ConfigError` with its place in the file."""
        try:
            return PromptDefinition.from_entry(self._prompt.name, self.entry)
        except TemplateError as error:
            text = self.entry.get(error.path.removeprefix("/"), "")
            path = "/text" if error.path == "/prompt" else error.path
            raise _in_template(error, self.places, path, text) from error
        except ConfigError as error:
            if error.path.startswith("/shown/"):
                raise self._of_example(error) from error
            path = error.path if error.path in self.places.parts else ""
            raise error.moved(self._place(error.path), path) from error

    def _of_example(self, error: ConfigError) -> ConfigError:
        """An error of the entry's `shown`, with its example and its place there."""
        index, _, rest = error.path.removeprefix("/shown/").partition("/")
        given, places = self._shown[int(index)]
        path = f"/{rest}" if f"/{rest}" in places.parts else ""
        message = f"{self._name_of(given)}: {error.message}"
        return PromptError(
            message, where=places.of(f"/{rest}"), path=path, found=error.found, expected=error.expected
        )

    def _name_of(self, example: ExampleDef) -> str:
        return f"{self._prompt.name}: {example.name or 'an example'}"

    def examples(self) -> Iterator[Example]:
        """Its examples, which are valid. One without an answer is shown, and its answer is what it reads."""
        contract = self.definition().contract if self._shown else None
        for given, places in self._examples:
            settings = given.settings
            if "answer" not in settings and contract is not None:
                settings = {"answer": answer_text(settings["reads"], contract), **settings}
            yield Example.from_settings(self._prompt.name, settings, name=given.name or "", places=places)

    def problems(self) -> Iterator[ConfigError]:
        """All errors in the prompt, with their places."""
        clauses, of_examples = list(self.problems_of_clauses()), list(self._problems_of_examples())
        yield from clauses
        if not clauses:
            try:
                self.definition()
            except ConfigError as error:
                if error.where not in [problem.where for problem in of_examples]:
                    yield error
        yield from of_examples

    def _problems_of_examples(self) -> Iterator[ConfigError]:
        for given, places in self._examples:
            yield from _problems_of_settings(given.settings, example.SCHEMA, places)
            if not given.settings.keys() & {"reads", "reason", "show"}:
                yield PromptError(
                    f"{self._name_of(given)}: the expected result is missing",
                    where=places.of(),
                    found=", ".join(given.settings) or "no clauses",
                    expected="`reads` or `reason`",
                )

    def problems_of_text(self) -> Iterator[ConfigError]:
        """The error in its template, without its other clauses."""
        try:
            Template.compile(self._prompt.text)
        except TemplateError as error:
            yield _in_template(error, self.places, "/text", self._prompt.text)

    def problems_of_clauses(self) -> Iterator[ConfigError]:
        """The errors in its clauses, each by itself."""
        prompt, settings = self._prompt, self._prompt.settings
        if not prompt.name:
            yield PromptError("the prompt has no name", where=self.places.of())
        for key, instead in _NOT_CLAUSES.items():
            if key in settings:
                yield PromptError(
                    "this key is not a clause of a prompt file",
                    where=self.places.of(f"/{key}"),
                    path=f"/{key}",
                    found=settings[key],
                    expected=instead,
                )
        clauses = {key: value for key, value in settings.items() if key not in _NOT_CLAUSES}
        yield from _problems_of_settings(clauses, CLAUSES, self.places)
        model = settings.get("model")
        if prompt.model is not None and isinstance(model, Mapping) and "name" in model:
            line = f" in line {prompt.model_at.line}" if prompt.model_at else ""
            yield PromptError(
                "the model is named twice",
                where=self.places.of("/model/name"),
                path="/model/name",
                found=model["name"],
                expected=f"only `using model {prompt.model!r}`{line}",
            )

    def places_of_rules(self) -> dict[str, Position]:
        """The places of what an answer may break: the keywords of its schema, and the clauses beside it."""
        paths: dict[tuple[str | int, ...], tuple[str | int, ...]] = {}
        for path, part in References(self.entry.get("schema", {})).subschemas():
            paths |= {(*path, keyword): (*path, keyword) for keyword in part}
            names = enumerate(part.get("required", ()))
            paths |= {(*path, "required", index): (*path, "properties", name) for index, name in names}
        places = {
            pointer(("schema", *path)): self._place_in_schema(pointer(at)) for path, at in paths.items()
        }
        beside = {
            path: at for path, at in self.places.parts.items() if path.startswith(("/invariants", "/extra"))
        }
        return {path: at for path, at in places.items() if at is not None} | beside

    def _place_in_schema(self, path: str) -> Position | None:
        expected = self._prompt.expecting
        item = expected.item if isinstance(expected, ListOf) else expected
        name = item.name if isinstance(item, Name) else ""
        return locate(self._file, name, path) or self._expecting

    def _place(self, path: str) -> str | None:
        """The place of what becomes this path of the entry."""
        if path.startswith("/schema"):
            return self.places.at(self._place_in_schema(path.removeprefix("/schema")))
        if path == "/response-type":
            return self.places.at(self._expecting)
        return self.places.of(path)

    @property
    def _expecting(self) -> Position | None:
        return self._prompt.at if self._prompt.expecting is None else self._prompt.expecting.at


def _problems_of_settings(
    settings: Mapping[str, Any], schema: Mapping[str, Any], places: SourceMap
) -> Iterator[ConfigError]:
    """The errors of clauses that a schema does not allow."""
    try:
        check(settings, schema, places.file or "", PromptError)
    except ConfigError as error:
        for problem in (error, *error.others):
            yield problem.moved(places.of(problem.path), problem.path)


def _in_template(error: TemplateError, places: SourceMap, path: str, text: str) -> ConfigError:
    """The error of a template with its place in the file instead of its line in the template."""
    if error.line is not None and (where := places.of_line(path, text, error.line, error.column)):
        return TemplateError(error.message.removeprefix(f"line {error.line}: "), where=where)
    return error.moved(places.of(path), "")
