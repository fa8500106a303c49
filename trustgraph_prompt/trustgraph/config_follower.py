"""TrustGraph's config service as a source of flows and prompts.

The service announces changes on a topic that stores nothing. A notification may get lost, and a service that
restarts sends one that names no change. So everything is fetched again regularly, and whenever a notification
is missing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from tenacity import RetryCallState

from trustgraph_prompt.broker import Broker, Consumer, Message
from trustgraph_prompt.errors import BrokerClosed, BrokerError, ConfigError, RequestError, without_frames
from trustgraph_prompt.retrying import error_of, retrying
from trustgraph_prompt.trustgraph.config_client import ConfigClient, Values, is_reserved
from trustgraph_prompt.trustgraph.flow_definitions import Processor
from trustgraph_prompt.wire import ConfigPush
from trustgraph_prompt.worker.config.recent_changes import RecentChanges
from trustgraph_prompt.worker.config.source import Prompts, RefusedEntries, log_changes, watched
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.watch import Watch

log = logging.getLogger(__name__)

PROMPTS = "prompt"
"""The type of config that holds prompts, whatever the id of the processor."""

SECONDS_BETWEEN_FETCHES = 120.0
"""Between two fetches of everything, give or take a quarter: bounds the delay if a notification is lost."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
"""Seconds before a failed fetch is repeated; doubled each time, with jitter."""

FAILING_AT_ONCE = 4
"""Failed workspaces that are fetched again at the same time; all others continue."""

SERVICE, NOTICES = "config service", "notices of changed config"
"""The parts that `/readyz` and the metrics name: the service, and the subscription to its notifications."""


