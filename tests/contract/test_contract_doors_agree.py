"""One contract through four doors: a JSON Schema, a dataclass, a Pydantic model and the schema language.

With the same options they have one fingerprint, say the same of the same thousand answers, object by object
and issue by issue, and tell a model the same.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Interval, Len
from pydantic import BaseModel, Field

from trustgraph_prompt import Contract, Outcome, Reason, read

SCHEMA: Mapping[str, Any] = {
    "$defs": {
        "Source": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "page": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            },
            "required": ["title"],
        }
    },
    "type": "object",
    "properties": {
        "entity": {"type": "string", "minLength": 1, "description": "As the passage writes it."},
        "kind": {"enum": ["person", "place", "thing"]},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "sources": {"type": "array", "items": {"$ref": "#/$defs/Source"}},
        "value": {"type": ["integer", "string", "null"]},
        "active": {"type": "boolean"},
        "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        "names": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["entity", "kind", "score", "sources"],
}


@dataclass
class Source:
    title: str
    page: Annotated[int, Ge(1)] | None = None


@dataclass
class Finding:
    entity: Annotated[str, Len(1)] = field(metadata={"description": "As the passage writes it."})
    kind: Literal["person", "place", "thing"]
    score: Annotated[float, Interval(ge=0, le=1)]
    sources: list[Source]
    value: int | str | None = None
    active: bool = False
    since: date | None = None
    names: Annotated[list[str], Len(0, 3)] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class Models:
    """The same as Pydantic's."""

    class Source(BaseModel):
        title: str
        page: Annotated[int, Field(ge=1)] | None = None

    class Finding(BaseModel):
        entity: str = Field(min_length=1, description="As the passage writes it.")
        kind: Literal["person", "place", "thing"]
        score: float = Field(ge=0, le=1)
        sources: list[Models.Source]
        value: int | str | None = None
        active: bool = False
        since: date | None = None
        names: list[str] = Field(default=[], max_length=3)
        counts: dict[str, int] = {}


LANGUAGE = """
schema Source:
    title: string
    page: int? @min(1)

schema Finding:
    entity: string @length(1, any) "As the passage writes it."
    kind: "person" | "place" | "thing"
    score: float @min(0) @max(1)
    sources: Source[]
    value: int | string | null = null
    active: bool = false
    since: date?
    names: string[] @length(0, 3) = []
    counts: map[int] = {}
"""

OPTIONS: list[dict[str, Any]] = [
    {"extra": "ignore", "coerce": True},
    {"extra": "forbid"},
    {"extra": "forbid", "coerce": True, "repair": True, "fences": "strict"},
    {"extra": "ignore", "fences": "one"},
    {"extra": "forbid", "format": "jsonl"},
    {"extra": "ignore", "coerce": True, "repair": True, "format": "jsonl"},
]


def contracts(options: Mapping[str, Any]) -> dict[str, Contract]:
    """The one contract, through each door."""
    return {
        "schema": Contract.from_schema(SCHEMA, **options),
        "dataclass": Contract.of(Finding, **options),
        "model": Contract.of(Models.Finding, **options),
        "language": Contract.language(LANGUAGE, **options)["Finding"],
    }


