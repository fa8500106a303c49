"""What an outcome says of repair: only where the contract allows it, of each object by itself, and where."""

from __future__ import annotations

import pytest

from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import Outcome, Stage, StreamReader, read

SCHEMA = {
    "type": "object",
    "properties": {"entity": {"type": "string"}, "definition": {"type": "string"}},
    "required": ["entity"],
}
STRICT = Contract.from_schema(SCHEMA, format="jsonl")
MANY = Contract.from_schema(SCHEMA, format="jsonl", repair=True)
ONE = Contract.from_schema(SCHEMA, repair=True)
SOUND = '{"entity": "DNA"}'
BROKEN = "{'entity': 'RNA',}"


def both_ways(text: str, contract: Contract) -> Outcome:
    whole = read(text, contract)
    reader = StreamReader(contract)
    for character in text:
        reader.feed(character)
    assert reader.close() == whole
    return whole


class TestObjects:
    def test_broken_objects_are_repaired_only_where_the_contract_allows_it(self) -> None:
        text = f"{SOUND}\n{BROKEN}"
        assert [one.raw for one in read(text, STRICT).rejected] == [BROKEN]
        assert read(text, MANY).value == [{"entity": "DNA"}, {"entity": "RNA"}]

    def test_repaired_object_has_its_edits_with_their_places(self) -> None:
        text = f"{SOUND}\n{BROKEN}\n{SOUND}"
        outcome = both_ways(text, MANY)
        assert outcome.stage is Stage.REPAIRED
        [repaired] = outcome.repaired
        assert (repaired.index, repaired.raw, repaired.stage) == (1, BROKEN, Stage.REPAIRED)
        assert text[repaired.start :].startswith(BROKEN)
        assert [text[edit.offset] for edit in repaired.edits[:2]] == ["'", "'"]
        assert repaired.edits[-1].what == "a comma too many"

    def test_repaired_objects_are_numbered_among_the_refused_ones(self) -> None:
        outcome = both_ways(f'{{"entity": 5}}\n{BROKEN}\n{{"entity": oops}}\n{BROKEN}', MANY)
        assert [one.index for one in outcome.rejected] == [0]
        assert [one.index for one in outcome.repaired] == [1, 2, 3]

    def test_broken_object_is_refused_where_no_reading_meets_the_schema(self) -> None:
        outcome = both_ways(f"{{'name': 'x'}}\n{SOUND}", MANY)
        assert outcome.value == [{"entity": "DNA"}]
        assert (outcome.stage, outcome.repaired) == (Stage.DIRECT, ())
        assert outcome.rejected[0].issues[0].reason is Reason.INVALID_JSON

    @pytest.mark.parametrize(
        "tail", ["{'entity': 'cut", "{'entity': 'cut'", '{"entity": "cut', "{'entity': ['cut'"]
    )
    @pytest.mark.parametrize("end", ["", "\n", " \r\n\n"])
    def test_object_at_the_cut_is_never_closed_up(self, tail: str, end: str) -> None:
        outcome = both_ways(f"{BROKEN}\n{tail}{end}", MANY)
        assert outcome.value == [{"entity": "RNA"}]


class TestThinking:
    @pytest.mark.parametrize("final", [SOUND, "{'entity': 'DNA',}"])
    @pytest.mark.parametrize("before", ["<think>{}</think>", "hm <think>{}</think>", "{}</think>"])
    def test_repaired_draft_in_thinking_never_wins(self, before: str, final: str) -> None:
        text = before.format(BROKEN) + final
        for contract in (MANY, ONE):
            outcome = both_ways(text, contract)
            assert outcome.objects == [{"entity": "DNA"}]
            assert all(one.start >= len(before) for one in outcome.repaired)
            assert (outcome.stage is Stage.REPAIRED) == (final != SOUND)

    def test_repaired_object_that_was_retracted_is_no_longer_counted(self) -> None:
        text = f"hm <think>{BROKEN}\n{{'name': 'x'}}</think>\n{{'name': 'y'}}\n{BROKEN}"
        outcome = both_ways(text, MANY)
        assert [(one.index, text.index(one.raw)) for one in outcome.rejected] == [
            (0, outcome.rejected[0].start)
        ]
        assert [one.index for one in outcome.repaired] == [1]
        assert outcome.repaired[0].start == text.rindex(BROKEN)
        assert outcome.retracted == ({"entity": "RNA"},)

    def test_repaired_draft_stands_where_nothing_follows_it(self) -> None:
        for contract in (MANY, ONE):
            outcome = both_ways(f"{BROKEN}\n</think>\nDone.", contract)
            assert (outcome.objects, outcome.stage) == ([{"entity": "RNA"}], Stage.REPAIRED)

    def test_empty_list_retracts_a_repaired_draft(self) -> None:
        outcome = both_ways(f"{BROKEN}</think>[]", MANY)
        assert (outcome.value, outcome.reason, outcome.repaired) == ([], Reason.SUCCESS, ())


