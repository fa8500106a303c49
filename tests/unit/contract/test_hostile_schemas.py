"""Schemas that are wrong, or meant to do harm: refused with their place, in no time."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.steps import is_linear, steps
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ContractError, Reason


def _resident_peak() -> int:
    """Megabytes; the validator's memory is not Python's, so tracemalloc does not see it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def nested(levels: int) -> Any:
    schema: Any = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "path", "says"),
    [
        ({"properties": {"a": {"type": "strin"}}}, "/properties/a/type", "strin"),
        ({"required": "a"}, "/required", "array"),
        ({"properties": {"type": "string"}}, "/properties/type", "expected boolean or object"),
        ({"properties": {"a": 5}}, "/properties/a", "5"),
        ({"pattern": "("}, "/pattern", "regex"),
        ({"pattern": "(?=a)b"}, "/pattern", "look-around is not available"),
        ({"pattern": "(?<!a)b"}, "/pattern", "look-around is not available"),
        ({"pattern": r"(a)\1"}, "/pattern", "a back-reference is not available"),
        ({"pattern": r"\(?=("}, "/pattern", "regex"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "/$ref", "127.0.0.1"),
        ({"$ref": "file:///etc/passwd"}, "/$ref", "/etc/passwd"),
        ({"items": {"$ref": "#/$defs/missing"}}, "/items/$ref", "missing"),
        ({"$schema": "http://example.com/mine"}, "/$schema", "expected draft 4, 6, 7, 2019-09 or 2020-12"),
        ({"$schema": 7}, "/$schema", "7"),
        ({"a": {1: 2}}, "/a", "expected a string"),
        ({"enum": [object()]}, "/enum/0", "expected a JSON value"),
        ({"minimum": float("nan")}, "/minimum", "expected a JSON value"),
        (nested(500), "/items/items/items/items", "100 levels"),
        ({"enum": list(range(200_000))}, "", "too large"),
    ],
)
def test_invalid_schema_is_refused_with_its_place(schema: Any, path: str, says: str) -> None:
    with pytest.raises(ContractError) as caught:
        Contract.from_schema(schema)
    assert caught.value.path == path
    assert says in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("schema", [5, "object", [], 1.5, b"{}"])
def test_schema_that_is_neither_object_nor_boolean_is_refused(schema: Any) -> None:
    with pytest.raises(ContractError, match="expected an object, true or false"):
        Contract.from_schema(schema)


def test_cyclic_schema_is_refused() -> None:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    with pytest.raises(ContractError, match="nested too deep"):
        Contract.from_schema(schema)


def test_hostile_pattern_is_matched_in_bounded_time() -> None:
    contract = Contract.from_schema({"pattern": "^(a+)+$"})
    assert contract.accepts("a" * 100_000)
    [issue] = contract.issues("a" * 100_000 + "!")
    assert issue.message.startswith("expected pattern")


def test_pattern_that_would_fill_memory_is_refused() -> None:
    with pytest.raises(ContractError):
        Contract.from_schema({"pattern": "(a{1,1000}){1,1000}"})


