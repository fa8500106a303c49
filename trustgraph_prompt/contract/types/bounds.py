"""Converts the metadata of annotations, such as `Annotated[int, Gt(5)]`, to JSON Schema keywords."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from trustgraph_prompt.contract.compile_schema import similar
from trustgraph_prompt.contract.grounded_keys import FROM, GROUNDING, QUOTE
from trustgraph_prompt.contract.roles import SUPPORTED
from trustgraph_prompt.errors import ContractError

_OF_SOURCES: Mapping[str, str] = {FROM: FROM, GROUNDING: GROUNDING, QUOTE: QUOTE, SUPPORTED: SUPPORTED}
_OF_NUMBERS: Mapping[str, str] = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    **_OF_SOURCES,
}
_KEYWORDS: Mapping[str, Mapping[str, str]] = {
    "integer": _OF_NUMBERS,
    "number": _OF_NUMBERS,
    "string": {
        "min_length": "minLength",
        "max_length": "maxLength",
        "pattern": "pattern",
        "format": "format",
        **_OF_SOURCES,
    },
    "array": {
        "min_length": "minItems",
        "max_length": "maxItems",
        "uniqueItems": "uniqueItems",
        **_OF_SOURCES,
    },
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}

_BOUNDS = frozenset(
    (
        *(word for words in _KEYWORDS.values() for pair in words.items() for word in pair),
        *("max_digits", "decimal_places", "enum", "const"),
    )
)
"""The names of bounds in the metadata of a field, in Python or JSON Schema; other names are ignored."""

_MARK = "from_text"
"""The attribute of a class that says that the values of its fields are in the text."""

_PRESCRIBED = frozenset(("enum", "const", "contentEncoding"))  # beside these, a value is not from a text

Bound = tuple[str, Any, object]  # name, value, and the metadata that holds it


def bounded(schema: Mapping[str, Any], metadata: Iterable[object], where: str) -> dict[str, Any]:
    """Add the bounds and the description of annotated-types or Pydantic's `Field` to a schema.

    Strings are ignored as comments. Raises `ContractError` for metadata that the schema cannot express.
    """
    return _with(schema, ((name, value, one) for one in metadata for name, value in _said(one)), where)


def bounded_in_field(schema: Mapping[str, Any], metadata: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Add the bounds in the metadata of a dataclass field to a schema. Raises as `bounded`."""
    bounds = {name: value for name, value in metadata.items() if name in _BOUNDS and value is not None}
    return _with(schema, ((name, value, {name: value}) for name, value in bounds.items()), where)


def from_text(cls: Any, properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a class, each looked up in the text if the class has `from_text = True`.

    Choices, booleans, UUIDs, bytes and other classes are not. Raises `ContractError` for a mark that would
    have no effect: a misspelt one, or a field that is true by default.
    """
    _check_mark(cls, properties)
    if getattr(cls, _MARK, None) is not True:
        return dict(properties)
    return {
        name: {FROM: "text", **schema} if QUOTE not in schema and _may_be_in_text(schema) else schema
        for name, schema in properties.items()
    }


def _check_mark(cls: Any, properties: Mapping[str, Any]) -> None:
    attributes = {name: value for each in cls.__mro__ for name, value in vars(each).items()}
    defaults = {name: schema.get("default") for name, schema in properties.items()}
    for name, value in {**attributes, **defaults}.items():
        is_meant = similar(name, [_MARK]) and abs(len(name) - len(_MARK)) < 3  # not `from_context`
        if value is True and is_meant and (name != _MARK or name in properties):
            raise ContractError(
                "does not mark the fields of the class" + ("" if name == _MARK else ", as it is misspelt"),
                where=f"{cls.__qualname__}.{name}",
                found=f"{name}: bool = True" if name in properties else f"{name} = True",
                expected=f"`{_MARK} = True` without a type, `{_MARK}: ClassVar[bool] = True` in Pydantic, or "
                "another name",
            )


def _may_be_in_text(schema: Mapping[str, Any]) -> bool:
    if "anyOf" in schema:
        branches = [branch for branch in schema["anyOf"] if branch.get("type") != "null"]
        return all(map(_may_be_in_text, branches))
    if schema.get("type") == "array":
        return "prefixItems" not in schema and _may_be_in_text(schema.get("items", {}))
    types = schema.get("type", ())
    kinds = {types} if isinstance(types, str) else set(types)
    is_free = _PRESCRIBED.isdisjoint(schema) and schema.get("format") != "uuid"
    return is_free and bool(kinds) and kinds <= {"string", "integer", "number", "null"}


def _with(schema: Mapping[str, Any], bounds: Iterable[Bound], where: str) -> dict[str, Any]:
    kind = None if "format" in schema else schema.get("type")
    words = _OF_SOURCES if "anyOf" in schema else _KEYWORDS.get(str(kind), {})
    keywords = {"description": "description", **words, **{word: word for word in words.values()}}
    made = dict(schema)
    for name, value, beside in bounds:
        keyword = keywords.get(name)
        if keyword is None or keyword in made:
            problem = "is given twice" if keyword else "does not apply to this type"
            expected = " or ".join(("description", *words))
            raise ContractError(f"{name} {problem}", where=where, found=beside, expected=expected)
        made[keyword] = value
    return made


def _said(beside: object) -> Iterable[tuple[str, Any]]:
    """The names and values of the bounds in a metadata object; an unknown object counts as one bound."""
    if isinstance(beside, str):
        return []
    if isinstance(parts := getattr(beside, "metadata", None), list):  # Pydantic's Field
        named = getattr(beside, "_attributes_set", {})
        return [*named.items(), *(pair for part in parts for pair in _said(part))]
    if is_dataclass(beside):
        named = {field.name: getattr(beside, field.name) for field in fields(beside)}
    else:
        named = getattr(beside, "__dict__", None) or {type(beside).__name__: beside}
    return [(name, value) for name, value in named.items() if value is not None]
