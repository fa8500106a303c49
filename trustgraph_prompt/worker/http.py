"""`/livez`, `/readyz` and `/metrics` over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.worker.health import Health
from trustgraph_prompt.worker.metrics import Metrics


@asynccontextmanager
async def serve(address: str, health: Health, metrics: Metrics) -> AsyncIterator[str]:
    """Serve on `HOST:PORT` (port 0: any free one) for the time of the block; gives the address in use.

    Raises `ConfigError` where the address is none or is taken.
    """

    async def livez(_: web.Request) -> web.Response:
        return web.json_response({"alive": True})

    async def readyz(_: web.Request) -> web.Response:
        body = {"ready": health.ready, "waiting": dict(health.waiting), "notes": dict(health.notes())}
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