class TestOneValue:
    def test_repaired_value_has_its_edits_with_their_places_after_other_text(self) -> None:
        for before in ("", "Here:\n", "\ufeff", "\ufeff```json\n"):
            outcome = both_ways(before + BROKEN, ONE)
            [repaired] = outcome.repaired
            assert (outcome.value, outcome.stage) == ({"entity": "RNA"}, Stage.REPAIRED)
            assert (repaired.start, repaired.raw) == (len(before), BROKEN)
            assert [(before + BROKEN)[edit.offset] for edit in repaired.edits[:2]] == ["'", "'"]

    def test_cut_value_that_meets_the_schema_is_salvaged(self) -> None:
        outcome = both_ways('{"entity": "DNA", "definition": "carries instr', ONE)
        assert outcome.value == {"entity": "DNA", "definition": "carries instr"}
        assert (outcome.stage, outcome.truncated) == (Stage.SALVAGED, True)
        assert outcome.repaired[0].stage is Stage.SALVAGED

    def test_cut_value_that_does_not_meet_the_schema_is_truncated(self) -> None:
        outcome = both_ways('{"definition": "carries instr', ONE)
        assert (outcome.value, outcome.reason, outcome.truncated) == (None, Reason.TRUNCATED, True)

    def test_repaired_value_refused_by_the_schema_has_the_reason_repair_failed(self) -> None:
        outcome = both_ways("Here: {'entity': 5}", ONE)
        assert (outcome.value, outcome.reason) == (None, Reason.REPAIR_FAILED)
        assert outcome.explain() == "/entity: expected string, found integer 5"
        assert [(one.start, one.raw) for one in outcome.rejected] == [(6, "{'entity': 5}")]

    def test_sound_value_refused_by_the_schema_is_no_failed_repair(self) -> None:
        for text in ('{"entity": 5}', 'Here: {"entity": 5}', '```\n{"entity": 5}\n```'):
            assert both_ways(text, ONE).reason is Reason.SCHEMA_TYPE_ERROR

    def test_sound_value_goes_before_a_repaired_one(self) -> None:
        assert both_ways(f"{BROKEN} or rather {SOUND}", ONE).value == {"entity": "DNA"}


@pytest.mark.parametrize("format", ["json", "jsonl"])
@pytest.mark.parametrize(
    "thought", ['<think>so maybe {"answer": 41} or', '<think>\n{"answer": 41', "<think>{'a': 1}"]
)
def test_value_within_unfinished_thinking_is_no_answer(format: Format, thought: str) -> None:
    contract = Contract.from_schema(None, format=format, repair=True)
    outcome = read(thought, contract)
    assert (len(outcome.objects), outcome.reason, outcome.truncated) == (0, Reason.TRUNCATED, True)
    assert "within thinking" in outcome.explain()


def test_cut_value_goes_before_a_whole_one_if_it_has_a_member() -> None:
    contract = Contract.from_schema(None, format="json", repair=True)
    assert read('{"answer": "A"}\n{"answer": "B', contract).value == {"answer": "B"}
    nothing_yet = read('{"answer": "A"}\n{"answ', contract)
    assert (nothing_yet.value, nothing_yet.truncated) == ({"answer": "A"}, True)


def test_broken_object_at_the_end_is_refused_and_the_answer_truncated() -> None:
    for text in ("{'a': 'b'}\n{'a': 'c", '{"a": "b"}\n{"a": "c" "d'):
        outcome = read(text, Contract.from_schema(None, format="jsonl", repair=True))
        assert (outcome.value, len(outcome.rejected), outcome.truncated) == ([{"a": "b"}], 1, True)


def test_repeated_key_belongs_to_another_object() -> None:
    one = Contract.from_schema({"properties": {"n": {"type": "integer"}}, "required": ["n"]}, repair=True)
    assert read('{"n": 1}, "n": 2}', one).value == {"n": 1}
    both = '{"entity": "A", "definition": "x"\n"entity": "B", "definition": "y"}'
    assert both_ways(both, MANY).value == [{"entity": "A", "definition": "x"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"s": "x", "price": "12', {"s": "x"}),
        ('{"s": "x", "kind": "in', {"s": "x"}),
        ('{"s": "x", "kind": in', {"s": "x"}),
        ('{"s": "x", "kind": "in"', {"s": "x", "kind": "in"}),
        ('{"kind": "in", "s": "in', {"kind": "in", "s": "in"}),
    ],
)
def test_cut_text_is_kept_only_for_a_key_that_takes_any_text(text: str, value: object) -> None:
    listed = {"s": {"type": "string"}, "price": {"type": "integer"}, "kind": {"enum": ["in", "inside"]}}
    contract = Contract.from_schema({"properties": listed}, repair=True, coerce=True)
    assert read(text, contract).value == value


def test_edits_say_how_a_comma_and_a_word_were_read() -> None:
    contract = Contract.from_schema({"properties": {"d": {"type": "string"}}}, repair=True)
    for text, what in (
        ('{"d": "x"; "e": 1}', "another mark than a comma"),
        ('{"d": None}', "text without quotes"),
    ):
        outcome = read(text, contract)
        assert (outcome.stage, [edit.what for edit in outcome.repaired[0].edits]) == (Stage.REPAIRED, [what])


def test_unknown_key_without_its_first_quote_is_read_as_a_key() -> None:
    contract = Contract.from_schema({"properties": {"a": {}, "c": {}}}, repair=True)
    assert read('{"a": "x", b": "y", "c": "z"}', contract).value == {"a": "x", "b": "y", "c": "z"}
