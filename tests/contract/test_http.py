"""What a worker answers over HTTP."""

from __future__ import annotations

import aiohttp

from trustgraph_prompt.worker.health import Health
from trustgraph_prompt.worker.http import serve
from trustgraph_prompt.worker.metrics import Metrics


async def readyz(health: Health) -> bytes:
    async with (
        serve("127.0.0.1:0", health, Metrics()) as bound,
        aiohttp.ClientSession() as session,
        session.get(f"http://{bound}/readyz") as response,
    ):
        return await response.read()


async def test_forty_keys_of_half_a_megabyte_were_an_answer_of_twenty() -> None:
    health = Health()
    keys = {f"config entry {number} {'k' * 500_000}": f"refused: {'k' * 500_000}" for number in range(40)}
    health.notes = lambda: keys
    body = await readyz(health)
    assert len(body) < 100_000
    assert body.count(b"config entry") == 40


async def test_thousands_of_notes_are_counted() -> None:
    health = Health()
    health.notes = lambda: {f"config entry {number}": "refused" for number in range(5_000)}
    body = await readyz(health)
    assert len(body) < 10_000
    assert b"4,900 more; the log has all" in body
