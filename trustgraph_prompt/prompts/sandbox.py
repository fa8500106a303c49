"""The environment of templates: jinja2's sandbox, restricted to plain JSON, a few filters and a meter.

Templates reach only their terms: `a.b` and `a["b"]` look up items, never attributes of Python objects; `loop`
is a dict; nothing can be called.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Undefined, nodes, pass_context, runtime
from jinja2.sandbox import ImmutableSandboxedEnvironment

from trustgraph_prompt.errors import RenderError
from trustgraph_prompt.prompts import filters
from trustgraph_prompt.prompts.render_limits import PART, RenderMeter, weight


class Rendering(runtime.Context):
    """The context of one rendering, and its meter."""

    meter: RenderMeter


class Sandbox(ImmutableSandboxedEnvironment):
    """The base of both dialects, which define parsing, how values are written, and what `loop` contains.

    `signatures` are those of the filters that a template may name.
    """

    context_class = Rendering

    def __init__(self, own_filters: Mapping[str, filters.Filter], **options: Any) -> None:
        super().__init__(autoescape=False, finalize=self.text, **options)
        public = {**own_filters, "join": self.join}
        self.signatures = {name: inspect.signature(function) for name, function in public.items()}
        self.globals = {}
        self.tests = dict(filters.TESTS)
        hidden = {"items": filters.items, "_read": lambda value: value}
        self.filters = {name: _metered(function) for name, function in (public | hidden).items()}
        self.filters["_loop"] = self._loop

    def tree(self, source: str) -> nodes.Template:
        """Parse a source. Raises `TemplateError` or `jinja2.TemplateSyntaxError`."""
        raise NotImplementedError

    def text(self, value: Any) -> str:
        """Write a value to the output."""
        raise NotImplementedError

    def loop(self, index: int, length: int, parent: Any) -> dict[str, Any]:
        """The value of `loop` in round `index` (from 0) of `length`; `parent` is that of the outer loop."""
        raise NotImplementedError

    def rounds(self, value: Any) -> Sequence[Any]:
        """The items that a loop iterates over."""
        if isinstance(value, list | tuple | str):
            return value
        if value is None or isinstance(value, Undefined):
            return ()
        if isinstance(value, dict):
            return list(value)
        raise RenderError(f"cannot loop over {filters.kind(value)}, expected a list, an object or a string")

    def unpack(self, item: Any, names: int) -> Sequence[Any]:
        """The values of a loop's variables, of which there are `names`."""
        if isinstance(item, list | tuple) and len(item) == names:
            return item
        raise RenderError(f"cannot unpack {filters.kind(item)} into {names} loop variables")

    def join(self, value: Any, separator: str = "") -> str:
        """The filter `join`: the items as text with `separator` between them."""
        return separator.join(self.text(item) for item in self.rounds(value))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`a.b`: the item `b` of an object."""
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """`a["b"]`, `a[0]`: an item of an object, a list or a string; undefined if it does not exist."""
        if isinstance(obj, dict) and isinstance(argument, str) and argument in obj:
            return obj[argument]
        if isinstance(obj, list | tuple | str) and type(argument) is int and -len(obj) <= argument < len(obj):
            return obj[argument]
        return self.undefined(name=str(argument))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Second line of defence: the allow-list already rejects calls."""
        raise RenderError("calls are not available in templates")

    @pass_context
    def _loop(self, context: Rendering, value: Any, cost: int, names: int, parent: Any) -> Iterator[Any]:
        rounds = self.rounds(value)
        for index, item in enumerate(rounds):
            context.meter.work(cost)
            yield item if names == 1 else self.unpack(item, names), self.loop(index, len(rounds), parent)


def _metered(function: filters.Filter) -> filters.Filter:
    """The filter, metered: it pays for reading its value, and its arguments once per item of the value."""

    @pass_context
    def run(context: Rendering, value: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = sum(map(weight, (*args, *kwargs.values())))
        times = len(value) if isinstance(value, list | tuple | str | dict) else 1
        context.meter.work(PART + weight(value) + arguments * times)
        return function(value, *args, **kwargs)

    return run
