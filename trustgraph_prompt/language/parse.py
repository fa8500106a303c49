"""Parses a text of the schema language into its syntax tree."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from trustgraph_prompt.errors import without_frames
from trustgraph_prompt.json_text.pointer import pointer, steps
from trustgraph_prompt.language.check import check
from trustgraph_prompt.language.nodes import File, Position, PromptDef, Scalar, SchemaDef, SchemaField
from trustgraph_prompt.language.problem import MAX_PROBLEMS, Problem, TooLarge, complain
from trustgraph_prompt.language.write import QUOTED, spell_type

MAX_SOURCE = 1024 * 1024
"""Characters of a text."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
_STATEMENT = re.compile(rf"{QUOTED}|#[^\n]*|^(?P<begin>schema|prompt|system)(?![\w-])", re.MULTILINE)
_HEADER = re.compile(r"""(schema|prompt)[ \t]+([^\W\d][\w-]*|"[^"\n]*"|'[^'\n]*')""")

_Unread = dict[str, set[str]]
"""Names of the schemas and prompts that could not be read, by these two words."""


def parse(
    source: str, *, where: str | None = None, types: Mapping[str, Mapping[str, Any]] | None = None
) -> File:
    """Parse and check a text, and return its tree.

    `types` are the JSON Schemas of further types, by name. Raises `LanguageError` with line and column (after
    `where`, the name of the file) for the first problem; `others` are the rest, at most 20 in all.
    """
    declared, problems, unread = _read(source)
    file, conflicts = merge_prompts(declared, unread["prompt"])
    problems += conflicts
    # Schemas that could not be read get a stand-in, so that references to them are not reported as unknown.
    missing = unread["schema"] - {schema.name for schema in file.schemas}
    stand_ins = (SchemaDef(name, (SchemaField("", Scalar("any")),)) for name in missing)
    known = replace(file, schemas=(*file.schemas, *stand_ins))
    problems += islice(check(known, types or {}), MAX_PROBLEMS)
    if problems:
        complain(problems, where)
    return file


def read(source: str) -> tuple[File, list[Problem]]:
    """What can be read of a text, and its syntax errors.

    Names and types are not checked, and several declarations of a prompt stay separate.
    """
    file, problems, _ = _read(source)
    return file, problems


def _read(source: str) -> tuple[File, list[Problem], _Unread]:
    from trustgraph_prompt.language.tree_builder import read_tree

    problems: list[Problem] = []
    unread: _Unread = {"schema": set(), "prompt": set()}
    try:
        text = normalize(source)
        try:
            file, invalid = read_tree(text)
        except TooLarge:
            raise
        except Problem as problem:
            text = _blank_broken_statements(text, problem, problems, unread)
            file, invalid = read_tree(text)
        return file, problems + invalid, unread
    except Problem as problem:
        return File(), [*problems, without_frames(problem)], unread


def normalize(source: str) -> str:
    """The text without a byte order mark, and with line ends as the grammar expects them.

    Raises `Problem` for a text that is too large or has control characters.
    """
    if len(source) > MAX_SOURCE:
        raise TooLarge(
            "the text is too large", None, f"{len(source):,} characters", f"at most {MAX_SOURCE:,}"
        )
    text = source.removeprefix("\ufeff").replace("\r\n", "\n")
    if control := _CONTROL.search(text):
        before = text[: control.start()]
        at = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise Problem(f"this character is not allowed: U+{ord(control[0]):04X}", at)
    return text + "\n"


def _blank_broken_statements(text: str, problem: Problem, problems: list[Problem], unread: _Unread) -> str:
    """The text with empty lines for each statement that cannot be read; `problem` is in the first of them.

    Adds their problems to `problems`, and their names to `unread`. Raises `TooLarge`.
    """
    from trustgraph_prompt.language.tree_builder import read_tree

    lines = text.split("\n")
    starts = [1, *_lines_of_statements(text), len(lines)]
    while True:
        problems.append(without_frames(problem))
        index = bisect_right(starts, problem.at.line if problem.at else 1, hi=len(starts) - 1)
        first, after = starts[index - 1] - 1, starts[index] - 1
        if header := _HEADER.match(lines[first]):
            unread[header[1]].add(header[2].strip("\"'"))
        lines[first:after] = [""] * (after - first)
        if len(problems) == MAX_PROBLEMS:
            return "\n".join(lines)
        try:
            read_tree("\n" * after + "\n".join(lines[after:]))  # the statements before have been read
            return "\n".join(lines)
        except TooLarge:
            raise
        except Problem as next_problem:
            problem = next_problem


