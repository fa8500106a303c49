"""Formats texts of the schema language in one layout, comments included."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.language.nodes import ExampleDef, File, Position, PromptDef, SchemaDef
from trustgraph_prompt.language.parse import plain, read
from trustgraph_prompt.language.problem import complain
from trustgraph_prompt.language.string_literals import QUOTED, TRIPLE, block
from trustgraph_prompt.language.write import spell_field, spell_key, spell_type, spell_value

_TOKEN = re.compile(rf"{QUOTED}|(?P<comment>#[^\n]*)")


class Line(NamedTuple):
    """A line of the new layout, with the rest of a text or a value that begins in it.

    `source` is the line where that was, None where nobody knows; `begins` a schema, prompt or system message.
    """

    text: str
    source: int | None = None
    begins: bool = False

    @property
    def margin(self) -> str:
        """What the line is indented with."""
        return self.text[: len(self.text) - len(self.text.lstrip(" "))]


class _Comment(NamedTuple):
    text: str
    line: int
    is_alone: bool
    is_indented: bool


def laid_out(lines: Sequence[Line], source: str) -> str:
    """The text of the lines, with the comments and the empty lines of the text that they were made of.

    A comment at the end of a line stays there. One on a line of its own stays before what follows, or at the
    end of a block that it is indented like. There is one empty line between statements, and within them one
    for any number.
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
    """The new text, as it comes about."""

    def __init__(self, source: str) -> None:
        self._empty = {number for number, line in enumerate(source.split("\n"), 1) if not line.strip()}
        self._made: list[str] = []

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
        return "".join(f"{line}\n" for line in self._made)

    def _put(self, text: str, source: int | None, *, begins: bool = False, joins: bool = False) -> None:
        """One more line; `joins` the header that it follows."""
        was_apart = source is not None and source - 1 in self._empty
        if self._made and (begins or (was_apart and not joins)):
            self._made.append("")
        self._made.append(text)


def _comments(source: str) -> Iterator[_Comment]:
    line, counted = 1, 0
    for token in _TOKEN.finditer(source):
        if token["comment"]:
            line += source.count("\n", counted, token.start())
            counted = token.start()
            before = source[source.rfind("\n", 0, counted) + 1 : counted]
            yield _Comment(token["comment"].rstrip(), line, not before.strip(), before != "")


WIDTH = 100
"""Characters of a line up to which a list or an object stands on one."""

STEP = "    "
"""What a block is indented with."""

Part = TypeVar("Part")


def format(what: File | str, *, where: str | None = None) -> str:
    """A text, or a tree, in the one layout. Formatted again it stays as it is, and its tree is the same.

    Statements and clauses stay in the order of the text; a tree that was not read from one is written as
    system message, schemas, prompts. The comments of a text stay where they are, or before the next line.
    Names and types are not looked at. Raises `LanguageError` for a text that cannot be read.
    """
    if isinstance(what, File):
        return laid_out(_lines(what), "")
    file, problems = read(what)
    if problems:
        complain(problems, where)
    return laid_out(_lines(file), plain(what))


def _lines(file: File) -> list[Line]:
    statements: list[tuple[Position | None, list[Line]]] = []
    if file.system is not None:
        lines = [Line(f"system: {_text(file.system, '')}", _line(file.system_at), begins=True)]
        statements.append((file.system_at, lines))
    statements += [(schema.at, list(_schema(schema))) for schema in file.schemas]
    statements += [(prompt.at, list(_prompt(prompt))) for prompt in file.prompts]
    return [line for lines in _in_order(statements) for line in lines]


def _in_order(parts: Sequence[tuple[Position | None, Part]]) -> list[Part]:
    """The parts as they stand in their text, where all of them come from one."""
    places = [at for at, _ in parts if at is not None]
    if len(places) < len(parts):
        return [part for _, part in parts]
    return [parts[index][1] for index in sorted(range(len(parts)), key=places.__getitem__)]


def _line(at: Position | None) -> int | None:
    return None if at is None else at.line


def _schema(schema: SchemaDef) -> Iterator[Line]:
    bases = f" extends {', '.join(base.name for base in schema.bases)}" if schema.bases else ""
    closed = " closed" if schema.closed else ""
    yield Line(f"schema {schema.name}{bases}{closed}:", _line(schema.at), begins=True)
    if schema.description is not None:
        yield Line(STEP + spell_value(schema.description))
    for field in schema.fields:
        yield Line(STEP + spell_field(field), _line(field.at))


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
    begins_with_text = has_text and (_line(at) == _line(prompt.at) if at else not prompt.settings)
    if begins_with_text:
        yield Line(f"{header}: {_text(prompt.text, '')}", _line(prompt.at), begins=True)
    else:
        has_clauses = has_text or prompt.settings or prompt.escalation or prompt.examples
        yield Line(f"{header}:" if has_clauses else header, _line(prompt.at), begins=True)
    for key, value in prompt.settings.items():
        clauses.append(_setting(key, value, STEP, prompt.places))
    if has_text and not begins_with_text:
        clauses.append((at, [Line(f"{STEP}text: {_text(prompt.text, STEP)}", _line(at))]))
    if (escalation := prompt.escalation) is not None:
        text = f"{STEP}escalate if {escalation.op} {spell_value(escalation.value)}"
        clauses.append((escalation.at, [Line(text, _line(escalation.at))]))
    clauses += [(example.at, list(_example(example))) for example in prompt.examples]
    for lines in _in_order(clauses):
        yield from lines


def _example(example: ExampleDef) -> Iterator[Line]:
    name = "" if example.name is None else f" {spell_value(example.name)}"
    yield Line(f"{STEP}example{name}:", _line(example.at))
    for key, value in example.settings.items():
        yield from _setting(key, value, 2 * STEP, example.places)[1]


def _setting(key: str, value: Any, margin: str, places: Any) -> tuple[Position | None, list[Line]]:
    at = places.get(pointer([key]))
    written = f"{margin}{spell_key(key)}: "
    written += _text(value, margin) if isinstance(value, str) else _value(value, margin, len(written))
    return at, [Line(written, _line(at))]


def _text(text: str, margin: str) -> str:
    """A text in quotes: on several lines if it has them, and if it stays the same there."""
    if "\n" in text:
        lines = [f"{margin}{line}" if line else "" for line in text.split("\n")]
        if text.endswith("\n"):
            lines[-1] = margin
        inside = "\n" + "\n".join(lines)
        if "\r" not in text and block(inside) == text:
            for quotes in TRIPLE:
                if quotes not in inside and not inside.endswith(quotes[0]):
                    return f"{quotes}{inside}{quotes}"
    return spell_value(text)


def _value(value: Any, margin: str, used: int = 0) -> str:
    """A value: on one line if it fits, else with a line for each item."""
    if not isinstance(value, list | dict) or not value:
        return spell_value(value)
    if _is_short(value) and used + len(one := spell_value(value)) <= WIDTH:
        return one
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
    """Whether a value may be short enough for a line; for one that is not, it is not spelt to see that."""
    todo, count = [value], 0
    while todo:
        one = todo.pop()
        count += 1
        if count > WIDTH:
            return False
        todo += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return True
