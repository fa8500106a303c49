"""What serving prompts costs: prompts a second, CPU of the service, latency and memory, on one real broker.

`python benchmarks/worker.py [SERVICE…] [--long]`: of the services `plain`, `ours`, `watched`, `persistent`,
`upstream` all but the last, unless named; `--long` puts 100,000 prompts to ours and looks at its memory.

Who asks, who answers for the model and the service are processes of their own. Each answer has 20 objects,
each request another text. `plain` is a worker without features: receive, ask, receive, parse, send.
`watched` is ours with ten open status pages, `persistent` ours with durable topics, objects and answer
records.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import uuid4

import orjson
import pulsar
from pulsar.asyncio import Client

from tests.support import prompt_load, pulsar_server
from tests.support.prompt_load import DEFINITION, OBJECTS, PROMPT, Asker, Measured, Topics
from tests.support.pulsar_server import PulsarServer
from tests.support.trustgraph_services import config_service
from trustgraph_prompt.broker import connect

UPSTREAM = "2.11.1"
CONCURRENCY = 1000  # more than are in flight: what the broker loses of a completion holds its place
SETTINGS = ((0.0, 64), (1.0, 256))  # seconds of the model, requests in flight
SECONDS, WARM = 8.0, 3.0
LONG, LOOK = 100_000, 10_000  # prompts in all, and between two looks at the memory
LONG_SECONDS = 600.0  # of one look at the most
PAGES = 10  # open status pages
OURS = (sys.executable, "-m", "trustgraph_prompt", "run", "--trustgraph", "--concurrency", str(CONCURRENCY))

Service = Callable[[str, Topics], AbstractContextManager[int]]


class LeftOut(Exception):
    """A service cannot be had here; says why."""


@contextmanager
def plain(url: str, topics: Topics) -> Iterator[int]:
    """A service without features, and its process id."""
    with spawned(serve_plainly, url, topics) as process:
        yield process.pid or 0


def serve_plainly(url: str, topics: Topics) -> None:
    async def main() -> None:
        client = Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
        requests = await client.subscribe(topics.request, "plain", pulsar.ConsumerType.Shared)
        completions = await client.subscribe(topics.completion_response, "plain", pulsar.ConsumerType.Shared)
        ask = await client.create_producer(topics.completion_request, batching_enabled=False)
        respond = await client.create_producer(topics.response, batching_enabled=False)
        waiting: dict[str, asyncio.Future[bytes]] = {}

        async def hear() -> None:
            while True:
                message = await completions.receive()
                if (pending := waiting.pop(message.properties()["id"], None)) is not None:
                    pending.set_result(message.data())

        async def serve(message: pulsar.Message) -> None:
            id = message.properties()["id"]
            text = orjson.loads(orjson.loads(message.data())["terms"]["text"])
            pending = waiting[id] = asyncio.get_running_loop().create_future()
            question = {"system": "", "prompt": f"Define:\n\n{text}", "streaming": False}
            await ask.send(orjson.dumps(question), properties={"id": id})
            answer = orjson.loads(await pending)
            objects = [orjson.loads(line) for line in answer["response"].split("\n")]
            response = {"error": None, "object": orjson.dumps(objects).decode(), "end_of_stream": True}
            await respond.send(orjson.dumps(response), properties={"id": id})
            await requests.acknowledge(message)

        tasks = {asyncio.create_task(hear())}
        while True:
            task = asyncio.create_task(serve(await requests.receive()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    asyncio.run(main())


@contextmanager
def ours(url: str, topics: Topics) -> Iterator[int]:
    """Our worker in the place of TrustGraph's service."""
    with configured(url, topics), run(*OURS, "--broker", url) as pid:
        yield pid


