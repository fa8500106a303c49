"""A text of the schema language into its tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

from trustgraph_prompt.errors import without_frames
from trustgraph_prompt.language.check import check
from trustgraph_prompt.language.merge import merged
from trustgraph_prompt.language.nodes import File, Position, Scalar, SchemaDef, SchemaField
from trustgraph_prompt.language.problem import MAX_PROBLEMS, Problem, complain
from trustgraph_prompt.language.quoted import QUOTED

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
    from trustgraph_prompt.language.grammar import read_tree

    problems: list[Problem] = []
    lost: _Lost = {"schema": set(), "prompt": set()}
    try:
        text = plain(source)
        try:
            file, wrong = read_tree(text)
        except Problem:
            text = _without_broken(text, problems, lost)
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
        raise Problem("the text is too large", None, f"{len(source):,} characters", f"at most {MAX_SOURCE:,}")
    text = source.removeprefix("\ufeff").replace("\r\n", "\n")
    if wrong := _CONTROL.search(text):
        raise Problem(f"no text has this character: U+{ord(wrong[0]):04X}", _position(text, wrong.start()))
    return text + "\n"


def _position(text: str, offset: int) -> Position:
    before = text[:offset]
    return Position(before.count("\n") + 1, offset - before.rfind("\n"))


def _without_broken(text: str, problems: list[Problem], lost: _Lost) -> str:
    """The text with empty lines for each statement that cannot be read; what is wrong with them, and what
    they are called, is added to the others."""
    from trustgraph_prompt.language.grammar import read_tree

    begins = [0, *(one.start() for one in _STATEMENT.finditer(text) if one["begin"]), len(text)]
    kept, line = [], 0
    for begin, end in pairwise(begins):
        statement = text[begin:end]
        lines = statement.count("\n")
        try:
            if len(problems) < MAX_PROBLEMS:
                read_tree("\n" * line + statement)
            kept.append(statement)
        except Problem as problem:
            problems.append(without_frames(problem))
            if header := _HEADER.match(statement):
                lost[header[1]].add(header[2].strip("\"'"))
            kept.append("\n" * lines)
        line += lines
    return "".join(kept)
