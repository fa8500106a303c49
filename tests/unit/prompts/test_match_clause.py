"""The clause `match` in prompts: its default, its errors, and what it leaves as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.language.format import format
from trustgraph_prompt.prompts.definition import PromptDefinition
from trustgraph_prompt.prompts.prompt_file import compile_file
from trustgraph_prompt.prompts.prompt_set import PromptSet

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "country": {"type": ["string", "null"]},
        "height": {"type": "integer"},
        "note": {"type": "string"},
    },
    "required": ["name", "country", "height"],
}
ENTRY = {"dialect": "jinja", "prompt": "Which volcanoes?", "response-type": "jsonl", "schema": SCHEMA}


def defined(**more: Any) -> PromptDefinition:
    return PromptDefinition.from_entry("volcanoes", {**ENTRY, **more})


def test_default_clause_compares_every_required_string_normalised() -> None:
    clause = defined().match
    assert clause.keys == {"name": "normalised", "country": "normalised"}
    assert clause.required == {"name", "country"}


def test_default_clause_of_a_union_has_the_required_strings_of_each_kind() -> None:
    kinds = [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, key: {"type": "string"}},
            "required": [key, "kind"],
        }
        for kind, key in (("a", "name"), ("b", "title"))
    ]
    clause = defined(schema={"oneOf": kinds}).match
    assert clause.keys.keys() == {"kind", "name", "title"}
    assert clause.required == {"kind"}


def test_default_clause_leaves_out_the_quotes_of_objects() -> None:
    quote = {"type": "string", "x-quote": "text"}
    quoted = {**SCHEMA, "properties": {"quote": quote, **SCHEMA["properties"]}, "required": ["quote", "name"]}  # type: ignore[dict-item]
    clause = defined(prompt="{{ text }}", schema=quoted).match
    assert clause.keys == {"name": "normalised"}
    assert clause.ignored == {"quote"}
    named = defined(prompt="{{ text }}", schema=quoted, match={"quote": "exact"}).match
    assert named.keys == {"quote": "exact"}
    assert not named.ignored


def test_objects_without_required_strings_are_compared_as_a_whole() -> None:
    assert defined(schema={"type": "object", "properties": {"n": {"type": "integer"}}}).match.keys == {}
    assert defined(schema=None).match.keys == {}


def test_each_key_is_compared_as_the_clause_says() -> None:
    clause = defined(match={"name": {"fuzzy": 0.8}, "height": "exact", "note": "normalised"}).match
    assert clause.keys == {"name": 0.8, "height": "exact", "note": "normalised"}
    assert clause.required == {"name", "height"}


def test_match_clause_does_not_change_the_version() -> None:
    assert defined(match={"name": "exact"}).version == defined().version


@pytest.mark.parametrize(
    ("match", "path", "says"),
    [
        ({}, "/match", "it is empty"),
        ([], "/match", "it is of the wrong type"),
        ({"nmae": "exact"}, "/match/nmae", "the schema does not declare this key, did you mean 'name'?"),
        ({"name": "equal"}, "/match/name", "expected exact or normalised; or the key fuzzy"),
        ({"name": {"fuzzy": 0}}, "/match/name", "it is too small"),
        ({"name": {"fuzzy": 2}}, "/match/name", "it is too large"),
        ({"name": {"fuzy": 0.5}}, "/match/name", "fuzzy"),
        ({"height": {"fuzzy": 0.5}}, "/match/height", "the schema gives this key another type"),
    ],
    ids=str,
)
def test_error_in_a_clause_says_where_and_what_was_expected(match: Any, path: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        defined(match=match)
    assert error.value.path.startswith(path)
    assert says in str(error.value)


def test_match_clause_is_refused_for_a_text() -> None:
    entry = {"dialect": "jinja", "prompt": "Hello.", "match": {"name": "exact"}}
    with pytest.raises(ConfigError, match="`match` does not apply to an answer of type text"):
        PromptDefinition.from_entry("hello", entry)


SOURCE = """
schema Volcano:
    name: string
    height: int?

prompt volcanoes expecting Volcano[] as jsonl:
    match: {name: {fuzzy: 0.8}, height: "exact"}
    text: "Which volcanoes? {{ answer_format }}"
"""


def test_clause_of_a_prompt_file_is_that_of_its_entry_after_formatting_too() -> None:
    compiled = compile_file(SOURCE, "volcanoes.prompt")
    entry = compiled.entries["template.volcanoes"]
    assert entry["match"] == {"name": {"fuzzy": 0.8}, "height": "exact"}

    formatted = format(SOURCE)
    assert compile_file(formatted, "volcanoes.prompt").entries == compiled.entries
    assert format(formatted) == formatted

    pushed = PromptSet.build({"template.volcanoes": json.dumps(entry)})
    assert pushed.get("volcanoes").match.keys == {"name": 0.8, "height": "exact"}


def test_error_in_a_prompt_file_has_its_line_and_column() -> None:
    with pytest.raises(ConfigError) as error:
        compile_file(SOURCE.replace('height: "exact"', 'hight: "exact"'), "volcanoes.prompt")
    assert str(error.value).startswith("volcanoes.prompt:7:")
    assert "did you mean 'height'?" in str(error.value)
