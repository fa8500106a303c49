"""A text of the schema language into its tree."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from trustgraph_prompt.errors import without_frames
from trustgraph_prompt.language.check import check
from trustgraph_prompt.language.merge_prompts import merged
from trustgraph_prompt.language.nodes import File, Position, Scalar, SchemaDef, SchemaField
from trustgraph_prompt.language.problem import MAX_PROBLEMS, Problem, TooLarge, complain
from trustgraph_prompt.language.string_literals import QUOTED

MAX_SOURCE = 1024 * 1024
"""Characters that a text may have."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
_STATEMENT = re.compile(rf"{QUOTED}|#[^\n]*|^(?P<begin>schema|prompt|system)(?![\w-])", re.MULTILINE)

_HEADER = re.compile(r"""(schema|prompt)[ \t]+([^\W\d][\w-]*|"[^"\n]*"|'[^'\n]*')""")
_A_FIELD = SchemaField("", Scalar("any"))

_Lost = dict[str, set[str]]
"""Names of statements that could not be read, by their kind."""


def parse(
    source: str, *, where: str | None = None, types: Mapping[str, Mapping[str, Any]] | None = None
) -> File:
    """The tree of a text. `types` are those that are known beside the language's own, as JSON Schemas.

    Raises `LanguageError` with line and column (after `where`, the name of the file) for the first thing that
    is wrong; as far as it can be told, the rest are its `others`.
    """
    declared, problems, lost = _read(source)
    file, unmerged = merged(declared, lost["prompt"])
    problems += unmerged
    problems += islice(check(_with(lost["schema"], file), types or {}), MAX_PROBLEMS)
    if problems:
        complain(problems, where)
    return file


def read(source: str) -> tuple[File, list[Problem]]:
    """What can be read of a text, and what is wrong with it as such; names and types are not looked at, and
    declarations of one prompt stay apart."""
    file, problems, _ = _read(source)
    return file, problems


def _read(source: str) -> tuple[File, list[Problem], _Lost]:
    """As `read`; also the names of what could not be read."""
    from trustgraph_prompt.language.tree_builder import read_tree

    problems: list[Problem] = []
    lost: _Lost = {"schema": set(), "prompt": set()}
    try:
        text = plain(source)
        try:
            file, wrong = read_tree(text)
        except TooLarge:
            raise
        except Problem as problem:
            text = _without_broken(text, problem, problems, lost)
            file, wrong = read_tree(text)
        return file, problems + wrong, lost
    except Problem as problem:
        return File(), [*problems, without_frames(problem)], lost


def _with(lost: set[str], file: File) -> File:
    """The file with schemas of these names, so that nobody calls them unknown."""
    stubs = (SchemaDef(name, (_A_FIELD,)) for name in lost - {schema.name for schema in file.schemas})
    return replace(file, schemas=(*file.schemas, *stubs))


def plain(source: str) -> str:
    """The text with line ends as the grammar knows them. Raises `Problem` for what is no text."""
    if len(source) > MAX_SOURCE:
        raise TooLarge(
            "the text is too large", None, f"{len(source):,} characters", f"at most {MAX_SOURCE:,}"
        )
    text = source.removeprefix("\ufeff").replace("\r\n", "\n")
    if wrong := _CONTROL.search(text):
        raise Problem(f"this character is not allowed: U+{ord(wrong[0]):04X}", _position(text, wrong.start()))
    return text + "\n"


def _position(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(before.count("\n") + 1, offset - before.rfind("\n"))


def _without_broken(text: str, problem: Problem, problems: list[Problem], lost: _Lost) -> str:
    """The text with empty lines for each statement that cannot be read, of which `problem` is met first.

    What is wrong with them, and what they are called, is added to the others. Raises `TooLarge`.
    """
    from trustgraph_prompt.language.tree_builder import read_tree

    lines = text.split("\n")
    begins = [1, *_lines_of_statements(text), len(lines)]
    while True:
        problems.append(without_frames(problem))
        place = bisect_right(begins, problem.at.line if problem.at else 1, hi=len(begins) - 1)
        first, after = begins[place - 1] - 1, begins[place] - 1
        if header := _HEADER.match(lines[first]):
            lost[header[1]].add(header[2].strip("\"'"))
        lines[first:after] = [""] * (after - first)
        if len(problems) == MAX_PROBLEMS:
            return "\n".join(lines)
        try:
            read_tree("\n" * after + "\n".join(lines[after:]))  # what is before has been read
            return "\n".join(lines)
        except TooLarge:
            raise
        except Problem as another:
            problem = another


def _lines_of_statements(text: str) -> Iterator[int]:
    """The lines in which schemas, prompts and system messages begin."""
    line, counted = 1, 0
    for found in _STATEMENT.finditer(text):
        if found["begin"]:
            line += text.count("\n", counted, found.start())
            counted = found.start()
            yield line