def test_recursive_schema_judges_nested_values() -> None:
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    contract = Contract.from_schema(schema)
    value: dict[str, Any] = {}
    for _ in range(150):
        value = {"child": value}
    assert contract.accepts(value)
    assert contract.issues({"child": {"child": {"kid": 1}}})[0].path == "/child/child"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}]},
        {"oneOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_reference_that_leads_back_to_itself_is_refused(schema: Any) -> None:
    with pytest.raises(ContractError, match="circular reference"):
        Contract.from_schema(schema)


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize("ring", ["y", "yz", "yzw"])
def test_ring_of_unused_definitions_is_ignored(keyword: str, ring: str) -> None:
    after = dict(zip(ring, ring[1:] + ring[0], strict=True))
    rings = {name: {"allOf": [{"$ref": f"#/$defs/{following}"}]} for name, following in after.items()}
    into = {keyword: [{"$ref": "#/$defs/y"}, {"allOf": [{"$ref": "#/$defs/y"}]}]}
    contract = Contract.from_schema({"type": "object", "$defs": {**rings, "x": into}}, coerce=True)
    assert contract.accepts({})
    assert not contract.accepts([])


def test_ring_in_a_content_schema_is_ignored() -> None:
    ring = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    text = {"type": "string", "contentSchema": {"$ref": "#/$defs/a"}}
    contract = Contract.from_schema({"properties": {"text": text}, "$defs": ring})
    assert contract.accepts({"text": "{}"})
    assert '"contentSchema"' in contract.instructions()


_PART = st.recursive(
    st.sampled_from([{}, True, {"type": "object"}, {"const": 1}, {"$dynamicRef": "#e"}])
    | st.sampled_from("abcd").map(lambda name: {"$ref": f"#/$defs/{name}"}),
    lambda inner: (
        st.dictionaries(st.sampled_from(["not", "items", "contains", "contentSchema"]), inner, min_size=1)
        | st.dictionaries(
            st.sampled_from(["allOf", "oneOf", "anyOf"]), st.lists(inner, min_size=1), min_size=1
        )
        | st.builds(lambda one: {"properties": {"p": one}}, inner)
        | st.builds(lambda one: {"additionalProperties": one}, inner)
    ),
    max_leaves=5,
)
_RINGS = st.fixed_dictionaries({**dict.fromkeys("abcd", _PART), "e": st.just({"$dynamicAnchor": "e"})})
"""Definitions that may lead to each other in every way."""


@given(_RINGS, st.sampled_from([{}, {"extra": "ignore"}, {"extra": "forbid"}, {"coerce": True}]))
def test_definitions_that_refer_to_each_other_take_bounded_steps(
    rings: dict[str, Any], settings: dict[str, Any]
) -> None:
    def judged() -> None:
        with suppress(ContractError):
            contract = Contract.from_schema({"items": {"$ref": "#/$defs/a"}, "$defs": rings}, **settings)
            contract.instructions()
            contract.issues([{"p": {"p": [1, {}]}}])

    assert steps(judged) < 200_000


def chain(links: int) -> dict[str, Any]:
    """Definitions each of which is but a reference to the next one."""
    last = {"type": "object", "properties": {"kind": {"const": "x"}}}
    return {**{f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(links)}, f"d{links}": last}


_FIRST = {"$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    "schema",
    [
        lambda size: {"properties": {f"p{i}": _FIRST for i in range(size)}},
        lambda size: {"items": {"oneOf": [_FIRST] * size}},
        lambda size: {"items": {"anyOf": [{"$ref": f"#/$defs/d{i}"} for i in range(size)]}},
        lambda size: {"items": {"anyOf": [{"allOf": [_FIRST]}] * size}},
    ],
    ids=["properties", "one branch", "every link", "allOf"],
)
def test_many_references_into_one_long_chain_take_linear_time(
    schema: Callable[[int], dict[str, Any]],
) -> None:
    def compiled(size: int) -> None:
        Contract.from_schema({**schema(size), "$defs": chain(size)})

    assert is_linear(compiled, 100)


@pytest.mark.parametrize(
    "schema",
    [{"additionalProperties": _FIRST}, {"patternProperties": {"^p": _FIRST}}],
    ids=["additionalProperties", "patternProperties"],
)
def test_members_at_the_end_of_one_long_chain_are_judged_in_linear_time(schema: dict[str, Any]) -> None:
    def judged(size: int) -> None:
        contract = Contract.from_schema({**schema, "$defs": chain(size)}, extra="ignore")
        contract.conform({f"p{i}": {} for i in range(size)})

    assert is_linear(judged, 100)


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": "http://x/s", "$ref": "t", "$defs": {"t": {"$id": "http://x/t"}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
)
def test_reference_to_another_document_is_refused(schema: Any) -> None:
    with pytest.raises(ContractError):
        Contract.from_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "string"}}},
        {"$ref": "#/allOf/1", "allOf": [True, {"type": "string"}]},
        {"$ref": "#text", "$defs": {"a": {"$anchor": "text", "type": "string"}}},
        {"$id": "http://x/s", "$ref": "http://x/s#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"$dynamicRef": "#text", "$defs": {"a": {"$dynamicAnchor": "text", "type": "string"}}},
    ],
)
def test_references_within_the_schema_are_followed(schema: Any) -> None:
    contract = Contract.from_schema(schema)
    assert (contract.accepts("a"), contract.accepts(1)) == (True, False)


def doubling(levels: int) -> Any:
    """Each part asks the next one twice."""
    parts: dict[str, Any] = {
        f"p{level}": {"allOf": [{"$ref": f"#/$defs/p{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/p0", "$defs": {**parts, f"p{levels}": {"type": "object"}}}


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_nested_unevaluated_keywords_are_refused(keyword: str) -> None:
    schema: Any = {"properties": {"a": True}}
    for _ in range(25):
        schema = {"allOf": [schema], keyword: False}
    with pytest.raises(ContractError, match="too large"):
        Contract.from_schema(schema)


def test_schema_that_doubles_with_each_reference_is_refused() -> None:
    assert Contract.from_schema(doubling(10)).accepts({})
    for levels in (40, 400):
        with pytest.raises(ContractError, match="too large once its references are followed"):
            Contract.from_schema(doubling(levels))


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"a": {"$ref": "#"}}}] * 2},
        {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
        {
            "dependentSchemas": {"a": {"additionalProperties": {"$ref": "#"}}},
            "properties": {"a": {"$ref": "#"}},
        },
        {
            "items": {"$ref": "#"},
            "contains": {"$ref": "#"},
            "not": {"items": {"$ref": "#"}, "type": "string"},
        },
    ],
)
def test_value_that_would_take_exponential_time_is_refused_at_once(schema: Any) -> None:
    contract = Contract.from_schema(schema)
    value: Any = 1
    for level in range(150):
        if level == 4:
            assert contract.accepts(value)
        value = {"a": value} if "items" not in schema else [value]
    [issue] = contract.issues(value)
    assert issue.reason is Reason.SCHEMA_VALUE_ERROR
    assert "nested too deep" in issue.message


