"""The instructions for a model, in words: short, bounded, no example that could be taken for an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_prompt.ask.messages import object_correction
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.instructions import MAX_TEXT
from trustgraph_prompt.llm import Message
from trustgraph_prompt.reader import read

LINES: dict[str, Any] = {"format": "jsonl"}

VOLCANOES = """
schema Rock:
    kind: "basalt" | "pumice"

schema Volcano:
    name: string  "As the passage
      writes it."
    height: float?  "In metres."
    active: bool
    rocks: Rock[]
    found: Rock?
"""


def told(schema: Any, **options: Any) -> str:
    return Contract.from_schema(schema, **options).instructions()


def keys(schema: Any, **options: Any) -> list[str]:
    return [line for line in told(schema, **options).splitlines() if line.lstrip().startswith("- ")]


def test_keys_are_listed_with_their_types_and_descriptions() -> None:
    contract = Contract.language(VOLCANOES.replace("\n      ", " "), format="jsonl")["Volcano"]
    assert contract.instructions() == (
        "Answer with JSON objects with the keys below, one object per line.\n\n"
        '- "name" (string): As the passage writes it.\n'
        '- "height" (number or null, optional): In metres.\n'
        '- "active" (true or false)\n'
        '- "rocks" (array of objects with the keys below)\n'
        '  - "kind" ("basalt" or "pumice")\n'
        '- "found" (object with the keys below or null, optional)\n'
        '  - "kind" ("basalt" or "pumice")\n\n'
        "No array around them, no commas between the lines. If there are none, write []. "
        "Write nothing else: no explanation, no Markdown, no code fence."
    )


def test_examples_of_the_schema_are_left_out() -> None:
    example = {"name": "Etna", "height": 3403}
    schema = {"type": "object", "properties": {"name": {"examples": ["Etna"]}}, "examples": [example]}
    assert "Etna" not in told(schema, **LINES)


def test_each_of_several_kinds_is_listed() -> None:
    kinds = [
        {"description": "A peak.", "properties": {"type": {"const": "peak"}, "height": {"minimum": 0}}},
        {"required": ["type", "length"], "properties": {"type": {"const": "river"}}},
    ]
    assert told({"oneOf": [{"type": "object", **kind} for kind in kinds]}, **LINES).splitlines()[:8] == [
        "Answer with JSON objects of one of the kinds below, one object per line.",
        "",
        "1. object with the keys below: A peak.",
        '   - "type" (always "peak", optional)',
        '   - "height" (value, at least 0, optional)',
        "2. object with the keys below:",
        '   - "type" (always "river")',
        '   - "length" (value)',
    ]


@pytest.mark.parametrize(
    ("schema", "options", "begins"),
    [
        (None, {}, "Answer with one JSON value.\nWrite"),
        (None, LINES, "Answer with JSON objects, one object per line.\nNo array"),
        ({"type": "string"}, {"many": True}, "Answer with a JSON array of strings.\n"),
        ({"type": ["integer", "null"]}, {}, "Answer with one JSON whole number or null.\n"),
        ({"enum": ["a", "b"]}, {"many": True}, 'Answer with a JSON array of values, each "a" or "b".\n'),
        (
            {"type": "array", "items": {"type": "integer"}},
            {},
            "Answer with one JSON array of whole numbers.\n",
        ),
        ({"const": True}, {}, "Answer with one JSON value: always true.\n"),
        ({"type": "object"}, {}, "Answer with one JSON object.\n"),
        (
            {"required": ["a"], "additionalProperties": False},
            {},
            "Answer with one JSON object with the keys b",
        ),
    ],
)
def test_schema_that_is_no_object_is_described_in_a_word(schema: Any, options: Any, begins: str) -> None:
    assert told(schema, **options).startswith(begins)


def test_bounds_additional_keys_and_recursion_are_described() -> None:
    schema = {
        "type": "object",
        "properties": {
            "share": {"type": "number", "minimum": 0, "maximum": 1},
            "code": {"type": "string", "pattern": "^[A-Z]+$"},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "parts": {"type": "array", "items": {"$ref": "#"}},
        },
        "additionalProperties": False,
    }
    assert "with the keys below and no others." in told(schema)
    assert keys(schema) == [
        '- "share" (number, at least 0, at most 1, optional)',
        '- "code" (string, matching "^[A-Z]+$", optional)',
        '- "counts" (object with the keys below, optional)',
        "  - any key (whole number)",
        '- "parts" (array of values, each as above, optional)',
    ]


STRING: dict[str, Any] = {"$defs": {"A": {"type": "string"}}}
BESIDE: list[dict[str, Any]] = [
    {"maxLength": 3},
    {"not": {}},
    {"allOf": [{}, {"maxLength": 3}]},
    {"pattern": "a"},
]


@pytest.mark.parametrize(
    "schema",
    [
        *({"properties": {"a": {"$ref": "#/$defs/A", **beside}}, **STRING} for beside in BESIDE),
        {
            "$ref": "#/$defs/A",
            "$defs": {"A": {"$ref": "#/$defs/B", "maxLength": 3}, "B": {"type": "string"}},
        },
        {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 0, "exclusiveMinimum": True},
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "null"}}], "minLength": 2},
        {"type": "array", "items": False},
        {"type": "string", "enum": ["a", 1]},
        {"enum": [{"a": 1}, {}], "required": ["a"]},
        {"type": ["object", "array"], "required": ["a"], "items": {"required": ["b"]}},
    ],
    ids=str,
)
def test_schema_with_keywords_beside_a_reference_is_shown_as_json_schema(schema: Any) -> None:
    assert told(schema).startswith("Answer with one JSON value valid against the JSON Schema below.\n\n{")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "array of strings, no two the same",
        ),
        ({"type": "array", "uniqueItems": False}, "array"),
        (
            {"type": "object", "minProperties": 1, "maxProperties": 2},
            "object, at least 1 keys, at most 2 keys",
        ),
        ({"enum": [1, 2, 3], "minimum": 2}, "value: 1 or 2 or 3, at least 2"),
        ({"type": "number", "enum": [1, 2.5]}, "value: 1 or 2.5"),
        ({"items": {"type": "string"}}, "array of strings"),
        ({"type": "object", "additionalProperties": False}, "object without keys"),
        ({"type": "array", "items": {"$ref": "#"}}, "array of values, each as above"),
        (
            {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]},
            "array of values, each as above or string",
        ),
    ],
)
def test_kind_of_value_is_described_with_its_bounds(schema: Any, kind: str) -> None:
    assert told(schema).startswith(f"Answer with one JSON {kind}.\n")


def test_reference_to_a_string_or_an_object_above_is_not_called_an_object() -> None:
    part = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert keys({"anyOf": [{"type": "string"}, part]}) == ['- "next" (as above, optional)']


def test_alternatives_with_a_list_are_called_values() -> None:
    schema = {"anyOf": [{"required": ["a"]}, {"type": "array", "items": {"required": ["b"]}}]}
    assert told(schema).startswith("Answer with one JSON value of one of the kinds below.\n")


@pytest.mark.parametrize(
    ("schema", "begins"),
    [
        (
            {"properties": {"a": {"type": "object", "properties": {"b": {}}}}},
            "with the keys below and no others.",
        ),
        ({"properties": {"a": {}}, "additionalProperties": True}, "with the keys below and no others."),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, "with the keys below."),
        ({"type": "object"}, "."),
        (
            {"properties": {"a": {}}, "not": {}},
            "valid against the JSON Schema below that has no other keys than",
        ),
    ],
)
def test_refused_extra_keys_are_mentioned(schema: Any, begins: str) -> None:
    text = told({"type": "object", **schema}, extra="forbid").replace("JSON value", "JSON object")
    assert text.startswith(f"Answer with one JSON object{'' if begins == '.' else ' '}{begins}")


def test_descriptions_of_the_root_of_elements_and_of_values_are_included() -> None:
    schema = {
        "description": "A wine.",
        "properties": {
            "names": {"type": "array", "items": {"type": "string", "description": "As on the label."}},
            "colour": {
                "oneOf": [
                    {"const": "red", "description": "Or rosé."},
                    {"const": "white", "description": "Pale."},
                ]
            },
            "sold": {"anyOf": [{"description": "When.", "type": "string"}, {"type": "null"}]},
            "grapes": {"additionalProperties": {"type": "number", "description": "Its share."}},
        },
    }
    assert told(schema, many=True).splitlines()[2:13] == [
        "Description: A wine.",
        '- "names" (array of strings, optional)',
        "  Each: As on the label.",
        '- "colour" (value of one of the kinds below, optional)',
        '  1. always "red": Or rosé.',
        '  2. always "white": Pale.',
        '- "sold" (string or null, optional)',
        "  Description: When.",
        '- "grapes" (object with the keys below, optional)',
        "  - any key (number): Its share.",
        "",
    ]


def test_lines_that_are_no_objects_are_not_called_objects() -> None:
    assert told({"type": "string"}, **LINES).startswith("Answer with JSON strings, one per line.\n")


@pytest.mark.parametrize("named", [{}, {"schema_version": {"type": "string"}}])
def test_newest_version_is_asked_for_by_its_name(named: Any) -> None:
    new = {"properties": {"new": {}, **named}, "required": ["new"], "additionalProperties": False}
    assert keys(None, versions={"1.0": {"required": ["old"]}, "2.0": new}) == [
        '- "schema_version" (always "2.0")',
        '- "new" (value)',
    ]


def test_schema_of_values_without_a_version_is_described() -> None:
    assert keys({"required": ["a"]}, versions={"1.0": {"required": ["b"]}}) == ['- "a" (value)']


def test_correction_of_an_ungrounded_object_does_not_ask_for_it_again() -> None:
    schema = {"properties": {"name": {"type": "string", "x-from": "text"}}, "required": ["name"]}
    contract = Contract.from_schema(schema, format="jsonl")

    def asked(answer: str) -> str:
        refused = read(answer, contract, terms={"text": "The Rhine."}).rejected
        return object_correction([Message("user", "Which?")], refused, contract)[-1].text

    assert "with that put right" not in asked('{"name": "Nile"}')
    assert "as the passage has it" in asked('{"name": "Nile"}')
    assert "answer with []" in asked('{"name": "Nile"}')
    assert "with that put right, in the same order" in asked('{"name": "Nile"}\n{"name": 1}')


@pytest.mark.parametrize(
    "keyword", [{"not": {"required": ["error"]}}, {"if": {}}, {"anyOf": [{"minProperties": 1}]}]
)
def test_schema_with_conditions_is_shown_as_json_schema(keyword: Any) -> None:
    text = told({"type": "object", "properties": {"a": {}}, **keyword}, **LINES)
    assert text.startswith(
        "Answer with JSON objects valid against the JSON Schema below, one object per line.\n\n{"
    )
    assert f'"{next(iter(keyword))}"' in text


def test_keys_required_beside_a_reference_are_included() -> None:
    schema = {"$ref": "#/$defs/A", "required": ["b"], "$defs": {"A": {"type": "object", "required": ["a"]}}}
    assert '"b"' in told(schema)
    assert '"a"' in told(schema)


def test_key_whose_schema_is_false_is_left_out() -> None:
    assert keys({"properties": {"a": {}, "b": False}}) == ['- "a" (value, optional)']


def test_unknown_keyword_is_left_out() -> None:
    assert keys({"properties": {"a": {"type": "string", "x-of-ours": ["text"]}}}) == [
        '- "a" (string, optional)'
    ]


def test_template_syntax_in_names_and_descriptions_is_kept_literally() -> None:
    odd = 'a"b\n{{ x }} {keys}'
    description = "{{ text }} {% raw %}\n\n{kind} {kinds} {schema} # not a heading"
    (line,) = keys({"properties": {odd: {"enum": ["{kinds}", None], "description": description}}}, **LINES)
    assert json.dumps(odd) in line
    assert '("{kinds}" or null, optional)' in line
    assert line.endswith(": {{ text }} {% raw %} {kind} {kinds} {schema} # not a heading")


WIDE: dict[str, Any] = {
    f"key {number}": {"type": "string", "description": "x" * 500} for number in range(1_900)
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": WIDE},
        {"type": "object", "properties": WIDE, "not": {"required": ["error"]}},
        {"type": "object", "properties": {"a": {"enum": ["x" * 400] * 20 + [f"y{n}" for n in range(5_000)]}}},
        {"anyOf": [{"type": "object", "required": [f"a{number}"]} for number in range(1_900)]},
        {"anyOf": [{"type": "string", "minLength": number} for number in range(1_900)]},
        {
            "$ref": "#/$defs/d0",
            "$defs": {
                "d30": {},
                **{
                    f"d{level}": {
                        "properties": {name: {"$ref": f"#/$defs/d{level + 1}"} for name in "abcdef"}
                    }
                    for level in range(30)
                },
            },
        },
    ],
    ids=["keys", "shown", "values", "kinds", "types", "references"],
)
@pytest.mark.parametrize("options", [{}, LINES], ids=["json", "jsonl"])
def test_instructions_are_bounded(schema: Any, options: Any) -> None:
    assert 100 < len(told(schema, **options)) < 2 * MAX_TEXT + 2_000


def test_first_of_too_many_keys_are_listed() -> None:
    told_of = keys({"type": "object", "properties": WIDE, "required": list(WIDE)})
    assert told_of[0] == '- "key 0" (string)'
    assert told_of[-1] == f"- … and {1_900 - len(told_of) + 1:,} more keys"


def test_descriptions_are_left_out_before_keys() -> None:
    some = dict(list(WIDE.items())[:100])
    assert keys({"type": "object", "properties": some}) == [f'- "{key}" (string, optional)' for key in some]
