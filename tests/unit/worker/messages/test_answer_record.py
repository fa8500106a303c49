"""The durable record of an answer."""

from __future__ import annotations

from dataclasses import replace

import orjson

from trustgraph_prompt import wire
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.outcome import Outcome, Remark
from trustgraph_prompt.worker.messages.answer_record import Answer, reject_objects

RECORD = Answer("r", "f", "p", "v", "success", "direct", False, ("o",))


def test_record_names_the_texts_of_a_pool_that_were_shown() -> None:
    encoded = replace(RECORD, examples=("a1", "b2")).encode()
    assert orjson.loads(encoded)["examples"] == ["a1", "b2"]
    assert Answer.decode(encoded).examples == ("a1", "b2")


def test_record_without_examples_and_remarks_has_the_bytes_that_it_always_had() -> None:
    encoded = RECORD.encode()
    assert b"examples" not in encoded
    assert encoded == wire.encode(RECORD).replace(b',"examples":[],"remarks":[]', b"")
    assert Answer.decode(encoded) == RECORD


def test_remarks_stay_with_their_objects_where_one_is_too_large() -> None:
    remarks = tuple(Remark(index, "class", "/object_type", "unknown") for index in range(3))
    contract = Contract.from_schema(None, format="jsonl")
    outcome = Outcome([{"n": n} for n in range(3)], Reason.SUCCESS, contract, remarks=remarks)
    kept = reject_objects(outcome, lambda value: "too large" if value == {"n": 1} else None)
    assert [kept.value[each.index] for each in kept.remarks] == [{"n": 0}, {"n": 2}]
