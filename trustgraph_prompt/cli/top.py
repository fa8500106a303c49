"""`top`: a live view of all workers behind some addresses, in the terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.cli.options import argument, option
from trustgraph_prompt.cli.top_rows import Order, everything
from trustgraph_prompt.errors import BrokerError, ConfigError, TopicInvalid

if TYPE_CHECKING:
    from rich.console import Console, Group

    from trustgraph_prompt.cli.top_rows import Row
    from trustgraph_prompt.cli.worker_status import Workers

EXAMPLE = "top http://worker:8000 --sort failed"

MAX_BACKLOGS = 500
"""Subscriptions that the broker is asked about."""

SECONDS_FOR_BACKLOGS = SECONDS_BETWEEN_BACKLOGS = 5.0

WIDTH_OF_A_FILE = 200
"""Columns of a table that is printed elsewhere than on a terminal."""


def command(
    urls: Annotated[
        list[str],
        argument(
            "URL…",
            "Where workers serve --http: http://HOST:PORT. A name with many addresses is all of them.",
            show_default=False,
        ),
    ],
    sort: Annotated[Order, option("--sort", "By what the rows are sorted.")] = Order.name,
    interval: Annotated[
        float, option("--interval SECONDS", "Time between two looks.", min=0.2, max=3600)
    ] = 2.0,
    admin_url: Annotated[
        str | None,
        option(
            "--admin-url URL",
            "URL of Pulsar's admin API, which tells the backlog of each flow. Default: not shown.",
            envvar="TRUSTGRAPH_PROMPT_ADMIN_URL",
        ),
    ] = None,
    once: Annotated[bool, option("--once", "Look once, print the tables, and end.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Show what all workers behind some addresses do: workers, flows, prompts, spend, canaries, dead letters.

    Keys sort the rows; q or Ctrl-C ends. Counts are sums over the workers that answer, each since its start.
    Workers come and go; one that hangs delays no other. With --once, exits with 1 if no worker answers.
    """
    if as_json and not once:
        raise ConfigError("needs --once", where="--json")
    if not once and not sys.stdout.isatty():
        raise ConfigError("standard output is no terminal: give --once", where="top")
    try:
        answered = asyncio.run(
            _once(urls, admin_url, sort, as_json=as_json) if once else _live(urls, admin_url, sort, interval)
        )
    except KeyboardInterrupt:
        raise typer.Exit(130 if once else 0) from None
    if not answered:
        raise typer.Exit(1)


class _Watch:
    """What is known of the workers, and of what waits for them in the broker."""

    def __init__(self, workers: Workers, admin_url: str | None) -> None:
        self._workers = workers
        self._admin_url = admin_url
        self._backlogs: dict[tuple[str, str], int] = {}
        self._no_backlogs: str | None = None

    @property
    def rows(self) -> Row:
        workers = self._workers
        return everything(workers.statuses, workers.missing, self._backlogs, self._no_backlogs)

    async def look(self) -> bool:
        """Look once. Returns whether any worker answered."""
        await self._workers.look()
        await self._look_at_backlogs()
        return bool(self._workers.statuses)

    async def follow(self, interval: float) -> None:
        """Look again and again, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workers.follow(interval))
            while self._admin_url is not None:
                await self._look_at_backlogs()
                await asyncio.sleep(SECONDS_BETWEEN_BACKLOGS if self._backlogs else interval)

    async def _look_at_backlogs(self) -> None:
        if self._admin_url is None:
            return
        from trustgraph_prompt.broker.pulsar.admin.client import admin_of
        from trustgraph_prompt.broker.pulsar.admin.prepare import backlogs_of
        from trustgraph_prompt.broker.pulsar.credentials import Credentials

        flows = [flow for status in self._workers.statuses.values() for flow in status["flows"]]
        subscriptions = {(flow["topic"], flow["subscription"]) for flow in flows if _is_topic(flow["topic"])}
        try:
            async with (
                asyncio.timeout(SECONDS_FOR_BACKLOGS),
                await admin_of(self._admin_url, Credentials.from_environment()) as admin,
            ):
                self._backlogs = await backlogs_of(admin, sorted(subscriptions)[:MAX_BACKLOGS])
                self._no_backlogs = None
        except (BrokerError, ConfigError, TimeoutError) as error:
            self._backlogs, self._no_backlogs = {}, str(error) or f"none in {SECONDS_FOR_BACKLOGS:g} s"


def _is_topic(name: str) -> bool:
    """Whether a name from a status is that of a topic: another one must not spoil all backlogs."""
    from trustgraph_prompt.broker import topics

    with suppress(TopicInvalid):
        return bool(topics.resolve(name))
    return False


async def _once(urls: list[str], admin_url: str | None, order: Order, *, as_json: bool) -> bool:
    from rich.console import Console

    from trustgraph_prompt.cli.top_tables import view
    from trustgraph_prompt.cli.worker_status import Workers

    async with Workers(urls) as workers:
        watch = _Watch(workers, admin_url)
        answered = await watch.look()
    rows = watch.rows
    if as_json:
        output.print_json({"at": output.time(time()), **rows})
    else:
        console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE)
        console.print(view(rows, order, console.width))
    return answered


async def _live(urls: list[str], admin_url: str | None, order: Order, interval: float) -> bool:
    from rich.console import Console
    from rich.live import Live

    from trustgraph_prompt.cli.top_tables import KEYS
    from trustgraph_prompt.cli.worker_status import Workers

    console, pressed = Console(), asyncio.Queue[str]()
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, pressed.put_nowait, "q")
    async with Workers(urls) as workers, asyncio.TaskGroup() as group:
        watch = _Watch(workers, admin_url)
        following = group.create_task(watch.follow(interval))
        with _keys(pressed.put_nowait), Live(console=console, screen=True, auto_refresh=False) as live:
            keys = ""
            while "q" not in keys:
                order = KEYS.get(keys[-1:], order)
                live.update(_picture(watch.rows, order, console), refresh=True)
                keys = await _pressed(pressed, min(interval, 1.0))
        following.cancel()
    return True


async def _pressed(keys: asyncio.Queue[str], seconds: float) -> str:
    """All keys that were pressed, as soon as there is one, or none after some seconds."""
    pressed = ""
    with suppress(TimeoutError):
        pressed = await asyncio.wait_for(keys.get(), seconds)
    while not keys.empty():
        pressed += keys.get_nowait()
    return pressed


def _picture(rows: Row, order: Order, console: Console) -> Group:
    from rich.console import Group
    from rich.text import Text

    from trustgraph_prompt.cli.top_tables import KEYS, view

    ready = sum(worker["ready"] for worker in rows["workers"])
    state = f"  {ready} of {len(rows['workers'])} workers ready  {output.time(time())}  by {order.value}"
    head = Text.assemble(("trustgraph-prompt top", "bold"), state)
    keys = Text("sort: " + " ".join(f"{key} {each.value}" for key, each in KEYS.items()) + "  q quit", "dim")
    for line in (head, keys):
        line.truncate(console.width)
    return Group(head, keys, view(rows, order, console.width, console.height))


@contextmanager
def _keys(press: Callable[[str], None]) -> Iterator[None]:
    """Call a function with each key that is pressed, if standard input is a terminal; restore that."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    before: list[Any] = termios.tcgetattr(terminal)

    def read() -> None:
        try:
            data = os.read(terminal, 64)
        except OSError:  # the terminal is gone
            data = b""
        for key in data.decode(errors="ignore") if data else "q":
            press(key)

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
