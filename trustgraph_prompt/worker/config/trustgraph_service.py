"""TrustGraph's config service as the source of flows and prompts: hears of changes, and fetches them.

A change is told by a poke on a topic that keeps nothing: pokes get lost, and a service that starts anew says
so with one that names no change. So everything is fetched again now and then, and whenever a poke is missing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeGuard
from uuid import uuid4

from tenacity import RetryCallState, wait_exponential, wait_random

from trustgraph_prompt.broker import Broker, Consumer, Message
from trustgraph_prompt.errors import (
    BrokerClosed,
    BrokerError,
    ConfigError,
    FlowError,
    RequestError,
    without_frames,
)
from trustgraph_prompt.retrying import error_of, retrying
from trustgraph_prompt.wire import ConfigPush
from trustgraph_prompt.worker.config.config_topic import Prompts, log_changes
from trustgraph_prompt.worker.config.trustgraph_client import ConfigClient, Values, is_reserved
from trustgraph_prompt.worker.config.trustgraph_flows import Processor
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.watch import Watch

log = logging.getLogger(__name__)

PROMPTS = "prompt"
"""The type of config that holds prompts, whatever the id of the processor."""

SECONDS_BETWEEN_FETCHES = 120.0
"""Of everything, give or take a quarter: so long may a change stay unnoticed whose poke was lost."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
"""Seconds before what could not be fetched is fetched again; doubled each time, with jitter."""

BACKOFF: Final = wait_exponential(FIRST_PAUSE, LONGEST_PAUSE) + wait_random(0.0, FIRST_PAUSE)

FAILING_AT_ONCE = 4
"""Workspaces that failed and are being fetched again; the others go on beside them."""

SERVICE, NOTICES = "config service", "notices of changed config"
"""What is told of: whether the service answers, and whether it would be heard."""


