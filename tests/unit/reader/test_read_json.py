"""The one value of a json answer, and a text as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.layouts import DRAFT
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import Stage, StreamReader, read

ANSWER = Contract.from_schema(
    {
        "type": "object",
        "properties": {"answer": {"type": "string"}, "shown": {"type": "integer"}},
        "required": ["answer", "shown"],
    }
)
RIGHT = '{"answer": "yes", "shown": 1}'
VALUE = {"answer": "yes", "shown": 1}


@pytest.mark.parametrize(
    ("text", "value"), [("false", False), (" 42\n", 42), ('"a"', "a"), ("[]", []), ("null", None)]
)
def test_any_json_value_is_an_answer(text: str, value: Any) -> None:
    outcome = read(text, "json")
    assert outcome.ok
    assert (outcome.value, outcome.stage) == (value, Stage.DIRECT)


def test_value_alone_is_read_directly() -> None:
    outcome = read(RIGHT, ANSWER, finish_reason="stop")
    assert (outcome.value, outcome.stage, outcome.truncated) == (VALUE, Stage.DIRECT, False)


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{RIGHT}\n```",
        f"```JSON\r\n{RIGHT}\r\n```\r\n",
        f"````{RIGHT}```",
        f"  ~~~\n{RIGHT}\n~~~",
        f"```json\n{RIGHT}\n",
        f"The answer: {RIGHT} as asked.",
        f"See [1] and [2] {{for}} more: {RIGHT}",
        f'<think>{{"answer": "draft", "shown": 9}} no {{</think>\n{RIGHT}',
        f'{{"answer": "draft", "shown": 9}}</think>{RIGHT}',
        f'```json\n{{"type": "object"}}\n```\nthen\n```json\n{RIGHT}\n```',
        f'```python\nprint({{"a": 1}})\n```\n```json\n{RIGHT}\n```',
        f"{RIGHT}}}]}}",
        f"callback({RIGHT});",
        f"{RIGHT}\n{RIGHT}",
        f"Example: {{'answer': 'x'}}\n{RIGHT}",
        f"For x in [0, 1) the answer is {RIGHT}",
        f"Range [0, 5),\n\n{RIGHT}",
        f"I read [the text. {RIGHT}",
        f"On [[0, [1, 2), {RIGHT}",
        f"{RIGHT}\n</think>\nDone.",
        f"Think in <reflection> tags. {RIGHT}",
        f'<think>{{"answer": "draft", "shown": 9}}</think>{RIGHT}</think>',
        f'Hm, <think>{{"answer": "draft", "shown": 9}}</think>{RIGHT}',
        f'[0]</think> hm, <think>{{"answer": "draft", "shown": 9}}</think> {RIGHT}',
    ],
)
def test_value_within_other_text_is_found(text: str) -> None:
    outcome = read(text, ANSWER)
    assert (outcome.value, outcome.reason, outcome.stage) == (VALUE, Reason.SUCCESS, Stage.EXTRACTED)


def test_fenced_value_wins_over_one_in_prose() -> None:
    assert read('Not {"a": 1} but\n```\n{"a": 2}\n```', "json").value == {"a": 2}


def test_fenced_scalar_is_a_value() -> None:
    assert read("<think>hm</think>\n```json\n42\n```", "json").value == 42


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "<think>hm</think>{}",
        "hm</think>\n{}\n",
        "```json\n{}\n```",
        "<answer>{}</answer>",
        '{{"a": "draft"}}</think>{}',
    ],
)
@pytest.mark.parametrize("value", ['"a <b>c</b> ``` d"', '"see ' + "[1] {2} " * 150 + '"', "-4.5e1", "false"])
def test_scalar_is_read_as_it_stands(text: str, value: str) -> None:
    outcome = read(text.format(value), "json")
    stage = Stage.DIRECT if text == "{}" else Stage.EXTRACTED
    assert (outcome.reason, outcome.value, outcome.stage) == (Reason.SUCCESS, json.loads(value), stage)


@pytest.mark.parametrize(
    "text", ['"the quick', '"see [1] and', '```json\n"the quick \\', '<think>hm</think>"the']
)
def test_cut_string_is_truncated(text: str) -> None:
    outcome = read(text, "json")
    assert (outcome.value, outcome.reason, outcome.truncated) == (None, Reason.TRUNCATED, True)


def test_broken_array_in_a_fence_or_on_its_own_line_is_invalid_json() -> None:
    for text in (
        "```\n[1, oops]\n```",
        "Here:\n[1, oops]",
        'Here: [{"a": 1}, {"a": oops}]',
        '[{"a": 1}, {"a": oops}]',
    ):
        assert read(text, "json").reason is Reason.INVALID_JSON


def test_two_different_values_are_ambiguous() -> None:
    outcome = read('{"answer": "yes", "shown": 1} or {"answer": "no", "shown": 1}', ANSWER)
    assert (outcome.value, outcome.reason) == (None, Reason.AMBIGUOUS)


ONE_BLOCK = Contract.from_schema(ANSWER.schema, fences="one", extra="ignore")
YES, NO = '{"answer": "yes", "shown": 1}', '{"answer": "no", "shown": 1}'


def in_fences(*texts: str) -> str:
    return "\n".join(f"So:\n```json\n{text}\n```" for text in texts)


@pytest.mark.parametrize(
    "again",
    [YES, '{"shown": 1, "answer": "yes"}', '{"answer": "yes", "shown": 1.0}', YES[:-1] + ', "more": 2}'],
)
def test_the_same_value_in_two_fences_is_one_value(again: str) -> None:
    for contract in (ANSWER, ONE_BLOCK):
        if contract.extra or "more" not in again:
            assert read(in_fences(YES, again), contract).value["answer"] == "yes"


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ((YES, NO), "2 values in code fences, expected one: number 1 would do; number 2 would do"),
        ((YES, NO, YES), "3 values in code fences"),
        ((YES, '{"shown": 1}'), 'number 1 would do; number 2 would not ("answer" is missing)'),
        (
            ('{"answer": "yes", "shown": "one"}', '{"shown": 1}'),
            "number 1 would not (/shown: expected integer",
        ),
        (("{]", YES), "number 1 is no JSON (Expecting property name"),
        ((YES, NO) * 500, "number 5 would do; and 995 more"),
    ],
)
def test_each_of_several_fenced_values_is_described_where_they_are_ambiguous(
    texts: tuple[str, ...], says: str
) -> None:
    outcome = read(in_fences(*texts), ONE_BLOCK)
    assert (outcome.value, outcome.reason) == (None, Reason.AMBIGUOUS)
    assert says in outcome.explain()
    assert len(outcome.explain()) < 1_500


def test_true_and_one_are_different_values() -> None:
    assert read("[true] or [1]", "json").reason is Reason.AMBIGUOUS


def test_refused_value_has_its_reason_and_path() -> None:
    outcome = read('{"answer": "yes", "shown": "one"}', ANSWER)
    assert (outcome.value, outcome.reason) == (None, Reason.SCHEMA_TYPE_ERROR)
    assert [i.path for i in outcome.issues] == ["/shown"]


REFUSED = '{"answer": "yes", "shown": "one"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        (" \n", "\n"),
        ("\ufeff", ""),
        ("Here: ", "."),
        ("\ufeff```json\n", "\n```"),
        ("<think>{}</think>", ""),
        ('{"note": 1} or\n```\n', "\n```"),
    ],
)
def test_refused_value_has_its_place_in_the_text(before: str, after: str) -> None:
    for raw in (REFUSED, '{"answer": yes}' if after != "\n```" else REFUSED):
        outcome = read(before + raw + after, ANSWER)
        [rejected] = outcome.rejected
        assert (rejected.index, rejected.raw, rejected.start) == (0, raw, len(before))
        assert rejected.issues == outcome.issues
        assert outcome.errors() == [(rejected, issue) for issue in outcome.issues]


def test_refused_scalar_has_its_place_in_the_text() -> None:
    for before, after in (("", ""), ("```\n", "\n```")):
        [rejected] = read(f'{before}"no idea"{after}', ANSWER).rejected
        assert (rejected.raw, rejected.start) == ('"no idea"', len(before))


@pytest.mark.parametrize("text", ["no idea", '{"answer": "ye', f'{RIGHT} {{"answer": "no", "shown": 2}}', ""])
def test_no_value_is_listed_as_rejected_where_none_was_meant(text: str) -> None:
    outcome = read(text, ANSWER)
    assert (outcome.ok, outcome.rejected, len(outcome.issues)) == (False, (), 1)


@pytest.mark.parametrize(
    "text",
    ['{"answer": "ye', '{"answer": "yes",', '```json\n{"answer": "yes"', "[1, 2", f'{RIGHT} {{"answer"'],
)
def test_cut_value_is_truncated_and_never_closed_up(text: str) -> None:
    outcome = read(text, "json", finish_reason="stop")
    assert (outcome.value, outcome.reason, outcome.truncated) == (None, Reason.TRUNCATED, True)


@pytest.mark.parametrize("cut", ['{"id": 12', '{"id": 1,', '{"a": "b" '])
def test_cut_value_after_long_ones_is_not_closed_up(cut: str) -> None:
    long = json.dumps({"text": "x" * 5_000})
    outcome = read("\n".join(["See:", *[long] * 4, cut]), "json")
    assert (outcome.value, outcome.reason, outcome.truncated) == (None, Reason.TRUNCATED, True)


@pytest.mark.parametrize("finish_reason", ["length", "content_filter", "error"])
@pytest.mark.parametrize("repair", [True, False])
@pytest.mark.parametrize(
    ("text", "truncated"),
    [
        (RIGHT, False),
        (RIGHT + " " * 300, False),
        (f"Here it is:\n{RIGHT}\n", False),
        (f"```json\n{RIGHT}\n", False),
        (f"```json\n{RIGHT}\n```\n", False),
        (f"<think>maybe</think>{RIGHT}\n", False),
        ('{"answer": 5} \n', False),
        ('{"answer": 5,} \n', False),
        ('{"answer": "yes", "shown": 1,} \n', False),
        (f"{RIGHT}\nThat is", True),
        ("It is", True),
        ("5", True),
    ],
)
def test_value_that_has_ended_is_not_truncated(
    text: str, truncated: bool, repair: bool, finish_reason: str
) -> None:
    contract = Contract.from_schema(ANSWER.schema, repair=repair)
    assert read(text, contract, finish_reason=finish_reason).truncated is truncated


@pytest.mark.parametrize(
    "text", ["{'answer': 'yes'}", '{"answer": "yes", "shown": 1,}', '{"a": NaN}', '{"a": 1e400}']
)
def test_broken_json_is_refused(text: str) -> None:
    outcome = read(text, "json")
    assert (outcome.value, outcome.reason) == (None, Reason.INVALID_JSON)


def test_text_without_json_is_a_failed_extraction() -> None:
    assert read("I cannot say.", ANSWER).reason is Reason.EXTRACTION_FAILED


def test_blank_answer_is_empty() -> None:
    assert read(" \n", ANSWER).reason is Reason.EMPTY


def test_many_values_are_a_list_or_wrapped_in_one_key() -> None:
    many = Contract.from_schema(ANSWER.schema, many=True)
    assert read(f"[{RIGHT}, {RIGHT}]", many).value == [VALUE, VALUE]
    wrapped = read(f'{{"items": [{RIGHT}]}}', many)
    assert (wrapped.value, wrapped.stage) == ([VALUE], Stage.EXTRACTED)
    assert read(RIGHT, many).reason is Reason.WRONG_CONTAINER
    assert read(f"[{RIGHT}, 5]", many).issues[0].path == "/1"


def test_big_integers_are_exact() -> None:
    assert read("[12345678901234567890123]", "json").value == [12345678901234567890123]


@pytest.mark.parametrize("text", ["", "  as\nit is {", '{"a": 1}'])
def test_text_answer_is_taken_unchanged(text: str) -> None:
    outcome = read(text, "text", finish_reason="stop")
    assert (outcome.value, outcome.reason, outcome.truncated) == (text, Reason.SUCCESS, False)


@pytest.mark.parametrize("format", ["json", "text"])
def test_value_or_text_is_given_only_when_it_is_complete(format: Format) -> None:
    reader = StreamReader(format)
    assert reader.feed('{"a": ') == reader.feed("1}") == []
    assert reader.close("stop") == read('{"a": 1}', format, finish_reason="stop")


# What stands before a value, and behind it.
AROUND = {
    "nothing": ("", ""),
    "space": (" \n", "\n "),
    "bom": ("\ufeff", "\n"),
    "fence": ("```json\n", "\n```"),
    "fence crlf": ("```json\r\n", "\r\n```\r\n"),
    "indented fence": ("\n  ```json\n  ", "\n  ```\n"),
    "bom and fence": ("\ufeff```\n", "\n```\n"),
    "tildes": ("~~~\n", "\n~~~\n"),
    "four backticks": ("````json\n", "\n````\n"),
    "tag": ("<answer>", "</answer>"),
    "thinking": (f"<think>{DRAFT}</think>\n", "\n"),
    "thinking and a fence": (f"<reasoning>{DRAFT}</reasoning>\n```json\n", "\n```\n"),
}
AROUND_OBJECTS = AROUND | {
    "prose and a fence": ("Here, as [1] and [2, 3] say:\n```json\n", '\n```\nThat\'s "it".\n'),
    "prose": ("As [1] says of [0, 1) and {x}, it's this: ", '. That\'s "it".'),
    "citations": ("See [1], [2, 3] and [[4]]:\n", "\nSee (5)."),
    "list": ("1. The answer:\n   ```json\n   ", "\n   ```\n"),
    "another fence": ("```python\nprint({'a': [1]})\n```\n```json\n", "\n```\n"),
    "quotation": ("> ", "\n"),
    "assignment": ("answer = ", ";\n"),
}
OBJECT = {
    "answer": 'a "quoted" } ] { [ \\ \n \u2028 é 🤔 ``` ~~~ <think> </think> {"answer": "no", "shown": 9}',
    "shown": 1,
    "more": [{"a": [1, {"answer": "no", "shown": 2}]}, -1.5e3, 10**30, {}, []],
}


def _cut_everywhere(before: str, said: str, behind: str, contract: Contract | Format) -> Any:
    """Of each cut: how far it is behind where the value begins, whether that is complete, what is read."""
    text = before + said + behind
    for cut in range(len(text) + 1):
        outcome = read(text[:cut], contract)
        if cut % 5 == 0:
            reader = StreamReader(contract)
            for start in range(0, cut, 3):
                assert reader.feed(text[start : min(start + 3, cut)]) == []
            assert reader.close() == outcome
        yield cut - len(before), cut >= len(before + said), outcome


@pytest.mark.parametrize("around", AROUND_OBJECTS.values(), ids=AROUND_OBJECTS.keys())
@pytest.mark.parametrize("indent", [None, 2])
def test_object_cut_anywhere_is_truncated_unless_it_is_complete(
    around: tuple[str, str], indent: int | None
) -> None:
    before, behind = around
    for within, complete, outcome in _cut_everywhere(
        before, json.dumps(OBJECT, indent=indent), behind, ANSWER
    ):
        if complete:
            assert (outcome.value, outcome.reason) == (OBJECT, Reason.SUCCESS)
        else:
            assert outcome.value is None
            assert not outcome.ok
        if within > 0 and not complete:
            assert (outcome.reason, outcome.truncated) == (Reason.TRUNCATED, True)


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND.keys())
@pytest.mark.parametrize(
    "value",
    [
        [1, [2, {"a": "]"}], "x"],
        [],
        {},
        [{"a": 1}, {"a": 2}],
        'see {"a": 1}, [1] ```\n{}\n``` <b>',
        "",
        "é\u2028",
    ],
    ids=repr,
)
def test_any_value_cut_anywhere_is_truncated_unless_it_is_complete(
    around: tuple[str, str], value: Any
) -> None:
    before, behind = around
    for within, complete, outcome in _cut_everywhere(before, json.dumps(value), behind, "json"):
        if complete:
            assert (outcome.value, outcome.reason) == (value, Reason.SUCCESS)
        elif within > 0:
            assert (outcome.value, outcome.reason, outcome.truncated) == (None, Reason.TRUNCATED, True)


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND.keys())
@pytest.mark.parametrize("scalar", ["-12.5", "0", "true", "null", "12345678901234567890123"])
def test_complete_scalar_is_read_in_any_surroundings(around: tuple[str, str], scalar: str) -> None:
    before, behind = around
    for _, complete, outcome in _cut_everywhere(before, scalar, behind, "json"):
        if complete:
            assert repr(outcome.unwrap()) == repr(json.loads(scalar))
        else:  # of a cut number nobody can tell
            assert outcome.value is None or scalar.startswith(repr(outcome.value))


@pytest.mark.parametrize("text", ["%s", "```json\n%s\n```", "<answer>%s</answer>"])
def test_string_may_contain_the_mark_that_ends_thinking(text: str) -> None:
    assert read(text % '"a </think> [1]"', "json").value == "a </think> [1]"


def test_value_in_thinking_is_no_answer_though_nothing_follows() -> None:
    assert read("<think>42</think>", "json").value is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("```json\n{0}\n```\n```json\n{1}\n```", "b"),
        ("```json\n{1}\n```\nand not\n```json\n{0}\n```", "b"),
        ("```json\n{1}\n```\nand again\n```json\n{1}\n```", "b"),
        ("```json\n{1}\n```\nor\n```json\n{2}\n```", None),
        ("{0} or {1}", "b"),
        ("{1} or {2}", None),
        ("{2}\n```json\n{1}\n```", "b"),
        ("```\n{2}\n```</think>\n{1}", "b"),
    ],
)
def test_value_that_the_contract_accepts_is_taken_of_several(text: str, value: str | None) -> None:
    said = ('{"answer": 5, "shown": 1}', '{"answer": "b", "shown": 1}', '{"answer": "c", "shown": 1}')
    outcome = read(text.format(*said), ANSWER)
    if value is None:
        assert (outcome.value, outcome.reason) == (None, Reason.AMBIGUOUS)
    else:
        assert outcome.unwrap() == {"answer": value, "shown": 1}


def test_issue_of_an_element_of_a_wrapped_list_has_its_path() -> None:
    contract = Contract.from_schema({"required": ["a"]}, many=True)
    outcome = read('{"items": [{"a": 1}, {"b": 1}]}', contract)
    assert [(issue.path, issue.reason) for issue in outcome.issues] == [
        ("/items/1", Reason.SCHEMA_MISSING_FIELD)
    ]