class Answers:
    """What models answer, well and not so well; the same thousand in each run."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def answer(self) -> str:
        objects = [self._object() for _ in range(self._chance.choice([1, 1, 1, 2, 3]))]
        layout: Callable[[list[Any]], str] = self._chance.choice(
            [
                self._lines,
                self._pretty,
                self._array,
                self._fenced,
                self._wrapped,
                self._in_prose,
                self._thinking,
            ]
        )
        text = layout(objects)
        damage = self._chance.random()
        if damage < 0.12:
            return text[: self._chance.randrange(1, len(text))]
        if damage < 0.2:
            return text.replace('":', "':", 1)
        return text.replace("}", ",}", 1) if damage < 0.26 else text

    def _object(self) -> dict[str, Any]:
        made = {
            "entity": "Etna",
            "kind": self._chance.choice(["person", "place", "thing"]),
            "score": self._chance.choice([0, 0.5, 1]),
            "sources": [{"title": "Atlas", "page": self._chance.choice([1, None])}],
        }
        more = {"value": 3, "active": True, "since": "1971-04-05", "names": ["a"], "counts": {"a": 1}}
        made |= {name: value for name, value in more.items() if self._chance.random() < 0.4}
        if self._chance.random() < 0.55:
            self._spoil(made)
        return made

    def _spoil(self, made: dict[str, Any]) -> None:
        name = self._chance.choice([*made, *made, "value", "active", "since", "names", "counts", "other"])
        values = [
            "",
            "yes",
            "true",
            "12",
            "null",
            "0.5",
            12,
            0.5,
            2.0,
            -1,
            True,
            None,
            [],
            ["a"] * 4,
            {},
            "2026-02-30",
        ]
        if self._chance.random() < 0.2:
            made.pop(name, None)
        elif self._chance.random() < 0.2:
            made["sources"] = [{"title": "Atlas", "page": self._chance.choice([0, "7", "x"]), "other": 1}]
        else:
            made[name] = self._chance.choice(values)

    def _lines(self, objects: list[Any]) -> str:
        return "\n".join(map(json.dumps, objects))

    def _pretty(self, objects: list[Any]) -> str:
        return "\n".join(json.dumps(one, indent=2) for one in objects)

    def _array(self, objects: list[Any]) -> str:
        return json.dumps(objects)

    def _fenced(self, objects: list[Any]) -> str:
        return f"```json\n{self._lines(objects)}\n```"

    def _wrapped(self, objects: list[Any]) -> str:
        return json.dumps({"items": objects})

    def _in_prose(self, objects: list[Any]) -> str:
        return f"Here you are:\n\n{self._lines(objects)}\n\nThat is all."

    def _thinking(self, objects: list[Any]) -> str:
        return f"<think>{json.dumps(self._object())}</think>{self._lines(objects)}"


def verdict(outcome: Outcome) -> dict[str, Any]:
    """All that an outcome says but for whose it is."""
    return {
        "value": outcome.value,
        "reason": outcome.reason,
        "stage": outcome.stage,
        "truncated": outcome.truncated,
        "rejected": [
            (one.index, one.raw, one.start, sorted((issue.reason, issue.path) for issue in one.issues))
            for one in outcome.rejected
        ],
        "repaired": outcome.repaired,
    }


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_thousand_answers_get_the_same_verdict_through_every_door(options: dict[str, Any]) -> None:
    doors = contracts(options)
    answers, reasons = Answers(seed=7), Counter[Reason]()
    for _ in range(1_000):
        answer = answers.answer()
        said = {door: verdict(read(answer, contract)) for door, contract in doors.items()}
        for door in doors:
            assert said[door] == said["schema"], (door, answer)
        reasons[said["schema"]["reason"]] += 1
    assert reasons[Reason.SUCCESS] > 150
    assert len(reasons) >= 4  # a test of nothing but good answers would show little


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_doors_have_one_fingerprint(options: dict[str, Any]) -> None:
    doors = contracts(options)
    assert len({contract.fingerprint for contract in doors.values()}) == 1


@dataclass
class Person:
    kind: Literal["person"]
    born: int


@dataclass
class Place:
    kind: Literal["place"]
    country: str


@dataclass
class Mention:
    what: Person | Place
    where: Person | Place | None
    others: list[Person | Place]
    manner: Literal["by name", "by role"] | None = None


class MentionModels:
    """The same as Pydantic's."""

    class Person(BaseModel):
        kind: Literal["person"]
        born: int

    class Place(BaseModel):
        kind: Literal["place"]
        country: str

    class Mention(BaseModel):
        what: MentionModels.Person | MentionModels.Place = Field(discriminator="kind")
        where: Annotated[MentionModels.Person | MentionModels.Place, Field(discriminator="kind")] | None
        others: list[MentionModels.Person | MentionModels.Place]
        manner: Literal["by name", "by role"] | None = None


MENTION = """
schema Person:
    kind: "person"
    born: int

schema Place:
    kind: "place"
    country: string

schema Mention:
    what: Person | Place
    where: Person | Place | null
    others: (Person | Place)[]
    manner: ("by name" | "by role")?
"""


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_unions_discriminated_by_a_literal_have_one_fingerprint(options: dict[str, Any]) -> None:
    of_class, of_model = (Contract.of(kind, **options) for kind in (Mention, MentionModels.Mention))
    assert of_class == of_model == Contract.language(MENTION, **options)["Mention"]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_doors_give_a_model_the_same_instructions(options: dict[str, Any]) -> None:
    told = {contract.instructions() for contract in contracts(options).values()}
    assert len(told) == 1
