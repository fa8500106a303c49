"""`extract` and a server: a cut answer is continued, and nothing is left open."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass, field
from typing import Any

from tests.support.model_server import ModelServer, Reply, streamed
from trustgraph_prompt import aextract, extract
from trustgraph_prompt.llm import OpenAIProvider

TEXT = "The Rhine rises in the Alps, the Danube in the Black Forest."
RHINE, DANUBE = '{"name": "Rhine"}', '{"name": "Danube"}'


@dataclass
class River:
    name: str = field(metadata={"x-from": "text"})


def cut_after_the_first(body: dict[str, Any]) -> Reply:
    goes_on = len(body["messages"]) > 1
    return Reply(streamed(DANUBE) if goes_on else streamed(f'{RHINE}\n{{"na', "length"))


async def test_a_cut_answer_is_continued_over_connections_that_are_kept() -> None:
    async with ModelServer() as server, OpenAIProvider(server.url, "small") as provider:
        server.reply = cut_after_the_first
        for _ in range(2):
            outcome = await aextract(TEXT, list[River], provider)
            assert outcome.instances == [River("Rhine"), River("Danube")]
        assert (len(server.bodies), len(server.peers)) == (4, 1)


async def test_a_program_without_a_loop_asks_again_and_again_and_closes_nothing() -> None:
    def program() -> None:
        provider = OpenAIProvider(server.url, "small")
        for _ in range(2):
            assert extract(TEXT, list[River], provider).instances == [River("Rhine"), River("Danube")]

    async with ModelServer() as server:
        server.reply = cut_after_the_first
        await asyncio.to_thread(program)
        gc.collect()  # a connection or a loop that is left open warns
        assert (len(server.bodies), len(server.peers)) == (4, 2)