class ConfigService:
    """Keeps `prompts` and flows as the service says: `serve` is given all flows whenever one has changed.

    A workspace's flows are served once its prompts are there. What is refused leaves its last good version in
    force. `said` is told what cannot be fetched, `fetched` the version of what was.
    """

    def __init__(
        self,
        broker: Broker,
        prompts: Prompts,
        processor: Processor,
        serve: Callable[[Iterable[Flow]], None],
        metrics: Metrics,
        said: MutableMapping[str, str],
        watch: Watch,
        fetched: Callable[[int], None] = lambda version: None,
    ) -> None:
        self.refused: dict[str, ConfigError] = {}
        self._broker = broker
        self._prompts = prompts
        self._processor = processor
        self._serve = serve
        self._metrics = metrics
        self._said = said
        self._watch = watch
        self._fetched = fetched
        self._workspaces: dict[str, _Workspace] = {}
        self._pokes: Consumer | None = None
        self._client: ConfigClient | None = None
        self._heard: int | None = None
        self._version = 0
        self._loaded = False
        self._due, self._missed = _Due(), _Due()
        self._turn = asyncio.Lock()
        self._failing: dict[str, _Failing] = {}

    async def load(self) -> None:
        """Hear of changes from now on, and fetch everything. Raises `BrokerError`.

        Except for the first time it is `follow` that fetches: what is known is served meanwhile.
        """
        await self.close()
        self._heard, self._failing = None, {}
        self._due, self._missed = _Due(), _Due()
        space = self._processor.space
        topic = f"non-persistent://{space}/notify/config"
        self._pokes = await self._broker.consumer(topic, str(uuid4()), type="exclusive")
        self._client = ConfigClient(self._broker, space)
        if self._loaded:
            self._due.add(EVERYTHING)
        else:
            self._failing = {name: _Failing() for name in await self._fetch(self._client, EVERYTHING)}
            self._loaded = True

    async def follow(self) -> None:
        """Fetch what changes after `load`, until closed. Raises `BrokerError`."""
        pokes, client = self._pokes, self._client
        if pokes is None or client is None:
            raise BrokerClosed("the config was not loaded")
        lost = False

        async def check() -> None:
            try:
                await pokes.check()
            except BrokerError:
                if self._pokes is pokes:  # else it is being closed
                    raise

        async def lose() -> None:
            nonlocal lost
            lost = True
            await pokes.close()

        async def fetch() -> None:
            try:
                await self._fetch_what_is_due(client)
            except Exception:
                log.exception("this is a defect of the worker; the config is loaded anew")
                await lose()

        fetching = asyncio.create_task(fetch())
        try:
            with self._watch.over(NOTICES, check, lose):
                while message := await pokes.receive():
                    self._hear(message)
                    await pokes.acknowledge(message)
            if lost:
                raise BrokerClosed(f"{pokes.topic}: the broker no longer tells what changes")
        finally:
            fetching.cancel()
            await asyncio.wait([fetching])

    async def close(self) -> None:
        """End `follow`. Idempotent."""
        ends, self._pokes, self._client = (self._pokes, self._client), None, None
        for each in ends:
            if each is not None:
                with suppress(BrokerError):
                    await each.close()

    def _hear(self, message: Message) -> None:
        """Note what a poke says is stale; everything, where it shows that others were not heard."""
        try:
            push = ConfigPush.decode(message.data)
        except RequestError as error:
            log.warning("a notice of changed config cannot be read: %s", error)
            self._due.add(EVERYTHING)
            return
        missed = self._heard is not None and push.version != self._heard + 1
        self._heard = push.version
        lifecycle = push.workspace_changes
        touched = {*lifecycle.created, *lifecycle.deleted} if lifecycle else set()
        if missed or not (push.changes or touched):
            self._due.add(EVERYTHING)
        else:
            self._due.add(
                _Stale(
                    flows=touched | set(push.changes.get(self._processor.type, ())),
                    prompts=touched | set(push.changes.get(PROMPTS, ())),
                )
            )

    async def _fetch_what_is_due(self, client: ConfigClient) -> None:
        turns = asyncio.Semaphore(FAILING_AT_ONCE)
        async with asyncio.TaskGroup() as beside:

            def fetch_beside(names: Iterable[str]) -> None:
                for name in names:
                    self._failing[name] = _Failing()
                    beside.create_task(self._fetch_workspace(client, name, turns))

            fetch_beside(list(self._failing))
            beside.create_task(self._fetch_missed(client, fetch_beside))
            while True:
                stale = await self._due.take(SECONDS_BETWEEN_FETCHES * random.uniform(0.75, 1.25))
                try:
                    fetch_beside(await self._fetch_in_turn(client, stale))
                except Exception as error:
                    self._say_why(error)

    async def _fetch_missed(self, client: ConfigClient, fetch_beside: Callable[[set[str]], None]) -> None:
        """Fetch what the service did not answer for, until it does, beside what changes meanwhile."""

        async def fetch() -> None:
            fetch_beside(await self._fetch_in_turn(client, self._missed.take_now()))

        while True:
            await self._missed.wait()
            await asyncio.sleep(FIRST_PAUSE)
            await self._until_fetched(fetch)

    async def _fetch_in_turn(self, client: ConfigClient, stale: _Stale) -> set[str]:
        """As `_fetch`, but one at a time, and without the workspaces that are fetched by themselves.

        What fails is missed, and fetched again beside what changes meanwhile.
        """
        async with self._turn:
            changed = self._failing.keys() if stale.everything else stale.flows | stale.prompts
            for name in self._failing.keys() & changed:
                self._failing[name].stale = True
            try:
                return await self._fetch(client, stale, skip=self._failing.keys())
            except Exception:
                self._missed.add(stale)
                raise

    async def _fetch_workspace(self, client: ConfigClient, name: str, turns: asyncio.Semaphore) -> None:
        """Fetch a workspace of which something could not be had, until it can, beside the others."""
        failing = self._failing[name]

        async def fetch() -> None:
            if self._failing.get(name) is not failing:
                return
            async with turns:
                failing.stale = False
                missing = await self._fetch(client, _Stale({name}, {name}))
            if missing or failing.stale:
                raise _Incomplete
            self._failing.pop(name, None)

        await asyncio.sleep(FIRST_PAUSE)
        await self._until_fetched(fetch)

    async def _until_fetched(self, fetch: Callable[[], Awaitable[None]]) -> None:
        """Try until it succeeds; why it does not is said."""

        def tell(state: RetryCallState) -> None:
            self._say_why(error_of(state))

        await retrying(fetch, wait=BACKOFF, before_sleep=tell)

    def _say_why(self, error: BaseException | None) -> None:
        if isinstance(error, BrokerError):
            self._trouble(SERVICE, error)
        elif not isinstance(error, _Incomplete):
            log.error("this is a defect of the worker; the config stays as it was", exc_info=error)

    async def _fetch(self, client: ConfigClient, stale: _Stale, *, skip: Collection[str] = ()) -> set[str]:
        """Fetch what is stale, but of the workspaces to `skip`, and put it in force.

        Gives the workspaces of which something could not be had. Raises `BrokerError` where the service does
        not answer at all.
        """
        missing: set[str] = set()
        found = await self._flows(client, stale, skip)
        for name, values in found.items():
            if self._had(values, f"flows of workspace {name}"):
                self._define(name, values)
            else:
                missing.add(name)
        if self._processor.kind == "prompt-request":
            wanted = [
                name
                for name, workspace in self._workspaces.items()
                if name not in skip
                and (
                    stale.everything or name in stale.prompts or (name in found and workspace.prompts is None)
                )
            ]
            for name, values in (await client.each(wanted, PROMPTS)).items():
                if self._had(values, f"prompts of workspace {name}"):
                    await self._swap(name, values)
                else:
                    missing.add(name)
        self._said.pop(SERVICE, None)
        if client.version < self._version:  # a database that was wiped
            self._due.add(EVERYTHING)
        self._version = client.version
        self._fetched(client.version)
        self._serve(flow for each in self._workspaces.values() if each.ready for flow in each.flows.values())
        return missing

    async def _flows(
        self, client: ConfigClient, stale: _Stale, skip: Collection[str]
    ) -> dict[str, Values | BrokerError]:
        """The definitions of flows in the workspaces that are stale."""
        type = self._processor.type
        if not stale.everything:
            asked = (name for name in stale.flows if name not in skip and not is_reserved(name))
            return await client.each(asked, type)
        named = await client.everywhere(type, skip=skip)
        for name in self._failing.keys() - named.keys():
            del self._failing[name]
            for what in ("flows", "prompts"):
                self._said.pop(f"{what} of workspace {name}", None)
        for name in self._prompts.keys() - self._workspaces.keys():
            self._forget(name)
        without = {name: Values() for name in self._workspaces if name not in named}
        return without | {name: values for name, values in named.items() if values is not None}

    def _had(self, values: Values | BrokerError, what: str) -> TypeGuard[Values]:
        """Whether the service gave the values; why not is said."""
        if isinstance(values, BrokerError):
            self._trouble(what, values)
            return False
        self._said.pop(what, None)
        return True

    def _trouble(self, what: str, error: BrokerError) -> None:
        if self._said.get(what) != str(error):
            log.error("%s: %s", what, error)
        self._said[what] = str(error)

    def _define(self, name: str, values: Values) -> None:
        """The flows of a workspace are these from now on; the last good one of each that is refused."""
        workspace = self._workspaces.pop(name, None) or _Workspace()
        flows: dict[str, Flow] = {}
        refused: dict[str, ConfigError] = {}
        for variant, text in values.items():
            try:
                flows[variant] = self._processor.flow(name, variant, text)
            except FlowError as error:
                refused[variant] = without_frames(error)
                if variant in workspace.flows:
                    flows[variant] = workspace.flows[variant]
        self._refuse(self._processor.type, name, refused)
        workspace.flows = flows
        if flows:
            workspace.ready = workspace.ready or self._processor.kind != "prompt-request"
            self._workspaces[name] = workspace

    async def _swap(self, name: str, values: Values) -> None:
        """The prompts of a workspace are these from now on; those that flows of it had never been refused."""
        workspace = self._workspaces.get(name)
        if workspace is None or values == workspace.prompts:
            return
        before = self._prompts.get(name)
        snapshot = await self._prompts.replace(name, values)
        if self._workspaces.get(name) is not workspace:  # its last flow has ended meanwhile
            self._prompts.forget(name)
            return
        self._refuse(
            PROMPTS,
            name,
            {entry: error.at(f"{PROMPTS} {name}/{entry}") for entry, error in snapshot.refused.items()},
        )
        workspace.prompts, workspace.ready = values, True
        self._metrics.configured(name, snapshot)
        log_changes(name, before, snapshot)

    def _forget(self, name: str) -> None:
        """A workspace that has had no flows for a while."""
        self._prompts.forget(name)
        self._refuse(PROMPTS, name, {})
        self._metrics.forgotten(name)

    def _refuse(self, type: str, workspace: str, errors: Mapping[str, ConfigError]) -> None:
        """Of this type and workspace these entries are refused now, and no others."""
        prefix = f"{type} {workspace}/"
        refused = {prefix + entry: error for entry, error in errors.items()}
        for key in [key for key in self.refused if key.startswith(prefix) and key not in refused]:
            del self.refused[key]
        for key, error in refused.items():
            if str(self.refused.get(key)) != str(error):
                log.error("config entry refused; its last good version, if there was one, stays: %s", error)
            self.refused[key] = error