@dataclass(eq=False, repr=False)
class ConfigFollower:
    """Follows the config service, as a `ConfigSource`; `serve` gets all flows whenever one has changed.

    The flows of a workspace are those of all `processors`, which share a space. They are served once its
    prompts are there. A rejected entry leaves its last good version in use. `notes` gets the reasons why
    something cannot be fetched, `fetched` each fetched version.
    """

    broker: Broker
    prompts: Prompts
    processors: Sequence[Processor]
    serve: Callable[[Iterable[Flow]], None]
    metrics: Metrics
    notes: MutableMapping[str, str]
    watch: Watch
    changes: RecentChanges
    fetched: Callable[[int], None]

    def __post_init__(self) -> None:
        self.refused = RefusedEntries()
        self._needs = [*dict.fromkeys(type for processor in self.processors for type in processor.needs)]
        if any(processor.kind == "prompt-request" for processor in self.processors):
            self._needs.append(PROMPTS)
        self._types = [*(processor.type for processor in self.processors), *self._needs]
        self._workspaces: dict[str, _Workspace] = {}
        self._notifications: Consumer | None = None
        self._client: ConfigClient | None = None
        self._notified: int | None = None
        self._version = 0
        self._loaded = False
        self._stale, self._is_stale = _Stale(), asyncio.Event()
        self._failing: dict[str, _Failing] = {}

    async def load(self) -> None:
        """Subscribe to notifications and fetch everything. Raises `BrokerError`.

        Later calls leave the fetching to `follow`: what is known is served meanwhile.
        """
        await self.close()
        self._notified, self._failing = None, {}
        self._stale, self._is_stale = _Stale(), asyncio.Event()
        space = self.processors[0].space
        topic = f"non-persistent://{space}/notify/config"
        self._notifications = await self.broker.consumer(topic, str(uuid4()), type="exclusive")
        self._client = ConfigClient(self.broker, space)
        if self._loaded:
            self._add_stale(EVERYTHING)
        else:
            self._failing = {name: _Failing() for name in await self._fetch(self._client, EVERYTHING)}
            self._loaded = True

    async def follow(self) -> None:
        """Fetch what changes after `load`, until closed. Raises `BrokerError`."""
        notifications, client = self._notifications, self._client
        if notifications is None or client is None:
            raise BrokerClosed("the config was not loaded")

        async def check() -> None:
            try:
                await notifications.check()
            except BrokerError:
                if self._notifications is notifications:  # else it is being closed
                    raise

        async def fetch(lose: Callable[[], Awaitable[None]]) -> None:
            try:
                await self._fetch_stale(client)
            except Exception:
                log.exception("internal error, the config is loaded again")
                await lose()

        with watched(self.watch, NOTICES, notifications.topic, check, notifications.close) as lose:
            fetching = asyncio.create_task(fetch(lose))
            try:
                while message := await notifications.receive():
                    self._note_stale(message)
                    await notifications.acknowledge(message)
            finally:
                fetching.cancel()
                await asyncio.wait([fetching])

    async def close(self) -> None:
        """End `follow`. Idempotent."""
        following = self._notifications, self._client
        self._notifications = self._client = None
        for each in following:
            if each is not None:
                with suppress(BrokerError):
                    await each.close()

    def _note_stale(self, message: Message) -> None:
        """Note what a notification reports as changed, or everything if notifications were lost."""
        try:
            push = ConfigPush.decode(message.data)
        except RequestError as error:
            log.warning("cannot read a notification of changed config, everything is fetched: %s", error)
            self._add_stale(EVERYTHING)
            return
        missed = self._notified is not None and push.version != self._notified + 1
        self._notified = push.version
        lifecycle = push.workspace_changes
        touched = {*lifecycle.created, *lifecycle.deleted} if lifecycle else set()
        if missed or not (push.changes or touched):
            self._add_stale(EVERYTHING)
        else:
            self._add_stale(_Stale({type: touched | {*push.changes.get(type, ())} for type in self._types}))

    async def _fetch_stale(self, client: ConfigClient) -> None:
        """Fetch what is stale until cancelled: everything from time to time, and soon after a failure.

        Workspaces that failed in part are repeated beside that, by `_fetch_workspace`.
        """
        permits, time, failures = asyncio.Semaphore(FAILING_AT_ONCE), asyncio.get_running_loop().time, 0
        async with asyncio.TaskGroup() as tasks:

            def fetch_again(names: Iterable[str]) -> None:
                for name in names:
                    self._failing[name] = _Failing()
                    tasks.create_task(self._fetch_workspace(client, name, permits))

            fetch_again(list(self._failing))
            due = time() + _seconds_to_fetch()
            while True:
                stale = await self._take_stale(due)
                changed = self._failing.keys() if stale.everything else stale.workspaces
                for name in self._failing.keys() & changed:
                    self._failing[name].stale = True
                try:
                    fetch_again(await self._fetch(client, stale, skip=self._failing.keys()))
                except Exception as error:
                    self._log_failure(error)
                    due = time() + _seconds_to_repeat(failures)
                    failures += 1
                    continue
                if stale.everything:  # nothing else makes up for a fetch that has failed
                    failures = 0
                if not failures:
                    due = time() + _seconds_to_fetch()

    async def _take_stale(self, due: float) -> _Stale:
        """What is stale, as soon as there is something; everything when it is `due`."""
        if asyncio.get_running_loop().time() >= due:  # though changes come faster than they are fetched
            return EVERYTHING
        try:
            async with asyncio.timeout_at(due):
                await self._is_stale.wait()
        except TimeoutError:
            return EVERYTHING
        stale, self._stale = self._stale, _Stale()
        self._is_stale.clear()
        return stale

    def _add_stale(self, stale: _Stale) -> None:
        self._stale.merge(stale)
        if self._stale.everything or self._stale.workspaces:
            self._is_stale.set()

    async def _fetch_workspace(self, client: ConfigClient, name: str, permits: asyncio.Semaphore) -> None:
        """Repeat the fetch of a workspace that failed in part, concurrently with the others."""
        failing = self._failing[name]

        async def fetch() -> None:
            if self._failing.get(name) is not failing:
                return
            async with permits:
                failing.stale = False
                missing = await self._fetch(client, _Stale({type: {name} for type in self._types}))
            if missing or failing.stale:
                raise _Incomplete
            self._failing.pop(name, None)

        def pause(state: RetryCallState) -> float:
            return _seconds_to_repeat(state.attempt_number - 1)

        await asyncio.sleep(FIRST_PAUSE)
        await retrying(fetch, wait=pause, before_sleep=lambda state: self._log_failure(error_of(state)))

    def _log_failure(self, error: BaseException | None) -> None:
        if isinstance(error, BrokerError):
            self._note_failure(SERVICE, error)
        elif not isinstance(error, _Incomplete):
            log.error("internal error, the config stays unchanged", exc_info=error)

    async def _fetch(self, client: ConfigClient, stale: _Stale, *, skip: Collection[str] = ()) -> set[str]:
        """Fetch what is stale and apply it, except for the workspaces to `skip`.

        Returns the workspaces of which something could not be fetched. Raises `BrokerError` if the service
        does not answer at all.
        """
        fetched: set[str] = set()
        missing: set[str] = set()
        for type, found in (await self._definitions(client, stale, skip)).items():
            for name, values in self._without_failures(type, found, missing).items():
                self._workspaces.setdefault(name, _Workspace()).set(type, values)
                fetched.add(name)
        self._forget_empty(fetched)
        for type in self._needs:
            wanted = [
                name
                for name, workspace in self._workspaces.items()
                if name not in skip
                and (stale.everything or name in stale.of.get(type, ()) or type not in workspace.values)
            ]
            found = await client.each(wanted, type)
            for name, values in self._without_failures(type, found, missing).items():
                if type == PROMPTS:
                    await self._set_prompts(name, values)
                elif name in self._workspaces:
                    self._workspaces[name].set(type, values)
                fetched.add(name)
        for name in fetched:
            await self._set_flows(name)
        self._serve_fetched(client.version)
        return missing

    def _serve_fetched(self, version: int) -> None:
        """Serve the flows of all workspaces that are ready, as of this version of the config."""
        self.notes.pop(SERVICE, None)
        if version < self._version:  # the service's database was reset
            self._add_stale(EVERYTHING)
        self._version = version
        self.fetched(version)
        ready = (workspace for workspace in self._workspaces.values() if workspace.ready)
        self.serve(flow for workspace in ready for flow in workspace.flows.values())

    async def _definitions(
        self, client: ConfigClient, stale: _Stale, skip: Collection[str]
    ) -> dict[str, dict[str, Values | BrokerError]]:
        """Fetch the flow definitions of the stale workspaces, by type of config and workspace."""
        types = [processor.type for processor in self.processors]
        if stale.everything:
            return await self._all_definitions(client, types, skip)
        return {
            type: await client.each(
                (name for name in stale.of.get(type, ()) if name not in skip and not is_reserved(name)),
                type,
            )
            for type in types
        }

    async def _all_definitions(
        self, client: ConfigClient, types: Iterable[str], skip: Collection[str]
    ) -> dict[str, dict[str, Values | BrokerError]]:
        """Fetch the definitions of every workspace; one that has none of a type any more has no values."""
        everywhere = {type: await client.everywhere(type, skip=skip) for type in types}
        self._forget_unnamed({name for found in everywhere.values() for name in found})
        return {
            type: {
                **{name: {} for name in self._workspaces if name not in found},
                **{name: values for name, values in found.items() if values is not None},
            }
            for type, found in everywhere.items()
        }

    def _forget_unnamed(self, named: Collection[str]) -> None:
        """Forget the failures of workspaces that are gone, and the prompts of those without flows."""
        for name in self._failing.keys() - named:
            del self._failing[name]
            for type in self._types:
                self.notes.pop(self._what(type, name), None)
        for name in self.prompts.keys() - self._workspaces.keys():  # without flows since the last fetch
            self.prompts.forget(name)
            self._refuse(PROMPTS, name, {})
            self.metrics.forgotten(name)

    def _without_failures(
        self, type: str, found: Mapping[str, Values | BrokerError], missing: set[str]
    ) -> dict[str, Values]:
        """The values that could be fetched, by workspace; notes the others and adds them to `missing`."""
        fetched: dict[str, Values] = {}
        for name, values in found.items():
            what = self._what(type, name)
            if isinstance(values, BrokerError):
                self._note_failure(what, values)
                missing.add(name)
            else:
                self.notes.pop(what, None)
                fetched[name] = values
        return fetched

    def _what(self, type: str, workspace: str) -> str:
        """What the notes call the values of a type in a workspace."""
        alone = len(self.processors) == 1 and type == self.processors[0].type
        return f"{'prompts' if type == PROMPTS else 'flows' if alone else type} of workspace {workspace}"

    def _note_failure(self, what: str, error: BrokerError) -> None:
        if self.notes.get(what) != str(error):
            log.error("%s: %s", what, error)
        self.notes[what] = str(error)

    def _forget_empty(self, names: Iterable[str]) -> None:
        """Forget the workspaces in which no flow is defined any more."""
        for name in names:
            values = self._workspaces[name].values
            if not any(values.get(processor.type) for processor in self.processors):
                del self._workspaces[name]
                for processor in self.processors:
                    self._refuse(processor.type, name, {})
                for type in self._types:
                    self.notes.pop(self._what(type, name), None)

    async def _set_flows(self, name: str) -> None:
        """Make the flows of a workspace anew; a rejected one keeps its last good version."""
        workspace = self._workspaces.get(name)
        if workspace is None or not workspace.changed:
            return
        # Flows may be made of large values, too large for the event loop.
        made = await asyncio.to_thread(lambda: dict(self._make_flows(name, workspace.values)))
        if self._workspaces.get(name) is not workspace:  # its last flow was removed meanwhile
            return
        errors = {key: error for key, error in made.items() if isinstance(error, ConfigError)}
        for processor in self.processors:
            type = processor.type
            self._refuse(type, name, {key[1]: error for key, error in errors.items() if key[0] == type})
        before = workspace.flows
        good = ((key, before.get(key) if key in errors else flow) for key, flow in made.items())
        workspace.flows = {key: flow for key, flow in good if isinstance(flow, Flow)}
        workspace.changed = False
        workspace.ready = workspace.ready or PROMPTS not in self._needs

    def _make_flows(
        self, name: str, config: Mapping[str, Values]
    ) -> Iterator[tuple[tuple[str, str], Flow | ConfigError]]:
        """Each flow of a workspace by type and variant, or why it is rejected."""
        for processor in self.processors:
            if config.keys() >= set(processor.needs):
                for variant, text in config.get(processor.type, {}).items():
                    try:
                        yield (processor.type, variant), processor.flow(name, variant, text, config)
                    except ConfigError as error:
                        yield (processor.type, variant), without_frames(error)

    async def _set_prompts(self, name: str, values: Values) -> None:
        """Replace the prompts of a workspace."""
        workspace = self._workspaces.get(name)
        if workspace is None or values == workspace.values.get(PROMPTS):
            return
        before = self.prompts.get(name)
        snapshot = await self.prompts.replace(name, values)
        if self._workspaces.get(name) is not workspace:  # its last flow was removed meanwhile
            self.prompts.forget(name)
            return
        refused = snapshot.refused.items()
        self._refuse(PROMPTS, name, {key: error.at(f"{PROMPTS} {name}/{key}") for key, error in refused})
        workspace.values[PROMPTS], workspace.ready = values, True
        self.metrics.configured(name, snapshot)
        self.changes.replaced(name, before, snapshot)
        log_changes(name, before, snapshot)

    def _refuse(self, type: str, workspace: str, errors: Mapping[str, ConfigError]) -> None:
        """Replace the errors of one type in a workspace."""
        prefix = f"{type} {workspace}/"
        refused = {prefix + entry: error for entry, error in errors.items()}
        self.refused.replace(refused, lambda key: key.startswith(prefix))


