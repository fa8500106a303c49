"""A text of the schema language into its tree."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, islice
from typing import Any

from trustgraph_prompt.errors import without_frames
from trustgraph_prompt.language.check import check
from trustgraph_prompt.language.nodes import File, Position, Scalar, SchemaDef, SchemaField
from trustgraph_prompt.language.problem import MAX_PROBLEMS, Problem, complain

MAX_SOURCE = 1024 * 1024
"""Characters that a text may have."""

_MAX_RECOVERED = 64 * 1024
"""Characters of a text that is read on after something in it could not be read."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
_STATEMENT = re.compile(
    r'"""(?s:.)*?"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*|^(?P<begin>schema|prompt|system)(?![\w-])', re.MULTILINE
)

_SCHEMA = re.compile(r"^schema[ \t]+([^\W\d][\w-]*)", re.MULTILINE)
_A_FIELD = SchemaField("", Scalar("any"))


def parse(
    source: str, *, where: str | None = None, types: Mapping[str, Mapping[str, Any]] | None = None
) -> File:
    """The tree of a text. `types` are those that are known beside the language's own, as JSON Schemas.

    Raises `LanguageError` with line and column (after `where`, the name of the file) for the first thing that
    is wrong; as far as it can be told, the rest are its `others`.
    """
    file, problems, lost = _read(source)
    problems += islice(check(_with(lost, file), types or {}), MAX_PROBLEMS)
    if problems:
        complain(problems, where)
    return file


def read(source: str) -> tuple[File, list[Problem]]:
    """What can be read of a text, and what is wrong with it as such; names and types are not looked at."""
    file, problems, _ = _read(source)
    return file, problems


def _read(source: str) -> tuple[File, list[Problem], list[str]]:
    """As `read`; also the names of the schemas that could not be read."""
    problems: list[Problem] = []
    lost: list[str] = []
    try:
        return _read_all(plain(source), problems, lost), problems, lost
    except Problem as problem:
        return File(), [*problems, without_frames(problem)], lost


def _with(lost: list[str], file: File) -> File:
    """The file with schemas of these names, so that nobody calls them unknown."""
    there = {schema.name for schema in file.schemas}
    stubs = (SchemaDef(name, (_A_FIELD,)) for name in dict.fromkeys(lost) if name not in there)
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


def _read_all(text: str, problems: list[Problem], lost: list[str]) -> File:
    """What can be read of a text: a statement that cannot be is left out, and the rest is read again."""
    from trustgraph_prompt.language.grammar import read_tree

    while True:
        try:
            file, wrong = read_tree(text)
        except Problem as problem:
            rest = _without_statement(text, problem.at) if len(problems) < MAX_PROBLEMS else None
            if rest is None:
                raise
            problems.append(without_frames(problem))
            lost += set(_SCHEMA.findall(text)).difference(_SCHEMA.findall(rest))
            text = rest
        else:
            problems += wrong
            return file


def _without_statement(text: str, at: Position | None) -> str | None:
    """The text with empty lines for the statement that holds a position; None where that leads nowhere."""
    if at is None or len(text) > _MAX_RECOVERED:
        return None
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    begins = [bisect_right(starts, one.start()) for one in _STATEMENT.finditer(text) if one["begin"]]
    first = max((line for line in begins if line <= at.line), default=1)
    after = min((line for line in begins if line > at.line), default=len(lines))
    gone = lines[first - 1 : after - 1]
    if not any(gone):
        return None
    return "\n".join([*lines[: first - 1], *("" for _ in gone), *lines[after - 1 :]])
