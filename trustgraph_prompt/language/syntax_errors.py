"""Describes syntax errors for an author: what was found, and what the grammar expected."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from lark import Token, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.language.indentation import place
from trustgraph_prompt.language.nodes import Position
from trustgraph_prompt.language.problem import Problem
from trustgraph_prompt.language.write import TRIPLE_QUOTES

_A_TYPE = "a type, such as string, int[] or the name of a schema"
_A_VALUE = "a value"

_NAMES: Mapping[str, str] = {
    "_SCHEMA": "schema",
    "_PROMPT": "prompt",
    "_SYSTEM": "system",
    "_EXTENDS": "extends",
    "CLOSED": "closed",
    "_USING": "using model",
    "_MODEL": "model",
    "_EXPECTING": "expecting",
    "_AS": "as jsonl",
    "_IF": "if",
    "_ESCALATE": "escalate if",
    "EXAMPLE": "example",
    "SCHEMA_NAME": "the name of the schema",
    "BASE": "the name of a schema",
    "FIELD": "a field, as in title: string",
    "TYPE": _A_TYPE,
    "PROMPT_NAME": "the name of the prompt",
    "KEY": "a key",
    "WORD": _A_VALUE,
    "ARGUMENT": _A_VALUE,
    "CONSTRAINT": "a constraint such as @min(1)",
    "DESCRIPTION": "a description in quotes",
    "LAYOUT": "jsonl or json",
    "OPERATOR": "~, ==, != or contains",
    "STRING": "a text in quotes",
    "TEXT": 'a text in """',
    "NUMBER": "a number",
    "COLON": "':'",
    "COMMA": "','",
    "EQUAL": "= and a default",
    "VBAR": "| and another type",
    "QMARK": "?",
    "LSQB": "[",
    "RSQB": "']'",
    "LPAR": "(",
    "RPAR": "')'",
    "LBRACE": "{",
    "RBRACE": "'}'",
    "_NL": "the end of the line",
    "_INDENT": "an indented line",
    "$END": "the end of the text",
}
"""How a message names the terminals, in this order."""

_CLOSED_BY = {"LSQB": "RSQB", "LPAR": "RPAR", "LBRACE": "RBRACE"}

#: Where the key is accepted, the other terminals are ways to begin it, and are not named as well.
_PARTS: Mapping[str, frozenset[str]] = {
    "TYPE": frozenset(("STRING", "NUMBER", "LPAR")),
    "WORD": frozenset(("STRING", "TEXT", "NUMBER", "LSQB", "LBRACE")),
    "FIELD": frozenset(("STRING",)),
    "KEY": frozenset(("STRING",)),
    "PROMPT_NAME": frozenset(("STRING",)),
    "COLON": frozenset(("QMARK",)),
}


def describe_unexpected(error: UnexpectedInput, source: str) -> Problem:
    """The problem that an error of lark reports."""
    parser = error.interactive_parser
    if isinstance(error, UnexpectedToken):
        token = error.token
        start = None if token.type in _MISSING else token.start_pos
        offset = len(source) if start is None else int(start)
        return _without_quotes(source, offset, place(token), parser) or _at_token(token, parser)
    if isinstance(error, UnexpectedCharacters):
        at, offset = Position(error.line, error.column), error.pos_in_stream or 0
        return _without_quotes(source, offset, at, parser) or _at_character(at, source[offset:], parser)
    raise error


def _at_token(token: Token, parser: InteractiveParser) -> Problem:
    accepted = _accepted(parser)
    expected = _names_of(accepted)
    before = parser.parser_state.value_stack
    if opened := _left_open(before, accepted, token):
        return Problem(
            "a bracket is not closed", place(opened), opened.value, _NAMES[_CLOSED_BY[opened.type]]
        )
    if token.type in _MISSING:
        return Problem("incomplete statement", place(token), _MISSING[token.type], expected)
    if token.type == "_INDENT" and (header := _header_without_colon(before)):
        return Problem("incomplete statement", place(header), "the end of the line", _NAMES["COLON"])
    if token.type == "_INDENT":
        return Problem("unexpected indentation", place(token), "an indented line", expected)
    found = _NAMES["TEXT"] if token.type == "TEXT" else token.value
    return Problem(_unexpected(before, place(token)), place(token), found, expected)


