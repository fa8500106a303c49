"""Broken JSON is read as the value that was meant: one table for each way of being broken."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.outcome import Edit
from trustgraph_prompt.reader.repair import RepairedValue, Unrepairable, readings


def repair(text: str, start: int = 0, **options: Any) -> RepairedValue | None:
    """The likeliest reading."""
    return next(readings(text, start, **options), None)


FAMILIES: dict[str, dict[str, Any]] = {
    "quotes of other kinds": {
        "{'a': 'it's', 'b': 2}": {"a": "it's", "b": 2},
        "{'a': 'He said \"hi\"', 'b': \"it's\"}": {"a": 'He said "hi"', "b": "it's"},
        "{`a`: `b`}": {"a": "b"},
        "{“a”: “b”, “c”: [“d”, “e”]}": {"a": "b", "c": ["d", "e"]},
        "{„a“: „b“}": {"a": "b"},
        '{"a": "b”, "c": “d"}': {"a": "b", "c": "d"},
        "{'a\": 'b', \"c': 1}": {"a": "b", "c": 1},
        '{"a": \\"b\\", "c": 1}': {"a": "b", "c": 1},
        "{'a': r'\\d+', u'b': b'x'}": {"a": "\\d+", "b": "x"},
        '{"a": """x "quoted"\n y""", "b": 1}': {"a": 'x "quoted"\n y', "b": 1},
        '{"code": ```python\n  f("x")\n```, "b": 1}': {"code": 'f("x")', "b": 1},
    },
    "quotes within a string": {
        '["lorem "ipsum" sic"]': ['lorem "ipsum" sic'],
        '{"a": "v"alu"e"}': {"a": 'v"alu"e'},
        '{"a": "He said "hello", and left", "b": 1}': {"a": 'He said "hello", and left', "b": 1},
        '{"a": "lorem, "ipsum" sic "tamet". To improve"}': {"a": 'lorem, "ipsum" sic "tamet". To improve'},
        '{"a": "He said "hello"", "b": 1}': {"a": 'He said "hello"', "b": 1},
        '["a "b", c", "d"]': ['a "b", c', "d"],
        '{"a": "the "key": value", "b": 1}': {"a": 'the "key": value', "b": 1},
        '{"code": "f({"a": "x", "b": ["y"]})", "c": 2}': {"code": 'f({"a": "x", "b": ["y"]})', "c": 2},
        '{"a": "A: "Hi!"\nB: "Hello, you!"", "b": 2}': {"a": 'A: "Hi!"\nB: "Hello, you!"', "b": 2},
        '{"a": "see "x", "y"", "b": 2}': {"a": 'see "x", "y"', "b": 2},
        '{"html": "<a href="https://x.y">z</a>"}': {"html": '<a href="https://x.y">z</a>'},
        '{"a": "5" pipe", "b": 2}': {"a": '5" pipe', "b": 2},
        '{"a": "x"", "b": ""y"}': {"a": "x", "b": "y"},
        '{"h": "5\'10"", ""b": 1}': {"h": "5'10\"", "b": 1},
    },
    "strings without a quote": {
        '{"city": "New York, "gender": "male"}': {"city": "New York", "gender": "male"},
        '{"a": "first, b: "second"}': {"a": "first", "b": "second"},
        '{"a": "foo "b": 1}': {"a": "foo", "b": 1},
        '{\n"a": "foo,\n"b": "bar\n}': {"a": "foo", "b": "bar"},
        '{"a": "foo}': {"a": "foo"},
        '[{"a": "foo}, {"a": "bar}]': [{"a": "foo"}, {"a": "bar"}],
        '{"i": [{"n": 1}, {"t": "y]}': {"i": [{"n": 1}, {"t": "y"}]},
        '["foo, "bar", "baz"]': ["foo", "bar", "baz"],
        '["foo", "bar]': ["foo", "bar"],
        '{"a": 1, "b: "x", c": 2}': {"a": 1, "b": "x", "c": 2},
        '{"a": foo", "b": bar baz"}': {"a": "foo", "b": "bar baz"},
        '[a", b"]': ["a", "b"],
        '{"path": "C:\\dir\\", "b": "x\\"}': {"path": "C:\\dir\\", "b": "x\\"},
    },
    "keys and words without quotes": {
        "{a: b, c-d: e f!}": {"a": "b", "c-d": "e f!"},
        "{\n  name: John Smith\n  age: 30\n  tags: [a, b c]\n}": {
            "name": "John Smith",
            "age": 30,
            "tags": ["a", "b c"],
        },
        "{first name: John, last name: Smith}": {"first name": "John", "last name": "Smith"},
        "{a: hello, world, b: 1}": {"a": "hello, world", "b": 1},
        "{url: https://x.y/z?a=1,2, id: 1}": {"url": "https://x.y/z?a=1,2", "id": 1},
        "{at: 2024-01-01T10:30:00Z, path: C:\\dir\\x.txt}": {
            "at": "2024-01-01T10:30:00Z",
            "path": "C:\\dir\\x.txt",
        },
        '{"a": value "b": 1 c: null}': {"a": "value", "b": 1, "c": None},
        '{"a": he said "x, y" to me, "b": 1}': {"a": 'he said "x, y" to me', "b": 1},
        '{"a": foo(1, 2) and [3, 4], "b": (555) 1}': {"a": "foo(1, 2) and [3, 4]", "b": "(555) 1"},
        '{"a": **bold**, "b": <c>, "d": {e}, "f": {{g}}}': {
            "a": "**bold**",
            "b": "<c>",
            "d": "{e}",
            "f": "{{g}}",
        },
        '{1: "a", 2: "b"}': {"1": "a", "2": "b"},
        '{"a\n  ": 1}': {"a\n  ": 1},
    },
    "commas and colons": {
        "[, 1,,2 3 null,]": [1, 2, 3, None],
        '["a" "b""c"\n"d"]': ["a", "b", "c", "d"],
        '{, "a": 1,, "b": 2,}': {"a": 1, "b": 2},
        '{"a": "x" "b": {"c": 1}"d": [1]"e": true}': {"a": "x", "b": {"c": 1}, "d": [1], "e": True},
        '{"a": 1; "b": 2;}': {"a": 1, "b": 2},
        '{"a"：1，"b"：2}': {"a": 1, "b": 2},
        '{"a" 1, "b" "c", "d" {"e" [2]}}': {"a": 1, "b": "c", "d": {"e": [2]}},
        '{"a" = 1, "b" => "c", "d"::2}': {"a": 1, "b": "c", "d": 2},
        "{a=x, b=y}": {"a": "x", "b": "y"},
        '{"a": , "b":}': {"a": None, "b": None},
        '{"a":\n"b": 1, "c"}': {"a": None, "b": 1, "c": None},
    },
    "brackets": {
        '{"a": 2]': {"a": 2},
        "[1, 2}": [1, 2],
        '[{"a": 1}}, {"b": 2}]': [{"a": 1}, {"b": 2}],
        '[{"i": 1, {"i": 2}]': [{"i": 1}, {"i": 2}],
        '[{"a": 1], {"b": 2}]': [{"a": 1}, {"b": 2}],
        "{foo: [}": {"foo": []},
        '{"a": [1, 2}, "b": 3}': {"a": [1, 2], "b": 3},
        '{"a": [1, 2]], "b": 3}': {"a": [1, 2], "b": 3},
        '{"a": [1, 2, "b": 3}': {"a": [1, 2], "b": 3},
        '{"a": [{"b": 1}, {"b": 2}, "c": 3}': {"a": [{"b": 1}, {"b": 2}], "c": 3},
        '{"a": [{"b": 1}}, {"b": 2}]}': {"a": [{"b": 1}, {"b": 2}]},
        '{"a": {"b": 1}}, "c": 2}': {"a": {"b": 1}, "c": 2},
        '{"a": [{"b": 1}}, "c": 2}': {"a": [{"b": 1}], "c": 2},
        '{"a": ["b"], ["c"]}': {"a": ["b", "c"]},
        '[{"a": 1}, "a": 2}, {"a": 3}]': [{"a": 1}, {"a": 2}, {"a": 3}],
        '["a": 1, b: "c"]': [{"a": 1, "b": "c"}],
        '[{"a": 1}\n{"b": 2}{"c": 3}]': [{"a": 1}, {"b": 2}, {"c": 3}],
        '{{"a": 1}}': {"a": 1},
    },
    "comments and what was left out": {
        '{"a": 1, // one\n "b": 2 # two\n}': {"a": 1, "b": 2},
        '{"a": /* "x": */ 1 /*, "b": 2 */}': {"a": 1},
        '{"a": "x", // says "y", and more\n"b": 1}': {"a": "x", "b": 1},
        '{"a": {"b": 1 // one }, "c": 2}': {"a": {"b": 1}, "c": 2},
        '{"a": "http://x", "b": http://y, "c": #fff}': {"a": "http://x", "b": "http://y", "c": "#fff"},
        "[1, 2, /* more */ ..., 9, …]": [1, 2, 9],
        '["a", ... more items ..., "z"]': ["a", "z"],
        '{..., "a": 1, ...}': {"a": 1},
        '{"a": 1, garbage, "b": 2, COMMENT "c": 3}': {"a": 1, "b": 2, "c": 3},
        '{"a": "x" (a remark), "b": 2}': {"a": "x", "b": 2},
    },
    "literals and numbers": {
        '{"a": True, "b": FALSE, "c": [None, undefined, nil, NaN, -Infinity]}': {
            "a": True,
            "b": False,
            "c": [None] * 5,
        },
        "[1., .5, -.5, +1, 1_000, 0x1F, 2e, 1E+2]": [1.0, 0.5, -0.5, 1, 1000, 31, 2, 100.0],
        "[01, 007.5, 1.1.1, 1/3, 10%, 12-34, 1e400]": [
            "01",
            "007.5",
            "1.1.1",
            "1/3",
            "10%",
            "12-34",
            "1e400",
        ],
        '{"a": 1,234,567, "b": 5 kg, "c": $5}': {"a": "1,234,567", "b": "5 kg", "c": "$5"},
        '{"a": 12345678901234567890123,}': {"a": 12345678901234567890123},
        "[none, yes, nullable]": ["none", "yes", "nullable"],
    },
    "escapes and control characters": {
        r'{"a": "\p \d+ \' \„ \_ \x41 \u00e9 \"", }': {"a": "\\p \\d+ ' „ _ A é \""},
        r'{"a": "\ud83d\ude00 \ud83d", }': {"a": "\U0001f600 \ud83d"},
        r'{"a": "C:\u12"}': {"a": "C:\\u12"},
        '{"a": "x\ny\tz\x00"}': {"a": "x\ny\tz\x00"},
        '{"a":\u00a01,\u3000"b":\ufeff2\u200b}': {"a": 1, "b": 2},
    },
    "code": {
        '{"a": "x" + "y", "b": "c" +\n \'d\'}': {"a": "xy", "b": "cd"},
        '{"_id": ObjectId("ab"), "n": NumberLong(12), "d": new Date("2020")}': {
            "_id": "ab",
            "n": 12,
            "d": "2020",
        },
        '{"a": (1, 2), "b": ("x"), "c": {"y", \'z\'}, "d": set([1]), "e": ()}': {
            "a": [1, 2],
            "b": "x",
            "c": ["y", "z"],
            "d": [1],
            "e": [],
        },
        '{"d": datetime.date(2020, 1, 2), "e": now()}': {"d": "datetime.date(2020, 1, 2)", "e": "now()"},
    },
    "JSON in another notation": {
        r"{\"a\": \"b\", \"c\": [1, \"say \\\"x\\\"\"]}": {"a": "b", "c": [1, 'say "x"']},
        r"{\n  \"a\": \"b\\nc\"\n}": {"a": "b\nc"},
        r"{\\\"a\\\": \\\"b\\\"}": {"a": "b"},
        '{""a"": ""b"", ""c"": 1}': {"a": "b", "c": 1},
        "{&quot;a&quot;: &quot;b &amp; c&quot;}": {"a": "b & c"},
        '{"a": "&quot;b&quot;",}': {"a": "&quot;b&quot;"},
    },
}

CUT: dict[str, Any] = {
    '{"a": "b", "c': {"a": "b"},
    '{"a": "b", "c":': {"a": "b"},
    '{"a": "b", c': {"a": "b"},
    '{"a": "b", "c": "d e': {"a": "b", "c": "d e"},
    '{"a": "b\\': {"a": "b"},
    '{"a": "b\\ud83d\\ude': {"a": "b"},
    '{"a": "b\\\\u12': {"a": "b\\u12"},
    '{"a": "say "b" to': {"a": 'say "b" to'},
    '{"a": 22': {},
    "[tr": [],
    "[true": [True],
    "[1, 2, {": [1, 2],
    '{"a": [': {"a": []},
    '{"a": {"b": ["c", {"d": "e",': {"a": {"b": ["c", {"d": "e"}]}},
    "{a: foo, b: ba": {"a": "foo", "b": "ba"},
    '{"a": "b" /* comment': {"a": "b"},
    '{"a": "x" +': {"a": "x"},
    '{"a": 1, "b": 2\n\nI hope this helps!': {"a": 1, "b": 2},
}

NOT_MEANT = [
    "{player_name}",
    "{{name}}",
    "{0}",
    "{x:.2f}",
    "{1, 2, 3}",
    "{x | x > 0}",
    "{ return x; }",
    "{% if %}",
    "[1] says",
    "[0, 1)",
    "[link](http://x)",
    "[x] done",
    "See [a, b] there",
    '[oops]{"a": 1}',
]


CASES = [
    pytest.param(text, value, id=f"{family}: {text}")
    for family, table in FAMILIES.items()
    for text, value in table.items()
]


@pytest.mark.parametrize(("text", "value"), CASES)
def test_broken_json_is_read_as_what_was_meant(text: str, value: Any) -> None:
    repaired = repair(text)
    assert repaired is not None
    assert (repaired.value, repaired.end, repaired.truncated) == (value, len(text), False)
    assert repaired.edits


@pytest.mark.parametrize(("text", "value"), CUT.items(), ids=CUT)
def test_cut_text_is_read_as_far_as_it_goes(text: str, value: Any) -> None:
    repaired = repair(text)
    assert repaired is not None
    assert (repaired.value, repaired.end, repaired.truncated) == (value, len(text), True)


@pytest.mark.parametrize("text", NOT_MEANT)
def test_prose_has_no_reading(text: str) -> None:
    start = min(text.find(bracket) for bracket in "{[" if bracket in text)
    assert repair(text, start) is None


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ('{"a": 1]} and more', {"a": 1}, " and more"),
        ("{a: b} is the output.", {"a": "b"}, " is the output."),
        ('{"a": 1\n{"b": 2}', {"a": 1}, '{"b": 2}'),
        ('{"a": "x\n{"b": 2}', {"a": "x"}, '{"b": 2}'),
        ('{"a": 1,}, {"b": 2}', {"a": 1}, ', {"b": 2}'),
        ('{"a": ["x"}, {"a": ["y"]}', {"a": ["x"]}, ', {"a": ["y"]}'),
        ('{"a": [1, 2\n```\nDone.', {"a": [1, 2]}, "```\nDone."),
        ('{"a": 1,\n```\n"b": 2}\n```', {"a": 1, "b": 2}, "\n```"),
        (r"{\"a\": \"b\"} and more", {"a": "b"}, " and more"),
    ],
)
def test_value_ends_before_the_text_behind_it(text: str, value: Any, rest: str) -> None:
    repaired = repair(text)
    assert repaired is not None
    assert (repaired.value, text[repaired.end :], repaired.truncated) == (value, rest, False)


def test_value_may_begin_anywhere_in_the_text() -> None:
    text = "The result [1] is {a: 1}."
    assert repair(text, text.index("{")) == RepairedValue(
        {"a": 1}, len(text) - 1, (Edit(text.index("a: 1"), "a key without quotes"),)
    )


def test_edits_have_their_places() -> None:
    repaired = repair("""{"a": 'x' "b": 01, c: 1,}""")
    assert repaired is not None
    assert [(edit.offset, edit.what) for edit in repaired.edits] == [
        (6, "other quotes than JSON's"),
        (10, "a missing comma"),
        (15, "a number that is not JSON"),
        (19, "a key without quotes"),
        (24, "a comma too many"),
    ]


def test_names_decide_what_is_a_key() -> None:
    text = '{"text": "say, note: "x"}'
    assert repair(text, names=frozenset({"text", "note"})) == repair(text)
    other = repair(text, names=frozenset({"text"}))
    assert other is not None
    assert other.value == {"text": 'say, note: "x'}
    assert repair("{a: foo b: bar}", names=frozenset({"a", "b"})) is not None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[01]", [["01"], [1]]),
        ("[None, 1.]", [[None, 1.0], ["None", 1.0], [None, "1."]]),
        ("[01, 02]", [["01", "02"], [1, 2], [1, "02"], ["01", 2]]),
        ('{"a": 1, "b": 22', [{"a": 1}, {"a": 1, "b": 22}]),
        ('{"a": 1, "b": "cut', [{"a": 1, "b": "cut"}, {"a": 1}]),
        ('{"a": , "b": 1}', [{"a": None, "b": 1}, {"b": 1}]),
        ('{"a": "first, b: "second"}', [{"a": "first", "b": "second"}, {"a": 'first, b: "second'}]),
        ('{"a": 1}', [{"a": 1}]),
        ("{name}", []),
    ],
)
def test_other_readings_follow_the_likeliest(text: str, values: list[Any]) -> None:
    assert [reading.value for reading in readings(text)] == values


def test_readings_are_no_more_than_the_limit() -> None:
    assert len(list(readings("[01, 02, 03, None, 1., x]", limit=3))) == 3


@pytest.mark.parametrize("bracket", ["[", '{"a":', "{{"])
def test_deep_nesting_is_refused(bracket: str) -> None:
    with pytest.raises(Unrepairable, match="nested deeper than 200 levels") as refused:
        repair(bracket * 10_000)
    assert refused.value.offset < 2_000
    assert repair("[[1,],]", max_depth=2) is not None
    with pytest.raises(Unrepairable) as refused:
        repair("- " + r"{\"a\":" * 10_000, 2)
    assert refused.value.offset == 2 + 200 * len(r"{\"a\":")
    with pytest.raises(Unrepairable, match="nested deeper than 2 levels"):
        repair("[[[1,],],]", max_depth=2)


def test_text_broken_everywhere_is_refused() -> None:
    with pytest.raises(Unrepairable, match="steps to repair"):
        repair("[" + '"x"y' * 100_000)
