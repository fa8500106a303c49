"""The rule that a rejected value breaks, in the schema or in the file that it comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.rule_in_source import LONGEST, BrokenRule, RuleSource, SchemaFile, broken_rule
from trustgraph_prompt.prompts import files

PROPERTIES: dict[str, Any] = {
    "entity": {"type": "string", "minLength": 2, "x-from": "text"},
    "kind": {"$ref": "#/$defs/Kind"},
    "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
}
SCHEMA = {
    "type": "object",
    "properties": PROPERTIES,
    "required": ["entity"],
    "additionalProperties": False,
    "$defs": {"Kind": {"enum": ["rock", "plant"]}},
}
TAGGED = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"tag": {"const": "a"}, "n": {"type": "integer"}},
            "required": ["tag", "n"],
        },
        {"type": "object", "properties": {"tag": {"const": "b"}}, "required": ["tag"]},
    ]
}


def rules(contract: Contract, value: object, source: RuleSource | None = None) -> list[BrokenRule]:
    found = [broken_rule(issue.keyword, contract, source) for issue in contract.issues(value)]
    return [rule for rule in found if rule is not None]


def marked(rule: BrokenRule) -> tuple[str, str]:
    return rule.where, rule.text[rule.start : rule.end]


@pytest.mark.parametrize(
    ("value", "where", "rule"),
    [
        ({}, "/schema", '"required": ["entity"]'),
        ({"entity": 5}, "/schema/properties/entity", '"type": "string"'),
        ({"entity": "x"}, "/schema/properties/entity", '"minLength": 2'),
        ({"entity": "sea"}, "/schema/properties/entity", '"x-from": "text"'),
        ({"entity": "rock", "new": 1}, "/schema", '"additionalProperties": false'),
        ({"entity": "rock", "kind": "ore"}, "/schema/$defs/Kind", '"enum": ["rock", "plant"]'),
        (
            {"entity": "rock", "either": []},
            "/schema/properties/either",
            '"anyOf": [{"type": "string"}, {"type": "integer"}]',
        ),
        ({"entity": "rock rock"}, "/invariants/0", "entity != 'rock rock'"),
    ],
)
def test_rule_is_marked_in_its_part_of_the_schema(value: object, where: str, rule: str) -> None:
    invariants = ["entity != 'rock rock'"]
    contract = Contract.from_schema(SCHEMA, format="jsonl", invariants=invariants)
    [found] = rules(contract.with_terms({"text": "a rock"}), value)
    assert marked(found) == (where, rule)
    assert len(found.text) <= LONGEST


def test_broken_rule_of_a_union_is_in_the_matching_branch() -> None:
    contract = Contract.from_schema(TAGGED)
    assert marked(*rules(contract, {"tag": "a"})) == ("/schema/oneOf/0", '"required": ["tag", "n"]')
    for unknown in ({}, {"tag": "c"}):
        [rule] = rules(contract, unknown)
        assert rule.where == "/schema"
        assert rule.text[rule.start :].startswith('"oneOf": [')


def test_list_breaks_the_rule_of_its_element() -> None:
    contract = Contract.from_schema({"type": "integer"}, many=True)
    assert marked(*rules(contract, [1, "x"])) == ("/schema", '"type": "integer"')


def test_broken_rule_is_that_of_the_version_of_the_value() -> None:
    old: dict[str, Any] = {"type": "object", "required": ["a"]}
    new = {**old, "properties": {"b": {"type": "string"}}}
    versions = {"1.0": old, "1.1": new}
    contract = Contract.from_schema(None, versions=versions)
    given = Contract.from_schema({"required": ["c"]}, versions=versions)

    assert rules(contract, {})[0].where == "/versions/1.0"
    assert rules(contract, {"schema_version": "1.1"})[0].where == "/versions/1.1"
    value = {"schema_version": "1.1", "a": 1, "b": 2}
    assert marked(*rules(contract, value)) == ("/versions/1.1/properties/b", '"type": "string"')
    assert marked(*rules(given, {})) == ("/schema", '"required": ["c"]')


def test_extra_keys_break_the_option_that_forbids_them() -> None:
    contract = Contract.from_schema({"properties": {"a": True}}, extra="forbid")
    assert marked(*rules(contract, {"b": 1})) == ("/extra", "extra: forbid")


def test_schema_that_is_false_is_the_broken_rule() -> None:
    assert marked(*rules(Contract.from_schema(False), 1)) == ("/schema", "false")


def test_broken_rule_of_a_large_schema_is_shown_in_one_short_line() -> None:
    words = {f"a rather long name {n}": {"type": "string"} for n in range(500)}
    schema: dict[str, Any] = {
        "properties": words,
        "enum": [{"n": "x" * 1000, "more": list(range(n))} for n in range(100)],
    }
    schema |= {f"x-{n}": 1 for n in range(500)}
    [rule] = rules(Contract.from_schema(schema), {})
    assert marked(rule)[1].startswith('"enum": [')
    assert len(rule.text) < LONGEST + 20

    holder = {"properties": words, "required": ["a"], "additionalProperties": True}
    [rule] = rules(Contract.from_schema(holder), {})
    assert rule.text == '{"properties": …, "required": ["a"], "additionalProperties": true}'


def test_keyword_that_is_not_in_the_contract_has_no_broken_rule() -> None:
    contract = Contract.from_schema(SCHEMA)
    keywords = (
        *("", "/schema/nothing", "/schema/type/type", "/schema/required/7/x", "/schema/properties/a/b/c"),
        *("/versions/1.0/type", "/invariants/0", "/invariants/x", "/nothing", "nothing"),
    )
    for keyword in keywords:
        broken_rule(keyword, contract)  # from a record that anyone may have written
    assert broken_rule("", contract) is None
    assert broken_rule("/schema/nothing", contract) is None
    assert broken_rule("/versions/1.0/type", contract) is None
    assert broken_rule("/invariants/0", contract) is None


def test_line_of_a_schema_file_is_shown() -> None:
    plain = {**SCHEMA, "properties": {"entity": {"type": "string", "minLength": 2}}}
    contract, source = Contract.from_schema(plain), SchemaFile("s.json", json.dumps(plain, indent=2))
    assert rules(contract, {"entity": "x"}, source) == [BrokenRule("s.json:6:20", '"minLength": 2', 13, 14)]
    assert marked(*rules(contract, {}, source)) == ("s.json:10:5", '"entity"')


PROMPTS = '''schema Definition:
    entity: string @from(text) @length(2, 40)  "Its name."
    weight: float @min(0)
    kind: Kind
schema Kind:
    name: string

prompt define expecting Definition[] as jsonl:
    text: """{{ text }}"""

prompt choose expecting string as json:
    text: "{{ text }}"
'''


@pytest.mark.parametrize(
    ("value", "where", "line"),
    [
        ({}, "2:5", 'entity: string @from(text) @length(2, 40)  "Its name."'),
        ({"entity": "x"}, "2:32", '@length(2, 40)  "Its name."'),
        ({"entity": "sea"}, "2:20", '@from(text) @length(2, 40)  "Its name."'),
        ({"entity": "rock", "weight": -1}, "3:19", "@min(0)"),
        ({"entity": "rock", "kind": {"name": 1}}, "6:5", "name: string"),
    ],
)
def test_line_of_a_file_in_the_schema_language_is_shown(
    tmp_path: Path, value: dict[str, object], where: str, line: str
) -> None:
    (tmp_path / "p.prompt").write_text(PROMPTS)
    found = files.read(tmp_path)
    contract = found.build().get("define").contract.with_terms({"text": "a rock"})

    whole = {"weight": 1, "kind": {"name": "rock"}, **value}
    [rule] = rules(contract, whole, found.places["template.define"])

    name, _, position = rule.where.partition(":")
    assert (Path(name).name, position) == ("p.prompt", where.removeprefix("@"))
    assert rule.text[rule.start : rule.end] == line


def test_prompt_with_expects_shows_the_line_of_its_expectation(tmp_path: Path) -> None:
    (tmp_path / "p.prompt").write_text(PROMPTS)
    found = files.read(tmp_path)
    [rule] = rules(found.build().get("choose").contract, 5, found.places["template.choose"])
    assert rule.where.endswith(".prompt:11:25")


def test_schema_in_a_yaml_file_is_shown_without_a_line(tmp_path: Path) -> None:
    prompt = {"dialect": "jinja", "prompt": "x", "response-type": "json", "schema": {"type": "integer"}}
    (tmp_path / "p.yaml").write_text(json.dumps(prompt))
    found = files.read(tmp_path)
    contract = found.build().get("p").contract
    assert marked(*rules(contract, "x", found.places["template.p"])) == ("/schema", '"type": "integer"')