@dataclass(slots=True)
class _Workspace:
    """`prompts` as they were fetched, None before that. `ready`: its flows may be served."""

    flows: dict[str, Flow] = field(default_factory=dict)
    prompts: Values | None = None
    ready: bool = False


@dataclass(slots=True)
class _Stale:
    """What is to be fetched: the flows and the prompts of some workspaces, or everything."""

    flows: set[str] = field(default_factory=set)
    prompts: set[str] = field(default_factory=set)
    everything: bool = False

    def __bool__(self) -> bool:
        return self.everything or bool(self.flows or self.prompts)

    def __or__(self, other: _Stale) -> _Stale:
        return _Stale(
            self.flows | other.flows, self.prompts | other.prompts, self.everything or other.everything
        )


EVERYTHING = _Stale(everything=True)


@dataclass(slots=True)
class _Failing:
    """A workspace that is fetched until it can be had. `stale`: it has changed since that was begun."""

    stale: bool = False


class _Incomplete(Exception):
    """Something of a workspace could not be had, or has changed meanwhile."""


class _Due:
    """What is stale, all that there is together."""

    def __init__(self) -> None:
        self._stale = _Stale()
        self._news = asyncio.Event()

    def add(self, stale: _Stale) -> None:
        self._stale |= stale
        if self._stale:
            self._news.set()

    async def wait(self) -> None:
        """Until anything is stale."""
        await self._news.wait()

    async def take(self, seconds: float) -> _Stale:
        """What is stale, once anything is; everything after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.wait()
        except TimeoutError:
            return EVERYTHING
        return self.take_now()

    def take_now(self) -> _Stale:
        """What is stale by now; it may be nothing."""
        self._news.clear()
        stale, self._stale = self._stale, _Stale()
        return stale
