"""A server in trouble: 30 % of the calls go wrong, and each of 1,000 requests comes to an end of its own."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from tests.support.model_server import DONE, ModelServer, Reply, Then, said, used
from trustgraph_prompt.ask import ask
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import ProviderError
from trustgraph_prompt.llm import Limiter, Limits, OpenAIProvider, RetryPolicy, Timeout
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome

REQUESTS = 1_000
IN_FLIGHT = 32
REQUESTS_PER_MINUTE = 250
TOKENS_PER_MINUTE = 50_000
POLICY = RetryPolicy(max_attempts=4)
BUDGET = Budget(tokens=1_000)

#: Of a hundred calls. What hangs, hangs as long as the client has patience.
TROUBLE = {"429": 9, "500": 8, "dropped": 5, "cut": 6, "hangs": 2}
PATIENCE = 8.0

#: How long a second of waiting is here: retries, pauses and the minute of the limits.
SECOND = 0.01

PROMPT = PromptDefinition.from_entry(
    "numbers",
    {
        "prompt": "unused",
        "response-type": "jsonl",
        "schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
        "settings": {"max-tokens": 60},
    },
)


@dataclass
class Storm:
    """What the server does about each call of each request: the same in every run."""

    began: float = field(default_factory=time.monotonic)
    done: dict[int, list[str]] = field(default_factory=dict)  # to each call of a request
    arrivals: list[float] = field(default_factory=list)

    def reply(self, body: dict[str, Any]) -> Reply:
        self.arrivals.append(time.monotonic() - self.began)
        match = re.search(r"numbers of (\d+)", str(body["messages"]))
        assert match is not None
        request = int(match[1])
        calls = self.done.setdefault(request, [])
        kind = what_happens(request, len(calls))
        calls.append(kind)
        return replies(request)[kind]


def what_happens(request: int, call: int) -> str:
    kinds = [*TROUBLE, "answered"]
    weights = [*TROUBLE.values(), 100 - sum(TROUBLE.values())]
    return random.Random(f"{request}/{call}").choices(kinds, weights)[0]


def values(request: int) -> list[dict[str, int]]:
    return [{"n": 10 * request + k} for k in range(4)]


def replies(request: int) -> dict[str, Reply]:
    text = "\n".join(str(value).replace("'", '"') for value in values(request))
    pieces = [said(text[start : start + 9]) for start in range(0, len(text), 9)]
    return {
        "answered": Reply([*pieces, 0.03, said(finish_reason="stop"), used(11, 22), DONE]),
        "429": Reply([b"slow down"], 429, {"Retry-After": "2"}, "text/plain"),
        "500": Reply([b"trouble"], 500, content_type="text/plain"),
        "dropped": Reply([Then.DROP]),
        "cut": Reply([*pieces[: len(pieces) // 2], Then.DROP]),
        "hangs": Reply([Then.HANG]),
    }


CATEGORY = {
    "answered": None,
    "429": "provider_rate_limit",
    "500": "provider_unavailable",
    "dropped": "provider_unavailable",
    "cut": "provider_unavailable",
    "hangs": "provider_unavailable",
}


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds * SECOND)


async def test_every_request_of_a_storm_ends_and_no_limit_is_passed(server: ModelServer) -> None:
    storm = Storm()
    server.reply = storm.reply
    limits = Limits(
        IN_FLIGHT,
        REQUESTS_PER_MINUTE,
        TOKENS_PER_MINUTE,
        clock=lambda: time.monotonic() / SECOND,
        sleep=sleep,
    )
    pauses: list[float] = []

    async with OpenAIProvider(server.url, "small", timeout=Timeout(first=PATIENCE)) as model:
        provider = Limiter(model, limits, on_pause=lambda _, seconds: pauses.append(seconds))

        async def one(request: int) -> Outcome:
            question = Question("Be exact.", f"Which are the numbers of {request}?")
            return await ask(PROMPT, question, provider, budget=BUDGET, retry=POLICY, sleep=sleep)

        outcomes = await asyncio.gather(*(one(request) for request in range(REQUESTS)))

    for request, outcome in enumerate(outcomes):
        has_ended_well_or_says_why(request, outcome)
        kinds = storm.done[request]
        assert [error_category(call.error) for call in outcome.calls] == [CATEGORY[kind] for kind in kinds]
        was_retried_within_the_policy([call.why for call in outcome.calls], kinds)
        assert outcome.usage.tokens <= (BUDGET.tokens or 0)
    assert IN_FLIGHT // 2 < server.most_on_the_wire <= IN_FLIGHT
    assert (limits.in_flight, limits.waiting) == (0, 0)
    for number, arrival in enumerate(storm.arrivals):
        assert arrival >= number // REQUESTS_PER_MINUTE * 60 * SECOND
    print_counts(storm, outcomes, pauses)


def has_ended_well_or_says_why(request: int, outcome: Outcome) -> None:
    whole, cause = values(request), outcome.cause
    if outcome.value == whole and not outcome.truncated:
        assert outcome.ok
        return
    assert isinstance(cause, ProviderError)
    assert cause.category in CATEGORY.values()
    if outcome.value:
        assert outcome.truncated
        assert outcome.value == whole[: len(outcome.value)]
    else:
        assert outcome.reason == "provider_error"


def error_category(error: str | None) -> str | None:
    return error and error.partition(":")[0]


def was_retried_within_the_policy(why: list[str], kinds: list[str]) -> None:
    """A call is tried again after it failed without a word, and not too often; one that was cut never is."""
    for is_retry, run in groupby(why, lambda each: each == "transient"):
        assert not is_retry or len(list(run)) < POLICY.max_attempts
    for (before, _), (_, reason) in pairwise(zip(kinds, why, strict=True)):
        assert reason == {"cut": "continue"}.get(before, "transient")


def print_counts(storm: Storm, outcomes: list[Outcome], pauses: list[float]) -> None:
    calls = Counter(kind for kinds in storm.done.values() for kind in kinds)
    ends = Counter("cut" if outcome.truncated else str(outcome.reason.value) for outcome in outcomes)
    tries = Counter(len(outcome.calls) for outcome in outcomes)
    print(  # noqa: T201
        f"\n{REQUESTS} requests: {dict(ends)}; {calls.total()} calls: {dict(calls)}; "
        f"{len(pauses)} pauses; calls of a request: {dict(sorted(tries.items()))}; "
        f"{time.monotonic() - storm.began:.1f} s, CPU of both sides {time.process_time():.1f} s"
    )