def test_wide_and_deep_tree_is_accepted_where_each_part_is_judged_once() -> None:
    contract = Contract.from_schema({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})
    value: Any = {}
    for _ in range(14):
        value = {"left": value, "right": value}
    assert contract.accepts(value)


def test_names_that_are_objects_are_refused_in_linear_time() -> None:
    def refused(size: int) -> None:
        with pytest.raises(ContractError) as caught:
            Contract.from_schema({"required": ["a", *({"n": number} for number in range(size))]})
        assert caught.value.path == "/required/1"

    assert is_linear(refused, 1000)


def test_large_legal_schema_compiles_in_linear_time() -> None:
    def compiled(size: int) -> None:
        Contract.from_schema({"properties": {f"p{number}": {"type": "string"} for number in range(size)}})

    assert is_linear(compiled, 1000)


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"type": "string"}},
        {"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "null"}}]},
    ],
    ids=["first error", "alternatives"],
)
def test_explanation_takes_no_more_memory_than_the_value(schema: Any) -> None:
    contract = Contract.from_schema({"properties": {"a": schema}})
    before = _resident_peak()
    [issue] = contract.issues({"a": [1] * 300_000})
    assert issue.message
    assert _resident_peak() - before < 100


HALF = "\ud83e"


@pytest.mark.parametrize("settings", [{}, {"extra": "ignore"}, {"extra": "forbid"}, {"coerce": True}])
def test_lone_surrogate_is_judged_as_the_replacement_character(settings: Any) -> None:
    schema = {"properties": {"a": {"pattern": "^\ufffd$"}}, "patternProperties": {"^x-": {"type": "string"}}}
    contract = Contract.from_schema(schema, **settings)
    assert contract.accepts({"a": HALF})
    assert contract.take_all([{"a": HALF}, {"x-" + HALF: "b"}], 40, 20) is not None
    assert not contract.accepts({"x-" + HALF: []})
    (issue,) = contract.issues({"x-" + HALF: []})
    assert (issue.path, issue.reason) == ("/x-\ufffd", Reason.SCHEMA_TYPE_ERROR)
    assert contract.accepts({"a": HALF, HALF: 1}) == (settings.get("extra") != "forbid")


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ({"items": {"pattern": "^a"}}, [HALF], "pattern"),
        ({"items": {"format": "date"}}, [HALF], "format date"),
        ({"propertyNames": {"maxLength": 0}}, {HALF: 1}, "propertyNames"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {HALF: 1}, 'unexpected "\ufffd"'),
        ({"additionalProperties": {"type": "integer"}}, {HALF: 1, "\ud800": 2}, "two keys"),
    ],
)
def test_issue_about_a_lone_surrogate_names_the_keyword(schema: Any, value: Any, says: str) -> None:
    (issue,) = Contract.from_schema(schema).issues(value)
    assert says in issue.message


@pytest.mark.parametrize("settings", [{"extra": "ignore"}, {"extra": "forbid"}, {"coerce": True}])
def test_many_keys_times_many_patterns_are_too_large(settings: Any) -> None:
    patterns = {f"^x{i}-": {"type": "integer"} for i in range(1_500)}
    value = dict.fromkeys((f"y{i}" for i in range(20_000)), 1)
    (issue,) = Contract.from_schema({"patternProperties": patterns}, **settings).issues(value)
    assert "too large" in issue.message


@pytest.mark.parametrize(
    "held", [{"enum": [[i] * 3 for i in range(2_000)]}, {"const": [[i] for i in range(4_000)]}]
)
def test_comparisons_with_large_constants_count_towards_the_effort(held: Any) -> None:
    contract = Contract.from_schema({"items": held})
    assert contract.accepts([held["enum"][0] if "enum" in held else held["const"]])
    (issue,) = contract.issues([[-1, -1, -1]] * 20_000)
    assert "too large" in issue.message


def test_unexpected_key_with_a_lone_surrogate_is_shown_readably() -> None:
    contract = Contract.from_schema({"patternProperties": {"^x-": {"properties": {}}}}, extra="forbid")
    (issue,) = contract.issues({"x-" + HALF: {HALF: 1}})
    assert (issue.path, issue.message) == ("/x-\ufffd", 'unexpected "\ufffd"')