@dataclass(slots=True)
class _Workspace:
    """`values` as fetched, by type; `flows` by type and variant.

    `ready`: the flows may be served. `changed`: they must be made anew.
    """

    values: dict[str, Values] = field(default_factory=dict)
    flows: dict[tuple[str, str], Flow] = field(default_factory=dict)
    ready: bool = False
    changed: bool = False

    def set(self, type: str, values: Values) -> None:
        self.changed = self.changed or values != self.values.get(type)
        self.values[type] = values


@dataclass(slots=True)
class _Stale:
    """What is to be fetched: types of config `of` some workspaces each, or everything."""

    of: dict[str, set[str]] = field(default_factory=dict)
    everything: bool = False

    @property
    def workspaces(self) -> set[str]:
        return {name for names in self.of.values() for name in names}

    def merge(self, later: _Stale) -> None:
        for type, names in later.of.items():
            self.of[type] = self.of.get(type, set()) | names
        self.everything |= later.everything


EVERYTHING = _Stale(everything=True)


@dataclass(slots=True)
class _Failing:
    """A workspace whose fetch is being repeated. `stale`: it has changed since the latest try began."""

    stale: bool = False


class _Incomplete(Exception):
    """Something of a workspace could not be fetched, or has changed meanwhile."""


def _seconds_to_fetch() -> float:
    """Until everything is fetched again, so that workers that start together do not all fetch at once."""
    return SECONDS_BETWEEN_FETCHES * random.uniform(0.75, 1.25)


def _seconds_to_repeat(failures: int) -> float:
    """Until a fetch is repeated after so many earlier failures; no overflow after hours of them."""
    return min(FIRST_PAUSE * 2.0 ** min(failures, 10), LONGEST_PAUSE) + random.uniform(0, FIRST_PAUSE)