def _lines_of_statements(text: str) -> Iterator[int]:
    """The lines in which schemas, prompts and system messages begin."""
    line, counted = 1, 0
    for found in _STATEMENT.finditer(text):
        if found["begin"]:
            line += text.count("\n", counted, found.start())
            counted = found.start()
            yield line


# ---- several declarations of one prompt


def merge_prompts(file: File, unread: Collection[str] = ()) -> tuple[File, list[Problem]]:
    """Merge the declarations of each prompt, in the order of the first ones; also returns the conflicts.

    The last text that is not empty counts, and the last escalation condition; examples add up. The model, the
    expected type and the other settings may stand in any declaration, and in several if they are equal.
    Prompts in `unread` have declarations that could not be read, which may hold their text.
    """
    problems: list[Problem] = []
    prompts: dict[str, PromptDef] = {}
    places: dict[str, list[Position | None]] = {}
    for declared in file.prompts:
        name = declared.name
        places.setdefault(name, []).append(declared.at)
        if name in prompts:
            problems += _conflicts(prompts[name], declared)
            declared = _merge(prompts[name], declared)
        prompts[name] = declared
    for name, prompt in prompts.items():
        if not prompt.text.strip() and name not in unread:
            lines = ", ".join(str(at.line) for at in places[name][1:] if at is not None)
            message = f"the prompt {name} has no text" + (f", here or in line {lines}" if lines else "")
            expected = 'text: """…""", or a text after the colon'
            problems.append(Problem(message, prompt.at, "nothing", expected))
    return replace(file, prompts=tuple(prompts.values())), problems


def _merge(first: PromptDef, then: PromptDef) -> PromptDef:
    """The declaration that two of one prompt make, if they have no conflicts."""
    with_model = first if then.model is None else then
    with_type = first if then.expecting is None else then
    with_text = then if then.text.strip() else first
    places = {**then.places, **first.places}
    if "/text" in with_text.places:
        places["/text"] = with_text.places["/text"]
    return replace(
        first,
        text=with_text.text,
        model=with_model.model,
        model_at=with_model.model_at,
        expecting=with_type.expecting,
        layout=with_type.layout,
        settings=_merge_settings(first.settings, then.settings),
        escalation=then.escalation or first.escalation,
        examples=first.examples + then.examples,
        places=places,
    )


def _merge_settings(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both, objects merged key by key."""
    merged = dict(first)
    for key, value in then.items():
        former = merged.setdefault(key, value)
        if isinstance(former, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge_settings(former, value)
    return merged


def _conflicts(first: PromptDef, then: PromptDef) -> Iterator[Problem]:
    """What a later declaration of a prompt says differently than the first."""

    def conflict(
        how: str, at: Position | None, found: Any, first_at: Position | None, expected: Any
    ) -> Problem:
        line = "" if first_at is None else f" in line {first_at.line}"
        return Problem(f"the prompt {first.name} {how}{line}", at, found, f"{expected!r} or nothing")

    if None not in (first.model, then.model) and first.model != then.model:
        yield conflict("names a different model", then.model_at, then.model, first.model_at, first.model)
    if first.expecting is not None and then.expecting is not None:
        expected = spell_type(first.expecting) + (" as jsonl" if first.layout == "jsonl" else "")
        found = spell_type(then.expecting) + (" as jsonl" if then.layout == "jsonl" else "")
        if found != expected:
            yield conflict("expects a different type", then.expecting.at, found, first.expecting.at, expected)
    for path, found, expected in _differences(first.settings, then.settings):
        how = f"has a different value for {'/'.join(steps(path))}"
        yield conflict(how, then.places.get(path), found, first.places.get(path), expected)


def _differences(
    first: Mapping[str, Any], then: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Each setting that has two values: its JSON Pointer, the later value and the first."""
    for key, value in then.items():
        at, former = path + pointer([key]), first.get(key, value)
        if isinstance(former, Mapping) and isinstance(value, Mapping):
            yield from _differences(former, value, at)
        elif _as_json(former) != _as_json(value):
            yield at, value, former


def _as_json(value: Any) -> Any:
    """A value as JSON compares it: 1 equals 1.0, but not true."""
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _as_json(item) for key, item in value.items()}
    return (isinstance(value, bool), value)
