"""Takes a picture of the status page of a worker that is asked all the time, for the guides.

The clock of its rates runs a hundred times as fast, so that there is an hour to be seen.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from tests.support.browser import browsers, browsing
from tests.support.busy_worker import KINDS, RECORDING, TEMPLATES, flow_file, text_of
from tests.support.graph_page_picture import with_palette
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.llm import Limits, ScriptedProvider
from trustgraph_prompt.llm.records import Identity
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Prompts, Service
from trustgraph_prompt.worker import flow_file as flow_files
from trustgraph_prompt.worker.canary.record import CANARY, Canary
from trustgraph_prompt.worker.config import config_topic, history
from trustgraph_prompt.worker.config.history import Author
from trustgraph_prompt.worker.telemetry import http
from trustgraph_prompt.worker.telemetry.activity import Activity
from trustgraph_prompt.worker.telemetry.status import Status
from trustgraph_prompt.worker.telemetry.status_page import StatusPage

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("picture", type=Path, help="the PNG file to write")
parser.add_argument("--seconds", type=float, default=40.0, help="how long the worker works before")
parser.add_argument("--scheme", choices=["light", "dark"], default="light")
parser.add_argument("--size", type=int, nargs=2, default=(1280, 900), metavar=("WIDTH", "HEIGHT"))

FLOWS: Final = {"definitions": "define", "explanations": "explain"}
FASTER: Final = 100


def main() -> None:
    given = parser.parse_args()
    size = dict(zip(("width", "height"), given.size, strict=True))
    look = {"viewport": size, "color_scheme": given.scheme, "device_scale_factor": 2}
    png = asyncio.run(take(given.seconds, look))
    with browsers() as launch:
        given.picture.write_bytes(with_palette(launch(), png))


async def take(seconds: float, look: dict[str, Any]) -> bytes:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        broker = await stack.enter_async_context(await connect("embedded:"))
        await configure(broker)
        service = a_service(broker, folder)
        page = StatusPage(Status(service, "prompt"))
        serving = http.serve("127.0.0.1:0", service.health, service.metrics, page)
        bound = await stack.enter_async_context(serving)
        running = asyncio.create_task(service.run())
        asking = [asyncio.create_task(ask(broker, flow, prompt)) for flow, prompt in FLOWS.items()]
        await asyncio.sleep(seconds)
        async with browsing(f"http://{bound}/", **look) as shown:
            await shown.get_by_text("Live").wait_for()
            png = await shown.screenshot()
        for task in asking:
            task.cancel()
        service.stop()
        await running
        return png


async def configure(broker: Broker) -> None:
    """Publish the prompts, and a canary of one."""
    await history.push(broker, "default", TEMPLATES, Author("ada", "asks for shorter definitions"))
    shorter = TEMPLATES["template.define"].replace("Define", "Define briefly")
    record = Canary("c", shorter, 0.1, "ada", "shorter").encode()
    topic = config_topic.TOPIC + CANARY
    await config_topic.push(broker, "default", {"template.define": record}, topic=topic)


def a_service(broker: Broker, folder: Path) -> Service:
    recording = folder / "recording.jsonl"
    recording.write_text("\n".join(json.dumps({"delay": 0.3, **line}) for line in RECORDING))
    for name in FLOWS:
        (folder / f"{name}.yaml").write_text(flow_file(name))
    provider = ScriptedProvider.load(recording)
    provider.identity = Identity("openai", "qwen3", "http://models:8000/v1")
    return Service(
        broker,
        flow_files.load(folder, processor="prompt"),
        Prompts(),
        lambda model: provider,
        Limits(32),
        activity=Activity(clock=lambda: FASTER * monotonic()),
    )


async def ask(broker: Broker, flow: str, prompt: str) -> None:
    """Send requests at a rate that changes."""
    producer = await broker.producer(f"persistent://tg/flow/{flow}")
    chance = random.Random(flow)
    for number in itertools.count():
        text = text_of(number if flow == "definitions" else number * len(KINDS))
        id = f"papers/report-{number // 40}.pdf/chunk-{number % 40}"
        data = PromptRequest.asking(prompt, {"text": text}).encode()
        await producer.send(data, properties={"id": id})
        await asyncio.sleep(chance.uniform(0.0, 0.02 + 0.05 * (number // 300 % 3)))


if __name__ == "__main__":
    main()
