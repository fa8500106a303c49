"""Prompts from their entries: TrustGraph's four keys, and our own format, held to the letter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.steps import is_linear
from trustgraph_prompt.config_files import MAX_ERRORS
from trustgraph_prompt.errors import ConfigError, ContractError, PromptError, TemplateError
from trustgraph_prompt.llm.records import RuntimeConfig
from trustgraph_prompt.prompts import Escalation, PromptDefinition

OBJECT = {"type": "object", "required": ["a"]}


def ours(**entry: Any) -> PromptDefinition:
    named = {key.replace("_", "-"): value for key, value in entry.items()}
    return PromptDefinition.from_entry("p", {"dialect": "jinja", "prompt": "x", **named})


def refused(entry: Any) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        PromptDefinition.from_entry("p", entry)
    return raised.value


def test_entry_of_trustgraph_is_read_as_trustgraph_does() -> None:
    prompt = PromptDefinition.from_entry(
        "p", {"prompt": "{{ x }}\n", "response-type": "jsonl", "object-schema": OBJECT, "schema": True}
    )
    assert prompt.question({"x": None}).prompt == "None\n"
    assert prompt.contract.format == "jsonl"
    assert prompt.contract.schema == OBJECT
    assert prompt.question({}).system == "Be helpful."
    assert (prompt.attempts, prompt.config) == (1, RuntimeConfig())


def test_unknown_keys_in_an_entry_of_trustgraph_are_ignored() -> None:
    entry = {"prompt": "x", "attempts": "many", "model": "gpt-4", "terms": 5, "system": 1, "note": None}
    assert (
        PromptDefinition.from_entry("p", entry).version
        == PromptDefinition.from_entry("p", {"prompt": "x"}).version
    )


def test_entry_of_ours_can_set_everything_of_a_prompt() -> None:
    prompt = ours(
        description="d",
        prompt="{{ a }}{{ b }}",
        system="Sys {{ a }}",
        response_type="json",
        schema=OBJECT,
        terms={"a": 1, "b": 2},
        aliases=["q"],
        attempts=3,
        model={
            "temperature": 0,
            "max-tokens": 9,
            "top-p": 1,
            "seed": 4,
            "stop": ["X"],
            "presence-penalty": 0.5,
        },
    )
    assert prompt.question({"b": "B"}).prompt == f"1B\n\n{prompt.contract.instructions()}"
    assert prompt.question({"a": "A"}).system == "Sys A"
    assert prompt.contract.format == "json"
    assert (prompt.aliases, prompt.attempts, prompt.description) == (("q",), 3, "d")
    assert prompt.config == RuntimeConfig(
        temperature=0, max_tokens=9, top_p=1, seed=4, stop_sequences=("X",), presence_penalty=0.5
    )


@pytest.mark.parametrize(("one", "other"), [(None, OBJECT), (OBJECT, None), (OBJECT, True)])
def test_object_schema_goes_before_schema_for_jsonl(one: Any, other: Any) -> None:
    assert ours(response_type="jsonl", object_schema=one, schema=other).contract.schema == (one or other)


def test_both_names_of_the_ontology_prompt_find_one_prompt() -> None:
    assert PromptDefinition.from_entry("extract-with-ontologies", {"prompt": "x"}).aliases == (
        "ontology-extract",
    )
    assert PromptDefinition.from_entry("ontology-extract", {"prompt": "x"}).aliases == (
        "extract-with-ontologies",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "y"},
        {"dialect": "ibis"},
        {"system": "s"},
        {"response_type": "json"},
        {"response_type": "jsonl", "schema": OBJECT},
        {"terms": {"a": 1}},
        {"attempts": 2},
        {"response_type": "json", "schema": OBJECT, "repair": True},
        {"response_type": "json", "schema": OBJECT, "extra": "ignore"},
        {"response_type": "json", "schema": OBJECT, "coerce": True},
        {"response_type": "json", "schema": OBJECT, "invariants": [{"rule": "a > 1"}]},
        {"response_type": "json", "versions": {"1.0": OBJECT}},
        {"response_type": "json", "schema": OBJECT, "many": True},
        {"response_type": "jsonl", "schema": OBJECT, "native": "items"},
        {"response_type": "jsonl", "schema": OBJECT, "passes": 2},
        {"response_type": "jsonl", "schema": OBJECT, "answer_format": "none"},
        {"response_type": "json", "schema": OBJECT, "fences": "one"},
        {"model": {"temperature": 1}},
        {"model": {"name": "gemma"}},
        {"model": {"extras": {"reasoning_effort": "low"}}},
        {"escalate": {"op": "~", "value": "I cannot"}},
    ],
)
def test_version_changes_with_all_that_decides_the_answer(change: dict[str, Any]) -> None:
    plain = {"response_type": "json", "schema": OBJECT}
    assert ours(**change).version not in (ours().version, ours(**plain).version)


def test_entry_sets_how_its_answers_are_judged() -> None:
    contract = ours(
        response_type="jsonl",
        schema={"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        repair=True,
        extra="ignore",
        coerce=True,
        invariants=[{"rule": "b is none or b >= a", "message": "b is less than a"}],
    ).contract
    assert contract.repair
    assert contract.conform({"a": "1", "x": 2}) == {"a": 1}
    assert [issue.message for issue in contract.issues({"a": 2, "b": "1"})] == ["b is less than a"]


def test_entry_sets_many_and_fences() -> None:
    contract = ours(response_type="json", schema=OBJECT, many=True, fences="strict").contract
    assert contract.many
    assert contract.fences == "strict"


@pytest.mark.parametrize("key", ["many", "fences"])
def test_settings_of_a_single_value_are_refused_for_jsonl(key: str) -> None:
    said = {"many": True, "fences": "one"}
    with pytest.raises(PromptError, match=f"`{key}` does not apply to an answer of type jsonl"):
        ours(response_type="jsonl", schema=OBJECT, **{key: said[key]})


def test_entry_sets_its_escalation_and_its_model() -> None:
    prompt = ours(escalate={"op": "contains", "value": "I cannot"}, model={"name": "gemma"})
    assert prompt.escalation == Escalation("contains", "I cannot")
    assert prompt.config == RuntimeConfig(model="gemma")


def test_entry_sets_repair_by_the_model() -> None:
    prompt = ours(response_type="json", attempts=2, repair_by_model=True)
    assert prompt.repair_by_model
    assert prompt.version != ours(response_type="json", attempts=2).version


def test_repair_by_the_model_needs_a_second_attempt() -> None:
    error = refused({"dialect": "jinja", "prompt": "x", "response-type": "json", "repair-by-model": True})
    assert (error.path, error.found, error.expected) == ("/attempts", 1, "2 or more")


def test_entry_has_schemas_by_version() -> None:
    versions = {"1.0": OBJECT, "2.0": {"required": ["b"]}}
    contract = ours(response_type="json", versions=versions).contract
    assert contract.accepts({"a": 1, "schema_version": "1.4"})
    assert not contract.accepts({"a": 1, "schema_version": "2.0"})


def test_entries_of_trustgraph_have_default_judging() -> None:
    entry = {"prompt": "x", "response-type": "json", "coerce": True, "invariants": 5, "extra": "forbid"}
    contract = PromptDefinition.from_entry("p", entry).contract
    assert (contract.coerce, contract.invariants, contract.extra) == (False, (), None)


@pytest.mark.parametrize(
    ("key", "value", "path", "said"),
    [
        ("invariants", [{"rule": "a ** 2 > 1"}], "/invariants/0", "pow is not available in rules"),
        ("invariants", [{"rule": "a", "mesage": "b"}], "/invariants/0/mesage", "did you mean 'message'?"),
        (
            "invariants",
            ["a > 1"],
            "/invariants/0",
            "it is of the wrong type (found 'a > 1', expected a mapping)",
        ),
        ("versions", {"one": True}, "/versions", 'expected such as "1.0"'),
        ("versions", {"1.0": {"type": "int"}}, "/versions/1.0/type", "did you mean 'integer'?"),
        ("extra", "drop", "/extra", "not one of the allowed values (found 'drop', expected one of "),
        ("coerce", "yes", "/coerce", "it is of the wrong type (found 'yes', expected true or false)"),
        ("schema", {"requird": ["a"]}, "/schema/requird", "did you mean 'required'?"),
    ],
)
def test_error_in_a_setting_of_judging_names_its_key(key: str, value: Any, path: str, said: str) -> None:
    error = refused({"dialect": "jinja", "prompt": "x", "response-type": "json", key: value})
    assert (error.where, error.path) == ("template.p", path)
    assert said in str(error)


def test_version_does_not_change_with_description_aliases_or_attempts() -> None:
    assert ours(description="d", aliases=["b"], attempts=1).version == ours().version


@pytest.mark.parametrize(
    ("entry", "kind", "path", "said"),
    [
        ({}, PromptError, "", "the key `prompt` is missing (found 'dialect, aliases', expected `prompt`"),
        ({"prompt": None}, PromptError, "/prompt", "it is of the wrong type (found None, expected a string)"),
        ({"prompt": ""}, PromptError, "/prompt", "the prompt has no text"),
        ({"prompt": " \n", "dialect": "jinja"}, PromptError, "/prompt", "the prompt has no text"),
        (
            {"prompt": "x", "response-type": "xml"},
            PromptError,
            "/response-type",
            "not one of the allowed values (found 'xml', expected one of ",
        ),
        ({"prompt": "x{% if %}"}, TemplateError, "/prompt", "line 1: "),
        (
            {"prompt": "x", "response-type": "json", "schema": {"type": "objct"}},
            ContractError,
            "/schema/type",
            "objct",
        ),
        (
            {"prompt": "x", "response-type": "jsonl", "object-schema": {"$ref": "http://x/y"}},
            ContractError,
            "/object-schema",
            "",
        ),
        (
            {"prompt": "x", "response-type": "json", "schema": []},
            PromptError,
            "/schema",
            "it is of the wrong type (found []",
        ),
        ([], PromptError, "", "it is of the wrong type (found [], expected a mapping)"),
        ("x", PromptError, "", "it is of the wrong type (found 'x', expected a mapping)"),
    ],
)
def test_error_in_an_entry_of_trustgraph_says_what_is_wrong(
    entry: Any, kind: type[ConfigError], path: str, said: str
) -> None:
    error = refused(entry)
    assert (type(error), error.where) == (kind, "template.p")
    assert error.path.startswith(path)
    assert said in str(error)


@pytest.mark.parametrize(
    ("key", "value", "path", "said"),
    [
        ("respnse-type", "json", "/respnse-type", "unknown key, did you mean 'response-type'?"),
        (
            "dialect",
            "mustache",
            "/dialect",
            "not one of the allowed values (found 'mustache', expected one of jinja, ibis)",
        ),
        ("attempts", 0, "/attempts", "it is too small (found 0, expected at least 1)"),
        ("attempts", "2", "/attempts", "it is of the wrong type (found '2', expected an integer)"),
        ("model", {"temprature": 1}, "/model/temprature", "did you mean 'temperature'?"),
        (
            "model",
            {"temperature": "hot"},
            "/model/temperature",
            "it is of the wrong type (found 'hot', expected a number)",
        ),
        ("aliases", ["a", "a"], "/aliases", "it has duplicate items"),
        ("terms", [], "/terms", "it is of the wrong type (found [], expected a mapping)"),
        ("system", "{{ _x }}", "/system", "line 1: `_x`"),
        (
            "schema",
            {"type": "object"},
            "/response-type",
            "`schema` does not apply to an answer of type text",
        ),
        ("object-schema", {"type": "object"}, "/response-type", "`object-schema` does not apply"),
        ("coerce", True, "/response-type", "`coerce` does not apply to an answer of type text"),
        ("repair-by-model", True, "/response-type", "`repair-by-model` does not apply to an answer"),
        (
            "escalate",
            {"op": "=", "value": "x"},
            "/escalate/op",
            "did you mean '=='? (found '=', expected one of ~, ==, !=, contains)",
        ),
        (
            "escalate",
            {"op": "=="},
            "/escalate",
            "the key `value` is missing (found 'op', expected `value` too)",
        ),
        (
            "escalate",
            {"op": "==", "value": ""},
            "/escalate/value",
            "it is empty (found '', expected at least 1 character)",
        ),
        ("model", {"name": ""}, "/model/name", "it is empty (found '', expected at least 1 character)"),
        ("model", {"extras": {"n": 5}}, "/model/extras/n", "the key `n` is not allowed here"),
        ("model", {"extras": {"max_tokens": 5}}, "/model/extras/max_tokens", "is not allowed here"),
        ("model", {"extras": 5}, "/model/extras", "it is of the wrong type"),
    ],
)
def test_error_in_an_entry_of_ours_names_the_key(key: str, value: Any, path: str, said: str) -> None:
    error = refused({"dialect": "jinja", "prompt": "x", key: value})
    assert (error.where, error.path) == ("template.p", path)
    assert said in str(error)


@pytest.mark.parametrize(
    "wrong", [lambda n: n, lambda n: {"n": n}, lambda n: ""], ids=["int", "object", "empty"]
)
def test_only_the_first_of_thousands_of_wrong_aliases_are_listed(wrong: Callable[[int], object]) -> None:
    def refuse(size: int) -> None:
        entry = {"dialect": "jinja", "prompt": "x", "aliases": [wrong(n) for n in range(size)]}
        error = refused(entry)
        assert error.path.startswith("/aliases")
        assert len(error.others) < MAX_ERRORS

    assert is_linear(refuse, 500)
