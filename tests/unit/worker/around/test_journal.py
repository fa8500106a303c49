"""The journal: what was paid for is known again, what runs is never forgotten, and it does not grow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import replace

import pytest

from trustgraph_prompt.broker import Message
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.outcome import CallReport
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.around import journal
from trustgraph_prompt.worker.around.journal import AskResult, Entry, Journal, identity_of

PROMPT = PromptDefinition.from_entry("p", {"prompt": "x"})


def answer(text: str = "hi") -> Outcome:
    return Outcome(
        text, Reason.SUCCESS, Contract.from_schema(None, format="text"), calls=(CallReport("first", text),)
    )


async def test_result_of_a_request_is_known_when_it_is_delivered_again() -> None:
    known = Journal()

    async with known.entry("f", "r", b"x") as entry:
        assert entry.result is None
        entry.result = AskResult(PROMPT, answer())

    async with known.entry("f", "r", b"x") as entry:
        assert entry.result is not None
        assert entry.result[1].value == "hi"


async def test_another_flow_id_or_content_has_an_entry_of_its_own() -> None:
    known = Journal()

    async with known.entry("f", "r", b"x") as entry:
        entry.result = AskResult(PROMPT, answer())

    for flow, request, data in (("f", "s", b"x"), ("g", "r", b"x"), ("f", "r", b"y")):
        async with known.entry(flow, request, data) as entry:
            assert entry.result is None


async def test_redelivered_request_waits_for_the_run_under_way() -> None:
    known = Journal()
    order: list[str] = []

    async def deliver(name: str, work: asyncio.Event) -> None:
        async with known.entry("f", "r", b"x") as entry:
            order.append(f"{name} {'again' if entry.result else 'first'}")
            await work.wait()
            entry.result = AskResult(PROMPT, answer())

    go = asyncio.Event()
    runs = [asyncio.create_task(deliver(name, go)) for name in ("one", "two")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == ["one first"]
    go.set()
    await asyncio.gather(*runs)

    assert order == ["one first", "two again"]


async def test_request_without_a_result_or_forgotten_is_asked_anew() -> None:
    known = Journal()

    async with known.entry("f", "r", b"x"):
        pass
    async with known.entry("f", "s", b"x") as entry:
        entry.result = AskResult(PROMPT, answer())
        entry.forget()

    for request in ("r", "s"):
        async with known.entry("f", request, b"x") as entry:
            assert entry.result is None


def hit(text: str = "hi") -> Outcome:
    """An answer of the cache, which has no call."""
    return replace(answer(text), calls=(), cached=True)


@pytest.mark.parametrize("answered", [answer, hit])
async def test_journal_keeps_no_more_text_than_it_may(answered: Callable[[str], Outcome]) -> None:
    known = Journal()
    long = "x" * (journal.MAX_WEIGHT // journal.PARSED // 4)

    for n in range(10):
        async with known.entry("f", str(n), b"x") as entry:
            entry.result = AskResult(PROMPT, answered(long))

    kept = 0
    for n in range(10):
        async with known.entry("f", str(n), b"x") as entry:
            kept += entry.result is not None
            entry.forget()
    assert 1 <= kept < 4


async def test_sent_answer_is_known_by_time_and_properties_of_its_message() -> None:
    known = Journal()
    message = Message(b"x", "t", "1", {"id": "r", "traceparent": "\udc80"}, published=1.5)

    async with known.entry("f", "r", b"x") as entry:
        entry.result = AskResult(PROMPT, hit())
        entry.identity = identity_of(message)
        assert not entry.has_answered(message)
        entry.answered = True

    async with known.entry("f", "r", b"x") as entry:
        assert entry.has_answered(replace(message, id="2", receipt=7))  # sent again by the client
        assert not entry.has_answered(replace(message, published=1.501))
        assert not entry.has_answered(replace(message, properties={"id": "r"}))  # in the same millisecond
        entry.forget()
        assert not entry.has_answered(message)


async def test_answer_too_long_to_keep_is_dropped() -> None:
    known = Journal()

    async with known.entry("f", "r", b"x") as entry:
        entry.result = AskResult(PROMPT, answer("x" * (journal.MAX_WEIGHT + 1)))

    async with known.entry("f", "r", b"x") as entry:
        assert entry.result is None


async def test_parts_of_an_answer_are_kept_until_the_request_is_forgotten() -> None:
    known = Journal()

    async with known.entry("f", "r", b"x") as entry:
        entry.parts["a"] = Entry(AskResult(PROMPT, hit("x" * 1000)))
        entry.result = AskResult(PROMPT, answer())
        assert entry.weight > journal.PARSED * 1000
        entry.forget_result()
        assert entry.weight > journal.PARSED * 1000

    async with known.entry("f", "r", b"x") as entry:
        assert (entry.result, list(entry.parts)) == (None, ["a"])
        entry.forget()

    async with known.entry("f", "r", b"x") as entry:
        assert entry.parts == {}


def test_parts_of_a_whole_answer_are_not_weighed_twice() -> None:
    parts: dict[Hashable, Entry] = {name: Entry(AskResult(PROMPT, answer("x" * 1000))) for name in "ab"}
    unfinished, entry = Entry(parts=parts), Entry(parts=parts)
    calls = [call for part in parts.values() if part.result for call in part.result.outcome.calls]

    entry.result = AskResult(PROMPT, replace(answer(), calls=tuple(calls)))

    assert entry.weight == unfinished.weight
