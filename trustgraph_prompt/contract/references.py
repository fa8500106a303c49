"""Reads a schema: resolves its references, walks its subschemas, and finds the types and values it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from trustgraph_prompt.errors import ContractError
from trustgraph_prompt.json_text.pointer import follow, pointer, steps

BY_NAME = frozenset(
    ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")
)
"""Keywords that hold subschemas by name."""

ONE_OR_MORE = frozenset(
    (
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
        *("additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("prefixItems", "items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"),
    )
)
"""Keywords that hold one subschema, or a list of them."""

_ANCHORS = ("$anchor", "$dynamicAnchor")

Path = tuple[str | int, ...]
Place = tuple[Path, Any]


class References:
    """Resolves the references within a schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.root = schema
        draft = str(schema.get("$schema", ""))
        self.are_old = any(name in draft for name in ("draft-04", "draft-06", "draft-07"))
        self.know_const = "draft-04" not in draft
        self._base_key = "id" if "draft-04" in draft else "$id"
        self._base = self.base_of(schema)
        self._known_anchors: dict[str, Place] | None = None
        self._places: dict[str, Place] = {}
        self._followed = self.trail(lambda schema: schema.get("$ref"))
        self._seen_through = self.trail(_reference_or_only_part)

    def base_of(self, schema: Mapping[str, Any]) -> str | None:
        """The `$id` of a subschema, if any."""
        base = schema.get(self._base_key)
        return base.rstrip("#") if isinstance(base, str) else None

    def of(self, schema: Mapping[str, Any]) -> list[Place]:
        """The targets of a subschema's references. Raises `ContractError` if one is not within the schema."""
        places = [self._place(schema[key]) for key in ("$ref", "$dynamicRef") if key in schema]
        return [*places, ((), self.root)] if "$recursiveRef" in schema else places

    def stands_alone(self, schema: Mapping[str, Any]) -> bool:
        """Whether a subschema counts only as its reference: up to draft 7, keywords beside it are ignored."""
        return self.are_old and "$ref" in schema

    def trail(self, onward: Callable[[dict[str, Any]], Any]) -> Trail:
        """A `Trail` through this schema."""
        return Trail(lambda reference: self._place(reference)[1], onward)

    def followed(self, schema: Any) -> dict[str, Any] | None:
        """Resolve the reference of a subschema, if any; None for true, false and circular references."""
        end = self._followed.end(schema)
        return end if isinstance(end, dict) else None

    def seen_through(self, branch: Any) -> dict[str, Any] | None:
        """As `followed`, also through an `allOf` with a single part."""
        end = self._seen_through.end(branch)
        return end if isinstance(end, dict) else None

    def subschemas(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """Yield each subschema once with its path: the nested ones, then the other targets of references."""
        seen: set[int] = set()
        referred: list[Place] = [((), self.root)]
        while referred:
            held = [referred.pop()]
            while held:
                path, schema = held.pop()
                if not isinstance(schema, dict) or id(schema) in seen:
                    continue
                seen.add(id(schema))
                yield path, schema
                held += reversed([((*path, *step), part) for step, part in _parts(schema)])
                try:
                    referred += self.of(schema)
                except ContractError as error:
                    raise error.at("", pointer((*path, "$ref"))) from None

    def _place(self, reference: str) -> Place:
        if reference not in self._places:
            self._places[reference] = self._found(reference)
        return self._places[reference]

    def _found(self, reference: str) -> Place:
        base, _, fragment = reference.partition("#")
        place: Place = ((), None)
        if base in ("", self._base):
            if not fragment:
                place = ((), self.root)
            elif fragment.startswith("/"):
                path = unquote(fragment)
                place = (tuple(steps(path)), follow(self.root, path))
            else:
                place = self._anchors().get(fragment, place)
        if not isinstance(place[1], dict | bool):
            raise ContractError(
                "unknown reference", found=reference, expected="a JSON Pointer or an anchor within the schema"
            )
        return place

    def _anchors(self) -> Mapping[str, Place]:
        if self._known_anchors is None:
            self._known_anchors = {}
            for name, place in _anchors_in((), self.root):
                if name in self._known_anchors:
                    raise ContractError("duplicate anchor", found=name, expected="a unique name")
                self._known_anchors[name] = place
        return self._known_anchors


class Trail:
    """Follows chains of references, each reference only once however many chains contain it.

    `target` resolves a reference. `onward` returns the reference of a subschema, or the subschema that stands
    for it, or None at the end of the chain.
    """

    def __init__(self, target: Callable[[str], Any], onward: Callable[[dict[str, Any]], Any]) -> None:
        self._target = target
        self._onward = onward
        self._ends: dict[str, Any] = {}

    def end(self, schema: Any) -> Any:
        """The end of the chain that begins at `schema`; None if it is circular."""
        passed: dict[str, None] = {}
        while isinstance(schema, dict) and (step := self._onward(schema)) is not None:
            if not isinstance(step, str):
                schema = step
            elif step in self._ends or step in passed:
                schema = self._ends.get(step)
                break
            else:
                passed[step] = None
                schema = self._target(step)
        self._ends |= dict.fromkeys(passed, schema)
        return schema


def _reference_or_only_part(schema: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return schema["$ref"]
    parts = schema.get("allOf", ())
    return parts[0] if len(parts) == 1 and "properties" not in schema else None


def _parts(schema: Mapping[str, Any]) -> Iterator[Place]:
    for keyword, held in schema.items():
        if keyword in BY_NAME and isinstance(held, dict):
            yield from (((keyword, name), part) for name, part in held.items())
        elif keyword in ONE_OR_MORE and isinstance(held, list):
            yield from (((keyword, index), part) for index, part in enumerate(held))
        elif keyword in ONE_OR_MORE:
            yield (keyword,), held


def types_in(schema: Mapping[str, Any], default: str | None = None) -> list[str]:
    """The types that a subschema names, else the default."""
    types = schema.get("type", [] if default is None else default)
    return [types] if isinstance(types, str) else list(types)


def values_in(schema: Mapping[str, Any]) -> list[Any] | None:
    """The only values that a subschema allows by `const` or `enum`; None if it has neither."""
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _anchors_in(path: Path, value: Any) -> Iterator[tuple[str, Place]]:
    if isinstance(value, dict):
        for key in _ANCHORS:
            if isinstance(value.get(key), str):
                yield value[key], (path, value)
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in pairs:
        yield from _anchors_in((*path, step), inner)
