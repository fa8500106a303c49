"""Contracts that say the same have one fingerprint, however they are written; those that do not have two."""

from __future__ import annotations

import copy
import itertools
import json
import random
from dataclasses import dataclass, field
from math import isqrt
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from tests.support.steps import is_linear
from trustgraph_prompt import Contract
from trustgraph_prompt.contract import Limits, Wording
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
def test_schema_dataclass_and_model_that_say_the_same_have_one_fingerprint(extra: Any, coerce: bool) -> None:
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
    (
        {"anyOf": [{"type": "array"}, {"type": "string", "pattern": "a"}]},
        {"anyOf": [{"type": "string", "pattern": "a"}, {"type": "array"}]},
    ),
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

KIND_1, KIND_1_0 = (
    {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]} for kind in (1, 1.0)
)
TEXT_OR_MUCH = {"anyOf": [{"anyOf": [{"type": "string"}, {"minimum": 7}]}, {"maximum": 3}]}
SECOND = {"properties": {"x": {"$ref": "#/anyOf/1"}}}

DIFFERENT = [
    ({"oneOf": [KIND_1, KIND_1_0]}, {"anyOf": [KIND_1, KIND_1_0]}),
    (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b", "minimum": 5}, "b": {"maximum": 9}}},
        {"maximum": 9},
    ),
    (
        {"items": {"$dynamicRef": "#n"}, "$defs": {"a": {"$dynamicAnchor": "n", "minimum": 1}}},
        {"items": {"$dynamicRef": "#n"}, "$defs": {"a": {"$dynamicAnchor": "n", "minimum": 2}}},
    ),
    (
        {"properties": {"a": {}}, "additionalProperties": True, "unevaluatedProperties": False},
        {"properties": {"a": {}}, "unevaluatedProperties": False},
    ),
    ({"items": True, "unevaluatedItems": False}, {"unevaluatedItems": False}),
    (
        {**TEXT_OR_MUCH, **SECOND},
        {"anyOf": [{"type": "string"}, {"minimum": 7}, {"maximum": 3}], **SECOND},
    ),
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
def test_equivalent_schemas_have_one_fingerprint(one: Any, other: Any, extra: Any, coerce: bool) -> None:
    first, second = (Contract.from_schema(schema, extra=extra, coerce=coerce) for schema in (one, other))
    assert first.fingerprint == second.fingerprint


@pytest.mark.parametrize(("extra", "coerce"), [*OPTIONS, (None, False)])
@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=map(str, DIFFERENT))
def test_different_schemas_have_two_fingerprints(one: Any, other: Any, extra: Any, coerce: bool) -> None:
    first, second = (Contract.from_schema(schema, extra=extra, coerce=coerce) for schema in (one, other))
    assert first.fingerprint != second.fingerprint


def test_closed_and_open_object_differ_only_without_the_extra_option() -> None:
    closed = {"properties": {"a": {}}, "additionalProperties": False}
    opened: dict[str, Any] = {"properties": {"a": {}}}
    assert Contract.from_schema(closed) != Contract.from_schema(opened)
    assert Contract.from_schema(closed, extra="ignore") == Contract.from_schema(opened, extra="ignore")


A_CLOSED, B_CLOSED = ({"properties": {name: {}}, "additionalProperties": False} for name in "ab")
A_OPEN: dict[str, Any]
B_OPEN: dict[str, Any]
A_OPEN, B_OPEN = ({"properties": {name: {}}} for name in "ab")


@pytest.mark.parametrize("extra", ["ignore", "forbid"])
@pytest.mark.parametrize(
    ("closed", "opened"),
    [
        ({"allOf": [A_CLOSED, B_OPEN]}, {"allOf": [A_OPEN, B_OPEN]}),
        ({"oneOf": [A_CLOSED, B_CLOSED]}, {"oneOf": [A_OPEN, B_OPEN]}),
        ({"anyOf": [A_CLOSED, B_CLOSED]}, {"anyOf": [A_OPEN, B_OPEN]}),
        ({"anyOf": [A_CLOSED, B_CLOSED]}, {"anyOf": [B_CLOSED, A_CLOSED]}),
        ({**A_CLOSED, "required": ["b"]}, {**A_OPEN, "required": ["b"]}),
        ({"not": A_CLOSED}, {"not": A_OPEN}),
        ({"additionalProperties": False}, {"additionalProperties": {"allOf": [False]}}),
        (
            {"additionalProperties": False},
            {"additionalProperties": {"$ref": "#/$defs/a"}, "$defs": {"a": False}},
        ),
        ({"contains": A_CLOSED}, {"contains": A_OPEN}),
        (
            {"$ref": "#/$defs/a", **B_OPEN, "$defs": {"a": A_CLOSED}},
            {"$ref": "#/$defs/a", **B_OPEN, "$defs": {"a": A_OPEN}},
        ),
    ],
    ids=str,
)
def test_closed_object_differs_from_an_open_one_beside_other_subschemas(
    closed: Any, opened: Any, extra: Any
) -> None:
    assert Contract.from_schema(closed, extra=extra) != Contract.from_schema(opened, extra=extra)


