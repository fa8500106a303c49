"""Servers that refuse calls with 429, over HTTP: how many requests are served, and how many calls refused."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

from tests.support.model_server import ModelServer, Reply, Then, said, streamed
from trustgraph_prompt.ask import ask
from trustgraph_prompt.cost import Budget
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Limiter, Limits, OpenAIProvider, RetryPolicy
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome

PROMPT = PromptDefinition.from_entry("say", {"prompt": "unused"})
QUESTION = Question("Be exact.", "Say it.")
ANSWERED: list[bytes | float] = [0.02, *streamed("The sea is deep.")]

STORM = {
    "answered": (70, Reply(ANSWERED)),
    "slow": (10, Reply([0.3, *ANSWERED])),
    "429": (5, Reply([b"slow down"], 429, content_type="text/plain")),
    "429, Retry-After": (5, Reply([b"slow down"], 429, {"Retry-After": "2"}, "text/plain")),
    "503": (6, Reply([b"not now"], 503, content_type="text/plain")),
    "cut": (4, Reply([said("The sea"), Then.DROP])),
}


async def at_once(server: ModelServer, requests: int, budget: Budget, retry: RetryPolicy) -> list[Outcome]:
    async with OpenAIProvider(server.url, "small") as model:
        limited = Limiter(model, Limits(32))
        asking = (ask(PROMPT, QUESTION, limited, budget=budget, retry=retry) for _ in range(requests))
        return await asyncio.gather(*asking)


async def test_in_a_storm_no_request_dies_of_its_budget(server: ModelServer) -> None:
    chance, done = random.Random(1), Counter[str]()

    def reply(body: dict[str, Any]) -> Reply:
        kind = chance.choices(list(STORM), [weight for weight, _ in STORM.values()])[0]
        done[kind] += 1
        return STORM[kind][1]

    server.reply = reply

    outcomes = await at_once(server, 1_500, Budget(seconds=90), RetryPolicy(max_attempts=4))

    ends = Counter(outcome.reason for outcome in outcomes)
    assert ends[Reason.BUDGET_SPENT] == 0, (ends, done)
    assert sum(outcome.value is not None for outcome in outcomes) > 1_450, (ends, done)


async def test_a_server_at_its_limit_refuses_less_than_it_serves(server: ModelServer) -> None:
    tokens, filled, refused, rate = 50.0, time.monotonic(), 0, 50

    def reply(body: dict[str, Any]) -> Reply:
        nonlocal tokens, filled, refused
        now = time.monotonic()
        tokens, filled = min(50.0, tokens + (now - filled) * rate), now
        if tokens < 1:
            refused += 1
            return Reply([b"slow down"], 429, content_type="text/plain")
        tokens -= 1
        return Reply(ANSWERED)

    server.reply = reply

    outcomes = await at_once(server, 600, Budget(seconds=90), RetryPolicy(max_attempts=8))

    assert sum(outcome.ok for outcome in outcomes) == 600
    # Without limits more calls are refused than answered; how few they are where the machine's pace does not
    # count is in tests/unit/llm/test_adaptive_rate.py.
    assert refused < 300, f"{refused} of {len(server.bodies)} calls were refused"
