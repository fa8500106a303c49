"""Asking with a cache: the same content is answered from there, and while it is being asked, asked once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import repeat
from typing import Any

from trustgraph_prompt.ask.cache import Cache
from trustgraph_prompt.ask.call_stream import Listen, Piece
from trustgraph_prompt.background import beside
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import Issue, Reason
from trustgraph_prompt.json_text.encoding import canonical, encode
from trustgraph_prompt.llm import Identity
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome, Stage
from trustgraph_prompt.reader.decode import NotJson, decode
from trustgraph_prompt.reader.reading import steps

MOST_WAITS = 2
"""How often a question waits for the answer to another of the same content. Two that could not be kept are
no accident, and whoever has waited for them asks itself, so that nothing is asked in single file."""

PIECE = 100_000
"""Characters of a piece of text: each may become a message of its own, and brokers bound those."""

_FORM = 1  # of what is stored, and of keys; another form is another key


async def cached(
    asking: Callable[[], Awaitable[Outcome]],
    prompt: PromptDefinition,
    question: Question,
    identity: Identity,
    cache: Cache,
    *,
    listen: Listen | None,
    seconds_left: Callable[[], float | None],
    clock: Callable[[], float],
) -> Outcome:
    """What `asking` would give, or has given to the same content within the seconds of the prompt.

    `seconds_left` bounds how long it is waited for somebody else's answer. `clock` is in seconds since the
    epoch: answers outlive processes.
    """
    left = seconds_left()
    is_too_late = left is not None and left <= 0  # and `asking` refuses it
    if is_too_late or not _is_known(identity):
        return await asking()
    key = _key(prompt, question, identity)
    waits = 0
    while waits < MOST_WAITS and (flight := cache.in_flight.get(key)):
        waits += 1
        try:
            async with asyncio.timeout(seconds_left()):
                kept = await asyncio.shield(flight)
        except TimeoutError:
            return _too_late(prompt.contract)
        if outcome := await _opened(kept, prompt, clock()):
            await _tell(outcome, listen)
            return outcome
    return await _fly(asking, key, prompt, cache, listen, clock)


async def _fly(
    asking: Callable[[], Awaitable[Outcome]],
    key: str,
    prompt: PromptDefinition,
    cache: Cache,
    listen: Listen | None,
    clock: Callable[[], float],
) -> Outcome:
    """The answer from the cache or from `asking`, for whoever waits for it, too."""
    assert prompt.cache is not None
    flight = asyncio.get_running_loop().create_future()
    cache.in_flight.setdefault(key, flight)

    def land(_: object = None) -> None:
        if cache.in_flight.get(key) is flight:
            del cache.in_flight[key]

    keeping: asyncio.Task[None] | None = None
    try:
        kept = await cache.look_up(key)
        if outcome := await _opened(kept, prompt, clock()):
            flight.set_result(kept)
            await _tell(outcome, listen)
            return outcome
        outcome = await asking()
        kept = _pack(outcome, clock())
        flight.set_result(kept)
        if kept is not None:
            keeping = cache.keep(key, kept, prompt.cache)
        return outcome
    finally:
        if not flight.done():
            flight.set_result(None)
        if keeping:
            keeping.add_done_callback(land)  # until then the flight has what the cache has not yet
        else:
            land()


def is_worth_keeping(outcome: Outcome) -> bool:
    """Whether others may have the answer: complete, and valid as it was written, every object of it.

    Not what is empty or may be cut, what a cut value was closed up for, what lost an object on the way, what
    somebody else is to deal with.
    """
    return (
        outcome.ok
        and outcome.truncated is False
        and outcome.stage < Stage.SALVAGED
        and not (outcome.rejected or outcome.retracted or outcome.issues or outcome.cause)
        and outcome.escalated is None
        and not _is_empty(outcome.value)
    )


def _is_known(identity: Identity) -> bool:
    """Whether it is said who answers: behind a topic alone there may be another model tomorrow."""
    return identity.system != "topic" or identity.model != ""


def _key(prompt: PromptDefinition, question: Question, identity: Identity) -> str:
    """A hash of all that decides the answer; the prompt's version covers contract and settings."""
    who = [identity.system, identity.model, identity.place]
    parts = [_FORM, prompt.version, question.system, question.prompt, who]
    return hashlib.sha256(canonical(parts)).hexdigest()


def _pack(outcome: Outcome, made: float) -> bytes | None:
    """What is kept of an outcome, None where nothing is."""
    if not is_worth_keeping(outcome):
        return None
    model = outcome.calls[-1].model if outcome.calls else outcome.model
    return encode({"value": outcome.value, "stage": outcome.stage, "model": model, "made": made})


async def _opened(kept: bytes | None, prompt: PromptDefinition, now: float) -> Outcome | None:
    """As `_open`; a long answer is read beside the event loop."""
    return await beside(partial(_open, kept, prompt, now), steps(len(kept or b""), prompt.contract))


def _open(kept: bytes | None, prompt: PromptDefinition, now: float) -> Outcome | None:
    """The outcome that was kept; None where what is there is broken, too old, or not accepted any more."""
    match _decoded(kept):
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
    is_timely = now - prompt.cache <= made <= now + prompt.cache  # clocks differ; what comes is any number
    if _is_empty(value) or not is_timely or not Stage.NATIVE <= stage < Stage.SALVAGED:
        return None
    outcome = Outcome(
        value, Reason.SUCCESS, prompt.contract, Stage(stage), truncated=False, cached=True, model=model
    )
    return outcome.without_terms()


def _decoded(kept: bytes | None) -> Any:
    try:
        return None if kept is None else decode(kept.decode())
    except (NotJson, UnicodeDecodeError):
        return None


def _accepted(value: Any, contract: Contract) -> Any:
    """The value as the contract makes it, None where it is refused."""
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


async def _tell(outcome: Outcome, listen: Listen | None) -> None:
    """The pieces, as if they had just come."""
    if listen is None:
        return
    if outcome.contract.format == "text":
        for start in range(0, len(outcome.value), PIECE):
            await listen(Piece(outcome.value[start : start + PIECE]))
    elif outcome.contract.format == "json":
        await listen(Piece(objects=(outcome.value,), grounding=outcome.grounding))
    else:
        for value, found in zip(outcome.value, outcome.grounding or repeat(None), strict=False):
            await listen(Piece(objects=(value,), grounding=None if found is None else (found,)))


def _too_late(contract: Contract) -> Outcome:
    issue = Issue(Reason.BUDGET_SPENT, "the seconds of the budget ended while others asked the same")
    value: list[Any] | None = [] if contract.format == "jsonl" else None
    return Outcome(value, Reason.BUDGET_SPENT, contract, issues=(issue,))
