"""The grammar at work: a text into nodes, or what is wrong with it. The only way to lark, and loaded late."""

from __future__ import annotations

from functools import cache

from lark import Lark, UnexpectedInput

from trustgraph_prompt.language.build import Builder
from trustgraph_prompt.language.layout import Layout
from trustgraph_prompt.language.nodes import File
from trustgraph_prompt.language.problem import Problem
from trustgraph_prompt.language.words import describe_unexpected


def read_tree(source: str) -> tuple[File, list[Problem]]:
    """What a text says, and what is wrong in it. Raises `Problem` where it cannot be read further."""
    try:
        tree = _lark().parse(source)
    except UnexpectedInput as error:
        raise describe_unexpected(error, source) from None
    builder = Builder()
    return builder.transform(tree), builder.problems


@cache
def _lark() -> Lark:
    return Lark.open(
        "grammar.lark", rel_to=__file__, parser="lalr", postlex=Layout(), maybe_placeholders=True
    )
