"""The clause `graph` of a prompt: which keys of its objects become which statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.alternatives import branches_of
from trustgraph_prompt.contract.coerce_scalars import is_one_of
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.errors import PromptError, suggestion
from trustgraph_prompt.json_text.pointer import pointer

_KEY: Final = {"type": "string", "minLength": 1}

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "array",
    "minItems": 1,
    "description": "How the objects of the answer become statements of a graph. Each form that applies to an "
    "object makes statements of it.",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "oneOf": [{"required": ["statement"]}, {"required": ["entity"]}],
        "properties": {
            "when": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"type": ["string", "integer", "boolean"]},
                "description": "The values of the objects to which the form applies, by key.",
            },
            "statement": {
                "type": "object",
                "required": ["subject", "predicate", "object"],
                "additionalProperties": False,
                "properties": {
                    "subject": {**_KEY, "description": "The key with the name of the subject."},
                    "predicate": {**_KEY, "description": "The key with the name of the predicate."},
                    "object": {**_KEY, "description": "The key with the object."},
                    "entity": {
                        "type": ["boolean", "string"],
                        "default": False,
                        "description": "Whether the object is an entity instead of a literal, or the "
                        "key that says so.",
                    },
                },
                "description": "The object of the answer is a statement.",
            },
            "entity": {
                "type": "object",
                "required": ["subject"],
                "minProperties": 2,
                "additionalProperties": False,
                "properties": {
                    "subject": {**_KEY, "description": "The key with the name of the entity."},
                    "definition": {**_KEY, "description": "The key with its definition."},
                    "type": {**_KEY, "description": "The key with the name of its class."},
                    "class": {**_KEY, "description": "The name of its class."},
                    "properties": {
                        "type": "object",
                        "minProperties": 1,
                        "additionalProperties": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {"predicate": _KEY, "entity": {"type": "boolean"}},
                        },
                        "description": "By key, the `predicate` of its value or of each value of its list "
                        "(by default the key), and whether these are an `entity` each (by default no).",
                    },
                },
                "description": "The object of the answer describes an entity.",
            },
        },
    },
}
"""The format of the clause."""

_KEYS_OF: Final = {
    "statement": ("subject", "predicate", "object", "entity"),
    "entity": ("subject", "definition", "type"),
}

Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class StatementForm:
    """Objects that are statements. `entity` is whether their object is an entity, or the key that says so."""

    subject: str
    predicate: str
    object: str
    entity: str | bool = False
    when: tuple[tuple[str, Scalar], ...] = ()


@dataclass(frozen=True, slots=True)
class Property:
    """A key of an object whose values are the objects of statements about its entity."""

    key: str
    predicate: str
    entity: bool = False


@dataclass(frozen=True, slots=True)
class EntityForm:
    """Objects that describe an entity. `type` is the key with the name of its class, `class_` is a name."""

    subject: str
    definition: str | None = None
    type: str | None = None
    class_: str | None = None
    properties: tuple[Property, ...] = ()
    when: tuple[tuple[str, Scalar], ...] = ()


Form = StatementForm | EntityForm


@dataclass(frozen=True, slots=True)
class GraphClause:
    """How the objects of a prompt become statements; every form that applies to an object does."""

    forms: tuple[Form, ...]

    @classmethod
    def of(cls, data: Sequence[Mapping[str, Any]], contract: Contract) -> GraphClause:
        """Compile the clause from data that meets `SCHEMA`.

        Raises `PromptError`, with the path in `data`, for a key that the contract does not declare.
        """
        for index, form in enumerate(data):
            _check(form, contract, str(index))
        return cls(tuple(map(_form, data)))


def _form(data: Mapping[str, Any]) -> Form:
    when = tuple(data.get("when", {}).items())
    if "statement" in data:
        return StatementForm(**data["statement"], when=when)
    entity = data["entity"]
    properties = tuple(
        Property(key, given.get("predicate", key), given.get("entity", False))
        for key, given in entity.get("properties", {}).items()
    )
    return EntityForm(
        entity["subject"], entity.get("definition"), entity.get("type"), entity.get("class"), properties, when
    )


def _check(form: Mapping[str, Any], contract: Contract, index: str) -> None:
    when = form.get("when", {})
    kind = "statement" if "statement" in form else "entity"
    everywhere = {key for part in _parts(contract) for key in part}
    _check_keys({key: ("when", key) for key in when}, everywhere, index)
    parts = [part for part in _parts(contract) if _applies(part, when)]
    if when and not parts:
        raise PromptError(
            "no object of the schema has these values",
            path=pointer((index, "when")),
            found=when,
            expected="values that the schema allows together",
        )
    named = form[kind]
    keys = {named[role]: (kind, role) for role in _KEYS_OF[kind] if isinstance(named.get(role), str)} | {
        key: (kind, "properties", key) for key in named.get("properties", {})
    }
    _check_keys(keys, {key for part in parts for key in part}, index)


def _check_keys(keys: Mapping[str, Sequence[str]], declared: set[str], index: str) -> None:
    for key, path in keys.items():
        if key not in declared:
            raise PromptError(
                f"the schema does not declare this key{suggestion(key, declared)}",
                path=pointer((index, *path)),
                found=key,
                expected="one of " + ", ".join(sorted(declared)) if declared else "a schema with keys",
            )


def _parts(contract: Contract) -> Iterator[Mapping[str, Any]]:
    """The properties of each kind of object that the contract accepts, by name."""
    for schema in (contract.schema, *(contract.versions or {}).values()):
        if isinstance(schema, dict):
            references = References(schema)
            common = (references.followed(schema) or {}).get("properties", {})
            branches = branches_of(schema, references)
            yield from ({**common, **branch.get("properties", {})} for branch in branches or [{}])


def _applies(properties: Mapping[str, Any], when: Mapping[str, Scalar]) -> bool:
    """Whether an object with these properties can have the values `when`."""
    return all(key in properties and _allows(properties[key], value) for key, value in when.items())


def _allows(schema: Any, value: Scalar) -> bool:
    if not isinstance(schema, dict):
        return schema is not False
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    return choices is None or is_one_of(value, choices)