@contextmanager
def watched(url: str, topics: Topics) -> Iterator[int]:
    """Our worker in the place of TrustGraph's service, while its status page is open in ten windows."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
    with (
        configured(url, topics),
        run(*OURS, "--broker", url, "--http", f"{host}:{port}") as pid,
        spawned(watch, host, port),
    ):
        yield pid


def watch(host: str, port: int) -> None:
    """Receive the events of the status page ten times over."""

    async def page() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
                while await reader.read(1 << 16):
                    pass
            await asyncio.sleep(0.1)

    async def pages() -> None:
        await asyncio.gather(*(page() for _ in range(PAGES)))

    asyncio.run(pages())


@contextmanager
def persistent(url: str, topics: Topics) -> Iterator[int]:
    """Our worker as it works for itself: nothing is acknowledged before all that it led to is durable."""
    flow = {
        "name": "bench",
        "workspace": "bench",
        "input": {"topic": topics.request},
        "outputs": {
            "response": topics.response,
            "answers": f"{topics.response}-answers",
            "objects": f"{topics.response}-objects",
        },
        "provider": {"request": topics.completion_request, "response": topics.completion_response},
        "concurrency": CONCURRENCY,
    }
    with tempfile.TemporaryDirectory() as folder:
        flows, templates = Path(folder, "flow.yaml"), Path(folder, "templates.json")
        flows.write_text(json.dumps(flow))
        templates.write_text(json.dumps({f"template.{PROMPT}": json.dumps(DEFINITION)}))
        options = ["--flows", str(flows), "--templates", str(templates)]
        with run(sys.executable, "-m", "trustgraph_prompt", "run", "--broker", url, *options) as pid:
            yield pid


@contextmanager
def upstream(url: str, topics: Topics) -> Iterator[int]:
    """TrustGraph's own service."""
    service = environment() / "bin" / "prompt-template"
    options = ["--pulsar-host", url, "--concurrency", "256", "--no-metrics", "--no-loki-enabled"]
    with configured(url, topics), run(str(service), "--id", "prompt", *options) as pid:
        yield pid


def environment() -> Path:
    """A virtual environment with TrustGraph's service, made once. Raises `LeftOut`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trustgraph-prompt"
    home = cache / f"trustgraph-{UPSTREAM}-python{sys.version_info.major}.{sys.version_info.minor}"
    if (home / "ready").exists():
        return home
    venv.create(home, with_pip=True, clear=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = [
        f"trustgraph-base=={UPSTREAM}",
        "ibis",
        "jsonschema",
        f"pulsar-client=={version('pulsar-client')}",
    ]
    # of what the service's package wants, which is much, the prompt service needs nothing else
    for packages in (wanted, ["--no-deps", f"trustgraph-flow=={UPSTREAM}"]):
        done = subprocess.run([*pip, *packages], capture_output=True, text=True, check=False)
        if done.returncode:
            raise LeftOut(f"trustgraph-flow {UPSTREAM} cannot be installed: {done.stderr.strip()[-300:]}")
    (home / "ready").touch()
    return home


@contextmanager
def configured(url: str, topics: Topics) -> Iterator[None]:
    """TrustGraph's config service, stood in for, with one flow and one prompt."""
    ours_, theirs = multiprocessing.get_context("spawn").Pipe()
    with spawned(configure, url, topics, theirs):
        ours_.recv()
        yield


def configure(url: str, topics: Topics, ready: Connection) -> None:
    specs = {
        "request": topics.request,
        "response": topics.response,
        "text-completion-request": topics.completion_request,
        "text-completion-response": topics.completion_response,
    }

    logging.getLogger("pulsar").setLevel(logging.CRITICAL)  # a place that is asked about is refused, as meant

    async def main() -> None:
        async with await connect(url) as broker, config_service(broker) as config:
            prompts = {"system": "You are exact.", f"template.{PROMPT}": DEFINITION}
            await config.put(
                "default", {("prompt", key): json.dumps(value) for key, value in prompts.items()}
            )
            await config.start_flow("bench", specs)
            ready.send(True)
            await asyncio.Event().wait()

    asyncio.run(main())


@contextmanager
def run(*command: str) -> Iterator[int]:
    """A service in a process of its own, and its id."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process.pid
        except TimeoutError:
            log.seek(0)
            print(log.read()[-2000:].decode(errors="replace"))
            raise
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


@contextmanager
def spawned(work: Callable[..., None], *args: object) -> Iterator[multiprocessing.process.BaseProcess]:
    process = multiprocessing.get_context("spawn").Process(target=work, args=args, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


SERVICES: dict[str, Service] = {
    "plain": plain,
    "ours": ours,
    "watched": watched,
    "persistent": persistent,
    "upstream": upstream,
}


def topics_of(name: str) -> Topics:
    """Topics that nobody has used before; TrustGraph's kinds of them, or such as keep what they are given."""
    place = f"{{}}://tg/{{}}/{{}}:bench:{name}-{uuid4().hex[:8]}".format
    own = name == "persistent"
    request, response = (
        (("persistent", "flow"),) * 2
        if own
        else (
            ("non-persistent", "request"),
            ("non-persistent", "response"),
        )
    )
    return Topics(
        place(*request, "prompt"),
        place(*response, "prompt-response" if own else "prompt"),
        place("non-persistent", "request", "text-completion"),
        place("non-persistent", "response", "text-completion"),
    )


