"""Objects of an answer under what a contract sets: extra keys, coercion, rules, versions, limits."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trustgraph_prompt.contract import Contract, Limits
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import Stage, StreamReader, read

VOLCANO = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "height": {"type": "integer"}},
    "required": ["name"],
}
OPTIONAL = {"type": "object", "properties": {"name": {"type": "string"}, "height": {"type": "integer"}}}
ETNA = '{"name": "Etna", "height": 3403}'
FUJI = '{"name": "Fuji", "height": 3776}'
BOTH = [{"name": "Etna", "height": 3403}, {"name": "Fuji", "height": 3776}]


class TestExtraKeys:
    """A wrapper is one whatever becomes of keys that the schema does not declare."""

    @pytest.mark.parametrize("extra", [None, "ignore", "forbid"])
    @pytest.mark.parametrize("schema", [VOLCANO, OPTIONAL])
    @pytest.mark.parametrize(
        "text",
        [
            f'{{"items": [{ETNA}, {FUJI}]}}',
            f'{{"items": [{ETNA}, {FUJI}], "total": 2}}',
            f'```json\n{{"results":\n [{ETNA},\n  {FUJI}]}}\n```',
        ],
    )
    def test_wrapper_is_unwrapped_whatever_the_extra_option(self, text: str, schema: Any, extra: Any) -> None:
        outcome = read(text, Contract.from_schema(schema, format="jsonl", extra=extra))
        if '"total"' in text and extra is None and schema is OPTIONAL:
            # nothing says that this is no object
            assert outcome.value == [{"items": BOTH, "total": 2}]
        else:
            assert (outcome.value, outcome.rejected, outcome.retracted) == (BOTH, (), ())

    @pytest.mark.parametrize("extra", ["ignore", "forbid"])
    @pytest.mark.parametrize("tail", ["", ', "note": "all of them"'])
    def test_key_that_the_extra_option_would_not_keep_is_that_of_a_wrapper(
        self, extra: Any, tail: str
    ) -> None:
        contract = Contract.from_schema(OPTIONAL, format="jsonl", extra=extra)
        outcome = read(f'{{"volcanoes": [{ETNA}, {FUJI}]{tail}}}', contract)
        assert (outcome.value, outcome.retracted) == (BOTH, ())

    def test_key_that_the_schema_declares_is_no_wrapper(self) -> None:
        schema = {"properties": {"items": {"type": "array"}}, "additionalProperties": False}
        for extra in (None, "ignore", "forbid"):
            contract = Contract.from_schema(schema, format="jsonl", extra=extra)
            assert read(f'{{"items": [{ETNA}]}}', contract).value == [{"items": [BOTH[0]]}]

    def test_extra_keys_are_dropped_in_every_layout(self) -> None:
        contract = Contract.from_schema(VOLCANO, format="jsonl", extra="ignore")
        line = '{"name": "Etna", "note": "!"}'
        for text in (line, f"{line}\n{line}", f"[{line}, {line}]", f"- {line}", f'{{"items": [{line}]}}'):
            outcome = read(text, contract)
            assert [value == {"name": "Etna"} for value in outcome.value] == [True] * text.count("name")

    def test_each_object_with_an_extra_key_is_refused_alone(self) -> None:
        contract = Contract.from_schema(VOLCANO, format="jsonl", extra="forbid")
        outcome = read(f'{ETNA}\n{{"name": "Fuji", "note": "!"}}', contract)
        assert outcome.value == BOTH[:1]
        [rejected] = outcome.rejected
        assert [issue.reason for issue in rejected.issues] == [Reason.SCHEMA_EXTRA_FIELD]


class TestCoercion:
    CONTRACT = Contract.from_schema(VOLCANO, format="jsonl", coerce=True)
    LINE = '{"name": "Etna", "height": "3403"}'

    @pytest.mark.parametrize(
        "text",
        ["{0}", "{0}\n{0}", "[{0}, {0}]", "[\n{0},\n{0}\n]", '{{"items": [{0}, {0}]}}', "1. {0}\n2. {0}"],
    )
    def test_scalars_are_converted_wherever_the_object_stands(self, text: str) -> None:
        text = text.format(self.LINE)
        outcome = read(text, self.CONTRACT)
        assert outcome.value == [BOTH[0]] * text.count("Etna")
        reader = StreamReader(self.CONTRACT)
        assert [value for character in text for value in reader.feed(character)] == outcome.value

    def test_object_that_cannot_be_converted_is_refused_alone(self) -> None:
        outcome = read(f'[{self.LINE}, {{"name": "Fuji", "height": "high"}}, {self.LINE}]', self.CONTRACT)
        assert outcome.value == [BOTH[0]] * 2
        assert [(one.index, [issue.path for issue in one.issues]) for one in outcome.rejected] == [
            (1, ["/height"])
        ]

    def test_elements_of_a_json_list_are_converted(self) -> None:
        contract = Contract.from_schema(VOLCANO, many=True, coerce=True)
        for text in (f"[{self.LINE}]", f'{{"items": [{self.LINE}]}}', f"Here: [{self.LINE}]"):
            assert read(text, contract).value == BOTH[:1]


class TestRules:
    CONTRACT = Contract.from_schema(
        OPTIONAL, format="jsonl", invariants=[("height is none or height > 0", "a volcano is a mountain")]
    )

    def test_broken_invariant_is_an_issue_of_its_object(self) -> None:
        outcome = read(f'{ETNA}\n{{"name": "Atlantis", "height": -5}}', self.CONTRACT)
        assert outcome.value == BOTH[:1]
        [rejected] = outcome.rejected
        assert [(issue.reason, issue.message) for issue in rejected.issues] == [
            (Reason.INVARIANT_VIOLATION, "a volcano is a mountain")
        ]
        assert outcome.explain() == "object 2 a volcano is a mountain"

    def test_reason_is_that_of_the_invariant_if_all_objects_break_it(self) -> None:
        assert read('{"height": 0}', self.CONTRACT).reason is Reason.INVARIANT_VIOLATION


class TestVersions:
    CONTRACT = Contract.from_schema(
        None,
        format="jsonl",
        versions={
            "1.0": {"properties": {"answer": {}}, "required": ["answer"], "additionalProperties": False},
            "2.0": {"properties": {"response": {}}, "required": ["response"]},
        },
    )

    def test_each_object_is_judged_by_its_own_version(self) -> None:
        text = (
            '{"schema_version": "1.3", "answer": 1, "confidence": 0.9}\n'
            '{"schema_version": "2.0", "response": 2}\n'
            '{"schema_version": "3.0", "response": 3}\n'
            '{"answer": 4}'
        )
        outcome = read(text, self.CONTRACT)
        assert outcome.value == [
            {"schema_version": "1.3", "answer": 1},
            {"schema_version": "2.0", "response": 2},
            {"answer": 4},
        ]
        [rejected] = outcome.rejected
        assert (rejected.index, rejected.issues[0].reason) == (2, Reason.UNSUPPORTED_VERSION)

    def test_reason_is_that_of_an_unknown_version_if_all_objects_have_one(self) -> None:
        outcome = read('{"schema_version": "9.0"}', self.CONTRACT)
        assert (outcome.value, outcome.reason) == ([], Reason.UNSUPPORTED_VERSION)


class TestLimits:
    def test_contract_may_allow_more_objects(self) -> None:
        text = '{"a": 1}\n' * 30_000
        assert len(read(text, "jsonl").value) == 20_000
        contract = Contract.from_schema(None, format="jsonl", limits=Limits(objects=30_000))
        for layout in (text, f"[{text.strip().replace(chr(10), ',')}]"):
            outcome = read(layout, contract, finish_reason="stop")
            assert (len(outcome.value), outcome.truncated, outcome.issues) == (30_000, False, ())

    @pytest.mark.parametrize("levels", [500, 900])
    def test_contract_may_allow_deeper_values(self, levels: int) -> None:
        text = '{"a":' * levels + "1" + "}" * levels
        limits = Limits(depth=levels)
        for format in ("json", "jsonl"):
            assert not read(text, format).ok
            contract = Contract.from_schema(None, format=format, limits=limits)
            for answer in (text, f"Here: {text}\n"):
                outcome = read(answer, contract)
                assert outcome.ok
                assert repr(outcome.objects[0]).count("{") == levels
            deeper = read(f'{{"a":{text}}}', contract)
            assert f"deeper than {levels} levels" in deeper.explain()

    def test_different_deep_values_are_ambiguous_however_deep_they_are(self) -> None:
        contract = Contract.from_schema(None, limits=Limits(depth=1_000))
        one, other = ("[" * 900 + digit + "]" * 900 for digit in "12")
        assert read(f"{one} or {other}", contract).reason is Reason.AMBIGUOUS
        assert read(f"{one} or {one}", contract).ok

    def test_text_behind_1000_refused_objects_is_left_unread(self) -> None:
        contract = Contract.from_schema(VOLCANO, format="jsonl")
        for bad in ('{"height": 5}', '{"name": oops}'):
            outcome = read(f"{bad}\n" * 1_001 + ETNA, contract)
            assert (len(outcome.value), len(outcome.rejected), outcome.truncated) == (0, 1_000, True)
            assert "the rest was not read" in outcome.issues[0].message
            assert "the rest was not read" in outcome.explain()

    def test_limit_of_objects_holds_for_repaired_ones(self) -> None:
        contract = Contract.from_schema(None, format="jsonl", repair=True, limits=Limits(objects=2_000))
        outcome = read("{'a': 1}\n" * 2_100, contract)
        assert (len(outcome.value), outcome.truncated) == (2_000, True)
        assert "the rest was not read" in outcome.issues[0].message


SETTINGS = st.fixed_dictionaries(
    {
        "extra": st.sampled_from([None, "ignore", "forbid"]),
        "coerce": st.booleans(),
        "repair": st.booleans(),
        "invariants": st.sampled_from([(), ("n is none or n >= 0",)]),
        "versions": st.sampled_from([None, {"1.0": {"properties": {"n": {"type": "integer"}}}}]),
        "limits": st.sampled_from([Limits(), Limits(objects=3, depth=3)]),
    }
)
SCHEMAS = [
    None,
    {"properties": {"n": {"type": "integer"}}},
    {"properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False},
]
# fmt: off
PARTS = [
    "{", "}", "[", "]", ",", ":", '"', "'", "\n", " ", '"n"', "n", "1", '"2"', "-1", "true", "null",
    '{"n":1}', '{"n":"2"}', '{"n":-1}', '{"n":1,"m":2}', '{"m":{"m":{"m":[]}}}', '{"items":[', '{"found":[',
    '{"schema_version":"1.1","n":1}', '{"schema_version":"7.0"}', "{'n': 3,}", '{"n": 4', "```", "<think>",
    "</think>",
]
# fmt: on


@settings(max_examples=400)
@given(
    text=st.lists(st.sampled_from(PARTS), max_size=16).map("".join),
    size=st.integers(1, 9),
    schema=st.sampled_from(SCHEMAS),
    format=st.sampled_from(["json", "jsonl"]),
    set_=SETTINGS,
)
@example(text='{"found":[{"n":"2"},{"n":1}],"m":1}', size=2, schema=SCHEMAS[1], format="jsonl", set_={})
def test_stream_and_whole_text_give_the_same_accepted_objects(
    text: str, size: int, schema: Any, format: Any, set_: dict[str, Any]
) -> None:
    contract = Contract.from_schema(schema, format=format, **set_)
    whole = read(text, contract)
    reader = StreamReader(contract)
    given_ = [found for i in range(0, len(text), size) for found in reader.feed(text[i : i + size])]
    assert reader.close() == whole
    for value in whole.objects:
        assert contract.take(value) == (value, True)
    for rejected in whole.rejected:
        assert rejected.issues
        assert text.startswith(rejected.raw, rejected.start)
    for repaired in whole.repaired:
        assert contract.repair
        assert text.startswith(repaired.raw, repaired.start)
        end = repaired.start + len(repaired.raw)
        assert all(repaired.start <= edit.offset <= end for edit in repaired.edits)
    indices = [one.index for one in whole.rejected] + [one.index for one in whole.repaired]
    assert len(indices) == len(set(indices))
    assert all(index < len(whole.objects) + len(whole.rejected) for index in indices)
    assert (whole.stage >= Stage.REPAIRED) == bool(whole.repaired)
    if format == "jsonl":
        assert len(whole.value) + len(whole.rejected) <= contract.limits.objects
        taken_back = Counter(map(json.dumps, whole.retracted))
        assert taken_back <= Counter(map(json.dumps, given_))
