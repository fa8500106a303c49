"""For every text: what the standard decoder says of valid JSON is what is read, and nothing else ever is."""

from __future__ import annotations

import json
import math
import random
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support import fuzz
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.reader import StreamReader, read, scanner

FORMATS: list[Format] = ["json", "jsonl"]
TEXTS = [
    "\u2028",
    "\u2029",
    "\x85",
    "\x00",
    "\x7f",
    "\ufeff",
    "\ud83e",
    "\udd14\ud83e",
    "}{",
    '"}\n{"',
    "```",
    "</think>",
    "\\",
    "\\u",
    "NaN",
    "é" * 200,
]
NUMBERS = [
    -0.0,
    0.1 + 0.2,
    5e-324,
    1e308,
    -1e308,
    math.pi,
    1e22,
    2.0**70,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    2**64 - 1,
    2**64,
    10**300 + 1,
    -(10**19),
]

strings = st.text(st.characters(), max_size=9) | st.sampled_from(TEXTS)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(NUMBERS)
    | strings
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4),
    max_leaves=12,
)
layouts: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "indent": st.sampled_from([None, 0, 2, "\t"]),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)
# fmt: off
LITERALS = [
    "0", "-0", "-", "+1", "01", "1.", ".5", "1.0", "1e5", "1E+5", "1e-400", "1e400", "-1e400",
    "1e", "0x1", "1_0",
    "NaN", "Infinity", "-Infinity", "nan", "True", "None", "undefined", "true", "null", "nul", "truee", "９",
    '"\\x41"', '"\\u12"', '"\\u00e9"', '"\\ud83d"', '"\\ud83d\\ude00"', '"a\nb"', '"a\tb"',
    '"a\x00"', "'a'", '"',
    '""', "[1,]", "[,1]", "[1 2]", "[]", "{}", '{"a":1,}', '{"a" 1}', "{1:2}", "{'a':1}", '{a:1}', '{"a":}',
    '{"a":1 "b":2}', '{"a":1;}', "[1}", '{"a":1]', "//x", "/**/1", "1,", ",", "\u00a01", "\u20281", "\x0c1",
]
# fmt: on
literals = st.sampled_from(LITERALS) | st.builds(json.dumps, scalars)


def strictly(text: str) -> Any:
    """What the standard decoder says of a text; raises `ValueError` where it is no JSON (RFC 8259)."""

    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    value = json.loads(text, parse_constant=refuse)
    json.dumps(value, allow_nan=False)  # refuses a number that no float is large enough for
    return value


@given(value=values, layout=layouts)
def test_valid_json_reads_as_the_standard_decoder_reads_it(value: Any, layout: dict[str, Any]) -> None:
    text = json.dumps(value, **layout)
    outcome = read(text, "json")
    assert outcome.ok
    assert repr(outcome.value) == repr(json.loads(text))


@given(
    objects=st.lists(st.dictionaries(strings, values, max_size=4), max_size=5),
    layout=layouts,
    separator=st.sampled_from(["\n", "\r\n", "\n\n", " ", ",", ""]),
)
def test_objects_read_as_the_standard_decoder_reads_them(
    objects: list[Any], layout: dict[str, Any], separator: str
) -> None:
    # What begins with an array of objects might wrap them.
    assume(not any(isinstance(next(iter(value.values()), None), list) for value in objects))
    texts = [json.dumps(value, **layout) for value in objects]
    outcome = read(separator.join(texts), "jsonl")
    assert repr(outcome.value) == repr([json.loads(text) for text in texts])
    assert (outcome.rejected, outcome.retracted) == ((), ())


NUMBER = r"-?(0|[1-9][0-9]{0,45})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?"


@given(digits=st.from_regex(NUMBER, fullmatch=True))
def test_numbers_are_read_to_the_last_digit_or_refused(digits: str) -> None:
    for text, format in (
        (digits, "json"),
        (f'{{"n": {digits}}}', "jsonl"),
        (f'As {{"n": {digits}}}.', "jsonl"),
    ):
        outcome = read(text, format)  # type: ignore[arg-type]
        if math.isinf(float(digits)) and not digits.lstrip("-").isdigit():
            assert not outcome.ok
        else:
            expected = json.loads(digits)
            assert repr(outcome.unwrap()) == repr(expected if format == "json" else [{"n": expected}])


