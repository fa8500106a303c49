"""Every layout, cut at every place and fed in every way: exactly the objects that were complete."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.reader import Outcome, StreamReader, read

NUMBERED = Contract.from_schema({"type": "object", "required": ["id"]}, format="jsonl")

# The machine may be busy.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# A text in parts; the parts that are JSON objects of the answer are marked.
Layout = Callable[[list[Any]], Iterable[tuple[str, bool]]]


def between(objects: list[Any], start: str, separator: str, end: str, indent: int | None = None) -> Any:
    yield start, False
    for index, value in enumerate(objects):
        if index:
            yield separator, False
        yield json.dumps(value, indent=indent, ensure_ascii=index % 2 == 0), True
    yield end, False


def fences(objects: list[Any]) -> Any:
    for value in objects:
        yield from between([value], "Next:\n```json\n", "", "\n```\n")


def marked(objects: list[Any]) -> Any:
    for number, value in enumerate(objects, 1):
        yield from between([value], f"{number}. ", "", "\n")


LAYOUTS: dict[str, Layout] = {
    "lines": lambda o: between(o, "", "\n", "\n"),
    "crlf": lambda o: between(o, "", "\r\n", "\r\n"),
    "blank lines": lambda o: between(o, "\n\n", "\n \n\n", "\n\n"),
    "pretty": lambda o: between(o, "", "\n", "\n", indent=2),
    "array": lambda o: between(o, "[", ", ", "]"),
    "array of lines": lambda o: between(o, "[\n  ", ",\n  ", "\n]"),
    "pretty array": lambda o: between(o, "[\n", ",\n", "\n]", indent=4),
    "wrapper": lambda o: between(o, '{"items": [', ", ", "]}"),
    "pretty wrapper": lambda o: between(o, '{\n  "found": [\n', ",\n", "\n  ]\n}", indent=2),
    "fence": lambda o: between(o, "Here:\n```json\n", "\n", "\n```\nDone."),
    "unclosed fence": lambda o: between(o, "```jsonl\n", "\n", ""),
    "fences": fences,
    "fenced array": lambda o: between(o, "```json\n[\n", ",\n", "\n]\n```", indent=2),
    "prose": lambda o: between(o, "It's {so}: ", " and ", '. That\'s "all" [1].'),
    "joined": lambda o: between(o, "", "", ""),
    "commas": lambda o: between(o, "", ",\n", ","),
    "numbers": marked,
    "bullets": lambda o: between(o, "- ", "\n- ", "\n"),
    "thinking": lambda o: between(o, '<think>{"id": 0} or {"id": {</think>\n', "\n", "\n"),
    "bom": lambda o: between(o, "\ufeff", "\n", ""),
}

NESTED = [
    {"id": 1, "text": 'a "quoted" } ] { [ \\ line\nfeed \u2028 é 🤔 ``` <think>'},
    {"id": 2, "list": [{"id": 3}, [], [[{"deep": [{"er": [1, -2.5e3, None, True, {}]}]}]]], "big": 10**25},
    {"id": 4},
    {"id": 5, "items": [{"id": 6}]},
]

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
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
# fmt: off
SCRAPS = [
    "{", "}", "[", "]", ",", ":", '"', "'", "\n", " ", "\\", "a", "1", "-", "tr", "true", "null", '"a"',
    '"a":1', '{"a":1}', '{"id":1}', '{"items":[', '{"b":{"c":[1]}}', "```", "`", "<think>", "</think>", "<",
    "\n- {", "\\u", "d83", "\r\n", "\t", "1e5", "\ufeff", '{"id": 1\n', "\n  {", "é", "\u2028",
]
# fmt: on
soup = st.lists(st.sampled_from(SCRAPS), max_size=24).map("".join)


def stream(chunks: Iterable[str], contract: Contract) -> tuple[list[object], Outcome]:
    reader = StreamReader(contract)
    given = [found for chunk in chunks for found in reader.feed(chunk)]
    return given, reader.close()


def pieces(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def rendered(layout: str, objects: list[Any]) -> tuple[str, list[tuple[int, int]]]:
    """The text, and where each object begins and ends."""
    text, spans = "", []
    for part, is_object in LAYOUTS[layout](objects):
        if is_object:
            spans.append((len(text), len(text) + len(part)))
        text += part
    return text, spans


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cut_anywhere_keeps_exactly_the_complete_objects(layout: str) -> None:
    text, spans = rendered(layout, NESTED)
    for cut in range(len(text) + 1):
        outcome = read(text[:cut], NUMBERED)
        assert outcome.value == [value for value, (_, end) in zip(NESTED, spans, strict=True) if end <= cut]
        assert (outcome.rejected, outcome.retracted) == ((), ())
        if any(start < cut < end for start, end in spans):
            assert outcome.truncated is True


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 20, 100])
def test_chunks_of_any_size_come_to_the_same(layout: str, size: int) -> None:
    text, _ = rendered(layout, NESTED)
    given, outcome = stream(pieces(text, size), NUMBERED)
    assert outcome == read(text, NUMBERED)
    assert given == outcome.value == NESTED


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_object_is_given_by_the_character_that_completes_it(layout: str) -> None:
    text, spans = rendered(layout, NESTED)
    reader = StreamReader(NUMBERED)
    ends = [position for position, character in enumerate(text, 1) if reader.feed(character)]
    assert ends == [end for _, end in spans]


@patient
@given(objects=objects, layout=st.sampled_from(sorted(LAYOUTS)), data=st.data())
def test_any_objects_in_any_layout_cut_and_chunked(
    objects: list[Any], layout: str, data: st.DataObject
) -> None:
    text, spans = rendered(layout, objects)
    text = text[: data.draw(st.integers(0, len(text)))]
    whole = read(text, NUMBERED)
    assert whole.value == [value for value, (_, end) in zip(objects, spans, strict=True) if end <= len(text)]
    assert whole.retracted == ()
    given, outcome = stream(pieces(text, data.draw(st.integers(1, 9))), NUMBERED)
    assert outcome == whole
    assert given == outcome.value


@settings(patient, max_examples=300)
@given(text=soup, size=st.integers(1, 6), format=st.sampled_from(["json", "jsonl"]), demanding=st.booleans())
@example(text='{[\r\n{"a":1}', size=1, format="jsonl", demanding=False)
def test_any_text_in_any_chunks_comes_to_the_same(
    text: str, size: int, format: Format, demanding: bool
) -> None:
    contract = Contract.from_schema({"required": ["id"]} if demanding else None, format=format)
    whole = read(text, contract)
    given, outcome = stream(pieces(text, size), contract)
    assert outcome == whole
    if format == "jsonl":
        # What a broken opening had swallowed is found at the end alone; all else has been given.
        early = Counter(map(repr, given))
        assert early <= Counter(map(repr, [*outcome.value, *outcome.retracted]))
        assert Counter(map(repr, outcome.retracted)) <= early


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
def test_the_short_way_of_clean_lines_comes_to_the_same_as_the_long_one(text: str) -> None:
    for contract in (NUMBERED, Contract.from_schema(None, format="jsonl")):
        assert stream(text, contract)[1] == read(text, contract)


@patient
@given(text=st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    for format in ("text", "json", "jsonl"):
        assert read(text, format).calls[0].text == text


@patient
@given(value=values)
def test_valid_json_reads_as_the_standard_decoder_reads_it(value: Any) -> None:
    text = json.dumps(value)
    outcome = read(text, "json")
    assert outcome.ok
    assert repr(outcome.value) == repr(json.loads(text))


@patient
@given(objects=objects)
def test_clean_lines_read_as_the_standard_decoder_reads_them(objects: list[Any]) -> None:
    text = "\n".join(json.dumps(value) for value in objects)
    assert repr(read(text, NUMBERED).value) == repr([json.loads(line) for line in text.split("\n") if line])
