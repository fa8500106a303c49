"""What a contract makes of a value before it is judged: scalars converted, extra keys dropped or refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.steps import is_linear
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ContractError, Issue, Reason

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def coerced(schema: Any, value: Any) -> Any:
    return Contract.from_schema(schema, coerce=True).conform(value)


def stripped(schema: Any, value: Any) -> Any:
    return Contract.from_schema(schema, extra="ignore").conform(value)


def same(one: Any, other: Any) -> bool:
    return bool(one == other) and type(one) is type(other)


@pytest.mark.parametrize(
    ("types", "value", "made"),
    [
        ("integer", "123", 123),
        ("integer", "-7", -7),
        ("integer", " 12 ", 12),
        ("integer", "9" * 30, int("9" * 30)),
        ("integer", 3.0, 3),
        ("number", "3.14", 3.14),
        ("number", "12", 12),
        ("number", "1e3", 1000.0),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("boolean", "TRUE", True),
        ("null", "null", None),
        (["integer", "null"], "None", None),
        (["string", "null"], "null", None),
        (["string", "integer"], 3.0, 3),
    ],
)
def test_scalar_is_converted_where_nothing_is_lost(types: Any, value: Any, made: Any) -> None:
    schema = {"type": types}
    assert same(coerced(schema, value), made)
    assert Contract.from_schema(schema, coerce=True).accepts(value)


@pytest.mark.parametrize(
    ("types", "value"),
    [
        ("integer", "3.7"),
        ("integer", "3.0"),
        ("integer", "1_000"),
        ("integer", "٣"),
        ("integer", "+5"),
        ("integer", "007"),
        ("integer", "0x1f"),
        ("integer", ""),
        ("integer", "9" * 5_000),
        ("integer", 3.5),
        ("integer", True),
        ("integer", None),
        ("number", True),
        ("number", "nan"),
        ("number", "Infinity"),
        ("number", "1e400"),
        ("number", "3,14"),
        ("boolean", "yes"),
        ("boolean", "1"),
        ("boolean", 1),
        ("boolean", 0.0),
        ("string", 5),
        ("string", True),
        ("string", None),
        ("string", {"a": 1}),
        ("null", ""),
        ("null", 0),
        ("array", "5"),
        ("array", "[1]"),
        ("object", "{}"),
    ],
)
def test_scalar_whose_conversion_would_lose_or_invent_something_is_left(types: Any, value: Any) -> None:
    contract = Contract.from_schema({"type": types}, coerce=True)
    assert contract.conform(value) is value
    assert [issue.reason for issue in contract.issues(value)] == [Reason.SCHEMA_TYPE_ERROR]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "null"),
        ({"type": "string"}, "12"),
        ({"type": ["string", "integer"]}, "12"),
        ({"type": ["string", "null"], "enum": ["none", "low", None]}, "none"),
        ({"anyOf": [{"enum": ["none", "low"]}, {"type": "null"}]}, "none"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "12"),
        ({}, "12"),
        (True, "12"),
        ({"type": "number"}, 3.0),
        ({"type": "integer"}, 1e300),
    ],
)
def test_value_that_the_schema_accepts_is_left_unchanged(schema: Any, value: Any) -> None:
    contract = Contract.from_schema(schema, coerce=True)
    assert contract.conform(value) is value
    assert contract.accepts(value)


@pytest.mark.parametrize(
    ("schema", "value", "made"),
    [
        (
            {"properties": {"a": {"properties": {"b": {"type": "integer"}}}}},
            {"a": {"b": "1"}},
            {"a": {"b": 1}},
        ),
        ({"items": {"type": "integer"}}, ["1", 2], [1, 2]),
        ({"prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}}, ["1", "true"], [1, True]),
        (
            {
                "$schema": DRAFT_7,
                "items": [{"type": "integer"}],
                "additionalItems": {"type": "boolean"},
            },
            ["1", "true"],
            [1, True],
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}},
            {"a": "1"},
            {"a": 1},
        ),
        (
            {"properties": {"a": {"$ref": "#n"}}, "$defs": {"n": {"$anchor": "n", "type": "integer"}}},
            {"a": "1"},
            {"a": 1},
        ),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}}]}, {"a": "1"}, {"a": 1}),
        ({"allOf": [{"type": "number"}, {"type": "integer"}]}, "1", 1),
        ({"patternProperties": {"^n": {"type": "integer"}}}, {"n1": "1", "m": "1"}, {"n1": 1, "m": "1"}),
        ({"additionalProperties": {"type": "integer"}}, {"x": "1"}, {"x": 1}),
        ({"properties": {"c": {"$ref": "#"}, "n": {"type": "integer"}}}, {"c": {"n": "1"}}, {"c": {"n": 1}}),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": True}, "true", True),
        ({"type": "string", "anyOf": [{"minLength": 2}, {"pattern": "^x"}]}, "12", "12"),
        ({"dependentSchemas": {"a": {"properties": {"n": {"type": "integer"}}}}}, {"a": 1, "n": "1"}, None),
        ({"dependentSchemas": {"a": {"properties": {"n": {"type": "integer"}}}}}, {"n": "1"}, {"n": "1"}),
    ],
)
def test_scalars_are_converted_through_every_keyword_of_the_schema(
    schema: Any, value: Any, made: Any
) -> None:
    made = {"a": 1, "n": 1} if made is None else made
    assert coerced(schema, value) == made
    assert Contract.from_schema(schema, coerce=True).accepts(value)


BY_KIND = {
    "oneOf": [
        {"properties": {"kind": {"const": "size"}, "v": {"type": "integer"}}, "required": ["kind", "v"]},
        {"properties": {"kind": {"const": "name"}, "v": {"type": "string"}}, "required": ["kind", "v"]},
    ]
}
BY_SHAPE = {
    "anyOf": [
        {"properties": {"n": {"type": "integer"}}, "required": ["n"]},
        {"properties": {"s": {"type": "string"}}, "required": ["s"]},
    ]
}
BY_CONDITION = {
    "if": {"properties": {"unit": {"const": "m"}}, "required": ["unit"]},
    "then": {"properties": {"v": {"type": "number"}}},
    "else": {"properties": {"v": {"type": "string"}}},
}


@pytest.mark.parametrize(
    ("schema", "value", "made"),
    [
        (BY_KIND, {"kind": "size", "v": "5"}, {"kind": "size", "v": 5}),
        (BY_KIND, {"kind": "name", "v": "5"}, {"kind": "name", "v": "5"}),
        (BY_SHAPE, {"n": "5"}, {"n": 5}),
        (BY_SHAPE, {"s": "5"}, {"s": "5"}),
        (BY_SHAPE, {"s": "5", "n": "5"}, {"s": "5", "n": 5}),
        (BY_CONDITION, {"unit": "m", "v": "1.5"}, {"unit": "m", "v": 1.5}),
        (BY_CONDITION, {"unit": "", "v": "1.5"}, {"unit": "", "v": "1.5"}),
        ({"oneOf": [{"type": "integer", "minimum": 10}, {"type": "boolean"}]}, "12", 12),
        ({"oneOf": [{"type": "integer", "minimum": 10}, {"type": "boolean"}]}, "true", True),
        ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}, ["1"], [1]),
        ({"anyOf": [True, {"type": "integer"}]}, "12", "12"),
    ],
)
def test_scalars_are_converted_as_the_matching_branch_says(schema: Any, value: Any, made: Any) -> None:
    assert coerced(schema, value) == made


def test_scalars_are_converted_beside_invalid_values() -> None:
    contract = Contract.from_schema(BY_KIND, coerce=True)
    assert contract.conform({"kind": "size", "v": "5", "w": object}) is not None
    [issue] = Contract.from_schema(
        {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}, coerce=True
    ).issues({"a": "1", "b": "x"})
    assert issue == Issue(Reason.SCHEMA_TYPE_ERROR, 'expected integer, found string "x"', "/b")


CLOSED = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {}}}


@pytest.mark.parametrize("schema", [CLOSED, OPEN])
def test_extra_option_drops_or_refuses_keys_in_open_and_closed_schemas(schema: Any) -> None:
    value = {"a": 1, "b": 2}
    assert stripped(schema, value) == {"a": 1}
    assert Contract.from_schema(schema, extra="ignore").accepts(value)
    forbids = Contract.from_schema(schema, extra="forbid")
    assert forbids.conform(value) is value
    assert forbids.issues(value) == (Issue(Reason.SCHEMA_EXTRA_FIELD, 'unexpected "b"'),)
    assert forbids.accepts({"a": 1})


def test_schema_decides_about_extra_keys_without_the_option() -> None:
    value = {"a": 1, "b": 2}
    assert Contract.from_schema(OPEN).conform(value) is value
    assert Contract.from_schema(OPEN).accepts(value)
    assert not Contract.from_schema(CLOSED).accepts(value)


@pytest.mark.parametrize(
    ("schema", "value", "made"),
    [
        ({"properties": {"l": {"items": OPEN}}}, {"l": [{"a": 1, "b": 2}]}, {"l": [{"a": 1}]}),
        ({"$ref": "#/$defs/o", "$defs": {"o": OPEN}}, {"a": 1, "b": 2}, {"a": 1}),
        ({"allOf": [OPEN, {"properties": {"b": {}}}]}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}),
        ({**OPEN, "patternProperties": {"^x-": {}}}, {"a": 1, "x-b": 2, "c": 3}, {"a": 1, "x-b": 2}),
        ({**OPEN, "required": ["b"]}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}),
        ({**OPEN, "additionalProperties": {"type": "integer"}}, {"b": 2}, {"b": 2}),
        (BY_KIND, {"kind": "size", "v": 1, "w": 1}, {"kind": "size", "v": 1}),
        (BY_SHAPE, {"n": 1, "s": "x", "t": 1}, {"n": 1, "s": "x"}),
        (
            {"anyOf": [{**CLOSED, "required": ["a"]}, {"type": "object", "properties": {"b": {}}}]},
            {"a": 1, "c": 1},
            {"a": 1},
        ),
        ({**OPEN, "$schema": DRAFT_7}, {"a": 1, "b": 2}, {"a": 1}),
        (
            {
                "$schema": DRAFT_7,
                "$ref": "#/definitions/o",
                "properties": {"b": {}},
                "definitions": {"o": OPEN},
            },
            {"a": 1, "b": 2},
            {"a": 1},
        ),
        ({"properties": {"a": {"properties": {"x": {}}}}}, {"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}),
        ({"type": "object", "additionalProperties": False}, {"a": 1}, {}),
    ],
)
def test_key_is_extra_where_no_applicable_subschema_declares_it(schema: Any, value: Any, made: Any) -> None:
    assert stripped(schema, value) == made
    forbids = Contract.from_schema(schema, extra="forbid")
    assert forbids.accepts(value) == (made == value)
    assert forbids.accepts(made)


@pytest.mark.parametrize(
    "schema",
    [{"type": ["object", "array"]}, {"properties": {"m": {"type": "object"}}}, {"items": {}}, True, None],
)
def test_object_without_declared_keys_keeps_its_keys(schema: Any) -> None:
    for value in ({"m": {"any": 1}}, [{"any": 1}]):
        assert stripped(schema, value) is value
        assert Contract.from_schema(schema, extra="forbid").accepts(value)


def test_each_object_with_extra_keys_is_an_issue_beside_others() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "l": {"items": OPEN}}}
    issues = Contract.from_schema(schema, extra="forbid").issues(
        {"a": "x", "b": 1, "l": [{}, {"b": 1, "c": 2}]}
    )
    assert [(issue.reason, issue.path) for issue in issues] == [
        (Reason.SCHEMA_TYPE_ERROR, "/a"),
        (Reason.SCHEMA_EXTRA_FIELD, ""),
        (Reason.SCHEMA_EXTRA_FIELD, "/l/1"),
    ]
    assert issues[2].message == 'unexpected "b", "c"'


def test_extra_keys_are_dropped_and_scalars_converted_together() -> None:
    contract = Contract.from_schema(BY_KIND, extra="ignore", coerce=True)
    assert contract.conform({"kind": "size", "v": "5", "w": 1}) == {"kind": "size", "v": 5}


def test_elements_of_a_list_are_conformed_each_on_its_own() -> None:
    contract = Contract.from_schema({"type": "integer"}, many=True, coerce=True)
    assert contract.conform(["1", 2]) == [1, 2]
    assert contract.accepts(["1", 2])
    assert contract.conform("1") == "1"
    assert [issue.path for issue in contract.issues(["x", 2, "y"])] == ["/0", "/2"]


def test_unknown_value_of_the_extra_option_is_refused() -> None:
    with pytest.raises(ContractError, match="expected None, forbid or ignore"):
        Contract.from_schema(None, extra="allow")  # type: ignore[arg-type]


SCHEMAS = [
    None,
    {"properties": {"a": {"type": "integer"}, "b": {"type": ["boolean", "null"]}, "c": {"$ref": "#"}}},
    {"oneOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": "x"}, "b": {}}}]},
    {"anyOf": [{"items": {"$ref": "#"}, "type": "array"}, {"type": "integer"}, BY_KIND, BY_SHAPE]},
    BY_CONDITION,
    {"patternProperties": {"^a": {"type": "number"}}, "additionalProperties": {"$ref": "#"}},
]
SCALARS = st.sampled_from(["1", "null", "true", "x", "2.5", 1, 2.0, 2.5, True, None, "size"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "kind", "v", "n", "s"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(SCHEMAS),
    VALUES,
    st.booleans(),
    st.sampled_from([None, "ignore", "forbid"]),
    st.booleans(),
)
def test_conforming_is_idempotent_and_leaves_its_input_alone(
    schema: Any, value: Any, coerce: bool, extra: Any, many: bool
) -> None:
    contract = Contract.from_schema(schema, coerce=coerce, extra=extra, many=many)
    before = copy.deepcopy(value)
    made = contract.conform(value)
    assert repr(value) == repr(before)
    assert contract.conform(made) is made
    assert contract.accepts(value) == contract.accepts(made) == (not contract.issues(value))
    assert (contract.take_all([value]) is not None) == contract.accepts(value)
    if not coerce and extra != "ignore":
        assert made is value


@given(st.sampled_from(SCHEMAS), VALUES)
def test_accepted_value_is_accepted_with_coerce_too(schema: Any, value: Any) -> None:
    if Contract.from_schema(schema).accepts(value):
        assert Contract.from_schema(schema, coerce=True).accepts(value)


def test_nested_alternatives_take_linear_time() -> None:
    branches = [{"properties": {"c": {"$ref": "#"}, f"n{i}": {"type": "integer"}}} for i in range(4)]

    def conform(size: int) -> None:
        contract = Contract.from_schema({"anyOf": branches, "type": "object"}, coerce=True, extra="ignore")
        value: Any = [{"n1": "1", "c": {"n2": "1", "c": {"n3": "x"}}} for _ in range(size)]
        for item in value:
            contract.conform(item)

    assert is_linear(conform, 50)


@pytest.mark.parametrize("extra", ["ignore", "forbid"])
def test_value_that_takes_too_many_steps_is_left_and_refused(extra: Any) -> None:
    branches = [{"properties": {"c": {"$ref": "#"}, f"n{i}": {"type": "integer"}}} for i in range(4)]
    contract = Contract.from_schema({"anyOf": branches, "type": "object"}, coerce=True, extra=extra)
    value: Any = {"n1": "1"}
    for _ in range(190):
        value = {"c": value, "n2": "1"}
    assert contract.conform(value) is value
    [issue] = contract.issues(value)
    assert issue.message.endswith("to be held against this schema")


def test_recursive_value_of_any_depth_does_not_crash() -> None:
    for extra in (None, "ignore", "forbid"):
        contract = Contract.from_schema({"properties": {"c": {"$ref": "#"}}}, extra=extra, coerce=True)
        value: Any = {}
        for _ in range(50_000):
            value = {"c": value}
        assert contract.conform(value) is value
        assert not contract.accepts(value)
        assert contract.issues(value)
        while value:  # or Python itself crashes on the way out
            value = value["c"]


def test_hostile_pattern_of_names_is_matched_in_bounded_time() -> None:
    contract = Contract.from_schema({"patternProperties": {"^(a+)+$": {}}}, extra="ignore")
    name = "a" * 50_000
    assert contract.conform({name: 1, name + "!": 1}) == {name: 1}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize("turn", [1, -1])
def test_matching_branch_that_keeps_most_keys_is_followed(keyword: str, turn: int) -> None:
    a = {"properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    both = {"properties": {"a": {}, "b": {}}, "required": ["a", "b"], "additionalProperties": False}
    assert stripped({keyword: [a, both][::turn]}, {"a": 1, "b": 2, "c": 3}) == {"a": 1, "b": 2}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_declared_key_is_kept_though_an_open_branch_matches(keyword: str) -> None:
    a = {"properties": {"a": {}}, "required": ["a"]}
    both = {"properties": {"a": {}, "b": {}}, "required": ["a", "b"]}
    assert stripped({keyword: [a, both]}, {"a": 1, "b": 2, "c": 3}) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {}}, "dependentRequired": {"a": ["b"]}},
        {"$schema": DRAFT_7, "properties": {"a": {}}, "dependencies": {"a": ["b"]}},
    ],
)
def test_key_that_another_key_requires_is_kept(schema: Any) -> None:
    assert stripped(schema, {"a": 1, "b": 2, "c": 3}) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "made"), [("1", 1), ("auto", "auto"), ("3", "3"), ("null", None), ("true", "true"), ("01", "01")]
)
def test_text_becomes_the_literal_that_it_spells(text: str, made: Any) -> None:
    assert same(coerced({"enum": ["auto", 1, 2, None]}, text), made)


@pytest.mark.parametrize("turn", [1, -1])
def test_discriminator_true_does_not_match_1(turn: int) -> None:
    number = {"type": "object", "properties": {"t": {"const": 1}, "a": {}}, "required": ["t", "a"]}
    flag = {"type": "object", "properties": {"t": {"const": True}, "b": {}}, "required": ["t", "b"]}
    schema = {"oneOf": [number, flag][::turn]}

    assert stripped(schema, {"t": True, "b": 1, "x": 2}) == {"t": True, "b": 1}
    [issue] = Contract.from_schema(schema).issues({"t": True})
    assert "b" in issue.message
