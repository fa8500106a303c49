"""What `helm test` runs: `ready URL SECONDS`, or `round-trip TOPIC SECONDS` over TRUSTGRAPH_PROMPT_BROKER.

`ready` asks a worker for /readyz until it is ready. `round-trip` serves a request with a prepared answer, on
topics of its own that begin with TOPIC: it needs Pulsar, the credentials and the image, but no model.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import uuid
from contextlib import aclosing
from urllib.error import HTTPError
from urllib.request import urlopen

from trustgraph_prompt.broker import connect
from trustgraph_prompt.errors import CallTimeout
from trustgraph_prompt.llm import ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Flow, Input, Outputs, Prompts, Service

PROMPT = json.dumps({"dialect": "jinja", "prompt": "Greet {{ who }}."})
ANSWER = "Hello, helm."


def ready(url: str, seconds: float) -> str:
    """Return what the worker says once it is ready; exit with what it said last if it is not in time."""
    until = time.monotonic() + seconds
    while True:
        try:
            with urlopen(url, timeout=5) as response:
                return f"{url}: {response.read().decode()}"
        except HTTPError as error:
            found = error.read().decode()
        except OSError as error:
            found = str(error)
        if time.monotonic() > until:
            sys.exit(f"not ready within {seconds:g} s: {url}: {found}")
        time.sleep(1)


async def round_trip(topic: str, seconds: float) -> str:
    """Return what was answered. Raises `CallTimeout`, `TimeoutError`, and the broker's errors."""
    requests, responses = (f"{topic}-{uuid.uuid4().hex}-{part}" for part in ("requests", "responses"))
    service = Service(
        os.environ["TRUSTGRAPH_PROMPT_BROKER"],
        [Flow("helm-test", Input(requests, "helm-test"), Outputs(response=responses))],
        Prompts({"template.greet": PROMPT}),
        lambda model: ScriptedProvider([ScriptedAnswer(ANSWER)]),
        config_topic=None,
    )
    async with asyncio.timeout(seconds):
        serving = asyncio.create_task(service.run())
        try:
            answer = await _ask(requests, responses)
        finally:
            service.stop()
            await serving
    if answer != ANSWER:
        sys.exit(f"{requests}: found {answer!r}, expected {ANSWER!r}")
    return f"{requests}: {answer}"


async def _ask(requests: str, responses: str) -> str:
    """Ask until somebody answers: what is sent before the worker has subscribed is lost."""
    request = PromptRequest.asking("greet", {"who": "helm"}).encode()
    async with await connect(os.environ["TRUSTGRAPH_PROMPT_BROKER"]) as broker:
        caller = await broker.caller(requests, responses)
        while True:
            try:
                async with aclosing(caller.call(request, timeout=2)) as messages:
                    async for message in messages:
                        response = json.loads(message.data)
                        return str(response["error"] or response["text"])
            except CallTimeout:
                print("no answer yet")


if __name__ == "__main__":
    _, test, target, limit = sys.argv
    print(ready(target, float(limit)) if test == "ready" else asyncio.run(round_trip(target, float(limit))))
