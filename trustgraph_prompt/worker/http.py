"""`/livez`, `/readyz` and `/metrics` over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import islice

from aiohttp import web

from trustgraph_prompt.errors import ConfigError, excerpt
from trustgraph_prompt.worker.health import Health
from trustgraph_prompt.worker.metrics import Metrics

MAX_SAID, MAX_ABOUT, MAX_WHY = 100, 200, 1_000
"""Notes of `/readyz`, and characters of what each is about and of what it says."""


@asynccontextmanager
async def serve(address: str, health: Health, metrics: Metrics) -> AsyncIterator[str]:
    """Serve on `HOST:PORT` (port 0: any free one) for the time of the block; gives the address in use.

    Raises `ConfigError` where the address is none or is taken.
    """

    async def livez(_: web.Request) -> web.Response:
        return web.json_response({"alive": True})

    async def readyz(_: web.Request) -> web.Response:
        body = {"ready": health.ready, "waiting": _brief(health.waiting), "notes": _brief(health.notes())}
        return web.json_response(body, status=200 if health.ready else 503)

    async def exposition(_: web.Request) -> web.Response:
        return web.Response(
            body=metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    app = web.Application()
    app.add_routes([web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", exposition)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        yield await _listen(runner, address)
    finally:
        await runner.cleanup()


def _brief(said: Mapping[str, str]) -> dict[str, str]:
    """What fits into an answer that is asked for every few seconds: keys and errors come from outside."""
    brief = {
        excerpt(about, MAX_ABOUT): excerpt(why, MAX_WHY) for about, why in islice(said.items(), MAX_SAID)
    }
    if len(said) > MAX_SAID:
        brief["…"] = f"{len(said) - MAX_SAID:,} more; the log has all"
    return brief


async def _listen(runner: web.AppRunner, address: str) -> str:
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        wrong = "its port is not a number up to 65535" if colon else "it has no port"
        raise ConfigError(
            f"the address is not valid: {wrong}", where="--http", found=address, expected="HOST:PORT"
        )
    try:
        await web.TCPSite(runner, host or None, int(port)).start()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot serve HTTP on {address}: {error}", where="--http") from None
    bound = runner.addresses[0]
    return f"{bound[0]}:{bound[1]}"
