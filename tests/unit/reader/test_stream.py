"""Every layout, cut at every place and fed in every way: exactly the objects that were complete."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.layouts import LAYOUTS, Answer, answer
from trustgraph_prompt.contract import Contract, Limits
from trustgraph_prompt.reader import Outcome, StreamReader, read

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "members": {"type": "array"}},
    "required": ["id"],
}
NUMBERED = Contract.from_schema(SCHEMA, format="jsonl")
MENDED = Contract.from_schema(SCHEMA, format="jsonl", repair=True)

NESTED = [
    {"id": 1, "text": 'a "quoted" } ] { [ \\ line\nfeed \u2028 é 🤔 ``` ~~~ <think> </think> <br>'},
    {"id": 2, "list": [{"id": 3}, [], [[{"deep": [{"er": [1, -2.5e3, None, True, {}]}]}]]], "big": 10**25},
    {"id": 4},
    {"members": [{"id": 5}, {"id": 6}], "id": 7},
    {"id": 8, "items": [{"id": 9}], "": {"": {}}},
    {"text": '}\n{"id": 10}\n```\n</think>{"id": 11},\n[{"id": 12}', "id": 13},
]
SMALL = [{"id": 1, "}": '"{'}, {"id": 2, "a": [{}]}, {"members": [{"id": 3}], "id": 4}]

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9)
    | st.sampled_from(["}", '{"id": 0}', "```", "</think>", "<think>", "\n", "[{", '"', "\\", "', '"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
objects = st.lists(
    st.builds(
        lambda number, rest: {"id": number, **rest},
        st.integers(),
        st.dictionaries(st.text(max_size=4), values, max_size=3),
    ),
    max_size=4,
)


@cache
def nested(layout: str) -> Answer:
    return answer(layout, NESTED)


def stream(chunks: Iterable[str], contract: Contract) -> tuple[list[object], Outcome]:
    reader = StreamReader(contract)
    given = [found for chunk in chunks for found in reader.feed(chunk)]
    return given, reader.close()


def pieces(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_answer_cut_anywhere_keeps_exactly_the_complete_objects(layout: str) -> None:
    said = nested(layout)
    for cut in range(len(said.text) + 1):
        # Where repair is allowed nothing else comes of it: an object under the cut is not closed up.
        outcome = read(said.text[:cut], MENDED if cut % 3 else NUMBERED)
        assert outcome.value == said.complete_at(cut)
        assert (outcome.rejected, outcome.retracted, outcome.repaired) == ((), (), ())
        if said.is_within_object(cut):
            assert outcome.truncated is True


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whole_answer_is_not_truncated(layout: str) -> None:
    said = nested(layout)
    unclosed = "unclosed" in layout
    assert read(said.text, NUMBERED).truncated is (True if unclosed else None)
    assert read(said.text, NUMBERED, finish_reason="stop").truncated is False
    assert read(said.text, NUMBERED, finish_reason="length").truncated is True


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 100])
def test_chunks_of_any_size_give_the_same_outcome(layout: str, size: int) -> None:
    said = nested(layout)
    given, outcome = stream(pieces(said.text, size), NUMBERED)
    assert outcome == read(said.text, NUMBERED)
    assert given == outcome.value == NESTED


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_chunks_that_meet_anywhere_give_the_same_outcome(layout: str) -> None:
    text = answer(layout, SMALL).text
    whole = read(text, NUMBERED)
    for seam in range(len(text) + 1):
        given, outcome = stream([text[:seam], text[seam:]], NUMBERED)
        assert outcome == whole
        assert given == outcome.value == SMALL


@pytest.mark.parametrize("layout", LAYOUTS)
def test_object_is_given_by_the_character_that_completes_it(layout: str) -> None:
    said = nested(layout)
    reader = StreamReader(NUMBERED)
    ends = [position for position, character in enumerate(said.text, 1) if reader.feed(character)]
    assert ends == [end for _, end in said.spans]


@given(objects=objects, layout=st.sampled_from(sorted(LAYOUTS)), data=st.data())
def test_any_objects_in_any_layout_are_read_alike_cut_and_in_chunks(
    objects: list[Any], layout: str, data: st.DataObject
) -> None:
    said = answer(layout, objects)
    cut = data.draw(st.integers(0, len(said.text)))
    text = said.text[:cut]
    whole = read(text, NUMBERED)
    assert repr(whole.value) == repr(said.complete_at(cut))
    assert whole.retracted == ()
    given, outcome = stream(pieces(text, data.draw(st.integers(1, 9))), NUMBERED)
    assert outcome == whole
    assert given == outcome.value


@pytest.mark.parametrize("layout", ["lines", "array", "pretty", "fence", "wrapper items", "joined", "commas"])
def test_empty_and_nested_objects_are_objects(layout: str) -> None:
    said = answer(layout, [{}, {"a": [{}]}, {"": ""}, {"a": {"a": {"a": [[{}]]}}}, {}])
    contract = Contract.from_schema(None, format="jsonl")
    for cut in range(len(said.text) + 1):
        assert read(said.text[:cut], contract).value == said.complete_at(cut)
    assert stream(said.text, contract) == (said.objects, read(said.text, contract))


@pytest.mark.parametrize("layout", ["joined", "several on a line", "tight array", "commas on a line"])
def test_many_objects_on_one_line_are_all_read(layout: str) -> None:
    said = answer(layout, [{"id": number, "text": "}{" * (number % 3)} for number in range(3_000)])
    given, outcome = stream(pieces(said.text, 50), NUMBERED)
    assert given == outcome.value == said.objects
    assert outcome == read(said.text, NUMBERED)


def test_long_object_is_read_alike_in_any_chunks() -> None:
    value = {"id": 1, "text": 'He said: "{}", \\ and\n' * 2_000, "list": [{"n": n} for n in range(500)]}
    said = answer("prose", [value, value])
    for size in (100, 999, 10_000):
        assert stream(pieces(said.text, size), NUMBERED) == ([value, value], read(said.text, NUMBERED))


@pytest.mark.parametrize("size", [1, 3, 20, 100])
def test_long_integers_after_a_broken_object_keep_their_digits_in_any_chunks(size: int) -> None:
    long = {"id": 123456789012345678901234}
    text = f'{{"id": {{\n "b" 2}}\n    {json.dumps(long)}\n    {{"id": 2}}\n{{"id": 3}}'
    chunks = (text[start : start + size] for start in range(0, len(text), size))
    _, outcome = stream(chunks, Contract.from_schema(None, format="jsonl", repair=True))
    assert outcome.value[1:] == [long, {"id": 2}, {"id": 3}]


@pytest.mark.parametrize(
    "text",
    [
        '{[\r\n{"id":1}',
        '{"id:\n{}\nfoo\n{"id":1}',
        '{id:"\n{}\nfoo\n{"id":2}',
        '{:"}\n{}',
        '{["""},\n{}',
        "{'}'}",
        "{'id': 'x}'}\n{\"id\":1}",
        "{'id': '{}}'}\n{\"id\":1}",
        "{'id': '}\n{\"id\":1}'}\n{\"id\":2}",
        "{'id': 1, 'x': 'it\\'s }'}",
        "{'id': 1, 'x': ' " + "}" * 2_000 + "'}",
    ],
)
def test_broken_text_in_any_chunks_gives_the_same_outcome(text: str) -> None:
    for contract in (NUMBERED, MENDED, Contract.from_schema(None, format="jsonl")):
        whole = read(text, contract)
        for size in (1, 2, 3, 10):
            assert stream(pieces(text, size), contract)[1] == whole


