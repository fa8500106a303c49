"""Texts that are meant to stop a reader: read in linear time, and nothing but an outcome comes of them."""

from __future__ import annotations

import pytest

from tests.support.hostile_texts import HOSTILE
from tests.support.memory import bytes_beside_the_result
from tests.support.steps import is_linear, steps
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import Outcome, StreamReader, read

LONG = 1_000  # and four times that
LIMIT = 20_000  # objects
MARKS = 20_000  # of thinking


@pytest.fixture(scope="module", autouse=True)
def patterns() -> None:
    """The patterns that are compiled when they are first needed."""
    for text in (*HOSTILE.values(), *LARGE.values()):
        read(text, "json")


@pytest.mark.parametrize("token", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_long_text_of_one_token_is_read_in_linear_time(token: str, format: Format) -> None:
    def read_long(size: int) -> None:
        assert read((token * size)[:size], format).reason in Reason

    assert is_linear(read_long, LONG)


@pytest.mark.parametrize("token", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_in_small_chunks_is_read_in_linear_time(token: str) -> None:
    def stream(size: int) -> None:
        text = (token * size)[:size]
        reader = StreamReader("jsonl")
        for position in range(0, len(text), 4):
            reader.feed(text[position : position + 4])
        assert reader.close() == read(text, "jsonl")

    assert is_linear(stream, LONG // 2)


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [('{"a": "', "}ab "), ("{'a': ", "{}, "), ('{"a": [', "{},"), ("<think>", "{} <"), ("- ", "``}`")],
    ids=["string", "broken line", "array", "thinking", "prose"],
)
def test_text_that_never_ends_is_read_in_linear_time(begins: str, goes_on: str) -> None:
    def stream(chunks: int) -> None:
        reader = StreamReader("jsonl")
        reader.feed(begins)
        for _ in range(chunks):
            reader.feed(goes_on)
        assert reader.close().value == []

    assert is_linear(stream, LONG)


def test_broken_arrays_in_prose_take_no_longer_the_deeper_they_are() -> None:
    def taken(levels: int) -> int:
        nested = "of [" + "[1," * levels + " x "
        return steps(lambda: read((nested * LONG)[: 10 * LONG], "json"))

    assert taken(190) < 4 * taken(10)


def test_one_broken_line_does_not_slow_the_good_ones() -> None:
    def taken(lines: int) -> int:
        half = '{"type": "definition", "entity": "a word", "definition": "What it is."}\n' * (lines // 2)
        text = f'{half}{{"entity": oops}}\n{half}'
        assert len(read(text, "jsonl").value) == lines
        return steps(lambda: read(text, "jsonl"))

    assert taken(1_200) - taken(400) < 8 * 800


FAST = {
    "fences": "``` ",
    "fences of two kinds": "~~~```",
    "thoughts in a line": "a <think>",
    "ends of thoughts": "</think>",
    "closing brackets": "},]",
}


@pytest.mark.parametrize("token", FAST.values(), ids=FAST.keys())
def test_text_without_a_value_is_skipped_at_once(token: str) -> None:
    def taken(times: int) -> int:
        return steps(lambda: read(token * times, "jsonl"))

    assert taken(3 * LONG) - taken(LONG) < LONG


def test_fenced_blocks_that_are_no_json_are_not_decoded() -> None:
    contract = Contract.from_schema({"type": "object"}, fences="strict")

    def taken(times: int) -> int:
        text = "```json\nx\n```\n" * times
        assert [str(issue) for issue in read(text, contract).issues] == ["no JSON: Expecting value"]
        return steps(lambda: read(text, contract))

    assert taken(3 * LONG) - taken(LONG) < 30 * 2 * LONG


def test_at_most_a_thousand_broken_wrappers_are_read() -> None:
    wrapper = '{"items": [{"a": 1}], "b": 1 '
    few, many = (read(wrapper * times + "x", "jsonl") for times in (1_000, 1_002))
    assert (len(few.value), few.issues) == (1_000, ())
    assert (len(many.value), many.issues[0].reason) == (1_001, Reason.TRUNCATED)


def test_object_nested_too_deep_is_refused_alone() -> None:
    deep = '{"a":' * 300 + "1" + "}" * 300
    outcome = read(f'{{"b": 1}}\n{deep}\n{{"b": 2}}', "jsonl")
    assert outcome.value == [{"b": 1}, {"b": 2}]
    assert outcome.rejected[0].issues[0].message == "no JSON: nested deeper than 200 levels"


def test_value_nested_too_deep_is_refused() -> None:
    outcome = read("[" * 300 + "]" * 300, "json")
    assert (outcome.value, outcome.reason) == (None, Reason.INVALID_JSON)
    assert "200 levels" in outcome.explain()


def test_depth_up_to_the_limit_is_read() -> None:
    value = read("[" * 200 + "]" * 200, "json").value
    assert repr(value) == "[" * 200 + "]" * 200
    deep = '{"a":' * 200 + "1" + "}" * 200
    assert read(deep, "jsonl").value == read(f"{deep} .", "jsonl").value
    assert read(deep, "jsonl").ok


LAYOUTS = {
    "lines": '{"a": 1}\n{}',
    "a line": '{"a": 1} {}',
    "array": '[{"a": 1}{}]',
    "wrapper": '{"items": [{"a": 1}{}]}',
}


def _many(layout: str, count: int) -> str:
    start, _, end = LAYOUTS[layout].partition("{}")
    separator = ", " if "[" in start else start[8:]
    return start + (separator + '{"a": 1}') * (count - 1) + end


@pytest.mark.parametrize("layout", LAYOUTS)
def test_as_many_objects_as_the_limit_are_all_read(layout: str) -> None:
    outcome = read(_many(layout, LIMIT), "jsonl", finish_reason="stop")
    assert (len(outcome.value), outcome.truncated, outcome.issues) == (LIMIT, False, ())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("more", [1, 5000])
def test_objects_beyond_the_limit_are_left_unread_and_the_outcome_says_so(layout: str, more: int) -> None:
    text = _many(layout, LIMIT + more)
    outcome = read(text, "jsonl", finish_reason="stop")
    assert (len(outcome.value), outcome.truncated) == (LIMIT, True)
    assert (
        outcome.issues[0].message
        == "more than 20,000 objects, or 1,000 of them refused: the rest was not read"
    )
    reader = StreamReader("jsonl")
    given = [found for position in range(0, len(text), 1000) for found in reader.feed(text[position:][:1000])]
    assert reader.close("stop") == outcome
    assert given == outcome.value


@pytest.mark.parametrize("mark", ["</think> } ", "a <think> } ", "<think> } </think>\n"])
def test_text_behind_too_many_marks_of_thinking_is_left_unread(mark: str) -> None:
    text = mark * (MARKS + 1) + '\n{"a": 1}'
    outcome = read(text, "jsonl")
    assert (outcome.value, outcome.truncated) == ([], True)
    reader = StreamReader("jsonl")
    for position in range(0, len(text), 1000):
        assert reader.feed(text[position : position + 1000]) == []
    assert reader.close() == outcome


RESERVED = 12  # times the text: what orjson asks the allocator for, and leaves untouched but for some of it
CLEAN = "\n".join(f'{{"id": {n}, "text": "{"x" * 60}", "list": [1, {{"a": "b"}}]}}' for n in range(200))
LARGE = {
    "lines": CLEAN,
    "fence": f"```json\n{CLEAN}\n```",
    "array": "[" + CLEAN.replace("\n", ",\n") + "]",
    "wrapper": '{"items": [' + CLEAN.replace("\n", ",\n") + "]}",
    "one object": '{"a": "' + "x" * len(CLEAN) + '"}',
    "one cut object": '{"a": "' + "x" * len(CLEAN),
    "many in prose": "Here: " + CLEAN.replace("\n", " and "),
    "broken": CLEAN.replace('"list"', "list"),
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_reading_holds_at_most_three_times_the_text_beside_its_result(text: str) -> None:
    most = (3 + RESERVED) * len(text)
    assert bytes_beside_the_result(lambda: read(text, "json")) < most
    assert bytes_beside_the_result(lambda: read(text, "jsonl")) < most


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_reading_in_chunks_holds_no_more_memory(text: str) -> None:
    def stream() -> Outcome:
        reader = StreamReader("jsonl")
        for start in range(0, len(text), 500):
            reader.feed(text[start : start + 500])
        return reader.close()

    assert bytes_beside_the_result(stream) < (3 + RESERVED) * len(text)


def test_scalars_in_a_jsonl_answer_are_not_judged_by_the_schema() -> None:
    contract = Contract.from_schema({"type": "integer"}, format="jsonl")
    assert read("1\n2\n3", contract).reason is Reason.EXTRACTION_FAILED


@pytest.mark.parametrize("broken", ['{"a": 1e999}\n', '[{"a": 1e999}]', '{"a": NaN} ', '{"a": 1 "b"}\n'])
@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_refused_object_is_kept_without_the_frames_of_its_error(broken: str, format: Format) -> None:
    text = broken * 300
    assert bytes_beside_the_result(lambda: read(text, format)) < 75 * len(text)
