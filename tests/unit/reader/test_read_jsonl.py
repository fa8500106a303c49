"""What comes of a jsonl answer: its objects, what was refused, how it was read, and whether it is whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.layouts import NOTATIONS
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ConfigError, Reason, StructuredOutputInvalid
from trustgraph_prompt.reader import Outcome, Stage, StreamReader, read

DEFINITIONS = Contract.from_schema(
    {
        "type": "object",
        "properties": {"entity": {"type": "string"}, "definition": {"type": "string"}},
        "required": ["entity", "definition"],
    },
    format="jsonl",
)
ONE = '{"entity": "DNA", "definition": "carries instructions"}'
TWO = '{"entity": "RNA", "definition": "carries information"}'
BOTH = [
    {"entity": "DNA", "definition": "carries instructions"},
    {"entity": "RNA", "definition": "carries information"},
]
PRETTY_ONE = '{\n  "entity": "DNA",\n  "definition": "carries instructions"\n}'
PRETTY_TWO = '{\n  "entity": "RNA",\n  "definition": "carries information"\n}'


def test_clean_lines_are_read_directly() -> None:
    outcome = read(f"{ONE}\n{TWO}\n", DEFINITIONS)
    assert outcome.value == BOTH
    assert (outcome.reason, outcome.stage, outcome.truncated) == (Reason.SUCCESS, Stage.DIRECT, None)
    assert outcome.ok
    assert outcome.unwrap() == BOTH
    assert (outcome.rejected, outcome.issues, outcome.retracted) == ((), (), ())


def test_text_of_the_call_is_kept_byte_for_byte() -> None:
    text = f"\ufeff Here:\r\n{ONE}\r\n"
    [call] = read(text, DEFINITIONS, finish_reason="stop").calls
    assert (call.why, call.text, call.finish_reason) == ("first", text, "stop")


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}\n{TWO}",
        f"\n\n{ONE}\n\n   \n{TWO}\n\n",
        f"{ONE}\r\n{TWO}\r\n",
        f"   {ONE}   \n\t{TWO}",
    ],
    ids=["lines", "blank lines", "crlf", "spaces"],
)
def test_lines_are_read_directly(text: str) -> None:
    outcome = read(text, DEFINITIONS)
    assert (outcome.value, outcome.stage) == (BOTH, Stage.DIRECT)


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{ONE}\n{TWO}\n```",
        f"```\n{ONE}\n```\nand\n```jsonl\n{TWO}\n```",
        f"~~~json\n{ONE}\n{TWO}\n~~~",
        f"Here they are:\n```json\n{ONE}\n{TWO}\n```\nAnything else?",
        f"- first:\n  ```json\n  {ONE}\n  ```\n- second:\n  ```json\n  {TWO}\n  ```",
        f"Sure! {ONE} and also {TWO}. Done.",
        f"[{ONE}, {TWO}]",
        f"[\n  {ONE},\n  {TWO}\n]",
        f"{PRETTY_ONE}\n{PRETTY_TWO}",
        f"```json\n[\n{PRETTY_ONE},\n{PRETTY_TWO}\n]\n```",
        f'{{"items": [{ONE}, {TWO}]}}',
        f'{{\n  "items": [\n{PRETTY_ONE},\n{PRETTY_TWO}\n]\n}}',
        f'{{"definitions": [{ONE}, {TWO}]}}',
        f"{ONE}{TWO}",
        f"{ONE} {TWO}",
        f"{ONE},\n{TWO},",
        f"1. {ONE}\n2. {TWO}",
        f"- {ONE}\n- {TWO}",
        f"<think>Maybe {ONE}? No {{ no.</think>\n{ONE}\n{TWO}",
        f"<thinking>{TWO}</thinking>[{ONE},{TWO}]",
        f"<reasoning>\n{TWO}\n</reasoning>\n{ONE}\n{TWO}",
        f"\ufeff{ONE}\n{TWO}",
        f"Some {{braces}} first [1], \\frac{{a}}{{b}}:\n{ONE}\n{TWO}",
    ],
    ids=[
        "fence",
        "two fences",
        "tildes",
        "fence in prose",
        "fences in a list",
        "prose",
        "array",
        "array of lines",
        "pretty",
        "pretty array in a fence",
        "wrapper",
        "pretty wrapper",
        "wrapper of another name",
        "joined",
        "one line",
        "commas",
        "numbers",
        "bullets",
        "think",
        "thinking",
        "reasoning",
        "bom",
        "braces in prose",
    ],
)
def test_objects_are_found_in_any_layout(text: str) -> None:
    outcome = read(text, DEFINITIONS)
    assert (outcome.value, outcome.stage, outcome.reason) == (BOTH, Stage.EXTRACTED, Reason.SUCCESS)
    assert (outcome.rejected, outcome.retracted, outcome.truncated) == ((), (), None)


def test_broken_line_is_refused_and_does_not_affect_its_neighbours() -> None:
    outcome = read(f'{ONE}\n{{"entity": "x" y", "definition": {{"a": 1}}}}\n{TWO}', DEFINITIONS)
    assert outcome.value == BOTH
    [rejected] = outcome.rejected
    assert rejected.index == 1
    assert rejected.raw == '{"entity": "x" y", "definition": {"a": 1}}'
    assert rejected.issues[0].reason is Reason.INVALID_JSON


@pytest.mark.parametrize(
    "broken",
    [
        '{"entity": "unterminated',
        '{"entity": "no brace"',
        '{"entity": "comma",',
        "{'entity': 'quotes'}",
        "{entity: 1, definition: {}}",
        '{"entity": nope}',
        '{"entity": "a"} }',
        '{\n "entity": bad,\n "inner": {"entity": "i", "definition": "j"}\n}',
        '{"entity": "tab\there", "definition": "d"}',
        '{"entity": "bad \\p escape", "definition": "d"}',
        '{"entity": NaN, "definition": "d"}',
    ],
)
def test_no_kind_of_damage_reaches_the_next_object(broken: str) -> None:
    outcome = read(f"{ONE}\n{broken}\n{TWO}", DEFINITIONS)
    assert outcome.value == BOTH
    assert len(outcome.rejected) == 1


@pytest.mark.parametrize(
    "broken",
    [
        '{"entity":',
        '{"entity": "x", "props": [',
        '{"entity": "x", "props": {',
        '{"entity": "x", "props": [1,',
        '{"entity": oops, "props": [',
        '{"entity": oops, "props":',
        '  {"entity":',
    ],
)
@pytest.mark.parametrize("then", [f"\n{TWO}", f"\nand\n{TWO}", f"\n\n{TWO}\n]"])
def test_object_cut_before_its_value_does_not_affect_the_lines_behind_it(broken: str, then: str) -> None:
    if "oops" in broken and "and" in then:
        then = f"\n{TWO}"
    outcome = read(f"{ONE}\n{broken}\n{ONE}{then}", DEFINITIONS)
    assert outcome.value == [BOTH[0], *BOTH]
    [rejected] = outcome.rejected
    assert rejected.raw == broken.strip()


@pytest.mark.parametrize(
    "broken",
    [
        f'{{"entity": "x", "props": [\n{ONE},\n{TWO}\n], "n": oops}}',
        f'{{"entity": "x", "props": [\n{ONE}\n], "n": oops}}',
        f'{{"entity": oops, "props": [\n{ONE},\n{TWO}\n]}}',
        f'{{"entity": "x", "props":\n  {ONE}\n oops}}',
    ],
)
def test_objects_within_a_broken_object_are_not_read(broken: str) -> None:
    outcome = read(f"{ONE}\n{broken}\n{TWO}", DEFINITIONS)
    assert outcome.value == BOTH
    assert [rejected.raw for rejected in outcome.rejected] == [broken]


def test_broken_element_does_not_affect_its_neighbours() -> None:
    for text in (f'[{ONE}, {{"entity": oops}}, {TWO}]', f'{{"items": [{ONE}, {{"entity": oops}}, {TWO}]}}'):
        outcome = read(text, DEFINITIONS)
        assert outcome.value == BOTH
        assert [r.raw for r in outcome.rejected] == ['{"entity": oops}']


def test_prose_and_scalars_are_no_objects() -> None:
    outcome = read(f'This is prose.\n"a string"\n42\nnull\n{ONE}', DEFINITIONS)
    assert (outcome.value, outcome.rejected) == (BOTH[:1], ())


def test_object_that_does_not_meet_the_schema_is_refused_alone() -> None:
    outcome = read(f'{ONE}\n{{"entity": "x"}}\n{{"entity": 5, "definition": "d"}}\n{TWO}', DEFINITIONS)
    assert outcome.value == BOTH
    assert [(r.index, r.issues[0].reason) for r in outcome.rejected] == [
        (1, Reason.SCHEMA_MISSING_FIELD),
        (2, Reason.SCHEMA_TYPE_ERROR),
    ]
    assert (
        outcome.explain()
        == 'object 2 "definition" is missing; object 3 /entity: expected string, found integer 5'
    )


def test_reason_is_the_first_one_where_all_objects_are_refused() -> None:
    outcome = read('{"entity": 1, "definition": "d"}\n{"entity": "x"}', DEFINITIONS)
    assert (outcome.value, outcome.reason) == ([], Reason.SCHEMA_TYPE_ERROR)
    with pytest.raises(StructuredOutputInvalid, match="expected string") as caught:
        outcome.unwrap()
    assert caught.value.outcome is outcome


@pytest.mark.parametrize("text", ["", "\n\n\n", "  \t\r\n", "\ufeff"])
def test_blank_answer_is_empty(text: str) -> None:
    outcome = read(text, DEFINITIONS)
    assert (outcome.value, outcome.reason) == ([], Reason.EMPTY)


@pytest.mark.parametrize("text", ["[]", "```json\n[]\n```", " [ ] ", '{"items": []}', '{"results": []}'])
def test_answer_that_says_there_is_none_succeeds(text: str) -> None:
    outcome = read(text, DEFINITIONS)
    assert (outcome.value, outcome.reason, outcome.truncated) == ([], Reason.SUCCESS, None)


def test_text_without_objects_is_a_failed_extraction() -> None:
    outcome = read(r"The density is \frac{\text{Population}}{\text{Area}}.", DEFINITIONS)
    assert (outcome.value, outcome.reason, outcome.rejected) == ([], Reason.EXTRACTION_FAILED, ())


@pytest.mark.parametrize(
    ("text", "finish_reason", "truncated"),
    [
        (f"{ONE}\n{TWO}", None, None),
        (f"{ONE}\n{TWO}", "stop", False),
        (f"{ONE}\n{TWO}", "length", True),
        (f'{ONE}\n{{"entity": "R', None, True),
        (f'{ONE}\n{{"entity": "R', "stop", True),
        (f"[{ONE},", None, True),
        (f"[{ONE}", "stop", True),
        (f'{{"items": [{ONE}', None, True),
        (f"```json\n{ONE}\n", None, True),
        (f"```json\n{ONE}\n", "stop", False),
        (f"{ONE}\n<think>wait", None, True),
        (f"{ONE}\nSee [1] and [2].", None, None),
        (f"[{ONE}, see [1], {TWO},", None, True),
        (f"[{ONE}, {TWO}], see [1]", None, None),
        (f"Here: [{ONE}, ", None, True),
        (f"{ONE}\n[", None, True),
        (f"{ONE}\nOn [0, 1) we find this.", "stop", False),
        (f"{ONE}\nOn [0, 1) we find this.", None, None),
        (f"{ONE}\n[0, 1) is the range.", None, None),
        (f'{ONE}\nI read ["DNA" and more.', None, None),
    ],
)
def test_truncated_is_true_false_or_unknown(
    text: str, finish_reason: str | None, truncated: bool | None
) -> None:
    outcome = read(text, DEFINITIONS, finish_reason=finish_reason)
    assert outcome.truncated is truncated
    assert outcome.value[:1] == BOTH[:1]
    assert outcome.rejected == ()


def test_object_at_the_cut_is_never_closed_up() -> None:
    outcome = read(f'{ONE}\n{{"entity": "RNA", "definition": "carries', DEFINITIONS)
    assert (outcome.value, outcome.rejected, outcome.truncated) == (BOTH[:1], (), True)


def test_answer_cut_before_its_first_object_is_truncated() -> None:
    outcome = read('```json\n{"entity": "D', DEFINITIONS)
    assert (outcome.value, outcome.reason, outcome.truncated) == ([], Reason.TRUNCATED, True)


def test_draft_whose_opening_tag_was_in_the_prompt_is_retracted() -> None:
    outcome = read(f"Perhaps {ONE}?\n</think>\n{TWO}", DEFINITIONS)
    assert (outcome.value, outcome.retracted) == (BOTH[1:], tuple(BOTH[:1]))


@pytest.mark.parametrize("behind", [TWO, f"Done: {TWO}", f"[{TWO}]", f'{{"items": [{TWO}]}}'])
def test_last_of_two_ends_of_thinking_counts(behind: str) -> None:
    outcome = read(f"{ONE}</think>{ONE}</think>{behind}", DEFINITIONS)
    assert (outcome.value, outcome.retracted) == (BOTH[1:], (BOTH[0], BOTH[0]))


@pytest.mark.parametrize(
    "behind", ['{"entity": "D', '{"entity": oops}', "[]", '{"items": []}', "\n```\n[]\n```"]
)
def test_draft_is_retracted_though_no_object_follows_it(behind: str) -> None:
    outcome = read(f"Perhaps {ONE}?\n</think>\n{behind}", DEFINITIONS)
    assert (outcome.value, outcome.retracted) == ([], tuple(BOTH[:1]))


@pytest.mark.parametrize("behind", ["", "\nDone", "\nSee [1].", "</answer>"])
def test_stray_end_of_thinking_retracts_nothing(behind: str) -> None:
    outcome = read(f"{ONE}\n{TWO}\n</reasoning>{behind}", DEFINITIONS, finish_reason="stop")
    assert (outcome.value, outcome.retracted, outcome.truncated) == (BOTH, (), False)


def test_tag_in_prose_begins_no_thinking() -> None:
    outcome = read(f"Wrap thoughts in <reflection> tags.\n{ONE}\n{TWO}", DEFINITIONS, finish_reason="stop")
    assert (outcome.value, outcome.retracted, outcome.truncated) == (BOTH, (), False)


def test_thinking_within_a_line_retracts_only_its_own_objects() -> None:
    outcome = read(f"{ONE}\nHmm, <think>or {ONE}?</think> {TWO}", DEFINITIONS)
    assert (outcome.value, outcome.retracted) == (BOTH, tuple(BOTH[:1]))
    outcome = read(f"{ONE}\nHmm, <think>or {ONE}?</think> No.", DEFINITIONS)
    assert (outcome.value, outcome.retracted) == (BOTH[:1], tuple(BOTH[:1]))


def test_draft_and_thinking_within_a_line_are_both_retracted() -> None:
    outcome = read(f"{ONE}{ONE}</think> Hm, <think>{ONE}</think> {TWO}", DEFINITIONS)
    assert (outcome.value, outcome.retracted) == (BOTH[1:], (BOTH[0],) * 3)


@pytest.mark.parametrize(("opens", "closes"), NOTATIONS.values(), ids=NOTATIONS.keys())
class TestThinkingOfOtherModels:
    @pytest.mark.parametrize("before", ["", "<s>", "<|start|>assistant", "\n\n"])
    def test_draft_in_any_notation_of_thinking_is_never_an_object(
        self, opens: str, closes: str, before: str
    ) -> None:
        if opens.endswith("think>"):
            before += "\n"  # within a line a tag may be a mere mention
        text = f"{before}{opens}Maybe {ONE}? Or {{{closes}{TWO}"
        reader = StreamReader(DEFINITIONS)
        given = [value for character in text for value in reader.feed(character)]
        assert given == read(text, DEFINITIONS).value == BOTH[1:]
        assert reader.close() == read(text, DEFINITIONS)

    @pytest.mark.parametrize(
        "draft", [f"Maybe {ONE}?", f'{ONE} or {{"entity": "x", ', f"{ONE} or {{'entity': [[x"]
    )
    def test_draft_without_its_opening_mark_is_retracted(self, opens: str, closes: str, draft: str) -> None:
        outcome = read(f"{draft}{closes}{TWO}", DEFINITIONS)
        assert (outcome.value, outcome.retracted, outcome.rejected) == (BOTH[1:], (BOTH[0],), ())

    def test_thinking_without_its_closing_mark_has_no_object(self, opens: str, closes: str) -> None:
        outcome = read(f"{opens}Maybe {ONE}", DEFINITIONS)
        assert (outcome.value, outcome.truncated) == ([], True)
        assert outcome.explain() == "the answer ends within thinking"

    def test_mark_of_thinking_in_a_string_is_text(self, opens: str, closes: str) -> None:
        mark = json.dumps(opens + closes)
        objects = [{"entity": opens + closes, "definition": "a mark"}, BOTH[0]]
        text = f'{{"entity": {mark}, "definition": "a mark"}}\n{ONE}'
        for size in range(1, len(text)):
            reader = StreamReader(DEFINITIONS)
            assert [
                value for at in range(0, len(text), size) for value in reader.feed(text[at : at + size])
            ] == objects
            assert reader.close().retracted == ()

    def test_json_value_after_thinking_is_read(self, opens: str, closes: str) -> None:
        contract = Contract.from_schema({"type": "object", "required": ["entity"]})
        assert read(f"{opens}{ONE}{closes}{TWO}", contract).value == BOTH[1]
        assert read(f"{ONE}{closes}{TWO}", contract).value == BOTH[1]


def test_thinking_in_a_notation_handed_in_is_skipped() -> None:
    text = f"Hm. [[MUSE {ONE} MUSE]] {TWO}"
    assert read(text, DEFINITIONS).value == BOTH
    assert read(text, DEFINITIONS, thinking=("[[MUSE", "MUSE]]")).value == BOTH[1:]
    json_contract = Contract.from_schema({"type": "object", "required": ["entity"]})
    assert read(text, json_contract, thinking=("[[MUSE", "MUSE]]")).value == BOTH[1]


@pytest.mark.parametrize("marks", [("", ""), ("{", "}"), ("a b", "c d"), ("```thinking", "```")])
def test_marks_of_thinking_that_values_could_begin_with_are_refused(marks: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="cannot mark thinking"):
        read(ONE, DEFINITIONS, thinking=marks)


def test_letter_that_folds_to_one_of_a_mark_makes_no_mark() -> None:
    assert read(f"{ONE} <rea\u017foning> {TWO}", DEFINITIONS).value == BOTH


def test_mark_with_a_bracket_ends_a_broken_value_in_any_chunks() -> None:
    text = f'{{"entity": x {{}} y [THINK]{ONE}[/THINK] {TWO}'
    outcome = read(text, DEFINITIONS)
    assert outcome.value == BOTH[1:]
    for at in range(len(text)):
        reader = StreamReader(DEFINITIONS)
        reader.feed(text[:at])
        reader.feed(text[at:])
        assert reader.close().rejected == outcome.rejected


def test_object_with_a_declared_list_of_objects_is_no_wrapper() -> None:
    contract = Contract.from_schema(
        {"type": "object", "properties": {"items": {"type": "array"}}}, format="jsonl"
    )
    assert read('{"items": [{"a": 1}]}', contract).value == [{"items": [{"a": 1}]}]


def test_object_like_a_wrapper_with_more_members_is_taken_as_it_is() -> None:
    outcome = read('{"items": [{"a": 1}], "total": 3}\n{"items": [{"a": 2}], "total": 4}', "jsonl")
    assert outcome.value == [{"items": [{"a": 1}], "total": 3}, {"items": [{"a": 2}], "total": 4}]
    assert outcome.retracted == ({"a": 1}, {"a": 2})


def test_wrapper_with_a_count_beside_its_list_is_unwrapped() -> None:
    outcome = read(f'{{"items": [{ONE}, {TWO}], "count": 2}}', DEFINITIONS)
    assert (outcome.value, outcome.rejected, outcome.retracted) == (BOTH, (), ())


def test_wrapper_may_have_several_lists() -> None:
    outcome = read(f'{{"items": [{ONE}], "meta": {{"more": {{"n": 1}}}}, "others": [{TWO}]}}', DEFINITIONS)
    assert (outcome.value, outcome.rejected) == (BOTH, ())


def test_wrapper_whose_other_members_are_no_json_is_unwrapped() -> None:
    assert read('{"items": [{"a": 1}], "n": 1e400}', "jsonl").value == [{"a": 1}]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b"])
def test_only_a_newline_ends_a_line(separator: str) -> None:
    text = f'{{"entity": "a{separator}b", "definition": "c"}}'
    if separator == "\x0b":
        assert len(read(text, DEFINITIONS).rejected) == 1
    else:
        assert read(text, DEFINITIONS).value == [{"entity": f"a{separator}b", "definition": "c"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[12345678901234567890123]", 12345678901234567890123),
        ("[-9223372036854775809]", -9223372036854775809),
        ("[18446744073709551615]", 18446744073709551615),
        ("[1e5]", 100000.0),
        (r'["\ud83e\udd14"]', "🤔"),
        (r'["half \ud83e pair"]', "half \ud83e pair"),
        (r'["nul \u0000"]', "nul \x00"),
        ('["\u2028"]', "\u2028"),
    ],
)
def test_large_numbers_and_unusual_strings_are_kept(text: str, value: Any) -> None:
    for answer in (f'{{"v": {text}}}', f'Here: {{"v": {text}}} done'):
        assert read(answer, "jsonl").value == [{"v": [value]}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"v": NaN}', "no JSON"),
        ('{"v": -Infinity}', "no JSON"),
        ('{"v": 1e400}', "1e400 is too large"),
        ('{"v": ' + "1" * 5000 + "}", "too many digits"),
        ('{"v": 01}', "no JSON"),
    ],
)
def test_nan_and_infinity_are_refused(text: str, says: str) -> None:
    outcome = read(text, "jsonl")
    assert (outcome.value, outcome.reason) == ([], Reason.INVALID_JSON)
    assert says in outcome.explain()


def test_last_of_duplicate_keys_wins() -> None:
    assert read('{"a": 1, "a": 2}', "jsonl").value == [{"a": 2}]


def test_keys_keep_their_order() -> None:
    assert list(read('{"z": 1, "ä": 2, "a": 3}', "jsonl").value[0]) == ["z", "ä", "a"]


def test_outcomes_of_equal_texts_are_equal() -> None:
    text = f"{ONE}\nbroken {{'\n"
    assert read(text, DEFINITIONS) == read(text, DEFINITIONS)
    assert isinstance(read(text, "jsonl"), Outcome)


@pytest.mark.parametrize("gap", ["\n", ",\n", "\r\n", ", ", "\n\n"])
@pytest.mark.parametrize(
    "odd",
    [
        {"a": "}\n{"},
        {"a": "},{", "b": "}, {"},
        {"a": {"b": [{}, {"c": 1}, {"c": 2}]}},
        {"a": 10**30},
        {},
    ],
    ids=str,
)
def test_objects_that_look_like_several_are_read_unchanged(gap: str, odd: dict[str, object]) -> None:
    objects = [{"n": 1}] * 4 + [odd, {"n": 2}, odd] + [{"n": 3}] * 4
    assert read(gap.join(map(json.dumps, objects)), "jsonl").value == objects
    pretty = gap.join(json.dumps(value, indent=2) for value in objects)
    assert read(f"[{pretty}]", "jsonl").value == objects


@pytest.mark.parametrize("broken", ['{"a": 1\0"b": 2}', '{"a": 1} x}', '{"a": }', '{"a": 1}} , {"a": 1}'])
def test_only_the_broken_one_among_many_objects_is_lost(broken: str) -> None:
    good = ['{"n": 1}'] * 5
    outcome = read("\n".join([*good, broken, *good, broken, *good]), "jsonl")
    assert [value for value in outcome.value if value == {"n": 1}] == [{"n": 1}] * 15
    raws = "\n".join([*good, broken, *good])
    assert all(raws[lost.start :].startswith(lost.raw) for lost in read(raws, "jsonl").rejected)
