"""What is written beside a type, `Annotated[int, Gt(5)]`, in the words of JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from trustgraph_prompt.contract.grounded_keys import FROM, GROUNDING
from trustgraph_prompt.errors import ContractError

_OF_SOURCES: Mapping[str, str] = {FROM: FROM, GROUNDING: GROUNDING}
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
"""What is a bound where it stands among an author's own notes: in the words of Python, or of JSON Schema."""

Bound = tuple[str, Any, object]  # its name, its value, and what says it


def bounded(schema: Mapping[str, Any], metadata: Iterable[object], where: str) -> dict[str, Any]:
    """The schema with the bounds and the description that annotated-types or Pydantic's `Field` say.

    Strings are notes of the author's. Raises `ContractError` for all that would get lost.
    """
    return _with(schema, ((name, value, one) for one in metadata for name, value in _said(one)), where)


def bounded_in_field(schema: Mapping[str, Any], metadata: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """The schema with the bounds among the metadata of a dataclass's field; what else is there is a note.

    Raises `ContractError` as `bounded`.
    """
    bounds = {name: value for name, value in metadata.items() if name in _BOUNDS and value is not None}
    return _with(schema, ((name, value, {name: value}) for name, value in bounds.items()), where)


def _with(schema: Mapping[str, Any], bounds: Iterable[Bound], where: str) -> dict[str, Any]:
    kind = None if "format" in schema else schema.get("type")
    words = _OF_SOURCES if "anyOf" in schema else _KEYWORDS.get(str(kind), {})
    keywords = {"description": "description", **words, **{word: word for word in words.values()}}
    made = dict(schema)
    for name, value, beside in bounds:
        keyword = keywords.get(name)
        if keyword is None or keyword in made:
            problem = "is said twice" if keyword else "is nothing that the schema of this type can say"
            expected = " or ".join(("description", *words))
            raise ContractError(f"{name} {problem}", where=where, found=beside, expected=expected)
        made[keyword] = value
    return made


def _said(beside: object) -> Iterable[tuple[str, Any]]:
    """Names and values of what is set; of what cannot be looked into, that it is there."""
    if isinstance(beside, str):
        return []
    if isinstance(parts := getattr(beside, "metadata", None), list):  # a Field of Pydantic's
        named = getattr(beside, "_attributes_set", {})
        return [*named.items(), *(pair for part in parts for pair in _said(part))]
    if is_dataclass(beside):
        named = {field.name: getattr(beside, field.name) for field in fields(beside)}
    else:
        named = getattr(beside, "__dict__", None) or {type(beside).__name__: beside}
    return [(name, value) for name, value in named.items() if value is not None]
