"""The clause `graph` of a prompt: which keys of its objects become which statements."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.object_keys import check_key, kinds_of
from trustgraph_prompt.contract.roles import Role
from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.graph.statements import Iri
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.json_text.values import is_one_of

_KEY: Final = {"type": "string", "minLength": 1}
_SCHEMES: Final = ("http://", "https://", "urn:")
_NAME_OR_IRI: Final = {
    **_KEY,
    # matches no IRI that is only a scheme, or has a character or an escape that no IRI may have
    "pattern": r'^(?!(https?://|urn:)($|.*([\x00-\x20<>"{}|\\^`\x7f-\x9f]|%(?![0-9A-Fa-f]{2}))))',
}

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "array",
    "minItems": 1,
    "description": "How the objects of the answer become statements of a graph. Each form that applies to an "
    "object makes statements of it.",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "description": "only one of `statement` and `entity`",
        "anyOf": [{"required": ["statement"]}, {"required": ["entity"]}],
        "not": {"required": ["entity", "statement"]},
        "properties": {
            "when": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {
                    "anyOf": [
                        {"type": ["string", "integer"], "description": "one value (a string or an integer)"},
                        {"type": "boolean", "description": "true or false"},
                    ]
                },
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
                        "key that says so: true, or absent, for an entity.",
                    },
                },
                "description": "The object of the answer is a statement.",
            },
            "entity": {
                "type": "object",
                "required": ["subject"],
                "additionalProperties": False,
                "properties": {
                    "subject": {**_KEY, "description": "The key with the name of the entity."},
                    "definition": {**_KEY, "description": "The key with its definition."},
                    "type": {**_KEY, "description": "The key with the name of its class."},
                    "class": {**_NAME_OR_IRI, "description": "The name of its class, or a valid IRI."},
                    "properties": {
                        "type": "object",
                        "minProperties": 1,
                        "additionalProperties": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {
                                "predicate": {**_NAME_OR_IRI, "description": "A name, or a valid IRI."},
                                "entity": {"type": "boolean"},
                            },
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

_USES: Final[Mapping[str, Mapping[str, str]]] = {
    "statement": dict.fromkeys(("subject", "predicate", "object"), "string") | {"entity": "boolean"},
    "entity": dict.fromkeys(("subject", "definition", "type"), "string"),
}
"""The uses of a key in each kind of form, with the type that its values need. A literal may have any."""

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
    """A key of an object whose values are the objects of statements about its entity.

    `predicate` is a name or an `Iri`.
    """

    key: str
    predicate: str
    entity: bool = False


@dataclass(frozen=True, slots=True)
class EntityForm:
    """Objects that describe an entity. `type` is the key with the name of its class.

    `class_` is a name or an `Iri`.
    """

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

        Raises `PromptError`, with the path in `data`, for a key that the contract does not declare, or whose
        type does not fit.
        """
        for index, form in enumerate(data):
            _check(form, contract, str(index))
        return cls(tuple(map(_form, data)))

    @property
    def names(self) -> Iterator[str]:
        """The keys with the names of things, those of relations in both of their ends."""
        for form in self.forms:
            yield form.subject
            if isinstance(form, EntityForm):
                yield from (each.key for each in form.properties if each.entity)
            elif form.entity is not False:
                yield form.object

    @property
    def roles(self) -> Iterator[Role]:
        """Which keys make the statements that the forms say: relations, and definitions of entities."""
        for form in self.forms:
            if isinstance(form, StatementForm):
                yield Role(form.subject, form.predicate, form.object, form.when)
            elif form.definition is not None:
                yield Role(form.subject, None, form.definition, form.when)


def example_for(contract: Contract) -> str:
    """A clause for the objects of a contract, as a line of a prompt file."""
    for kind in kinds_of(contract):
        names = [key for key in kind.properties if key in kind.required and kind.is_free_text(key)]
        if names:
            others = ", ".join(f"{json.dumps(key)}: {{}}" for key in kind.properties if key != names[0])
            says = f"properties: {{{others}}}" if others else 'class: "Thing"'
            return f"graph: [{{entity: {{subject: {json.dumps(names[0])}, {says}}}}}]"
    return 'graph: [{entity: {subject: "KEY OF THE NAME", definition: "ANOTHER KEY"}}]'


def _form(data: Mapping[str, Any]) -> Form:
    when = tuple(data.get("when", {}).items())
    if "statement" in data:
        return StatementForm(**data["statement"], when=when)
    entity = data["entity"]
    properties = tuple(
        Property(key, _name_or_iri(given.get("predicate", key)), given.get("entity", False))
        for key, given in entity.get("properties", {}).items()
    )
    class_ = _name_or_iri(entity["class"]) if "class" in entity else None
    return EntityForm(
        entity["subject"], entity.get("definition"), entity.get("type"), class_, properties, when
    )


def _name_or_iri(text: str) -> str:
    return Iri(text) if text.startswith(_SCHEMES) else text


def _check(form: Mapping[str, Any], contract: Contract, index: str) -> None:
    when = form.get("when", {})
    kind = "statement" if "statement" in form else "entity"
    everywhere = list(kinds_of(contract))
    for key in when:
        check_key(key, None, everywhere, (index, "when", key))
    kinds = [kind for kind in everywhere if _applies(kind.properties, when)]
    if when and not kinds:
        raise PromptError(
            "no object of the schema has these values",
            path=pointer((index, "when")),
            found=when,
            expected="values that the schema allows together",
        )
    named = form[kind]
    for key, needed, path in _keys(kind, named):
        check_key(key, needed, kinds, (index, *path), in_list=path[1] in ("type", "properties"))
    if named.keys() == {"subject"}:
        raise PromptError(
            "the form says nothing about its entity",
            path=pointer((index, kind)),
            found=named,
            expected="`subject` and at least one of `definition`, `type`, `class` and `properties`",
        )


def _keys(kind: str, named: Mapping[str, Any]) -> Iterator[tuple[str, str | None, tuple[str, ...]]]:
    """The keys that a form names, with the type that their values need, if any, and their paths."""
    for use, needed in _USES[kind].items():
        if isinstance(key := named.get(use), str):
            yield key, needed if use != "object" or named.get("entity") else None, (kind, use)
    for key, given in named.get("properties", {}).items():
        yield key, "string" if given.get("entity") else None, (kind, "properties", key)


def _applies(properties: Mapping[str, Any], when: Mapping[str, Scalar]) -> bool:
    """Whether an object with these properties can have the values `when`."""
    return all(key in properties and _allows(properties[key], value) for key, value in when.items())


def _allows(schema: Any, value: Scalar) -> bool:
    if not isinstance(schema, dict):
        return schema is not False
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    return choices is None or is_one_of(value, choices)
