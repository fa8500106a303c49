"""What a contract accepts, what it says about the rest, and which schemas it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.contract import Contract, Limits
from trustgraph_prompt.errors import ContractError, Issue, Reason

DEFINITION = {
    "type": "object",
    "properties": {
        "type": {"const": "definition"},
        "entity": {"type": "string"},
        "definition": {"type": "string", "minLength": 3},
    },
    "required": ["type", "entity", "definition"],
    "additionalProperties": False,
}
RELATIONSHIP = {
    "type": "object",
    "properties": {
        "type": {"const": "relationship"},
        "subject": {"type": "string"},
        "object-entity": {"type": "boolean"},
    },
    "required": ["type", "subject", "object-entity"],
}
UNION = {"oneOf": [DEFINITION, RELATIONSHIP]}


def issue(schema: Any, value: object) -> Issue:
    issues = Contract.from_schema(schema, format="jsonl").issues(value)
    assert len(issues) == 1
    return issues[0]


def test_contract_without_schema_accepts_anything() -> None:
    contract = Contract.from_schema(None)
    assert contract.accepts({"any": ["thing"]})
    assert contract.issues(None) == ()


def test_accepted_values_have_no_issues() -> None:
    contract = Contract.from_schema(UNION, format="jsonl")
    value = {"type": "relationship", "subject": "DNA", "object-entity": True}
    assert contract.accepts(value)
    assert contract.issues(value) == ()


@pytest.mark.parametrize(
    ("schema", "value", "reason", "path", "message"),
    [
        ({"required": ["a"]}, {}, Reason.SCHEMA_MISSING_FIELD, "", '"a" is missing'),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 1, "b": 2},
            Reason.SCHEMA_EXTRA_FIELD,
            "",
            'unexpected "b"',
        ),
        (
            {"properties": {"n": {"type": "integer"}}},
            {"n": "2"},
            Reason.SCHEMA_TYPE_ERROR,
            "/n",
            'expected integer, found string "2"',
        ),
        ({"properties": {"n": {"type": "integer"}}}, {"n": True}, Reason.SCHEMA_TYPE_ERROR, "/n", None),
        (
            {"properties": {"q": {"enum": ["exact", "approx"]}}},
            {"q": "some"},
            Reason.SCHEMA_VALUE_ERROR,
            "/q",
            'expected "exact" or "approx", found "some"',
        ),
        (
            {"properties": {"d": {"format": "date"}}},
            {"d": "soon"},
            Reason.SCHEMA_VALUE_ERROR,
            "/d",
            'expected format date, found "soon"',
        ),
        (
            {"properties": {"n": {"minimum": 3}}},
            {"n": 2},
            Reason.SCHEMA_VALUE_ERROR,
            "/n",
            "expected minimum 3, found 2",
        ),
        (
            {"properties": {"a/b~c": {"items": {"type": "string"}}}},
            {"a/b~c": ["x", 1]},
            Reason.SCHEMA_TYPE_ERROR,
            "/a~1b~0c/1",
            None,
        ),
    ],
)
def test_issue_has_reason_path_and_message_of_what_was_expected_and_found(
    schema: Any, value: Any, reason: Reason, path: str, message: str | None
) -> None:
    found = issue(schema, value)
    assert (found.reason, found.path) == (reason, path)
    assert message is None or found.message == message


def test_every_problem_of_an_object_is_named() -> None:
    issues = Contract.from_schema(DEFINITION).issues({"type": "definition", "entity": 1, "definition": "ab"})
    assert [i.path for i in issues] == ["/entity", "/definition"]


def test_message_stays_short_however_long_the_value() -> None:
    found = issue({"properties": {"a": {"type": "integer"}}}, {"a": "x" * 10_000})
    assert len(found.message) < 200
    found = issue({"properties": {"a": {"enum": ["y" * 1000] * 1}}}, {"a": 10**4000})
    assert len(found.message) < 400


def test_only_the_first_of_many_problems_are_listed() -> None:
    contract = Contract.from_schema({"items": {"type": "string"}})
    assert len(contract.issues(list(range(1000)))) == 20


def test_only_the_matching_branch_of_a_union_is_reported() -> None:
    found = issue(UNION, {"type": "relationship", "subject": "DNA"})
    assert found == Issue(Reason.SCHEMA_MISSING_FIELD, '"object-entity" is missing')


def test_discriminator_that_names_no_branch_is_the_issue() -> None:
    found = issue(UNION, {"type": "entity", "entity": "DNA"})
    message = 'expected "definition" or "relationship", found "entity"'
    assert found == Issue(Reason.SCHEMA_VALUE_ERROR, message, "/type")


def test_missing_discriminator_is_the_issue() -> None:
    found = issue(UNION, {"entity": "DNA"})
    assert found.reason is Reason.SCHEMA_MISSING_FIELD
    assert found.message.startswith('"type" is missing')


def test_without_discriminator_the_nearest_branch_is_reported() -> None:
    schema = {"anyOf": [{"type": "string"}, {"type": "object", "required": ["a", "b"]}]}
    assert issue(schema, {"a": 1}).message == '"b" is missing'


def test_value_that_fits_two_branches_of_one_of_is_an_issue() -> None:
    found = issue({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 3)
    assert found.message == "fits more than one of the alternatives: 3"


@pytest.mark.parametrize(
    ("schema", "discriminator"),
    [
        (UNION, "type"),
        ({"anyOf": UNION["oneOf"]}, "type"),
        (
            {
                "$defs": {"d": DEFINITION, "r": RELATIONSHIP},
                "oneOf": [{"$ref": "#/$defs/d"}, {"$ref": "#/$defs/r"}],
            },
            "type",
        ),
        (
            {
                "oneOf": [
                    {"properties": {"kind": {"enum": ["a", "b"]}}},
                    {"properties": {"kind": {"const": "c"}}},
                ]
            },
            "kind",
        ),
        ({"$ref": "#/$defs/any", "$defs": {"any": UNION}}, "type"),
        ({"oneOf": [DEFINITION, DEFINITION]}, None),
        ({"oneOf": [DEFINITION, True]}, None),
        (DEFINITION, None),
        (True, None),
        (None, None),
    ],
)
def test_discriminator_is_the_property_that_picks_the_branch(schema: Any, discriminator: str | None) -> None:
    assert Contract.from_schema(schema, format="jsonl").discriminator == discriminator


def test_jsonl_is_many_and_text_is_one() -> None:
    assert Contract.from_schema(None, format="jsonl").many
    assert not Contract.from_schema(None, format="json").many
    assert not Contract.from_schema(None, format="text").many
    with pytest.raises(ContractError, match="is always a list"):
        Contract.from_schema(None, format="jsonl", many=False)
    with pytest.raises(ContractError, match="is never a list"):
        Contract.from_schema(None, format="text", many=True)


def test_contract_with_many_asks_for_a_list_of_values() -> None:
    contract = Contract.from_schema({"type": "integer"}, many=True)
    assert contract.accepts([1, 2])
    assert contract.issues({"a": 1})[0].reason is Reason.WRONG_CONTAINER
    assert contract.issues([1, "x"])[0].path == "/1"


def test_contract_with_many_and_no_schema_asks_for_a_list() -> None:
    contract = Contract.from_schema(None, many=True)
    assert contract.accepts([1, {}])
    assert contract.issues({"a": 1}) == (
        Issue(Reason.WRONG_CONTAINER, "expected an array of values, found object of 1"),
    )


def test_fingerprint_covers_all_that_decides_a_verdict_and_nothing_else() -> None:
    contract = Contract.from_schema(DEFINITION, format="jsonl", name="definitions")
    same = Contract.from_schema(dict(reversed(DEFINITION.items())), format="jsonl", name="other")
    assert contract.fingerprint == same.fingerprint
    assert contract == same
    different: list[dict[str, Any]] = [
        {"schema": DEFINITION, "format": "json"},
        {"schema": DEFINITION, "format": "json", "many": True},
        {"schema": RELATIONSHIP},
        {"schema": None},
        {"schema": DEFINITION, "repair": True},
        {"schema": DEFINITION, "extra": "forbid"},
        {"schema": DEFINITION, "extra": "ignore"},
        {"schema": DEFINITION, "coerce": True},
        {"schema": DEFINITION, "invariants": ["entity"]},
        {"schema": DEFINITION, "invariants": [("entity", "message")]},
        {"schema": DEFINITION, "versions": {"1.0": DEFINITION}},
        {"schema": DEFINITION, "versions": {"2.0": DEFINITION}},
        {"schema": DEFINITION, "limits": Limits(depth=300)},
        {"schema": {"const": 2**70}},
    ]
    made = [Contract.from_schema(**{"format": "jsonl", **settings}) for settings in different]
    assert len({c.fingerprint for c in (contract, *made)}) == len(different) + 1


def test_contracts_of_equal_schemas_share_no_mutable_schema() -> None:
    one, other = Contract.from_schema(DEFINITION), Contract.from_schema(DEFINITION)
    assert isinstance(one.schema, dict)
    one.schema["required"].append("more")
    assert other.schema == DEFINITION
    assert Contract.from_schema(DEFINITION).accepts(
        {"type": "definition", "entity": "a", "definition": "abc"}
    )


def test_changing_the_given_schema_later_does_not_change_the_contract() -> None:
    schema = {"required": ["a"]}
    contract = Contract.from_schema(schema)
    schema["required"].append("b")
    assert contract.accepts({"a": 1})


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_draft_named_by_the_schema_is_used(draft: str) -> None:
    contract = Contract.from_schema({"$schema": draft, "type": "object", "required": ["a"]})
    assert contract.accepts({"a": 1})
    assert not contract.accepts({})
    with pytest.raises(ContractError):
        Contract.from_schema({"$schema": draft, "required": "a"})


def test_unknown_format_is_refused() -> None:
    with pytest.raises(ContractError, match="expected text, json or jsonl"):
        Contract.from_schema(None, format="xml")  # type: ignore[arg-type]


@pytest.mark.parametrize("schema", [{"type": "string"}, {}, True, False])
def test_text_contract_has_no_schema(schema: Any) -> None:
    with pytest.raises(ContractError, match="no schema"):
        Contract.from_schema(schema, format="text")


@pytest.mark.parametrize("wrap", [lambda branch: branch, lambda branch: {"allOf": [branch]}])
def test_null_branch_does_not_hide_which_other_branch_matches(wrap: Any) -> None:
    branches = [
        {"type": "object", "properties": {"type": {"const": "a"}, "n": {"type": "integer"}}},
        {
            "type": "object",
            "properties": {"type": {"const": "b"}, "m": {"type": "integer"}},
            "required": ["k"],
        },
    ]
    contract = Contract.from_schema({"anyOf": [*map(wrap, branches), {"type": "null"}]})
    assert contract.discriminator == "type"
    assert {(i.path, i.reason) for i in contract.issues({"type": "b", "m": "x"})} == {
        ("/m", Reason.SCHEMA_TYPE_ERROR),
        ("", Reason.SCHEMA_MISSING_FIELD),
    }


def test_version_null_is_unsupported() -> None:
    contract = Contract.from_schema(None, versions={"1.0": {"type": "object"}})
    (issue,) = contract.issues({"schema_version": None})
    assert (issue.path, issue.reason) == ("/schema_version", Reason.UNSUPPORTED_VERSION)


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["a", "b"]},
        {"type": "string", "enum": ["a", "b"]},
        {"anyOf": [{"const": "a"}, {"const": "b"}]},
    ],
)
def test_type_error_of_a_union_is_one_issue(schema: Any) -> None:
    (issue,) = Contract.from_schema(schema).issues(["a"])
    assert (issue.path, issue.reason) == ("", Reason.SCHEMA_TYPE_ERROR)


@pytest.mark.parametrize("value", [None, 1])
@pytest.mark.parametrize(
    "schema", [{"type": ["string", "array"]}, {"anyOf": [{"type": "string"}, {"type": "array"}]}]
)
def test_types_of_all_alternatives_are_in_one_message(schema: Any, value: Any) -> None:
    (issue,) = Contract.from_schema(schema).issues(value)
    assert issue.reason is Reason.SCHEMA_TYPE_ERROR
    assert issue.message.startswith("expected string or array, found")
