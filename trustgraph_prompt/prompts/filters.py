"""The filters and tests of templates: functions of JSON values and `Undefined`."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Any

from jinja2 import ChainableUndefined, Undefined

from trustgraph_prompt.errors import RenderError

Filter = Callable[..., Any]


def kind(value: object) -> str:
    """The JSON type of a value, as a message names it."""
    if isinstance(value, Undefined):
        return "an undefined value"
    names = {str: "a string", bool: "a boolean", dict: "an object", list: "a list", tuple: "a list"}
    return "null" if value is None else names.get(type(value), "a number")


def items(value: Any) -> list[tuple[str, Any]]:
    """The pairs of an object."""
    if value is None or isinstance(value, Undefined):
        return []
    return list(_expect(value, "items", dict).items())


def json_text(value: Any) -> str:
    """A value as JSON on one line."""
    return "null" if isinstance(value, Undefined) else json.dumps(value, ensure_ascii=False)


def _length(value: Any) -> int:
    return len(_expect(value, "length", list, tuple, str, dict))


def _default(value: Any, fallback: Any = "", boolean: bool = False) -> Any:
    return fallback if isinstance(value, Undefined) or (boolean and not value) else value


def _expect(value: Any, name: str, *types: type) -> Any:
    if isinstance(value, (*types, Undefined)):
        return value
    wanted = " or ".join(kind(json_type()) for json_type in types if json_type is not tuple)
    raise RenderError(f"`{name}` works on {wanted}, found {kind(value)}")


COMMON: dict[str, Filter] = {
    "first": lambda value: _expect(value, "first", list, tuple, str)[0] if value else ChainableUndefined(),
    "json": json_text,
    "last": lambda value: _expect(value, "last", list, tuple, str)[-1] if value else ChainableUndefined(),
    "length": _length,
    "lower": lambda value: str(_expect(value, "lower", str)).lower(),
    "tojson": json_text,
    "trim": lambda value: str(_expect(value, "trim", str)).strip(),
    "upper": lambda value: str(_expect(value, "upper", str)).upper(),
}

JINJA: dict[str, Filter] = COMMON | {
    "default": _default,
    "items": items,
}


def _is_defined(value: Any) -> bool:
    return not isinstance(value, Undefined)


def _escape(value: Any, quotes: bool = True) -> str:
    return html.escape(str(_expect(value, "escape", str)), quotes)


IBIS: dict[str, Filter] = COMMON | {
    "default": lambda value, fallback: value or fallback,
    "e": _escape,
    "esc": _escape,
    "escape": _escape,
    "if_undefined": lambda value, fallback: value if _is_defined(value) else fallback,
    "is_defined": _is_defined,
    "len": _length,
    "repr": lambda value: repr(value),
    "str": lambda value: str(value),
}

TESTS: dict[str, Callable[[Any], bool]] = {
    "defined": _is_defined,
    "none": lambda value: value is None,
    "undefined": lambda value: not _is_defined(value),
}
