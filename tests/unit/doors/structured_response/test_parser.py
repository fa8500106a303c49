"""Structured responses out of what models write (seed 3): what it took, and what nobody can read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile_texts import FEW
from tests.support.steps import is_linear
from trustgraph_prompt.doors.structured_response import ResponseParser, ResponseValidator, StructuredResponse

SOUND = '{"answer": "test", "items_shown": 5}'
DRAFT = '{"answer": "draft", "items_shown": 1}'
TEST = StructuredResponse("test", 5)

#: Text around the JSON.
EXTRACTED = {
    "fence": f"```json\n{SOUND}\n```",
    "fence without language": f"```\n{SOUND}\n```",
    "fence with CRLF": f"```json\r\n{SOUND}\r\n```",
    "fence in capitals": f"```JSON\n{SOUND}\n```",
    "fence in a line": f"```json {SOUND} ```",
    "indented fence": f"   ```json\n   {SOUND}\n   ```",
    "tildes": f"~~~json\n{SOUND}\n~~~",
    "fence that is not closed": f"```json\n{SOUND}",
    "prose before": f"Here is the answer: {SOUND}",
    "prose behind": f"{SOUND}\nI hope it helps.",
    "a brace too many": f"{SOUND}}}",
    "braces in prose": f"With {{braces}} it is {SOUND}",
    "citations": f"As [1] and [2] say: {SOUND}",
    "a draft in thinking": f"<think>{DRAFT}</think>{SOUND}",
    "braces in thinking": f"<think>{{ [ {{</think>{SOUND}",
    "another fence": f"```python\nx = {{}}\n```\n```json\n{SOUND}\n```",
    "another object in a fence": f'```json\n{{"foo": 1}}\n```\n```json\n{SOUND}\n```',
    "twice the same": f"{SOUND}\n{SOUND}",
}

#: Broken JSON, and the answer that it holds.
REPAIRED = {
    '{"answer": "test", "items_shown": 5,}': "test",
    "{'answer': 'test', 'items_shown': 5}": "test",
    '{answer: "test", items_shown: 5}': "test",
    '{"answer": "test" "items_shown": 5}': "test",
    '{"answer": "test", "items_shown": 5, "items_total": None}': "test",
    '{"answer": "test", // five\n "items_shown": 5}': "test",
    "{“answer”: “test”, “items_shown”: 5}": "test",
    '{"answer": "of "ADR" fame", "items_shown": 5}': 'of "ADR" fame',
    '{"answer": "two\nlines", "items_shown": 5}': "two\nlines",
    '{"answer": "C:\\path", "items_shown": 5}': "C:\\path",
    '{"answer": "a, } b ,] c", "items_shown": 5,}': "a, } b ,] c",
    'So: {"answer": "test", "items_shown": 5,}': "test",
}

#: What is there of a response that was cut, and the answer so far.
CUT = {
    '{"answer": "test", "items_shown": 5,': "test",  # seed 3's own example
    '{"answer": "test", "items_shown": 5': "test",
    '{"items_shown": 5, "answer": "te': "te",
    '{"items_shown": 5, "answer": "te\\u00': "te",
    '{"answer": "test", "items_shown": 5, "sources": [{"title": "ADR.21"}, {"ti': "test",
    '```json\n{"answer": "test", "items_shown": 5,': "test",
}


def parse(text: str) -> tuple[StructuredResponse | None, str]:
    return ResponseParser.parse_with_fallbacks(text, enable_metrics=False)


@pytest.mark.parametrize(
    "text", [SOUND, f" \n{SOUND}\n", f"\ufeff{SOUND}", json.dumps(json.loads(SOUND), indent=2)]
)
def test_text_of_the_response_alone_is_parsed_directly(text: str) -> None:
    assert parse(text) == (TEST, "direct_parse")


@pytest.mark.parametrize("text", EXTRACTED.values(), ids=EXTRACTED.keys())
def test_text_around_the_response_is_left_out(text: str) -> None:
    assert parse(text) == (TEST, "extracted_json")
    assert ResponseParser.extract_json(text) == SOUND


@pytest.mark.parametrize(("text", "answer"), REPAIRED.items(), ids=REPAIRED.keys())
def test_broken_json_is_repaired_without_changing_a_string(text: str, answer: str) -> None:
    assert parse(text) == (StructuredResponse(answer, 5), "repaired_json")
    repaired = ResponseParser.repair_json(text)
    assert repaired is not None
    assert json.loads(repaired)["answer"] == answer


@pytest.mark.parametrize(("text", "answer"), CUT.items(), ids=CUT.keys())
def test_cut_response_is_closed_up_and_marked_truncated(text: str, answer: str) -> None:
    response, fallback = parse(text)

    assert fallback == "repaired_json"
    assert response is not None
    assert (response.answer, response.items_shown, response.truncated) == (answer, 5, True)
    repaired = ResponseParser.repair_json(text)
    assert repaired is not None
    assert json.loads(repaired).items() >= {"answer": answer, "items_shown": 5}.items()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "no JSON in the answer"),
        ("", "the answer is empty"),
        ('{"answer": "te', "the answer ends within a value"),
        ("42", "expected object, found integer 42"),
        ("null", "expected object, found null"),
        (f"[{SOUND}]", "expected object, found array of 1"),
        ('{"a": {"b": {"c": 1}}}', '"answer" is missing; "items_shown" is missing'),
        ("{'answer': 'test'}", '"items_shown" is missing'),
        ('{"answer": "a", "items_shown": 9, "items_total": 3}', "'items_total' must be >= 'items_shown'"),
        (
            '{"answer": "a", "items_shown": 1, "schema_version": "9.9"}',
            "/schema_version: expected 1.x or 2.x",
        ),
        (f"{SOUND} or {DRAFT}", "2 different values would do"),
    ],
)
def test_text_without_a_response_says_why(text: str, why: str) -> None:
    response, fallback = parse(text)

    assert response is None
    assert fallback.startswith(f"parse_failed: {why}")


def test_none_in_place_of_a_text_is_a_parse_failure() -> None:
    nothing: Any = None

    assert parse(nothing) == (None, "parse_failed: the answer is NoneType, expected a string")
    assert ResponseParser.extract_json(nothing) is ResponseParser.repair_json(nothing) is None
    response, errors, _ = ResponseValidator.parse_and_validate(nothing)
    assert (response, errors) == (None, ["Invalid JSON: the answer is NoneType, expected a string"])


def test_extract_json_returns_the_whole_object_however_deep() -> None:
    deep = '{"a": {"b": {"c": {"d": 1}}}, "e": [{"f": {"g": {}}}]}'

    assert ResponseParser.extract_json(f"Look: {deep} there") == deep
    assert ResponseParser.extract_json("Look: {'a': {'b': {}}} there") == "{'a': {'b': {}}}"
    assert ResponseParser.extract_json("nothing") is None


def test_repair_json_leaves_sound_json_unchanged() -> None:
    for sound in (SOUND, '{"b" : 1e3,"a":[ ]}', "[1, 2]", '{"n": 12345678901234567890123}'):
        assert ResponseParser.repair_json(f"\n{sound} ") == sound
    assert ResponseParser.repair_json('{"answer": "a", "items_shown": 1, "other": 2,}') == (
        '{"answer": "a", "items_shown": 1, "other": 2}'
    )
    assert ResponseParser.repair_json("nothing to repair") is None


@given(
    st.text(), st.integers(0, 2**70), st.lists(st.dictionaries(st.text(), st.text(), max_size=3), max_size=3)
)
def test_any_written_response_is_parsed_unchanged(
    answer: str, shown: int, sources: list[dict[str, str]]
) -> None:
    response = StructuredResponse(f"<{answer}>", shown, sources=sources)
    written = json.dumps(response.to_dict())

    assert parse(written) == (response, "direct_parse")
    assert parse(f"```json\n{written}\n```") == (response, "extracted_json")


@given(st.text(alphabet='{}[]",:\\ansitemrow_hd15` \n'))
def test_no_text_makes_the_parser_raise(text: str) -> None:
    response, fallback = parse(text)

    assert (response is None) == fallback.startswith("parse_failed: ")
    ResponseParser.extract_json(text)
    ResponseParser.repair_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        '{"a":' * 20_000,
        f'{{"answer": "a", "items_shown": {"9" * 5000}}}',
        f'{{"n": {"9" * 5000}}}',
    ],
    ids=["brackets", "braces", "a count of 5,000 digits", "a number of 5,000 digits"],
)
def test_response_too_deep_or_too_long_is_a_parse_failure(text: str) -> None:
    assert parse(text)[1].startswith("parse_failed: ")
    ResponseParser.extract_json(text)
    ResponseParser.repair_json(text)


@pytest.mark.parametrize("token", FEW.values(), ids=FEW.keys())
def test_long_text_of_one_token_is_read_in_linear_time(token: str) -> None:
    def work(size: int) -> None:
        assert parse((token * size)[:size])[0] is None

    assert is_linear(work, 500)
