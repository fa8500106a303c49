"""Turns indentation into tokens for the grammar, and limits how many tokens and brackets a text has."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token
from lark.lark import PostLex

from trustgraph_prompt.language.nodes import Position
from trustgraph_prompt.language.problem import Problem, TooLarge

MAX_TOKENS = 50_000
MAX_NESTING = 50

_OPENING = ("LSQB", "LPAR", "LBRACE")
_CLOSING = ("RSQB", "RPAR", "RBRACE")


class Indentation(PostLex):
    """Inserts `_INDENT` and `_DEDENT` where the indentation changes, and drops line ends within brackets."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens with those for indentation. Raises `Problem`."""
        levels, open_brackets, used = [""], 0, ""
        for count, token in enumerate(stream):
            if count == 0 and token.type != "_NL" and token.column != 1:
                yield Token.new_borrow_pos("_INDENT", "", token)
            if count > MAX_TOKENS:
                raise TooLarge(
                    "the text is too large", place(token), "more", f"at most {MAX_TOKENS:,} tokens"
                )
            if token.type == "_NL":
                if not open_brackets:
                    used = _check_mixed(token, used)
                    yield token
                    yield from _indentation_tokens(token, levels)
                continue
            if token.type in _OPENING:
                open_brackets += 1
                if open_brackets > MAX_NESTING:
                    raise Problem(
                        "nested too deeply", place(token), token.value, f"at most {MAX_NESTING} brackets"
                    )
            elif token.type in _CLOSING:
                open_brackets -= 1
            yield token
        for _ in levels[1:]:
            yield Token("_DEDENT", "")


def place(token: Token) -> Position:
    """The position of a token."""
    return Position(token.line or 1, token.column or 1)


def _check_mixed(newline: Token, used: str) -> str:
    """The character that the text is indented with. Raises `Problem` where spaces and tabs are mixed."""
    for character in dict.fromkeys(_indent(newline)):
        if used not in ("", character):
            raise Problem(
                "the indentation mixes spaces and tabs",
                Position(newline.end_line or 1, 1),
                f"indented with {_KIND[character]}",
                f"{_KIND[used]}, as above",
            )
        used = character
    return used


_KIND = {" ": "spaces", "\t": "tabs"}


def _indentation_tokens(newline: Token, levels: list[str]) -> Iterator[Token]:
    indent = _indent(newline)
    here = {"line": newline.end_line, "column": newline.end_column}
    if len(indent) > len(levels[-1]):
        levels.append(indent)
        yield Token("_INDENT", indent, **here)
        return
    known = " or ".join(str(len(level)) for level in levels)
    while len(indent) < len(levels[-1]):
        levels.pop()
        yield Token("_DEDENT", "", **here)
    if indent != levels[-1]:
        raise Problem(
            "the indentation matches no line above",
            Position(here["line"] or 1, here["column"] or 1),
            f"indented by {len(indent)}",
            f"by {known}",
        )


def _indent(newline: Token) -> str:
    return newline.rpartition("\n")[2]
