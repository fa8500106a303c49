"""Compiles and renders prompt templates in a sandbox, which limits what a template may reach and cost."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from types import TracebackType
from typing import Literal, NamedTuple

import jinja2
from jinja2 import nodes

from trustgraph_prompt.errors import RenderError, RenderTooLong, TemplateError
from trustgraph_prompt.prompts.allowlist import MeteredLoops, check
from trustgraph_prompt.prompts.ibis_dialect import Ibis
from trustgraph_prompt.prompts.jinja_dialect import Jinja
from trustgraph_prompt.prompts.jinja_errors import column_of_tag, explain
from trustgraph_prompt.prompts.render_limits import RenderMeter, check_terms
from trustgraph_prompt.prompts.sandbox import Rendering, Sandbox

Dialect = Literal["jinja", "ibis"]

MAX_SOURCE = 128 * 1024
"""Characters a template may have."""


class TemplateTerms(NamedTuple):
    """The terms that a template names, which of them it requires and tests, and its text beside them."""

    named: frozenset[str]
    required: frozenset[str]
    tested: frozenset[str]
    fixed: str


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A compiled template. Rendering has no side effects and is limited in output and work.

    `needs` are the terms that it names.
    """

    source: str
    dialect: Dialect
    where: str | None
    needs: TemplateTerms = field(repr=False)
    _template: jinja2.Template = field(repr=False)

    @classmethod
    def compile(cls, source: str, *, dialect: Dialect = "jinja", where: str | None = None) -> Template:
        """Compile a template. `where` names it in errors.

        Raises `TemplateError` for invalid syntax and for anything that the allow-list does not contain.
        """
        if len(source) > MAX_SOURCE:
            raise TemplateError(
                "the template is too long",
                where=where,
                found=len(source),
                expected=f"at most {MAX_SOURCE:,} characters",
            )
        try:
            return cls(source, dialect, where, *_compile(source, dialect))
        except TemplateError as error:
            raise (error.at(where) if where else error) from error.__cause__

    def render(self, terms: Mapping[str, object], *, share: float = 1.0) -> str:
        """Fill in the terms, which are plain JSON; undefined terms are left out.

        Raises `RenderError` for terms that are not plain JSON or that the template cannot work with, and
        `RenderTooLong` when rendering takes more than `share` (0 to 1) of the limits.
        """
        try:
            return self._render(dict(terms), RenderMeter(share))
        except Exception as error:  # jinja2 runs Python's operators on the terms, which may raise anything
            kind = RenderTooLong if isinstance(error, RenderTooLong) else RenderError
            raise kind(f"{self.where or 'template'}{self._line(error)}: {error}") from error

    def _render(self, terms: dict[str, object], meter: RenderMeter) -> str:
        check_terms(terms, meter)
        context = self._template.new_context(terms)
        assert isinstance(context, Rendering)
        context.meter = meter
        pieces = []
        for piece in self._template.root_render_func(context):
            context.meter.write(len(piece))
            pieces.append(piece)
        return "".join(pieces)

    def _line(self, error: Exception) -> str:
        trace: TracebackType | None = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is self._template.root_render_func.__code__:
                return f" line {self._template.get_corresponding_lineno(trace.tb_lineno)}"
            trace = trace.tb_next
        return ""


_FOR_ABSENT = ("default", "d", "if_undefined", "defined", "undefined")
"""Filters and tests that are made for terms which are absent."""


@cache
def _sandbox(dialect: Dialect) -> Sandbox:
    return Jinja() if dialect == "jinja" else Ibis()


@lru_cache(maxsize=64)  # a prompt file is compiled when it is checked, and again in each workspace
def _compile(source: str, dialect: Dialect) -> tuple[TemplateTerms, jinja2.Template]:
    sandbox = _sandbox(dialect)
    try:
        # Python warns about odd escapes in string literals, which are the template author's.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = sandbox.tree(source)
            check(tree, sandbox)
            needs = _terms_of(tree)
            metered: nodes.Template = MeteredLoops().visit(tree)
            metered.set_environment(sandbox)
            code = sandbox.compile(metered)
        return needs, sandbox.template_class.from_code(sandbox, code, {})
    except TemplateError as error:
        if dialect == "jinja" and error.line is not None:
            error.column = column_of_tag(source, error.line)
        raise
    except jinja2.TemplateSyntaxError as error:
        raise explain(source, error) from error
    except (RecursionError, MemoryError, SyntaxError) as error:
        raise TemplateError("the template is nested too deeply") from error
    except (ValueError, OverflowError) as error:
        raise TemplateError(f"the template cannot be read: {error}") from error


def _terms_of(tree: nodes.Template) -> TemplateTerms:
    """The names that a template reads and binds in no loop."""
    bound = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"} | {"loop"}
    named = frozenset(_names(tree) - bound)
    tested = named.intersection(_tested(tree))
    fixed = "".join(data.data for data in tree.find_all(nodes.TemplateData))
    return TemplateTerms(named, named.intersection(_required(tree)) - tested, tested, fixed)


def _names(node: nodes.Node) -> set[str]:
    found = {name.name for name in node.find_all(nodes.Name)}
    return found | {node.name} if isinstance(node, nodes.Name) else found


def _optional_part(node: nodes.Node) -> nodes.Node | None:
    """The part of a node that works with absent terms: a condition, or what a loop with `else` goes over."""
    match node:
        case nodes.If(test=part) | nodes.CondExpr(test=part) | nodes.Or(left=part):
            return part
        case nodes.For(iter=part, else_=[_, *_]):
            return part
        case nodes.Filter(name=name) | nodes.Test(name=name) if name in _FOR_ABSENT:
            return node
    return None


def _tested(tree: nodes.Template) -> Iterator[str]:
    """The names that a template tests: with these it provides for their absence, wherever else it reads them.

    `{% if a.b %}` tests the member, not `a`.
    """
    for node in tree.find_all(nodes.Node):
        if part := _optional_part(node):
            yield from _names_by_themselves(part)


def _names_by_themselves(node: nodes.Node) -> Iterator[str]:
    if isinstance(node, nodes.Name):
        yield node.name
    elif not isinstance(node, nodes.Getattr | nodes.Getitem):
        for child in node.iter_child_nodes():
            yield from _names_by_themselves(child)


def _required(node: nodes.Node, guarded: frozenset[str] = frozenset()) -> Iterator[str]:
    """The names that are read outside of optional parts, and of what depends on a condition that has them."""
    optional = _optional_part(node)
    if optional is node:
        return
    if isinstance(node, nodes.Name) and node.name not in guarded:
        yield node.name
    if optional and isinstance(node, nodes.If | nodes.CondExpr):
        guarded |= _names(optional)
    for child in node.iter_child_nodes():
        if child is not optional:
            yield from _required(child, guarded)
