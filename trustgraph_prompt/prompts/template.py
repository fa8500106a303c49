"""Templates of prompts, in a sandbox: whoever may write one can neither own the worker nor stop it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache, lru_cache
from types import TracebackType
from typing import Literal

import jinja2
from jinja2 import nodes

from trustgraph_prompt.errors import RenderError, RenderTooLong, TemplateError
from trustgraph_prompt.prompts.allowlist import MeteredLoops, check
from trustgraph_prompt.prompts.ibis import Ibis
from trustgraph_prompt.prompts.jinja import Jinja
from trustgraph_prompt.prompts.render_limits import RenderMeter, check_terms
from trustgraph_prompt.prompts.sandbox import Rendering, Sandbox
from trustgraph_prompt.prompts.template_terms import TemplateTerms, needs
from trustgraph_prompt.prompts.unclosed_blocks import left_open

Dialect = Literal["jinja", "ibis"]

MAX_SOURCE = 128 * 1024
"""Characters a template may have."""


class Template:
    """A compiled template. Rendering it changes nothing, and costs no more than the limits allow.

    `needs` are the terms that it names.
    """

    __slots__ = ("_template", "dialect", "needs", "source", "where")

    def __init__(
        self,
        source: str,
        dialect: Dialect,
        where: str | None,
        template: jinja2.Template,
        needs: TemplateTerms,
    ) -> None:
        self.source = source
        self.dialect = dialect
        self.where = where
        self.needs = needs
        self._template = template

    @classmethod
    def compile(cls, source: str, *, dialect: Dialect = "jinja", where: str | None = None) -> Template:
        """A template from its text. `where` names it in errors.

        Raises `TemplateError` when it is no template, or contains what templates may not contain.
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
        """The text with its terms filled in; what is undefined is left out.

        `terms` are plain JSON. Raises `RenderError` when they are not, when the template cannot work with
        them; `RenderTooLong` when rendering takes more than a `share` of what the limits allow.
        """
        try:
            return self._render(dict(terms), RenderMeter(share))
        except Exception as error:  # whatever it is: the template and its terms do not go together
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

    def __repr__(self) -> str:
        return f"<Template {self.where or ''} {self.dialect} {self.source[:40]!r}>"


@cache
def _sandbox(dialect: Dialect) -> Sandbox:
    return Jinja() if dialect == "jinja" else Ibis()


@lru_cache(maxsize=64)  # a file is compiled when it is checked, and in each workspace that has it
def _compile(source: str, dialect: Dialect) -> tuple[jinja2.Template, TemplateTerms]:
    sandbox = _sandbox(dialect)
    try:
        # Odd escapes in string literals make Python warn about the template's author, not about us.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = sandbox.tree(source)
            check(tree, sandbox)
            needed = needs(tree)
            metered: nodes.Template = MeteredLoops().visit(tree)
            metered.set_environment(sandbox)
            code = sandbox.compile(metered)
        return sandbox.template_class.from_code(sandbox, code, {}), needed
    except TemplateError:
        raise
    except jinja2.TemplateSyntaxError as error:
        opened = left_open(source, error.lineno, error.message or "") if dialect == "jinja" else None
        line, message = opened or (error.lineno, error.message or "")
        raise TemplateError.in_line(line, message) from error
    except (RecursionError, MemoryError, SyntaxError) as error:
        raise TemplateError("the template is nested too deeply") from error
    except (ValueError, OverflowError) as error:
        raise TemplateError(f"the template cannot be read: {error}") from error
