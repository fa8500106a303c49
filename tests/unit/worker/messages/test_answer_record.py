"""The durable record of an answer."""

from __future__ import annotations

from dataclasses import replace

import orjson

from trustgraph_prompt import wire
from trustgraph_prompt.worker.messages.answer_record import Answer

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
