"""`/livez`, `/readyz` and `/metrics` over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import islice

from aiohttp import web

from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.worker import http_connections
from trustgraph_prompt.worker.health import Health
from trustgraph_prompt.worker.metrics import Metrics

MAX_SAID, MAX_ABOUT, MAX_WHY = 100, 200, 1_000
"""Notes of `/readyz`, and characters of what each is about and of what it says."""

Page = Callable[[], Awaitable[web.Response]]


@asynccontextmanager
async def serve(address: str, health: Health, metrics: Metrics) -> AsyncIterator[str]:
    """Serve on `HOST:PORT` (port 0: any free one) for the time of the block; gives the address in use.

    Raises `ConfigError` where the address is none or is taken.
    """

    async def livez() -> web.Response:
        return web.json_response({"alive": True})

    async def readyz() -> web.Response:
        body = {"ready": health.ready, "waiting": _brief(health.waiting), "notes": _brief(health.notes())}
        return web.json_response(body, status=200 if health.ready else 503)

    async def exposition() -> web.Response:
        return web.Response(
            body=await metrics.exposition(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    pages: dict[str, Page] = {"/livez": livez, "/readyz": readyz, "/metrics": exposition}

    async def answer(request: web.BaseRequest) -> web.Response:
        page = pages.get(request.path)
        if page is None or request.method not in ("GET", "HEAD"):
            response = web.Response(status=405 if page else 404)
        else:
            response = await page()
        response.force_close()
        return response

    async with http_connections.serve(address, answer) as bound:
        yield bound


def _brief(said: Mapping[str, str]) -> dict[str, str]:
    """What fits into an answer that is asked for every few seconds: keys and errors come from outside."""
    brief = {
        excerpt(about, MAX_ABOUT): excerpt(why, MAX_WHY) for about, why in islice(said.items(), MAX_SAID)
    }
    if len(said) > MAX_SAID:
        brief["…"] = f"{len(said) - MAX_SAID:,} more; the log has all"
    return brief