@pytest.mark.parametrize(
    "text",
    [
        '{"id":[{"b":1}\n{"c":2}]},{"id":1}',
        '{"id":[[{"b":1}\n{"c":2}]]}\n{"id":1}',
        '{"id": 1}\u2028',
        '\x0b{"id": 1}\x0c\n{"id": 2}',
        '{"id": 1}\n\u2028\n{"id": 2}',
        '{"id": 1}\n\n\n{"id": 2}\r\n',
        '{"id": 1}\n' + "\n" * 300 + '{"id":' * 250 + "1" + "}" * 250,
        '{"id": 12345678901234567890}\n{"id": 1}',
        '{"id": "\\ud800"}\n{"id": 1}',
        '{"items": [{"id": 1}]}\n{"id": 2}',
        '{"id": 1}\n{"x": 2}',
        "{}\n{}",
    ],
)
def test_fast_path_of_clean_lines_gives_the_same_outcome(text: str) -> None:
    for contract in (NUMBERED, Contract.from_schema(None, format="jsonl")):
        assert stream(text, contract)[1] == read(text, contract)


@pytest.mark.parametrize("gap", ["\n", "  \r\n  "])
def test_space_between_objects_takes_no_steps_in_any_chunks(gap: str) -> None:
    lines = ['{"id": 1}', '{"id": 2}', '{"id": 3}']
    exact = Contract.from_schema(SCHEMA, format="jsonl", limits=Limits(steps=sum(map(len, lines))))
    text = gap.join(lines)
    assert read(text, exact).value == [{"id": 1}, {"id": 2}, {"id": 3}]
    first = len(f"{lines[0]}{gap}{lines[1]}")
    assert stream([text[:first], text[first:]], exact)[1] == read(text, exact)
    assert stream([text[:first], f"{text[first:]} !"], exact)[1] == read(f"{text} !", exact)
