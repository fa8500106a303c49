"""Contracts that say the same have one fingerprint, however they are written; those that do not have two."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from trustgraph_prompt import Contract
from trustgraph_prompt.contract import Wording
from trustgraph_prompt.errors import ContractError

OPTIONS = list(itertools.product(["ignore", "forbid"], [False, True]))
SCHEMA_ONLY = Wording(one="{schema}", many="{schema}", lines="{schema}")


@dataclass
class Source:
    title: str
    page: int | None = None


@dataclass
class Finding:
    kind: Literal["bug", "smell"]
    score: float = field(metadata={"description": "From 0 to 1."})
    sources: list[Source]
    value: str | int = 0
    counts: dict[str, int] = field(default_factory=dict)
    causes: list[Finding] = field(default_factory=list)


class SourceModel(BaseModel):
    title: str
    page: int | None = None


class FindingModel(BaseModel):
    kind: Literal["bug", "smell"]
    score: float = Field(description="From 0 to 1.")
    sources: list[SourceModel]
    value: str | int = 0
    counts: dict[str, int] = {}
    causes: list[FindingModel] = []


SCHEMA: dict[str, Any] = {
    "$defs": {
        "source": {
            "type": "object",
            "properties": {"title": {"type": "string"}, "page": {"type": ["integer", "null"]}},
            "required": ["title"],
        }
    },
    "type": "object",
    "required": ["sources", "score", "kind"],
    "properties": {
        "score": {"type": "number"},
        "kind": {"type": "string", "enum": ["smell", "bug"]},
        "sources": {"type": "array", "items": {"$ref": "#/$defs/source"}},
        "value": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "causes": {"type": "array", "items": {"$ref": "#"}},
    },
}


@pytest.mark.parametrize(("extra", "coerce"), OPTIONS)
def test_a_schema_a_dataclass_and_a_model_that_say_the_same_have_one_fingerprint(
    extra: Any, coerce: bool
) -> None:
    contracts = (
        Contract.from_schema(SCHEMA, extra=extra, coerce=coerce),
        Contract.of(Finding, extra=extra, coerce=coerce),
        Contract.of(FindingModel, extra=extra, coerce=coerce),
    )
    assert len({contract.fingerprint for contract in contracts}) == 1
    assert contracts[0] == contracts[1] == contracts[2]


KIND_A, KIND_B = (
    {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]} for kind in "ab"
)

SAME = [
    ({"const": 1}, {"enum": [1]}),
    ({"enum": ["a", "b"]}, {"type": "string", "enum": ["b", "a", "b"]}),
    ({"type": ["null", "string"]}, {"anyOf": [{"type": "string"}, {"type": "null", "title": "none"}]}),
    ({"type": ["string", "null"]}, {"oneOf": [{"type": "string"}, {"type": "null"}]}),
    ({"anyOf": [{"minimum": 1}, {"pattern": "a"}]}, {"anyOf": [{"pattern": "a"}, {"minimum": 1}]}),
    ({"properties": {"a": {}, "b": {}}}, {"properties": {"b": {}, "a": {}}, "required": []}),
    ({"additionalProperties": True}, {}),
    ({"minLength": 0, "minItems": 0, "uniqueItems": False, "maxItems": 3}, {"maxItems": 3}),
    ({"allOf": [{"minimum": 1}]}, {"minimum": 1, "description": "at least one"}),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"minimum": 1}}}, {"minimum": 1}),
    ({"oneOf": [KIND_A, KIND_B]}, {"anyOf": [KIND_B, KIND_A]}),
    (
        {"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
        {"items": {"$ref": "#"}},
    ),
]

DIFFERENT = [
    ({"const": 1}, {"const": 2}),
    ({"const": 1}, {"const": True}),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}),
    ({"type": "integer", "enum": [1, "a"]}, {"enum": [1, "a"]}),
    ({"properties": {"title": {"type": "string"}}}, {"properties": {"title": {}}}),
    ({"properties": {"a": {}}}, {"properties": {"b": {}}}),
    ({"properties": {"a": {}}}, {}),
    ({"required": ["a"]}, {}),
    ({"oneOf": [{"minimum": 1}, {"maximum": 2}]}, {"anyOf": [{"minimum": 1}, {"maximum": 2}]}),
    (
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        {"anyOf": [{"type": "integer"}, {"type": "number"}]},
    ),
    ({"oneOf": [True, True]}, {"anyOf": [True, True]}),
    ({"prefixItems": [{"minimum": 1}, {}]}, {"prefixItems": [{}, {"minimum": 1}]}),
    ({"items": False}, {}),
    ({"items": {"items": {"$ref": "#"}}}, {"items": {"items": {"items": False}}}),
    ({"if": {"minimum": 1}, "then": False}, {"if": {"minimum": 1}, "else": False}),
    ({"additionalProperties": False}, {}),
]


@pytest.mark.parametrize(("extra", "coerce"), OPTIONS)
@pytest.mark.parametrize(("one", "other"), SAME, ids=map(str, SAME))
def test_one_thing_said_in_two_ways(one: Any, other: Any, extra: Any, coerce: bool) -> None:
    first, second = (Contract.from_schema(schema, extra=extra, coerce=coerce) for schema in (one, other))
    assert first.fingerprint == second.fingerprint


@pytest.mark.parametrize(("extra", "coerce"), [*OPTIONS, (None, False)])
@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=map(str, DIFFERENT))
def test_two_things(one: Any, other: Any, extra: Any, coerce: bool) -> None:
    first, second = (Contract.from_schema(schema, extra=extra, coerce=coerce) for schema in (one, other))
    assert first.fingerprint != second.fingerprint


def test_what_becomes_of_other_keys_counts_where_no_option_says_it() -> None:
    closed = {"properties": {"a": {}}, "additionalProperties": False}
    opened: dict[str, Any] = {"properties": {"a": {}}}
    assert Contract.from_schema(closed) != Contract.from_schema(opened)
    assert Contract.from_schema(closed, extra="ignore") == Contract.from_schema(opened, extra="ignore")


def test_each_option_is_in_the_fingerprint() -> None:
    options: list[dict[str, Any]] = [
        {},
        {"extra": "ignore"},
        {"extra": "forbid"},
        {"coerce": True},
        {"repair": True},
        {"many": True},
        {"format": "jsonl"},
        {"fences": "one"},
        {"fences": "strict"},
        {"invariants": ["score > 0"]},
        {"versions": {"1.0": SCHEMA}},
    ]
    assert len({Contract.from_schema(SCHEMA, **each).fingerprint for each in options}) == len(options)


NAMES = st.sampled_from(["a", "b", "title"])
TEXTS_AND_FLOATS = st.sampled_from([0.5, 1.0, "1", "a", "null"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.5, 1.0, "1", "a", "null"])
)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=2) | st.dictionaries(NAMES, v, max_size=3), max_leaves=6
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
LEAVES = st.one_of(
    st.booleans(),
    st.fixed_dictionaries({"type": TYPES}, optional={"title": st.just("t"), "minimum": st.just(1)}),
    st.fixed_dictionaries({"type": st.lists(TYPES, min_size=1, max_size=3, unique=True)}),
    st.fixed_dictionaries(
        {"enum": st.lists(SCALARS, min_size=1, max_size=3, unique_by=json.dumps)}, optional={"type": TYPES}
    ),
    st.fixed_dictionaries({"const": SCALARS}, optional={"description": st.just("d")}),
    st.just({"$ref": "#/$defs/x"}),
)


def objects(inner: Any) -> Any:
    several = st.lists(inner, min_size=1, max_size=3)
    kinds = st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(NAMES, inner)})
    more = {
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner,
        "items": inner,
        "anyOf": several,
        "oneOf": several,
        "allOf": several,
    }
    picked = st.fixed_dictionaries({}, optional=more)
    return st.builds(lambda kind, rest: {**kind, **rest}, kinds, picked) | picked


SUBSCHEMAS = st.recursive(LEAVES, objects, max_leaves=8)
SCHEMAS = st.builds(lambda one, x: {"allOf": [one], "$defs": {"x": x}}, SUBSCHEMAS, SUBSCHEMAS)


@given(
    schema=SCHEMAS,
    values=st.lists(VALUES, min_size=1, max_size=8),
    extra=st.sampled_from([None, "ignore", "forbid"]),
    coerce=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_a_schema_as_it_is_shown_judges_like_the_one_that_was_written(
    schema: Any, values: list[Any], extra: Any, coerce: bool
) -> None:
    try:
        written = Contract.from_schema(schema, extra=extra, coerce=coerce)
    except ContractError:  # a reference that leads back to itself
        reject()
    told = json.loads(written.instructions(SCHEMA_ONLY))
    read_back = Contract.from_schema(told, extra=extra, coerce=coerce)
    assert read_back.fingerprint == written.fingerprint
    for value in values:
        assert read_back.take(value) == written.take(value)


def test_schemas_that_refer_to_themselves_in_very_many_ways_take_no_time() -> None:
    def tangle(size: int) -> dict[str, Any]:
        every = {f"p{name}": {"$ref": f"#/$defs/d{name}"} for name in range(size)}
        return {"$ref": "#/$defs/d0", "$defs": {f"d{name}": {"properties": every} for name in range(size)}}

    def chain(size: int) -> dict[str, Any]:
        follow = {f"d{name}": {"items": {"$ref": f"#/$defs/d{name + 1}"}} for name in range(size)}
        return {"$ref": "#/$defs/d0", "$defs": {**follow, f"d{size}": {"items": {"$ref": "#"}}}}

    begun = time.process_time()
    for schema in (tangle(60), chain(2_000)):
        assert Contract.from_schema(schema).fingerprint == Contract.from_schema(schema).fingerprint
    assert time.process_time() - begun < 20


def test_instructions_show_what_a_model_needs_and_no_more() -> None:
    told = Contract.of(Finding, extra="ignore").instructions(SCHEMA_ONLY)
    assert list(json.loads(told)["properties"]) == ["kind", "score", "sources", "value", "counts", "causes"]
    assert json.loads(told)["properties"]["kind"] == {"enum": ["bug", "smell"]}
    assert json.loads(told)["properties"]["score"] == {"description": "From 0 to 1.", "type": "number"}
    assert "title" not in json.loads(told)
    assert "additionalProperties" not in json.loads(told)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Answer with one JSON value"),
        ({"many": True}, "Answer with a JSON array"),
        ({"format": "jsonl"}, "each on one line of its own"),
    ],
)
def test_instructions_say_how_the_answer_is_laid_out(options: Any, words: str) -> None:
    told = Contract.from_schema(SCHEMA, **options).instructions()
    assert words in told
    assert '"sources"' in told


def test_a_text_answer_needs_no_instructions() -> None:
    assert Contract.from_schema(None, format="text").instructions() == ""


def test_of_several_versions_the_newest_is_asked_for() -> None:
    versions: Any = {"1.0": {"required": ["old"]}, "2.0": {"required": ["new"]}}
    told = Contract.from_schema(None, versions=versions).instructions()
    assert "new" in told
    assert "old" not in told
