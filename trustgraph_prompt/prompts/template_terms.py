"""Which terms a template names, and what else it says, read off its syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jinja2 import nodes


class TemplateTerms(NamedTuple):
    """`named` are all terms, `required` those whose absence the template does not provide for.

    `fixed` is all text that comes from no term.
    """

    named: frozenset[str]
    required: frozenset[str]
    fixed: str


def needs(tree: nodes.Template) -> TemplateTerms:
    """The names that a template reads and does not bind itself, by a loop.

    What a condition asks for, what a loop with an `else` repeats, or what a filter or test is about
    (`default`, `is defined`), may be absent.
    """
    bound = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"} | {"loop"}
    named = frozenset(_names(tree) - bound)
    optional = {name for asked in _asked(tree) for name in _names(asked)}
    fixed = "".join(data.data for data in tree.find_all(nodes.TemplateData))
    return TemplateTerms(named, named - optional, fixed)


def _names(node: nodes.Node) -> set[str]:
    found = {name.name for name in node.find_all(nodes.Name)}
    return found | {node.name} if isinstance(node, nodes.Name) else found


def _asked(tree: nodes.Template) -> Iterator[nodes.Node]:
    conditions: list[nodes.If | nodes.CondExpr] = [*tree.find_all(nodes.If), *tree.find_all(nodes.CondExpr)]
    for condition in conditions:
        yield condition.test
    for loop in tree.find_all(nodes.For):
        if loop.else_:
            yield loop.iter
    for either in tree.find_all(nodes.Or):
        yield either.left
    for applied in (*tree.find_all(nodes.Filter), *tree.find_all(nodes.Test)):
        if applied.name in ("default", "d", "if_undefined", "defined", "undefined"):
            yield applied