@pytest.mark.parametrize("extra", ["ignore", "forbid"])
def test_closed_branches_do_not_differ_beside_null_or_a_discriminator(extra: Any) -> None:
    closed: list[Any] = [{**kind, "additionalProperties": False} for kind in (KIND_A, KIND_B)]
    null: Any = {"type": "null"}
    for some, others in (([A_CLOSED, null], [A_OPEN, null]), ([*closed, null], [KIND_A, KIND_B, null])):
        first, second = (Contract.from_schema({"anyOf": each}, extra=extra) for each in (some, others))
        assert first == second


def test_additional_properties_with_only_a_description_are_declared() -> None:
    described: Any = {**A_OPEN, "additionalProperties": {"description": "A note."}}
    contract = Contract.from_schema(described, extra="ignore")
    assert contract.conform({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert contract != Contract.from_schema(A_OPEN, extra="ignore")
    told = json.loads(contract.instructions(SCHEMA_ONLY))
    assert told["additionalProperties"] == {"description": "A note."}


def test_order_of_alternatives_is_ignored_without_coercion() -> None:
    one, other = (Contract.from_schema({"anyOf": each}) for each in ([A_OPEN, B_OPEN], [B_OPEN, A_OPEN]))
    assert one == other


def test_grouping_of_alternatives_counts_where_it_decides_a_coercion() -> None:
    word: list[Any] = [{"const": "null"}, {"type": "integer"}]
    grouped = Contract.from_schema({"anyOf": [{"anyOf": word}, {"type": "null"}]}, coerce=True)
    listed = Contract.from_schema({"anyOf": [*word, {"type": "null"}]}, coerce=True)
    assert grouped.take("null") != listed.take("null")
    assert grouped != listed


@pytest.mark.parametrize("value", ["b", 2, None])
def test_enums_in_one_list_or_in_two_refuse_for_the_same_reason(value: Any) -> None:
    schemas: list[Any] = [{"anyOf": [{"enum": [1]}, {"enum": ["a"]}]}, {"enum": [1, "a"]}]
    one, other = map(Contract.from_schema, schemas)
    assert one == other
    first, second = ([issue.reason for issue in each.issues(value)] for each in (one, other))
    assert first == second


def test_schema_of_values_without_a_version_is_in_the_fingerprint() -> None:
    old, new = {"required": ["old"]}, {"required": ["new"]}
    versions: Any = {"1.0": old, "2.0": new}
    contracts = [Contract.from_schema(schema, versions=versions) for schema in (None, old, new)]
    assert [contract.accepts({"old": 1}) for contract in contracts] == [True, True, False]
    assert contracts[0] == contracts[1] != contracts[2]


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": []},
        {"oneOf": [{"type": "string"}, {"type": "integer"}], **SECOND, "anyOf": [{}, {"minimum": 1}]},
        {"properties": {"a": {"oneOf": [{"minLength": 1}]}, "b": {"$ref": "#/properties/a/oneOf/0"}}},
        {"items": {}, "properties": {"a": {"$ref": "#/items"}}},
        {"examples": [{"type": "string"}], "properties": {"a": {"$ref": "#/examples/0"}}},
    ],
    ids=str,
)
def test_schema_of_an_unusual_form_has_the_fingerprint_of_its_shown_form(schema: Any) -> None:
    for extra, coerce in OPTIONS:
        settings_of: Any = {"extra": extra, "coerce": coerce}
        contract = Contract.from_schema(schema, **settings_of)
        told = json.loads(contract.instructions(SCHEMA_ONLY))
        assert Contract.from_schema(told, **settings_of) == contract