@contextmanager
def asking(url: str, name: str, delay: float) -> Iterator[tuple[Asker, int]]:
    """Who asks a service that answers, and the process of the service."""
    topics = topics_of(name)
    with prompt_load.model(url, topics, delay), SERVICES[name](url, topics) as pid:
        asker = Asker(url, topics)
        try:
            asker.wait_for_service()
            yield asker, pid
        finally:
            asker.close()


def compare(url: str, names: Sequence[str]) -> None:
    """Each service in each setting; the bars are of ours beside upstream's."""
    for delay, in_flight in SETTINGS:
        ideal = f", ideal {in_flight / delay:.0f}/s" if delay else ""
        print(f"\n  {in_flight} in flight, the model takes {delay:g} s{ideal}")
        print("    service       prompts/s   CPU each     p50     p99  resident  wrong  lost by the broker")
        measured: dict[str, Measured] = {}
        for name in names:
            try:
                with asking(url, name, delay) as (asker, pid):
                    each = measured[name] = asker.measure(pid, in_flight, warm=WARM + delay, seconds=SECONDS)
            except LeftOut as reason:
                print(f"    {name:12} left out: {reason}")
                continue
            print(
                f"    {name:12} {each.rate:10.1f} {each.cpu_each * 1e3:7.3f} ms"
                f" {each.percentile(0.5):6.3f}s {each.percentile(0.99):6.3f}s {each.resident[-1]:6.0f} MB"
                f" {each.wrong:6} {each.lost:6}",
                flush=True,
            )
        if {"ours", "upstream"} <= measured.keys():
            we, they = measured["ours"], measured["upstream"]
            cpu = they.cpu_each / we.cpu_each
            print(f"    ours: {we.rate / they.rate:.1f}x the prompts, 1/{cpu:.1f} of the CPU of upstream's")
        if {"ours", "plain"} <= measured.keys():
            ratio = measured["ours"].cpu_each / measured["plain"].cpu_each
            print(f"    ours: {ratio:.2f}x the CPU of a worker without features")
        if {"ours", "watched"} <= measured.keys():
            we, seen = measured["ours"], measured["watched"]
            rate, cpu = seen.rate / we.rate, seen.cpu_each / we.cpu_each
            print(f"    watched by {PAGES} pages: {rate:.2f}x the prompts, {cpu:.2f}x the CPU of ours")


def look_at_memory(url: str) -> None:
    """Resident memory while 100,000 prompts are served."""
    print(
        f"\n  {LONG:,} prompts, 64 in flight, the model takes 0 s\n    prompts   resident   prompts/s   lost"
    )
    done, began = 0, time.monotonic()
    with asking(url, "ours", 0.0) as (asker, pid):
        while done < LONG:
            each = asker.measure(pid, 64, warm=0.0, seconds=LONG_SECONDS, prompts=LOOK)
            if not each.latencies:
                raise TimeoutError(f"no answer within {LONG_SECONDS:.0f} s")
            done += len(each.latencies)
            print(f"    {done:7,} {each.resident[-1]:7.0f} MB {each.rate:11.1f} {each.lost:6}", flush=True)
    print(f"    {time.monotonic() - began:.0f} s")


def machine() -> str:
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    versions = ", ".join(f"{name} {version(name)}" for name in ("pulsar-client", "orjson", "jsonschema-rs"))
    return f"Python {sys.version.split()[0]}, {versions}; {os.cpu_count()} cores, load {load} before"


@contextmanager
def real_pulsar() -> Iterator[PulsarServer]:
    """A Pulsar with the topic space of TrustGraph. Without a Pulsar, the program says so and ends."""
    try:
        server = pulsar_server.find(threading.Event())
    except pulsar_server.Unavailable as reason:
        print(f"left out: {reason}")
        sys.exit()
    try:
        with suppress(RuntimeError):  # it is there already
            server.create_space("tg")
        yield server
    finally:
        server.end()


def main(arguments: list[str]) -> None:
    names = [name for name in arguments if name != "--long"] or ["plain", "ours", "watched", "persistent"]
    if not SERVICES.keys() >= set(names):
        sys.exit(__doc__)
    with real_pulsar() as server:
        print(f"{machine()}\nanswers of {OBJECTS} objects, measured for {SECONDS:.0f} s after {WARM:.0f} s")
        if "--long" in arguments:
            look_at_memory(server.url)
        else:
            compare(server.url, names)
            if "upstream" not in names:
                print("\n  TrustGraph's service was left out; name it: plain ours persistent upstream")


if __name__ == "__main__":
    main(sys.argv[1:])
