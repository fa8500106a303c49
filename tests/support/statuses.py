"""Statuses of workers, as `/status.json` has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


def flow(name: str = "f", **changes: Any) -> dict[str, Any]:
    """A flow of one worker."""
    return {
        "name": name,
        "workspace": "default",
        "kind": "prompt-request",
        "topic": f"persistent://tg/flow/{name}",
        "subscription": f"prompt--default--{name}--request",
        "prompt": None,
        "model": "small",
        "concurrency": 4,
        "waiting": None,
        "in_work": 1,
        "requests": 10,
        "outcomes": {"success": 8, "empty": 2},
        "objects": 20,
        "rejected": 3,
        "tokens": {"in": 100, "out": 50},
        "cost": 0.5,
        "cost_per_hour": 1.0,
        "retries": 1,
        "dead_letters": {"llm-error": 2},
        "per_second": {"10s": 1.5, "60s": 1.0},
        "per_minute": [0] * 60,
        "seconds": {"p50": 1.0, "p99": 2.0, "of": 10},
        **changes,
    }


def prompt(id: str = "define", **changes: Any) -> dict[str, Any]:
    """A prompt of one worker."""
    return {
        "workspace": "default",
        "id": id,
        "version": "3f2a9c81" * 8,
        "since": "2026-11-27T10:00:00.000Z",
        "requests": 10,
        "outcomes": {"success": 8, "empty": 2},
        "objects": 20,
        "rejected": {"schema_type_error": 3},
        "repaired": {},
        "truncated": 1,
        "completed": 0,
        "tokens": {"in": 100, "out": 50},
        "cost": 0.5,
        "canary": None,
        **changes,
    }


def canary(**changes: Any) -> dict[str, Any]:
    """A canary of a prompt."""
    served, changed = {"accepted": 90, "rejected": 10}, {"accepted": 3, "rejected": 1}
    return {
        "id": "c",
        "version": "9e21bb07" * 8,
        "share": 0.1,
        "by": "ada",
        "why": "shorter",
        "judged": {"served": served, "canary": changed},
        **changes,
    }


def status(instance: str = "a", **changes: Any) -> dict[str, Any]:
    """The status of a worker with one flow and one prompt."""
    return {
        "version": 1,
        "at": "2026-11-27T12:00:00.000Z",
        "worker": {
            "id": "prompt",
            "instance": instance,
            "host": f"host-{instance}",
            "process": 7,
            "release": "1.0",
            "started": "2026-11-27T10:00:00.000Z",
            "shows_content": False,
        },
        "ready": True,
        "since": "2026-11-27T11:00:00.000Z",
        "waiting": {},
        "notes": {},
        "flows": [flow()],
        "prompts": [prompt()],
        "provider": {
            "in_flight": 0,
            "waiting": 0,
            "limits": {"in_flight": None, "requests_per_minute": None, "tokens_per_minute": None},
            "pauses": 0,
            "paused": {},
            "errors": {},
        },
        "dead_letters": {"llm-error": 2},
        "config": {"topic": None, "changes": []},
        "outcomes": [],
        "omitted": {"flows": 0, "prompts": 0},
        **changes,
    }


@asynccontextmanager
async def serving(document: dict[str, Any]) -> AsyncIterator[str]:
    """Serve a status on the loopback address; yields the URL."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(document)

    application = web.Application()
    application.router.add_get("/status.json", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
