"""Explains syntax errors of Jinja templates in an author's words, and finds where they begin.

Jinja reports where it noticed an error, which for an unclosed tag or block is often many lines further.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jinja2 import TemplateSyntaxError

from trustgraph_prompt.errors import TemplateError

_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}"}
_OPENING = re.compile(r"\{[{%#]")
# Strings have at most 200 characters here: without a limit, each quote that opens no string would be searched
# to the end of the source.
_STRING = r""""(?:[^"\\\n]|\\.){0,200}+"|'(?:[^'\\\n]|\\.){0,200}+'"""
_WITHIN = {
    opening: re.compile(rf"(?:{_STRING})|(?P<open>\{{[{{%#]|\Z)|(?P<close>{re.escape(closing)})")
    for opening, closing in _CLOSING.items()
}
_WITHIN["{#"] = re.compile(r"(?P<open>\Z)|(?P<close>#\})")
_END_OF_RAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
_BLOCKS = ("if", "for")
_BLANK = "-+ \t\n"
_EXAMPLES = {"{{": "{{ text }}", "{%": "{% if text %}"}

_FOUND_AND_EXPECTED = (
    re.compile(r"expected token '(?P<expected>[^']+)', got '(?P<found>.+)'"),
    re.compile(r"unexpected '(?P<found>.+)', expected '(?P<expected>[^']+)'"),
    re.compile(r"Expected (?P<expected>an expression), got '(?P<found>.+)'"),
    re.compile(r"unexpected '(?P<found>.+)'"),
)
_UNEXPECTED_CHARACTER = re.compile(r"unexpected char (?P<found>.+) at (?P<position>\d+)")
_UNEXPECTED_TAG = re.compile(
    r"(?:Encountered unknown tag '(?P<found>[^']+)'|Unexpected end of template)\."
    r"(?:.* looking for (?:the following tags: )?(?P<expected>'[^.]+')\.)?.*"
)
_TOKENS = {
    "end of print statement": "`}}`",
    "end of statement block": "`%}`",
    "an expression": "an expression",
    "name": "a name",
}


class _Tag(NamedTuple):
    opening: str
    text: str
    start: int
    line: int
    end_line: int
    closed: bool


def explain(source: str, error: TemplateSyntaxError) -> TemplateError:
    """What is wrong in a template that Jinja cannot parse, with its line, and its column where known."""
    message = error.message or ""
    tags = list(_tags(source))
    if opened := _left_open(tags, error.lineno, message):
        tag, message = opened
        return TemplateError.in_line(tag.line, message, _column(source, tag.start))
    if character := _UNEXPECTED_CHARACTER.fullmatch(message):
        column = _column(source, int(character["position"]))
        return TemplateError.in_line(error.lineno, f"unexpected character {character['found']}", column)
    for tag in tags:
        if tag.line == error.lineno and tag.opening in _EXAMPLES and not tag.text.strip(_BLANK):
            message = f"`{tag.opening} {_CLOSING[tag.opening]}` is empty"
            expected = f"something like `{_EXAMPLES[tag.opening]}`"
            column = _column(source, tag.start)
            return TemplateError.in_line(tag.line, f"{message}, expected {expected}", column)
    return TemplateError.in_line(error.lineno, _reworded(message), column_of_tag(source, error.lineno))


def column_of_tag(source: str, line: int) -> int | None:
    """The column of the only tag that begins in this line; None where several do, or none does."""
    starts = [tag.start for tag in _tags(source) if tag.line == line]
    return _column(source, starts[0]) if len(starts) == 1 else None


def _column(source: str, position: int) -> int:
    return position - source.rfind("\n", 0, position)


def _left_open(tags: Iterable[_Tag], noticed: int, message: str) -> tuple[_Tag, str] | None:
    """The unclosed tag or block because of which Jinja noticed an error in this line, and what to say."""
    blocks: list[tuple[str, _Tag]] = []
    for tag in tags:
        if not tag.closed:
            return tag, f"`{tag.opening}` is not closed by `{_CLOSING[tag.opening]}`"
        if tag.line < noticed <= tag.end_line:
            further = noticed - tag.line
            lines = f"{further} line{'s' if further > 1 else ''}"
            return tag, f"is this `{tag.opening}` closed? {lines} further: {_reworded(message)}"
        word = tag.text.strip(_BLANK).partition(" ")[0] if tag.opening == "{%" else ""
        if word in _BLOCKS:
            blocks.append((word, tag))
        elif word.removeprefix("end") in _BLOCKS and blocks and word == f"end{blocks[-1][0]}":
            blocks.pop()
        elif word.removeprefix("end") in _BLOCKS:
            break
    if blocks and f"needs to be closed is '{blocks[-1][0]}'" in message:
        word, tag = blocks[-1]
        return tag, f"`{{% {word} %}}` is not closed by `{{% end{word} %}}`"
    return None


def _reworded(message: str) -> str:
    """A message of Jinja's parser without the names of its tokens."""
    for pattern in _FOUND_AND_EXPECTED:
        if match := pattern.fullmatch(message):
            named = {key: _TOKENS.get(token, f"`{token}`") for key, token in match.groupdict().items()}
            if "expected" in named:
                return f"found {named['found']}, expected {named['expected']}"
            return f"unexpected {named['found']}"
    if match := _UNEXPECTED_TAG.fullmatch(message):
        found = f"`{{% {match['found']} %}}`" if match["found"] else "the end of the template"
        if not match["expected"]:
            return f"unexpected {found}"
        expected = re.sub("'([^']+)'", r"`{% \1 %}`", match["expected"])
        return f"found {found}, expected {expected}"
    return message


def _tags(source: str) -> Iterator[_Tag]:
    """The tags in their order; an unclosed one is the last."""
    position, line = 0, 1
    while begin := _OPENING.search(source, position):
        opening, inner = begin[0], begin.end()
        end = next(match for match in _WITHIN[opening].finditer(source, inner) if match.lastgroup)
        line += source.count("\n", position, begin.start())
        end_line = line + source.count("\n", begin.start(), end.start())
        closed = end.lastgroup == "close"
        text = source[inner : end.start()]
        yield _Tag(opening, text, begin.start(), line, end_line, closed)
        if not closed:
            return
        position, line = end.end(), end_line
        if opening == "{%" and text.strip(_BLANK) == "raw" and (raw := _END_OF_RAW.search(source, position)):
            line += source.count("\n", position, raw.end())
            position = raw.end()