_MISSING = {"_NL": "the end of the line", "_DEDENT": "the end of the block", "$END": "the end of the text"}


def _left_open(before: list[object], accepted: set[str], token: Token) -> Token | None:
    """The bracket that should have been closed before a token on a later line."""
    for part in reversed(before):
        if isinstance(part, Token) and part.type in _CLOSED_BY:
            closing = _CLOSED_BY[part.type] in accepted
            later = token.type in _MISSING or place(part).line < place(token).line
            return part if closing and later else None
    return None


def _header_without_colon(before: list[object]) -> Token | None:
    """The end of the line that declares a prompt, if that was the last token."""
    last = before[-1] if before else None
    is_prompt = any(isinstance(part, Token) and part.type == "_PROMPT" for part in before)
    return last if is_prompt and isinstance(last, Token) and last.type == "_NL" else None


def _without_quotes(source: str, offset: int, at: Position, parser: InteractiveParser) -> Problem | None:
    """The problem of a text without quotes, if one began before or begins here; else None."""
    if offset == len(source):
        return None
    before, accepted = parser.parser_state.value_stack, _accepted(parser)
    last, goes_on = before[-1] if before else None, source[offset].isalpha()
    if isinstance(last, Tree) and last.data == "scalar":
        last = last.children[0]
    if isinstance(last, Token) and last.type in ("KEY", "WORD") and place(last).line == at.line:
        if last.type == "KEY" and any(isinstance(part, Token) and part.type == "LBRACE" for part in before):
            return None
        begins, goes_on = place(last), goes_on or (last.type == "WORD" and "_NL" in accepted)
    elif "TEXT" in accepted and not accepted & {"FIELD", "KEY", "WORD"}:
        begins = at
    else:
        return None
    if not goes_on:
        return None
    line = source.split("\n")[begins.line - 1][begins.column - 1 :]
    return Problem("text must be in quotes", begins, excerpt(line.strip(), 40), "quotes around it")


def _at_character(at: Position, rest: str, parser: InteractiveParser) -> Problem:
    if rest.startswith(TRIPLE_QUOTES):
        return Problem("the closing quotes are missing", at, rest[:3], f"another {rest[:3]} after it")
    if rest[0] in "\"'":
        return Problem(
            "the closing quote is missing on this line", at, rest[:30].split("\n")[0], f"another {rest[0]}"
        )
    found = re.match(r"\w+|.", rest)
    word = found[0] if found else rest[0]
    if not word.isascii() and not word.isalnum():
        word += f" ({unicodedata.name(word, f'U+{ord(word):04X}').lower()})"
    return Problem(_unexpected(parser.parser_state.value_stack, at), at, word, _names_of(_accepted(parser)))


def _unexpected(before: list[object], at: Position) -> str:
    """The message for something unexpected; it may follow a string that was closed too early."""
    for part in before[-2:]:
        text = part.children[0] if isinstance(part, Tree) and part.children else part
        if isinstance(text, Token) and text.type == "TEXT":
            begun, ended = text.line or 0, text.end_line or 0
            if begun < ended and at.line <= ended + 1:
                return f"unexpected text after a string that began in line {begun}: are all quotes closed?"
    return "unexpected text"


def _accepted(parser: InteractiveParser) -> set[str]:
    found: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return found


def _names_of(accepted: set[str]) -> str:
    parts = frozenset().union(*(_PARTS.get(terminal, frozenset()) for terminal in accepted))
    names = [name for terminal, name in _NAMES.items() if terminal in accepted - parts]
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