def test_fingerprint_of_huge_integers_and_lone_surrogates_can_be_computed() -> None:
    Contract.from_schema({}, invariants=[("a > 1", "\ud800")], limits=Limits(objects=2**70))


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
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.5, 1.0, "1", "a", "null"])
)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=2) | st.dictionaries(NAMES, v, max_size=3), max_leaves=6
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
KIND = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.fixed_dictionaries(
            {"a": st.fixed_dictionaries({"const": SCALARS})}, optional={"b": st.just({"type": "integer"})}
        ),
        "required": st.just(["a"]),
    },
    optional={"additionalProperties": st.just(False)},
)
REFERENCES = st.sampled_from(["#/$defs/x", "#/$defs/y", "#", "#n", "#/$defs/x/anyOf/0", "#/properties/a"])
LEAVES = st.one_of(
    st.booleans(),
    st.sampled_from([{}, {"title": "t"}]),
    st.fixed_dictionaries({"type": TYPES}, optional={"title": st.just("t"), "minimum": st.just(1)}),
    st.fixed_dictionaries({"type": st.lists(TYPES, min_size=1, max_size=3, unique=True)}),
    st.fixed_dictionaries({"enum": st.lists(SCALARS, max_size=3)}, optional={"type": TYPES}),
    st.fixed_dictionaries({"const": SCALARS}, optional={"description": st.just("d")}),
    st.fixed_dictionaries(
        {"$ref": REFERENCES},
        optional={"minimum": st.just(1), "properties": st.just({"a": {"type": "integer"}})},
    ),
    st.just({"$dynamicRef": "#n"}),
    KIND,
)


def containers(inner: Any) -> Any:
    several, by_name = st.lists(inner, min_size=1, max_size=3), st.dictionaries(NAMES, inner, max_size=3)
    of_objects = {
        "type": st.just("object"),
        "properties": by_name,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.just(False) | inner,
    }
    lists = ("anyOf", "oneOf", "allOf", "prefixItems")
    singles = ("items", "not", "if", "then", "else", "contains", "propertyNames")
    others = {
        **dict.fromkeys(lists, several),
        **dict.fromkeys((*singles, "unevaluatedProperties", "unevaluatedItems"), inner),
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=1),
        "dependentSchemas": by_name,
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=1, unique=True), max_size=1),
    }
    common = [st.fixed_dictionaries({name: several}) for name in ("anyOf", "oneOf", "allOf")]
    common += [st.fixed_dictionaries({"items": inner}), st.fixed_dictionaries({}, optional=of_objects)]
    return st.one_of(*common, st.fixed_dictionaries({}, optional={**of_objects, **others}))


SUBSCHEMAS = st.recursive(LEAVES, containers, max_leaves=7)
SCHEMAS = st.builds(
    lambda one, x, y: {"allOf": [one], "$defs": {"x": x, "y": {"allOf": [y], "$dynamicAnchor": "n"}}},
    SUBSCHEMAS,
    SUBSCHEMAS,
    SUBSCHEMAS,
)


def parts(schema: Any) -> list[dict[str, Any]]:
    """All objects of a schema, also those that are no subschemas."""
    if not isinstance(schema, dict | list):
        return []
    held = schema.values() if isinstance(schema, dict) else schema
    own = [schema] if isinstance(schema, dict) else []
    return own + [part for one in held for part in parts(one)]


def say_it_otherwise(schema: Any, chance: random.Random) -> Any:
    """The same in other words, or something else in nearly the same words."""
    made = copy.deepcopy(schema)
    for _ in range(chance.randint(1, 3)):
        part = chance.choice(parts(made))
        alternatives = part.get("anyOf")
        match chance.randrange(9):
            case 0:
                for listed in filter(lambda one: isinstance(one, list), part.values()):
                    chance.shuffle(listed)
            case 1 if part.get("additionalProperties") is False:
                del part["additionalProperties"]
            case 1 if "properties" in part:
                part["additionalProperties"] = False
            case 2 if "oneOf" in part and "anyOf" not in part:
                part["anyOf"] = part.pop("oneOf")
            case 3 if "const" in part and "enum" not in part:
                part["enum"] = [part.pop("const")]
            case 4 if isinstance(alternatives, list):
                at = chance.randint(1, len(alternatives))
                part["anyOf"] = [{"anyOf": alternatives[:at]}, *alternatives[at:]]
            case 5 if isinstance(part.get("type"), list) and "anyOf" not in part:
                part["anyOf"] = [{"type": name} for name in part.pop("type")]
            case 6 if "$defs" not in part:
                inner = dict(part)
                part.clear()
                part[chance.choice(["allOf", "anyOf", "oneOf"])] = [inner]
            case 7 if part and "$defs" not in part:
                del part[chance.choice(sorted(part))]
            case 8:
                part[chance.choice(["additionalProperties", "items"])] = True
    return made


