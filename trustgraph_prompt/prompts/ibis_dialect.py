"""TrustGraph's dialect: ibis templates, parsed into the same syntax tree as Jinja's.

A template of ibis 3.3 renders the same here, or it is rejected when it is loaded: for calls, for blocks that
assign, include or buffer, and for filters that `filters.IBIS` does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import ChainableUndefined, nodes

from trustgraph_prompt.errors import RenderError
from trustgraph_prompt.prompts import filters
from trustgraph_prompt.prompts.ibis_parser import parse
from trustgraph_prompt.prompts.sandbox import Sandbox


class IbisUndefined(ChainableUndefined):
    """An undefined value, which in ibis equals nothing, not even itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = ChainableUndefined.__hash__


class Ibis(Sandbox):
    """Renders values as Python's `str` does (None, True, {'a': 1}), and keeps all white space."""

    def __init__(self) -> None:
        super().__init__(filters.IBIS, undefined=IbisUndefined, keep_trailing_newline=True)

    def tree(self, source: str) -> nodes.Template:
        return parse(source)

    def text(self, value: Any) -> str:
        return str(value)

    def loop(self, index: int, length: int, parent: Any) -> dict[str, Any]:
        return {
            "index": index,
            "count": index + 1,
            "length": length,
            "is_first": index == 0,
            "is_last": index == length - 1,
            "parent": parent,
        }

    def rounds(self, value: Any) -> Sequence[Any]:
        return super().rounds(value) if isinstance(value, str | list | tuple | dict) else ()

    def unpack(self, item: Any, names: int) -> Sequence[Any]:
        values = (
            item if isinstance(item, list | tuple | str) else list(item) if isinstance(item, dict) else ()
        )
        if len(values) < names:
            raise RenderError(f"cannot unpack {filters.kind(item)} into {names} loop variables")
        return values[:names]

    def getitem(self, obj: Any, argument: Any) -> Any:
        """One step of `a.b.0`: a key or an index."""
        if isinstance(obj, list | tuple | str) and isinstance(argument, str) and argument.isdecimal():
            argument = int(argument[:20])
        return super().getitem(obj, argument)
