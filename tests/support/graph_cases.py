"""Chunks, what a model says about them to each extractor's prompt, and the prompts as TrustGraph has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple


def _entry(prompt: str, schema: Mapping[str, Any] | None, key: str) -> dict[str, Any]:
    checked = {} if schema is None else {key: schema}
    return {"prompt": f"{prompt}:\n\n{{{{ text }}}}", "response-type": "jsonl", **checked}


def _schema(**types: str) -> dict[str, Any]:
    properties = {name.replace("_", "-"): {"type": type} for name, type in types.items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


DEFINITION: Final = _schema(entity="string", definition="string")
RELATIONSHIP: Final = _schema(subject="string", predicate="string", object="string", object_entity="boolean")
_TABLE: Final = {
    "name": "volcanoes",
    "description": "Volcanoes.",
    "fields": [
        {"name": "name", "type": "string", "primary_key": True},
        {"name": "height", "type": "integer"},
        {"name": "active", "type": "boolean"},
        {"name": "country", "type": "string", "required": True},
    ],
}
TABLES: Final = {"volcanoes": json.dumps(_TABLE)}


@dataclass(frozen=True)
class Job:
    """What an extractor has to do in a workspace; each job is a flow with topics of its own."""

    extractor: str
    prompt: str
    workspace: str = "default"
    outputs: tuple[str, ...] = ("triples",)

    @property
    def name(self) -> str:
        return f"{self.extractor.removeprefix('kg-extract-')}-{self.workspace}"

    def topic(self, space: str, spec: str) -> str:
        """Where its chunks come from (`input`), or where an output goes."""
        return f"flow:{space}:{spec}:{self.name}"


_BOTH: Final = ("triples", "entity-contexts")
JOBS: Final = (
    Job("kg-extract-definitions", "extract-definitions", "default", _BOTH),
    Job("kg-extract-definitions", "extract-definitions", "checked", _BOTH),
    Job("kg-extract-relationships", "extract-relationships"),
    Job("kg-extract-relationships", "extract-relationships", "checked"),
    Job("kg-extract-agent", "agent-kg-extract", "default", _BOTH),
    Job("kg-extract-rows", "extract-rows", "default", ("output",)),
)

#: By workspace. TrustGraph's own entries have the schema under a key that its service does not read.
ENTRIES: Final = {
    workspace: {
        "extract-definitions": _entry("Definitions", DEFINITION, key),
        "extract-relationships": _entry("Relationships", RELATIONSHIP, key),
        "agent-kg-extract": _entry("Both", None, key),
        "extract-rows": _entry("Rows", None, key),
    }
    for workspace, key in (("default", "object-schema"), ("checked", "schema"))
}


@dataclass(frozen=True)
class Case:
    """A chunk for an extractor and the answer of the model; asked once more, the model says the `rest`.

    Our graph of it is TrustGraph's of the case `like`, where the model said the same in a clean answer, or of
    `like_once`, where the prompt does not allow another attempt: TrustGraph's prompts do not. In the
    workspace `default` TrustGraph checks nothing: what is `against_the_schema` stands in its graph.
    """

    name: str
    extractor: str
    answer: str
    like: str
    like_once: str
    rest: str | None = None
    against_the_schema: bool = False

    @property
    def id(self) -> str:
        return f"urn:chunk:{self.name}"

    @property
    def text(self) -> str:
        """The passage: all that the answer names stands in it."""
        return f"{TEXT} {self.answer} {self.mark}"

    @property
    def mark(self) -> str:
        """By which the answer is found."""
        return f"({self.name})"


def lines(*objects: object) -> str:
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in objects)


ETNA: Final = {"entity": "Monte Etna", "definition": "A volcano in Sicily."}
STROMBOLI: Final = {"entity": "Stromboli", "definition": "An island with a volcano."}
SICILY: Final = {"subject": "Monte Etna", "predicate": "lies in", "object": "Sicily", "object-entity": True}
HEIGHT: Final = {
    "subject": "Monte Etna",
    "predicate": "has height",
    "object": "3403 m",
    "object-entity": False,
}
TEXT: Final = (
    "Monte Etna, a volcano in Sicily, lies in Sicily, has height 3403 m. "
    "Stromboli is an island with a volcano."
)


class _Shape(NamedTuple):
    """An answer to any prompt that says two objects: `{0}` and `{1}`, `{2}` is the first in other words."""

    answer: str
    like: str = "clean"
    like_once: str = ""
    rest: str | None = None


_SHAPES: Final = {
    "clean": _Shape("{0}\n{1}\n"),
    "first": _Shape("{0}\n", "first"),
    "second": _Shape("{1}\n", "second"),
    "crlf": _Shape("{0}\r\n{1}\r\n"),
    "fenced": _Shape("Here they are:\n\n```json\n{0}\n{1}\n```\nI hope this helps."),
    "fenced-jsonl": _Shape("```jsonl\n{0}\n{1}\n```"),
    "thought": _Shape("<think>Etna and so on.</think>\n{0}\n{1}"),
    "repeated": _Shape("{0}\n{1}\n{0}\n{0}\n"),
    "cut": _Shape("{0}\n{1:.40}", rest="{1}\n"),
    "cut-for-good": _Shape("{0}\n{1:.40}", "first"),
    "cut-in-the-first": _Shape("{0:.40}", like_once="nothing", rest="{0}\n{1}\n"),
    "broken": _Shape("{0:.30}\n{1}\n", like_once="second", rest="{0}\n"),
    "broken-for-good": _Shape("{0:.30}\n{1}\n", "second"),
    "commas": _Shape("{0},\n{1},\n"),
    "array": _Shape("[{0}, {1}]"),
    "array-over-lines": _Shape("[\n{0},\n{1}\n]"),
    "object-over-lines": _Shape("{2}\n{1}\n"),
    "silence": _Shape("", "nothing"),
    "nothing": _Shape("[]", "nothing"),
    "prose": _Shape("There is nothing in this passage.", "nothing"),
}


def _in_shapes(extractor: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Case]:
    written = lines(first), lines(second), json.dumps(first, indent=2)
    for name, (answer, like, like_once, rest) in _SHAPES.items():
        then = rest if rest is None else rest.format(*written)
        yield Case(name, extractor, answer.format(*written), like, like_once or like, then)


def _of(
    extractor: str, *, like: str = "", against_the_schema: bool = False, **answers: str
) -> Iterator[Case]:
    for key, answer in answers.items():
        name = key.replace("_", "-")
        alike = like or name
        yield Case(name, extractor, answer, alike, alike, against_the_schema=against_the_schema)


def _definition(entity: object, definition: object = "Something.") -> dict[str, object]:
    return {"entity": entity, "definition": definition}


def _relationship(
    subject: object, predicate: object, object: object, entity: object = True
) -> dict[str, Any]:
    return {"subject": subject, "predicate": predicate, "object": object, "object-entity": entity}


_DEFINITIONS: Final = "kg-extract-definitions"
_RELATIONSHIPS: Final = "kg-extract-relationships"
_AGENT: Final = "kg-extract-agent"
_ROWS: Final = "kg-extract-rows"

CASES: Final = (
    *_in_shapes(_DEFINITIONS, ETNA, STROMBOLI),
    *_of(
        _DEFINITIONS,
        unicode=lines(
            _definition("Ätna/Süd & Ost?"),
            _definition("İstanbul"),
            _definition("火山"),
            _definition("ΣΑΣ"),
            _definition("e\u0301tna"),
            _definition("\U0001f30b"),
            _definition("a\u2028b"),
            _definition("~_.-%"),
        ),
        spaces=lines(_definition(" Monte  Etna "), _definition("Monte\tEtna", " A volcano. ")),
        more_keys=lines({**ETNA, "page": 5}),
        two_definitions=lines(ETNA, {**ETNA, "definition": "A mountain."}),
        two_names_of_one=lines(ETNA, {**ETNA, "entity": "monte etna"}),
        many=lines(*(_definition(f"Entity {n}") for n in range(60))),
    ),
    *_of(
        _DEFINITIONS,
        like="first",
        empty_names=lines(_definition(""), _definition("Etna", ""), ETNA),
        nulls=lines(_definition(None), _definition("Etna", None), ETNA),
        a_key_is_missing=lines({"entity": "Etna"}, ETNA),
        a_number_as_name=lines(_definition(3403), ETNA),
        no_object=lines(5, ETNA),
    ),
    *_of(_DEFINITIONS, like="first", against_the_schema=True, number=lines(_definition("Etna", 3403), ETNA)),
    *_in_shapes(_RELATIONSHIPS, SICILY, HEIGHT),
    *_of(
        _RELATIONSHIPS,
        unicode=lines(
            _relationship("Ätna/Süd", "liegt in", "火山"), _relationship("İstanbul", "ΣΑΣ", "Ünï", False)
        ),
        many=lines(*(_relationship(f"s {n}", "p", f"o {n}") for n in range(30))),
    ),
    *_of(
        _RELATIONSHIPS,
        like="first",
        empty_names=lines(
            *(_relationship(*names) for names in (("", "p", "o"), ("s", "", "o"), ("s", "p", ""))), SICILY
        ),
        nulls=lines(_relationship(None, "p", "o"), _relationship("s", "p", None), SICILY),
    ),
    *_of(
        _RELATIONSHIPS,
        like="second",
        no_kind=lines({key: SICILY[key] for key in ("subject", "predicate", "object")}, HEIGHT),
        a_key_is_missing=lines({"subject": "Etna", "object-entity": True}, HEIGHT),
        a_number_as_entity=lines(_relationship("Etna", "has height", 3403), HEIGHT),
    ),
    *_of(
        _RELATIONSHIPS,
        like="second",
        against_the_schema=True,
        null_kind=lines(_relationship("s", "p", "o", None), HEIGHT),
        kind_as_text=lines(_relationship("s", "p", "o", "false"), HEIGHT),
        number=lines(_relationship("Etna", "has height", 3403, False), HEIGHT),
        truth=lines(_relationship("Etna", "is active", True, False), HEIGHT),
    ),
    *_in_shapes(_AGENT, {"type": "definition", **ETNA}, {"type": "relationship", **SICILY}),
    *_of(
        _AGENT,
        no_kind=lines({"type": "relationship", "subject": "a B", "predicate": "p q", "object": "Ü"}),
        literal=lines({"type": "relationship", **HEIGHT}),
        unknown_type=lines({"type": "other", **ETNA}, {"type": "relationship", **SICILY}),
        many=lines(*({"type": "definition", **_definition(f"Entity {n}")} for n in range(60))),
    ),
    *_in_shapes(
        _ROWS,
        {"name": "Etna", "height": 3403, "active": True, "country": "Italy"},
        {"name": "Stromboli", "country": "Italy"},
    ),
    *_of(
        _ROWS,
        declared=lines({"name": "a", "country": "x"}),
        height_as_text=lines({"name": "a", "height": "3403", "country": "x"}),
        no_height=lines({"name": "a", "height": None, "country": "x"}),
    ),
    *_of(
        _ROWS,
        like="declared",
        missing=lines({"name": "a"}, {"country": "x"}, {"name": "a", "country": "x"}),
        wrong_type=lines({"name": "b", "height": "high", "country": "x"}, {"name": "a", "country": "x"}),
        no_key=lines({"name": None, "country": "x"}, {"name": "a", "country": "x"}),
    ),
    *_of(
        _ROWS,
        like="declared",
        against_the_schema=True,
        no_integer=lines({"name": "b", "height": 3.5, "country": "x"}, {"name": "a", "country": "x"}),
        no_boolean=lines({"name": "b", "active": "yes", "country": "x"}, {"name": "a", "country": "x"}),
        null_country=lines({"name": "b", "country": None}, {"name": "a", "country": "x"}),
        more_keys=lines({"name": "a", "country": "x", "rocks": ["basalt"], "more": {"b": 1}}),
    ),
)


def cases_of(job: Job) -> list[Case]:
    """Its chunks in their order; something comes of the last on every topic."""
    found = [case for case in CASES if case.extractor == job.extractor]
    [first] = [case for case in found if case.name == "first"]
    return [*found, replace(first, name="last")]
