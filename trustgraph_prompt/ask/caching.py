"""Answers a question from the cache, and asks equal questions that run at the same time only once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from itertools import repeat
from typing import Any

from trustgraph_prompt.ask.cache import Cache
from trustgraph_prompt.ask.call_stream import Listen, Piece
from trustgraph_prompt.ask.passes import is_finished
from trustgraph_prompt.compute_thread import beside
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.json_text.encoding import canonical, encode
from trustgraph_prompt.llm import Identity
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome, Stage
from trustgraph_prompt.reader.decode import NotJson, decode
from trustgraph_prompt.reader.stream_reader import reading_effort

MOST_WAITS = 2
"""How often a question waits for the answer to an equal one. If two answers could not be stored, the next may
not be either, so the question is asked, instead of all equal questions being asked one after the other."""

PIECE = 100_000
"""Characters of a piece of text, each of which may become a message; brokers limit their size."""

_FORMAT = 1  # of stored values; it is part of the key


async def cached(
    ask: Callable[[], Awaitable[Outcome]],
    prompt: PromptDefinition,
    question: Question,
    identity: Identity,
    cache: Cache,
    *,
    listen: Listen | None,
    seconds_left: Callable[[], float | None],
    clock: Callable[[], float],
) -> Outcome:
    """Return the cached answer to an equal question, from within the cache seconds of the prompt, or `ask`.

    `seconds_left` limits the wait for the answer to an equal question. `clock` is in seconds since the epoch,
    as answers outlive processes.
    """
    left = seconds_left()
    is_too_late = left is not None and left <= 0  # and `ask` says so
    # behind a topic without a model there may be another model tomorrow
    is_unknown = identity.system == "topic" and identity.model == ""
    if is_too_late or is_unknown:
        return await ask()
    key = _key(prompt, question, identity)
    waits = 0
    while waits < MOST_WAITS and (flight := cache.in_flight.get(key)):
        waits += 1
        try:
            async with asyncio.timeout(seconds_left()):
                stored = await asyncio.shield(flight)
        except TimeoutError:
            message = "the seconds of the budget ended while waiting for the answer to an equal question"
            value: list[Any] | None = [] if prompt.contract.format == "jsonl" else None
            issue = Issue(Reason.BUDGET_SPENT, message)
            return Outcome(value, Reason.BUDGET_SPENT, prompt.contract, issues=(issue,))
        if outcome := await _opened(stored, prompt, clock()):
            await _notify(outcome, listen)
            return outcome
    return await _look_up_or_ask(ask, key, prompt, cache, listen, clock)


async def _look_up_or_ask(
    ask: Callable[[], Awaitable[Outcome]],
    key: str,
    prompt: PromptDefinition,
    cache: Cache,
    listen: Listen | None,
    clock: Callable[[], float],
) -> Outcome:
    """The answer from the cache or from `ask`, which equal questions wait for."""
    assert prompt.cache is not None
    flight = asyncio.get_running_loop().create_future()
    cache.in_flight.setdefault(key, flight)

    def land(_: object = None) -> None:
        if cache.in_flight.get(key) is flight:
            del cache.in_flight[key]

    storing: asyncio.Task[None] | None = None
    try:
        stored = await cache.look_up(key)
        if outcome := await _opened(stored, prompt, clock()):
            flight.set_result(stored)
            await _notify(outcome, listen)
            return outcome
        outcome = await ask()
        stored = _pack(outcome, clock())
        flight.set_result(stored)
        if stored is not None:
            storing = cache.keep(key, stored, prompt.cache)
        return outcome
    finally:
        if not flight.done():
            flight.set_result(None)
        if storing:
            storing.add_done_callback(land)  # until then the flight has the answer, and the cache does not
        else:
            land()


def is_worth_keeping(outcome: Outcome) -> bool:
    """Whether the answer may be stored: it is complete, and valid as it was written, with every object.

    Not stored are answers that are empty, may be truncated, were salvaged, lost an object, were escalated, or
    lack what a pass may have found that was broken off.
    """
    return (
        outcome.ok
        and outcome.truncated is False
        and outcome.stage < Stage.SALVAGED
        and not (outcome.rejected or outcome.retracted or outcome.issues or outcome.cause)
        and outcome.escalated is None
        and not _is_empty(outcome.value)
        and all(map(is_finished, outcome.passes))
    )


def _key(prompt: PromptDefinition, question: Question, identity: Identity) -> str:
    """A hash of everything that determines the answer; the prompt's version covers contract and settings."""
    model = [identity.system, identity.model, identity.place]
    parts = [_FORMAT, prompt.identity(question.examples), question.system, question.prompt, model]
    return hashlib.sha256(canonical(parts)).hexdigest()


def _pack(outcome: Outcome, made: float) -> bytes | None:
    """The value to store for an outcome, None if it is not to be stored."""
    if not is_worth_keeping(outcome):
        return None
    model = outcome.calls[-1].model if outcome.calls else outcome.model
    return encode({"value": outcome.value, "stage": outcome.stage, "model": model, "made": made})


async def _opened(stored: bytes | None, prompt: PromptDefinition, now: float) -> Outcome | None:
    """Call `_open`, in a thread for a long answer."""
    effort = reading_effort(len(stored or b""), prompt.contract)
    return await beside(_open, stored, prompt, now, steps=effort)


def _open(stored: bytes | None, prompt: PromptDefinition, now: float) -> Outcome | None:
    """The outcome that was stored; None if it is malformed, expired, or no longer valid."""
    try:
        entry = None if stored is None else decode(stored.decode())
    except (NotJson, UnicodeDecodeError):
        return None
    match entry:
        case {
            "value": value,
            "stage": int(stage),
            "model": str() | None as model,
            "made": int() | float() as made,
        }:
            value = _accepted(value, prompt.contract)
        case _:
            return None
    assert prompt.cache is not None
    is_timely = now - prompt.cache <= made <= now + prompt.cache  # in the future where clocks differ
    if _is_empty(value) or not is_timely or not Stage.NATIVE <= stage < Stage.SALVAGED:
        return None
    outcome = Outcome(
        value, Reason.SUCCESS, prompt.contract, Stage(stage), truncated=False, cached=True, model=model
    )
    return outcome.without_terms()


def _accepted(value: Any, contract: Contract) -> Any:
    """The value as the contract converts it, None if it is rejected."""
    match contract.format, value:
        case "text", str():
            return value
        case "jsonl", list():
            return contract.take_all(value)
        case "json", _:
            taken, accepted = contract.take(value)
            return taken if accepted else None
    return None


def _is_empty(value: Any) -> bool:
    return not value.strip() if isinstance(value, str) else value in (None, [], {})


async def _notify(outcome: Outcome, listen: Listen | None) -> None:
    """Pass the pieces of an answer to the listener, as if they had just come."""
    if listen is None:
        return
    if outcome.contract.format == "text":
        for start in range(0, len(outcome.value), PIECE):
            await listen(Piece(outcome.value[start : start + PIECE]))
    elif outcome.contract.format == "json":
        await listen(Piece(objects=(outcome.value,), grounding=outcome.grounding))
    else:
        for value, grounding in zip(outcome.value, outcome.grounding or repeat(None), strict=False):
            await listen(Piece(objects=(value,), grounding=None if grounding is None else (grounding,)))
