"""Formats texts of the schema language in one layout, comments included."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.language.nodes import ExampleDef, File, Position, PromptDef, SchemaDef
from trustgraph_prompt.language.parse import normalize, read
from trustgraph_prompt.language.problem import complain
from trustgraph_prompt.language.write import (
    QUOTED,
    TRIPLE_QUOTES,
    dedent_block,
    spell_field,
    spell_key,
    spell_type,
    spell_value,
)

WIDTH = 100
"""Characters of a line up to which a list or an object is written on one line."""

STEP = "    "
"""The indentation of a block."""

_TOKEN = re.compile(rf"{QUOTED}|(?P<comment>#[^\n]*)")


class Line(NamedTuple):
    """A line of the new layout, or several if a text or value that begins in it continues.

    `source` is the number of its line before, None if unknown; `begins` is whether a schema, prompt or system
    message begins.
    """

    text: str
    source: int | None = None
    begins: bool = False

    @property
    def margin(self) -> str:
        """The indentation of the line."""
        return self.text[: len(self.text) - len(self.text.lstrip(" "))]


class _Comment(NamedTuple):
    text: str
    line: int
    is_alone: bool
    is_indented: bool


def _lay_out(lines: Sequence[Line], source: str) -> str:
    """The text of the lines, with the comments and empty lines of `source`.

    A comment at the end of a line stays there. A comment on a line of its own stays before what follows, or
    at the end of the block that it is indented like. Statements are separated by one empty line; within a
    statement, several empty lines become one.
    """
    known = [index for index, line in enumerate(lines) if line.source is not None]
    sources = [lines[index].source or 0 for index in known]
    beside: dict[int, str] = {}
    before: dict[int, list[_Comment]] = {}
    for comment in _comments(source):
        place = bisect_right(sources, comment.line) - 1
        if not comment.is_alone and place >= 0 and known[place] not in beside:
            beside[known[place]] = f"  {comment.text}"
        else:
            following = known[place + 1] if place + 1 < len(known) else len(lines)
            before.setdefault(following, []).append(comment)
    return _Page(source).text(lines, beside, before)


class _Page:
    """Collects the lines of the new text."""

    def __init__(self, source: str) -> None:
        self._empty = {number for number, line in enumerate(source.split("\n"), 1) if not line.strip()}
        self._lines: list[str] = []

    def text(self, lines: Sequence[Line], beside: dict[int, str], before: dict[int, list[_Comment]]) -> str:
        margin, above = "", ""
        for index, line in enumerate(lines):
            comments = before.get(index, [])
            while comments and line.begins and above and comments[0].is_indented:
                self._put(above + comments[0].text, comments[0].line)
                comments = comments[1:]
            is_first = len(line.margin) > len(margin)
            begins = line.begins
            for comment in comments:
                self._put(line.margin + comment.text, comment.line, begins=begins, joins=is_first)
                begins = is_first = False
            self._put(line.text + beside.get(index, ""), line.source, begins=begins, joins=is_first)
            margin = line.margin
            above = margin or ("" if line.begins else above)
        for comment in before.get(len(lines), []):
            is_inner = comment.is_indented and above
            self._put((above if is_inner else "") + comment.text, comment.line, begins=False)
        return "".join(f"{line}\n" for line in self._lines)

    def _put(self, text: str, source: int | None, *, begins: bool = False, joins: bool = False) -> None:
        """Add a line; one that `joins` the header above gets no empty line before it."""
        was_apart = source is not None and source - 1 in self._empty
        if self._lines and (begins or (was_apart and not joins)):
            self._lines.append("")
        self._lines.append(text)


def _comments(source: str) -> Iterator[_Comment]:
    line, counted = 1, 0
    for token in _TOKEN.finditer(source):
        if token["comment"]:
            line += source.count("\n", counted, token.start())
            counted = token.start()
            before = source[source.rfind("\n", 0, counted) + 1 : counted]
            yield _Comment(token["comment"].rstrip(), line, not before.strip(), before != "")


Part = TypeVar("Part")


def format(what: File | str, *, where: str | None = None) -> str:
    """Format a text, or write a tree as a text. Formatting twice changes nothing more, and the tree is kept.

    Statements and clauses keep their order; a tree that was not parsed is written as system message, schemas,
    prompts. Comments stay where they are, or move before the next line. Names and types are not checked.
    Raises `LanguageError` for a text with syntax errors.
    """
    if isinstance(what, File):
        return _lay_out(_lines(what), "")
    file, problems = read(what)
    if problems:
        complain(problems, where)
    return _lay_out(_lines(file), normalize(what))


def _lines(file: File) -> list[Line]:
    statements: list[tuple[Position | None, list[Line]]] = []
    if file.system is not None:
        lines = [Line(f"system: {_text(file.system, '')}", _line_of(file.system_at), begins=True)]
        statements.append((file.system_at, lines))
    statements += [(schema.at, list(_schema(schema))) for schema in file.schemas]
    statements += [(prompt.at, list(_prompt(prompt))) for prompt in file.prompts]
    return [line for lines in _in_order(statements) for line in lines]


def _in_order(parts: Sequence[tuple[Position | None, Part]]) -> list[Part]:
    """The parts in the order of the text, if all of them were parsed."""
    places = [at for at, _ in parts if at is not None]
    if len(places) < len(parts):
        return [part for _, part in parts]
    return [parts[index][1] for index in sorted(range(len(parts)), key=places.__getitem__)]


def _line_of(at: Position | None) -> int | None:
    return None if at is None else at.line


def _schema(schema: SchemaDef) -> Iterator[Line]:
    bases = f" extends {', '.join(base.name for base in schema.bases)}" if schema.bases else ""
    closed = " closed" if schema.closed else ""
    yield Line(f"schema {schema.name}{bases}{closed}:", _line_of(schema.at), begins=True)
    if schema.description is not None:
        yield Line(STEP + spell_value(schema.description))
    for field in schema.fields:
        yield Line(STEP + spell_field(field), _line_of(field.at))


def _prompt(prompt: PromptDef) -> Iterator[Line]:
    header = f"prompt {spell_key(prompt.name)}"
    if prompt.model is not None:
        header += f" using model {spell_value(prompt.model)}"
    if prompt.expecting is not None:
        header += f" expecting {spell_type(prompt.expecting)}"
    if prompt.layout == "jsonl":
        header += " as jsonl"
    clauses: list[tuple[Position | None, list[Line]]] = []
    at = prompt.places.get("/text")
    has_text = prompt.text != "" or at is not None
    begins_with_text = has_text and (_line_of(at) == _line_of(prompt.at) if at else not prompt.settings)
    if begins_with_text:
        yield Line(f"{header}: {_text(prompt.text, '')}", _line_of(prompt.at), begins=True)
    else:
        has_clauses = has_text or prompt.settings or prompt.escalation or prompt.examples
        yield Line(f"{header}:" if has_clauses else header, _line_of(prompt.at), begins=True)
    for key, value in prompt.settings.items():
        clauses.append(_setting(key, value, STEP, prompt.places))
    if has_text and not begins_with_text:
        clauses.append((at, [Line(f"{STEP}text: {_text(prompt.text, STEP)}", _line_of(at))]))
    if (escalation := prompt.escalation) is not None:
        text = f"{STEP}escalate if {escalation.op} {spell_value(escalation.value)}"
        clauses.append((escalation.at, [Line(text, _line_of(escalation.at))]))
    clauses += [(example.at, list(_example(example))) for example in prompt.examples]
    for lines in _in_order(clauses):
        yield from lines


def _example(example: ExampleDef) -> Iterator[Line]:
    name = "" if example.name is None else f" {spell_value(example.name)}"
    yield Line(f"{STEP}example{name}:", _line_of(example.at))
    for key, value in example.settings.items():
        yield from _setting(key, value, 2 * STEP, example.places)[1]


def _setting(key: str, value: Any, margin: str, places: Any) -> tuple[Position | None, list[Line]]:
    at = places.get(pointer([key]))
    written = f"{margin}{spell_key(key)}: "
    written += _text(value, margin) if isinstance(value, str) else _value(value, margin, len(written))
    return at, [Line(written, _line_of(at))]


def _text(text: str, margin: str) -> str:
    """A text in quotes; in triple quotes if it has several lines and reads back unchanged."""
    if "\n" in text:
        lines = [f"{margin}{line}" if line else "" for line in text.split("\n")]
        if text.endswith("\n"):
            lines[-1] = margin
        inside = "\n" + "\n".join(lines)
        if "\r" not in text and dedent_block(inside) == text:
            for quotes in TRIPLE_QUOTES:
                if quotes not in inside and not inside.endswith(quotes[0]):
                    return f"{quotes}{inside}{quotes}"
    return spell_value(text)


def _value(value: Any, margin: str, used: int = 0) -> str:
    """A value, on one line if it fits, else with a line for each item."""
    if not isinstance(value, list | dict) or not value:
        return spell_value(value)
    if _is_short(value) and used + len(spelled := spell_value(value)) <= WIDTH:
        return spelled
    inner = margin + STEP
    if isinstance(value, list):
        items = [inner + _value(item, inner, len(inner)) for item in value]
        opening, closing = "[]"
    else:
        keys = [f"{inner}{spell_key(key)}: " for key in value]
        items = [key + _value(item, inner, len(key)) for key, item in zip(keys, value.values(), strict=True)]
        opening, closing = "{}"
    return f"{opening}\n" + "".join(f"{item},\n" for item in items) + f"{margin}{closing}"


def _is_short(value: Any) -> bool:
    """Whether a value may fit on a line: spelling long values at each level would take quadratic time."""
    todo, count = [value], 0
    while todo:
        item = todo.pop()
        count += 1
        if count > WIDTH:
            return False
        todo += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return True
