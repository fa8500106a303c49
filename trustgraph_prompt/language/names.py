"""Names: which are known, which are nearly one, which stand twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from trustgraph_prompt.errors import suggestion
from trustgraph_prompt.language.scalars import RESERVED, SCALARS

MAX_NAME = 100
"""Characters of a name."""

#: What other languages call the types of this one.
_MEANT: Mapping[str, str] = {
    **dict.fromkeys(("str", "text", "String"), "string"),
    **dict.fromkeys(("integer", "Integer", "long"), "int"),
    **dict.fromkeys(("number", "double", "real"), "float"),
    **dict.fromkeys(("boolean", "Boolean"), "bool"),
    **dict.fromkeys(("array", "set", "tuple", "List"), "list"),
    **dict.fromkeys(("dict", "object", "record", "Map"), "map"),
    **dict.fromkeys(("None", "none", "nil"), "null"),
    "timestamp": "datetime",
    "Any": "any",
}


class Names(NamedTuple):
    """The names that types of a file may have: its schemas, and types from beside it as JSON Schemas."""

    schemas: frozenset[str]
    types: Mapping[str, Mapping[str, Any]]

    def is_type(self, name: str) -> bool:
        """Whether that is a type of the language, or one from beside the file."""
        return name in RESERVED or name in self.types

    def similar(self, name: str) -> str:
        """`, did you mean …?` for the name of a type that is none."""
        if name in _MEANT:
            return f", did you mean {_MEANT[name]!r}?"
        return suggestion(name, (*self.schemas, *self.types, *SCALARS))


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str: ...


NamedNode = TypeVar("NamedNode", bound=Named)


def twice(nodes: Iterable[NamedNode]) -> Iterator[tuple[NamedNode, NamedNode]]:
    """What has the name of one before it, and that one."""
    first: dict[str, NamedNode] = {}
    for node in nodes:
        if node.name in first:
            yield node, first[node.name]
        else:
            first[node.name] = node
