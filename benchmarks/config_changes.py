"""How long requests take while fifty of a thousand prompts change each second.

The worker, with the broker in a file, is a process of its own. Phases with and without changes take turns.
Exits with 1 where the slowest hundredth of the requests waits too much longer while prompts change.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from tests.support.config_changes import PROMPTS, Asking, Judge, Latencies, Prompts, p99
from tests.support.model_server import ModelServer
from tests.support.pulsar_traffic import FLOW
from tests.support.restless_model import TEMPLATES
from tests.support.worker_processes import Site
from tests.support.workers import listening
from trustgraph_prompt.broker import connect
from trustgraph_prompt.worker.config import config_topic

ROUNDS = 3
BAR = 5.0, 0.25  # times what it is without changes, and seconds beside that
SPACE = "tg"
REQUESTS, RESPONSES = (f"persistent://{SPACE}/flow/{name}" for name in ("requests", "responses"))


async def measure(folder: Path) -> tuple[Latencies, Latencies]:
    """Without changes, and with them."""
    quiet, changing, judge = Latencies(), Latencies(), Judge()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ModelServer())
        server.reply = judge.reply
        site = Site(folder, stack)
        flow = FLOW.format(space=SPACE, requests=REQUESTS, responses=RESPONSES, concurrency=16)
        site.serves(flow, TEMPLATES)
        site.asks(server.url)
        broker = await stack.enter_async_context(await connect(site.url))
        heard = await stack.enter_async_context(listening(broker, RESPONSES))
        prompts = Prompts(await broker.producer(config_topic.TOPIC), SPACE)
        await prompts.lay()
        asking = Asking(await broker.producer(REQUESTS), heard, await site.run())
        await asking.phase(Latencies())
        for _ in range(ROUNDS):
            await asking.phase(quiet)
            async with asyncio.TaskGroup() as pushing:
                pushing.create_task(prompts.change(over := asyncio.Event()))
                await asking.phase(changing)
                over.set()
    return quiet, changing


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        quiet, changing = asyncio.run(measure(Path(folder)))
    times, seconds = BAR
    ratio = p99(changing.requests) / p99(quiet.requests)
    print(f"{PROMPTS + 1:,} prompts\n  without changes  {quiet}\n  with changes     {changing}")
    print(f"  p99 of requests is {ratio:.1f}x (bar: {times:g}x and {seconds:g} s)")
    if p99(changing.requests) > times * p99(quiet.requests) + seconds:
        sys.exit("  over the bar")


if __name__ == "__main__":
    main()
