"""Texts that are meant to stop a reader: read in linear time, and nothing but an outcome comes of them."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import StreamReader, read

LONG = 200_000
MEGABYTE = 1_000_000
PATIENCE = 20  # seconds; it takes a tenth of one, where a quadratic reader takes minutes

HOSTILE = {
    "open brackets": "[",
    "open braces": "{",
    "quotes": '"',
    "backslashes": "\\",
    "close braces": "}",
    "nested objects": '{"a":',
    "nested arrays in objects": '{"a":[',
    "keys without end": '{"',
    "braces in prose": "{x",
    "brackets in prose": "[x",
    "open members": '{"a":1,',
    "open elements": "[1,",
    "missing braces": '{"a":1\n',
    "brace a line": "\n{",
    "bracket a line": "\n[",
    "open string a brace": '{"a":"',
    "python objects": "{'",
    "backticks": "`",
    "fences": "``` ",
    "thoughts": "<think>",
    "ends of thoughts": "</think>",
    "angle brackets": "<",
    "wrappers": '{"items":[',
    "false wrappers": '{"items":[{}],"b":1}',
    "empty objects": "{}",
    "empty arrays": "[]",
    "surrogate escapes": '{"a":"\\ud800"}',
    "digits": "1",
    "newlines": "\n",
    "markers": "- {",
    "broken lines": '{"a":"x" y"}\n',
}


@pytest.mark.parametrize("token", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_a_long_text_of_one_token_is_read_in_linear_time(token: str, format: Format) -> None:
    text = (token * LONG)[:LONG]
    started = time.perf_counter()
    outcome = read(text, format)
    assert time.perf_counter() - started < PATIENCE
    assert outcome.reason in Reason


@pytest.mark.parametrize("token", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_in_small_chunks_is_read_in_linear_time(token: str) -> None:
    text = (token * LONG)[: LONG // 10]
    started = time.perf_counter()
    reader = StreamReader("jsonl")
    for position in range(0, len(text), 4):
        reader.feed(text[position : position + 4])
    outcome = reader.close()
    assert time.perf_counter() - started < PATIENCE
    assert outcome == read(text, "jsonl")


def test_an_endless_string_in_small_chunks_is_read_in_linear_time() -> None:
    reader = StreamReader("jsonl")
    started = time.perf_counter()
    reader.feed('{"a": "')
    for _ in range(LONG):
        reader.feed("}ab ")
    assert time.perf_counter() - started < PATIENCE
    assert reader.close().value == []


def test_an_endless_broken_line_in_small_chunks_is_read_in_linear_time() -> None:
    reader = StreamReader("jsonl")
    started = time.perf_counter()
    reader.feed("{'a': ")
    for _ in range(LONG):
        reader.feed("{}, ")
    assert time.perf_counter() - started < PATIENCE
    assert [r.index for r in reader.close().rejected] == [0]


def test_an_object_that_is_nested_too_deep_is_refused_alone() -> None:
    deep = '{"a":' * 300 + "1" + "}" * 300
    outcome = read(f'{{"b": 1}}\n{deep}\n{{"b": 2}}', "jsonl")
    assert outcome.value == [{"b": 1}, {"b": 2}]
    assert outcome.rejected[0].issues[0].message == "no JSON: nested deeper than 200 levels"


def test_a_value_that_is_nested_too_deep_is_refused() -> None:
    outcome = read("[" * 300 + "]" * 300, "json")
    assert (outcome.value, outcome.reason) == (None, Reason.INVALID_JSON)
    assert "200 levels" in outcome.explain()


def test_depth_up_to_the_limit_is_read() -> None:
    value = read("[" * 200 + "]" * 200, "json").value
    assert repr(value) == "[" * 200 + "]" * 200
    deep = '{"a":' * 200 + "1" + "}" * 200
    assert read(deep, "jsonl").value == read(f"{deep} .", "jsonl").value
    assert read(deep, "jsonl").ok


def test_more_objects_than_the_limit_are_left_unread_and_the_outcome_says_so() -> None:
    for text in ('{"a": 1}\n' * 30_000, '{"a": 1} ' * 30_000):
        outcome = read(text, "jsonl", finish_reason="stop")
        assert len(outcome.value) == 20_000
        assert outcome.truncated is True
        reader = StreamReader("jsonl")
        for position in range(0, len(text), 1000):
            reader.feed(text[position : position + 1000])
        assert reader.close("stop") == outcome
        assert outcome.issues[0].message == "more than 20000 objects: the rest was not read"


def test_memory_stays_within_a_few_times_the_text() -> None:
    text = '{"a": "' + "x" * MEGABYTE
    tracemalloc.start()
    read(text, "jsonl")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * MEGABYTE


def test_the_schema_is_not_asked_about_what_is_no_object() -> None:
    contract = Contract.from_schema({"type": "integer"}, format="jsonl")
    assert read("1\n2\n3", contract).reason is Reason.EXTRACTION_FAILED