@given(
    members=st.lists(st.tuples(st.sampled_from(["a", "b", "é", ""]), scalars), min_size=1, max_size=6),
    before=st.sampled_from(["", "Here: "]),
)
def test_last_of_duplicate_keys_wins_and_keys_keep_their_order(
    members: list[tuple[str, Any]], before: str
) -> None:
    text = "{" + ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in members) + "}"
    for format in FORMATS:
        assert repr(read(before + text, format).objects[0]) == repr(json.loads(text))


@settings(max_examples=500)
@given(parts=st.lists(literals | st.sampled_from([*"[]{}:, \n", '"a"']), min_size=1, max_size=8))
def test_text_that_the_standard_decoder_refuses_is_never_the_whole_value(parts: list[str]) -> None:
    text = "".join(parts)
    outcome = read(text, "json")
    try:
        expected = strictly(text)
    except ValueError:
        if outcome.ok:  # some part of the text
            assert outcome.stage.name == "EXTRACTED"
            assert fuzz.stands_in(text, outcome.value)
    else:
        assert repr(outcome.value) == repr(expected)
        assert outcome.ok


AROUND = ['{"a": %s}', '{"a": [1, %s]}', '{"b": {"c": "d", "a": %s}, "e": 2}']
ANSWERS: list[tuple[Format, str]] = [
    ("json", "%s"),
    ("json", "Here: %s."),
    ("json", "```json\n%s\n```"),
    ("jsonl", "%s"),
    ("jsonl", "Here: %s."),
    ("jsonl", "```json\n%s\n```"),
    ("jsonl", "[%s]"),
    ("jsonl", '{"items": [%s]}'),
]


@pytest.mark.parametrize("literal", LITERALS)
def test_literal_is_accepted_where_the_standard_decoder_accepts_it(literal: str) -> None:
    for object, (format, answer) in product(AROUND, ANSWERS):
        outcome = read(answer % (object % literal), format)
        try:
            expected = strictly(object % literal)
        except ValueError:
            assert not any(isinstance(value, dict) and {"a", "b"} & value.keys() for value in outcome.objects)
        else:
            assert list(map(repr, outcome.objects)) == [repr(expected)]


@pytest.mark.parametrize("kind", fuzz.KINDS)
@pytest.mark.parametrize("contracts", [fuzz.ANY, fuzz.STRICT, fuzz.MENDING], ids=["any", "strict", "mending"])
@pytest.mark.parametrize("format", FORMATS)
@given(seed=st.integers(0, 2**64))
def test_any_text_is_read_alike_in_any_chunks(
    kind: str, contracts: dict[Format, Contract], format: Format, seed: int
) -> None:
    chance = random.Random(seed)
    fuzz.check(fuzz.KINDS[kind](chance), contracts[format], chance)


BROKEN = [
    '{"a":"unterminated ', '{"a": "x","b":[1,{"c":2}]}', '{"a":\n', '[{"a":1},', '{"b":2}]', *'\n}",', "~~~",
]  # fmt: skip


@settings(max_examples=400)
@given(
    parts=st.lists(st.sampled_from(BROKEN), min_size=4, max_size=12),
    characters=st.sampled_from([7, 20, 50]),
    seed=st.integers(0, 2**64),
)
def test_any_chunks_are_read_alike_however_short_the_slices_are(
    parts: list[str], characters: int, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "SLICE", characters)
        fuzz.check("".join(parts), fuzz.ANY["jsonl"], random.Random(seed))


def test_white_space_at_the_end_of_a_slice_is_read_alike_in_any_chunks() -> None:
    broken = '{"a":"unterminated {"a": "x","b":[1,{"c":2}]}'
    text = broken + '{"a":\n' + "\n" * 65_488 + '[{"a":1},~~~'  # the first 65,536 end within the white space
    for end in (43, 44, len(broken)):
        reader = StreamReader("jsonl")
        reader.feed(text[:end])
        reader.feed(text[end:])
        assert reader.close() == read(text, "jsonl")


@given(text=st.text(st.characters(), max_size=60))
def test_no_text_raises(text: str) -> None:
    for format in (*FORMATS, "text"):
        assert read(text, format).calls[0].text == text
