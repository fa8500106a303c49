"""Checks the syntax tree of a template against an allow-list, and meters its loops and comparisons.

Both happen before jinja2 generates code from the tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NoReturn

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from trustgraph_prompt.errors import TemplateError
from trustgraph_prompt.prompts.render_limits import PART
from trustgraph_prompt.prompts.sandbox import Sandbox

MAX_NODES = 5_000
"""Nodes a template may have; compiling that many takes about half a second."""

MAX_DEPTH = 100
"""How deep the nodes of a template may be nested."""

_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.CondExpr,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Getitem,
    nodes.List,
    nodes.Tuple,
    nodes.Keyword,
)

_DESCRIPTIONS: dict[type[nodes.Node], str] = {
    nodes.Assign: "{% set %}",
    nodes.AssignBlock: "{% set %}",
    nodes.Block: "{% block %}",
    nodes.Call: "a call",
    nodes.CallBlock: "{% call %}",
    nodes.Concat: "concatenation (~)",
    nodes.Dict: "a {…} literal",
    nodes.Extends: "{% extends %}",
    nodes.FilterBlock: "{% filter %}",
    nodes.FromImport: "{% from %}",
    nodes.Import: "{% import %}",
    nodes.Include: "{% include %}",
    nodes.Macro: "{% macro %}",
    nodes.Scope: "{% autoescape %}",
    nodes.Slice: "a slice",
    nodes.With: "{% with %}",
}

# jinja2 itself defines these names in templates.
_RESERVED = frozenset({"self", "super", "caller", "varargs", "kwargs"})


def check(tree: nodes.Template, sandbox: Sandbox) -> None:
    """Raise `TemplateError`, with its line, for the first node that is not on the allow-list."""
    count = 0
    open_nodes: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while open_nodes:
        node, depth = open_nodes.pop()
        count += 1
        if count > MAX_NODES:
            raise TemplateError(f"the template has more than {MAX_NODES:,} parts")
        if depth > MAX_DEPTH:
            raise TemplateError.in_line(node.lineno, f"nested deeper than {MAX_DEPTH} levels")
        _check_node(node, sandbox)
        if isinstance(node, nodes.For) and (pairs := of_items(node.iter)):
            children = [pairs, *node.iter_child_nodes(exclude=("iter",))]
        else:
            children = list(node.iter_child_nodes())
        open_nodes += [(child, depth + 1) for child in reversed(children)]


def of_items(node: nodes.Node) -> nodes.Expr | None:
    """The `x` of `x.items()`: the only call that is allowed, as what a `for` iterates over."""
    match node:
        case nodes.Call(
            node=nodes.Getattr(node=nodes.Expr() as pairs, attr="items"),
            args=[],
            kwargs=[],
            dyn_args=None,
            dyn_kwargs=None,
        ):
            return pairs
    return None


def _check_node(node: nodes.Node, sandbox: Sandbox) -> None:
    match node:
        case nodes.Name():
            _check_name(node, node.name)
            if node.name in _RESERVED:
                _refuse(node, f"the name `{node.name}`")
        case nodes.Getattr():
            _check_name(node, node.attr)
        case nodes.Const():
            if isinstance(node.value, float) and not math.isfinite(node.value):
                _refuse(node, "a number that is not finite")
        case nodes.For():
            if node.recursive:
                _refuse(node, "`for … recursive`")
            if node.test is not None:
                _refuse(node, "`for … if`", expected=["an `if` inside the loop"])
        case nodes.Filter():
            signature = sandbox.signatures.get(node.name)
            if signature is None or node.node is None:
                _refuse(node, f"the filter `{node.name}`", expected=sandbox.signatures)
            if node.dyn_args or node.dyn_kwargs:
                _refuse(node, "`*` in arguments")
            try:
                signature.bind(None, *node.args, **{str(kw.key): kw.value for kw in node.kwargs})
            except TypeError as error:
                raise TemplateError.in_line(node.lineno, f"the filter `{node.name}`: {error}") from None
        case nodes.Test():
            if node.name not in sandbox.tests:
                _refuse(node, f"the test `{node.name}`", expected=sandbox.tests)
        case nodes.Neg():
            if not isinstance(node.node, nodes.Const):
                _refuse(node, "arithmetic")
        case _ if not isinstance(node, _ALLOWED):
            is_operator = isinstance(node, nodes.BinExpr | nodes.UnaryExpr)
            default = "arithmetic" if is_operator else type(node).__name__
            _refuse(node, _DESCRIPTIONS.get(type(node), default))


def _check_name(node: nodes.Node, name: str) -> None:
    if name.startswith("_"):
        _refuse(node, f"`{name}`, a name that begins with an underscore,")


def _refuse(node: nodes.Node, found: str, expected: Iterable[str] = ()) -> NoReturn:
    line = next(part.lineno for part in (node, *node.find_all(nodes.Node)) if part.lineno)
    available = ", ".join(sorted(expected))
    text = f"{found} is not available in templates"
    raise TemplateError.in_line(line, f"{text}; available: {available}" if available else text)


class MeteredLoops(NodeTransformer):
    """Rewrites a checked tree so that loops and comparisons are metered, and `x.items()` is a filter.

    A loop iterates over pairs of an item and its `loop`, and each round costs as much as the loop's body has
    nodes. Operands of comparisons pass a filter that costs as much as they are long.
    """

    def __init__(self) -> None:
        self._depth = 0

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        pairs = of_items(node.iter)
        over = node.iter if pairs is None else _filter("items", pairs)
        parts = sum(1 for part in node.body for _ in part.find_all(nodes.Node)) + 2
        names = len(node.target.items) if isinstance(node.target, nodes.Tuple) else 1
        parent = nodes.Name("_loop", "load") if self._depth else nodes.Const(None)
        node.iter = _filter("_loop", self.visit(over), nodes.Const(parts * PART), nodes.Const(names), parent)
        node.target = nodes.Tuple([node.target, nodes.Name("_loop", "store")], "store")
        self._depth += 1
        node.body = [self.visit(part) for part in node.body]
        self._depth -= 1
        node.else_ = [self.visit(part) for part in node.else_]
        return node

    def visit_Name(self, node: nodes.Name) -> nodes.Node:  # noqa: N802
        return nodes.Name("_loop", node.ctx) if self._depth and node.name == "loop" else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.expr = _filter("_read", node.expr)
        for operand in node.ops:
            operand.expr = _filter("_read", operand.expr)
        return node


def _filter(name: str, node: nodes.Expr, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)