def assert_they_judge_alike(one: Contract, other: Contract, values: list[Any]) -> None:
    for value in values:
        (made, accepted), (as_other, by_other) = one.take(value), other.take(value)
        assert accepted == by_other, value
        if accepted:
            assert json.dumps(made) == json.dumps(as_other), value


@given(
    schema=SCHEMAS,
    seed=st.integers(0, 2**32),
    values=st.lists(VALUES, min_size=2, max_size=8),
    extra=st.sampled_from([None, "ignore", "forbid"]),
    coerce=st.booleans(),
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_contracts_with_one_fingerprint_judge_alike(
    schema: Any, seed: int, values: list[Any], extra: Any, coerce: bool
) -> None:
    otherwise = say_it_otherwise(schema, random.Random(seed))
    try:
        one, other = (Contract.from_schema(each, extra=extra, coerce=coerce) for each in (schema, otherwise))
    except ContractError:  # a reference that leads nowhere, or back to itself
        reject()
    if one.fingerprint == other.fingerprint:
        assert_they_judge_alike(one, other, values)


@given(
    schema=SCHEMAS,
    values=st.lists(VALUES, min_size=1, max_size=8),
    extra=st.sampled_from([None, "ignore", "forbid"]),
    coerce=st.booleans(),
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_any_schema_as_shown_judges_like_the_one_written(
    schema: Any, values: list[Any], extra: Any, coerce: bool
) -> None:
    try:
        written = Contract.from_schema(schema, extra=extra, coerce=coerce)
    except ContractError:  # a reference that leads back to itself
        reject()
    told = json.loads(written.instructions(SCHEMA_ONLY))
    read_back = Contract.from_schema(told, extra=extra, coerce=coerce)
    assert_they_judge_alike(read_back, written, values)


def test_schemas_with_many_references_to_themselves_take_linear_time() -> None:
    def tangle(references: int) -> dict[str, Any]:
        size = isqrt(references)
        every = {f"p{name}": {"$ref": f"#/$defs/d{name}"} for name in range(size)}
        return {"$ref": "#/$defs/d0", "$defs": {f"d{name}": {"properties": every} for name in range(size)}}

    def chain(size: int) -> dict[str, Any]:
        follow = {f"d{name}": {"items": {"$ref": f"#/$defs/d{name + 1}"}} for name in range(size)}
        return {"$ref": "#/$defs/d0", "$defs": {**follow, f"d{size}": {"items": {"$ref": "#"}}}}

    for schema in (tangle(1_600), chain(800)):
        assert Contract.from_schema(schema).fingerprint == Contract.from_schema(schema).fingerprint
    assert is_linear(lambda size: Contract.from_schema(tangle(size)).fingerprint, 50)
    assert is_linear(lambda size: Contract.from_schema(chain(size)).fingerprint, 50)


@pytest.mark.parametrize(("extra", "coerce"), OPTIONS)
def test_schema_of_a_dataclass_as_shown_has_the_same_fingerprint(extra: Any, coerce: bool) -> None:
    written = Contract.of(Finding, extra=extra, coerce=coerce)
    told = json.loads(written.instructions(SCHEMA_ONLY))
    assert Contract.from_schema(told, extra=extra, coerce=coerce) == written


def test_shown_schema_has_only_what_a_model_needs() -> None:
    told = Contract.of(Finding, extra="ignore").instructions(SCHEMA_ONLY)
    assert list(json.loads(told)["properties"]) == ["kind", "score", "sources", "value", "counts", "causes"]
    assert json.loads(told)["properties"]["kind"] == {"enum": ["bug", "smell"]}
    assert json.loads(told)["properties"]["score"] == {"description": "From 0 to 1.", "type": "number"}
    assert "title" not in json.loads(told)
    assert "additionalProperties" not in json.loads(told)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Answer with one JSON object"),
        ({"many": True}, "Answer with a JSON array"),
        ({"format": "jsonl"}, "one object per line"),
    ],
)
def test_instructions_say_how_the_answer_is_laid_out(options: Any, words: str) -> None:
    told = Contract.from_schema(SCHEMA, **options).instructions()
    assert words in told
    assert '"sources"' in told


def test_text_contract_has_no_instructions() -> None:
    assert Contract.from_schema(None, format="text").instructions() == ""


def test_instructions_show_the_newest_of_several_versions() -> None:
    versions: Any = {"1.0": {"required": ["old"]}, "2.0": {"required": ["new"]}}
    told = Contract.from_schema(None, versions=versions).instructions()
    assert "new" in told
    assert "old" not in told
