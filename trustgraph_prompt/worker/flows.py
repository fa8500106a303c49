"""Which flows a process serves: starts, changes, drains them. How one is served: slot, receive, process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from time import time

from trustgraph_prompt.broker import Broker, Consumer, Message, topics
from trustgraph_prompt.errors import BrokerError, ConfigError
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.worker.around.crash_record import CrashRecord
from trustgraph_prompt.worker.around.isolation import Isolation
from trustgraph_prompt.worker.dead_letters import letters
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.flow_subscription import FlowSubscription
from trustgraph_prompt.worker.process import Delivery
from trustgraph_prompt.worker.providers import Providers
from trustgraph_prompt.worker.retry_broker import cancel_when_stopped, retry_until_stopped
from trustgraph_prompt.worker.services import Services

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class FlowSet:
    """Serves a changing set of flows, independently of each other.

    `waiting` has the reason why a flow is not served, under `flow <name>`. Requests in progress when a flow
    ends may take another `drain_timeout` seconds.
    """

    broker: Broker
    services: Services
    providers: Providers
    waiting: MutableMapping[str, str]
    drain_timeout: float

    def __post_init__(self) -> None:
        self._wanted: set[str] = set()
        self._running: dict[str, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()
        # Separate: a request may wait for a text completion that is served by the same process.
        self._requests, self._completions = Isolation(), Isolation()

    @property
    def flows(self) -> list[Flow]:
        """The current flows, including those that wait for the broker."""
        return [running.flow for running in self._running.values()]

    @property
    def models(self) -> dict[str, str]:
        """The model that each of the flows asks unless a prompt names another, by the name of the flow."""
        return {name: running.model for name, running in self._running.items()}

    def why_unserved(self, flow: Flow) -> str | None:
        """Why a flow does not receive requests; None if it does."""
        return self.waiting.get(_part(flow.name))

    @property
    def held(self) -> dict[str, str]:
        """The flows that receive nothing while the process handles suspects, and why."""
        records = [(running.flow, running.crash_record) for running in self._running.values()]
        return {_part(flow.name): why for flow, record in records if record and (why := record.why_holding)}

    def change(self, flows: Iterable[Flow]) -> None:
        """Serve exactly these flows. Unchanged flows keep running.

        The new version of a changed flow subscribes before the old one ends, so that a topic of both always
        has a consumer.
        """
        if self._draining.is_set():
            return
        wanted = {flow.name: flow for flow in flows}
        for name in self._wanted - wanted.keys():
            self.waiting.pop(_part(name), None)
        self._wanted = set(wanted)
        before, self._running = self._running, {}
        for name, flow in wanted.items():
            if name in before and before[name].flow == flow:
                self._running[name] = before.pop(name)
            elif (running := self._start(flow)) is not None:
                self._running[name] = running
        for name, running in before.items():
            self._end(running, self._running.get(name))

    async def started(self) -> None:
        """Wait until each flow has subscribed, or has failed to once."""
        for running in list(self._running.values()):
            await running.attempted.wait()

    async def drain(self) -> None:
        """End all flows: finish the requests in progress, and cancel them after `drain_timeout`."""
        log.info("draining")
        self._draining.set()
        for running in self._running.values():
            self._end(running)
        if self._ending:
            await asyncio.wait(self._ending)

    def _start(self, flow: Flow) -> _Running | None:
        part, broker, services = _part(flow.name), self.broker, self.services
        try:
            provider = self.providers.of(flow)
        except ConfigError as error:
            log.error("%s cannot be served: %s", part, error)
            self.waiting[part] = str(error)
            return None
        self.waiting[part] = "starting"
        services.metrics.flow_started(flow.name)
        crash_record = None
        if flow.input.persistent:
            isolation = self._completions if flow.input.kind == "text-completion" else self._requests
            topic = topics.in_progress_topic(flow.input.topic, flow.input.subscription)
            crash_record = CrashRecord(broker, services.producers, topic, isolation, services.timeouts)
        return _Running(broker, flow, provider, services, crash_record, self.waiting)

    def _end(self, running: _Running, successor: _Running | None = None) -> None:
        """End a flow in the background, after its successor has tried to subscribe."""
        finish = self._finish(running, successor)
        ending = asyncio.create_task(finish, name=f"end of {_part(running.flow.name)}")
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _finish(self, running: _Running, successor: _Running | None) -> None:
        if successor is not None:
            waits = [asyncio.ensure_future(event.wait()) for event in (successor.attempted, self._draining)]
            timeout = self.services.timeouts.take_over
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        await running.drain(self.drain_timeout)
        await self.providers.released(running.flow)
        await self._forget(running)
        log.info("ended", extra={"flow": running.flow.name})

    async def _forget(self, ended: _Running) -> None:
        """Remove the state of an ended flow that no other flow needs."""
        name, services = ended.flow.name, self.services
        if name not in self._running:
            services.failing.pop(name, None)
            services.metrics.flow_ended(name)
            services.activity.forget_flow(name)
        needed = {topic for running in self._running.values() for topic in running.topics}
        await services.producers.forget(ended.topics - needed)


class FlowLoop:
    """Serves one flow until it is stopped. `subscribe` returns a consumer, None once `stopping` is set.

    `crash_record` is None for non-persistent topics.
    """

    def __init__(
        self,
        flow: Flow,
        provider: Provider,
        services: Services,
        subscribe: Callable[[], Awaitable[Consumer | None]],
        crash_record: CrashRecord | None = None,
    ) -> None:
        self.flow = flow
        self._provider = provider
        self.crash_record = crash_record
        self.stopping = asyncio.Event()
        self._services = services
        self._subscription = FlowSubscription(flow, subscribe, services, self.stopping)
        self._slots = asyncio.Semaphore(flow.concurrency)
        self._in_progress: dict[asyncio.Task[None], Delivery] = {}
        self._given_up = False

    async def serve(self) -> None:
        """Serve until `stop` is called and all messages in progress are settled.

        If it fails or is cancelled, it gives up the requests in progress, and takes at most the timeout
        `give_up` for that.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                while consumer := await self._subscription.next():
                    async with self._subscription.watched(consumer, tasks):
                        await self._receive_all(consumer)
                        tasks.create_task(self._close_when_settled(consumer))
            await self._until_settled()
        except BaseException:
            await self._give_up_in_time()
            raise
        finally:
            await self._subscription.close_all()
        self._subscription.forget()

    async def stop(self) -> None:
        """Receive no more messages; `serve` ends when those in progress are settled."""
        self.stopping.set()
        await self._subscription.stop()

    def give_up(self) -> None:
        """Cancel all requests: persistent ones are left for other workers, others get errors.

        A response that is being sent is sent to its end. A second call cuts it off.
        """
        self._cancel(cut_off=self._given_up)
        self._given_up = True

    async def _receive_all(self, consumer: Consumer) -> None:
        """Process messages until the consumer ends. Raises `BrokerError`."""
        while message := await self._next(consumer):
            delivery = Delivery(
                message, consumer, self.flow, self._provider, self._services, self.crash_record
            )
            if self._given_up:
                delivery.cancel()
            task = asyncio.create_task(delivery.run())
            self._in_progress[task] = delivery
            task.add_done_callback(self._ended)

    async def _next(self, consumer: Consumer) -> Message | None:
        """Take a slot and receive a message; without a message the slot is released."""
        await self._slots.acquire()
        message = None
        try:
            if self.flow.input.persistent:
                await self._until_wanted()
            message = await consumer.receive()
            if message is not None:
                self._services.metrics.received(self.flow.name)
            return message
        finally:
            if message is None:
                self._slots.release()

    async def _until_wanted(self) -> None:
        """Leave messages in a persistent topic while the flow's prompt or model is away, or for suspects."""
        services = self._services
        if not self.flow.has_prompt(services.prompts):
            await cancel_when_stopped(self._until_prompt(), self.stopping)
        if services.circuits.is_blocked(self.flow):
            await cancel_when_stopped(services.circuits.until_unblocked(self.flow), self.stopping)
        if self.crash_record is not None and self.crash_record.is_isolating:
            await cancel_when_stopped(self.crash_record.until_not_holding(), self.stopping)

    async def _until_prompt(self) -> None:
        """Wait until somebody pushes the prompt of the flow."""
        while not self.flow.has_prompt(self._services.prompts):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(self._services.timeouts.between_looks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._in_progress[task]
        self._slots.release()

    async def _close_when_settled(self, consumer: Consumer) -> None:
        await self._until_settled()
        await self._subscription.close(consumer)

    async def _until_settled(self, timeout: float | None = None) -> None:
        """Wait for the messages that are in progress now."""
        if self._in_progress:
            await asyncio.wait(self._in_progress, timeout=timeout)

    async def _give_up_in_time(self) -> None:
        self._cancel()
        try:
            await self._until_settled(self._services.timeouts.give_up)
        finally:
            self._cancel(cut_off=True)
            await self._until_settled()

    def _cancel(self, *, cut_off: bool = False) -> None:
        for delivery in self._in_progress.values():
            delivery.cancel(cut_off=cut_off)


class _Running(FlowLoop):
    """A flow of the process: subscribes as long as that takes, and is served again after a defect.

    `attempted` is set once it has subscribed, or has failed to.
    """

    def __init__(
        self,
        broker: Broker,
        flow: Flow,
        provider: Provider,
        services: Services,
        crash_record: CrashRecord | None,
        waiting: MutableMapping[str, str],
    ) -> None:
        super().__init__(flow, provider, services, self._subscribe, crash_record)
        self._broker = broker
        self._waiting = waiting
        self.model = provider.identity.model
        self.attempted = asyncio.Event()
        self._task = asyncio.create_task(self._serve_on(), name=_part(flow.name))

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the flow publishes to."""
        return self.flow.outputs.topics | ({self.crash_record.topic} if self.crash_record else set())

    async def drain(self, timeout: float) -> None:
        """Receive no more; cancel the requests that are not finished within `timeout`."""
        part, timeouts = _part(self.flow.name), self._services.timeouts
        closing = asyncio.create_task(self._close_record(), name=f"crash record of {part}")
        stopping = asyncio.create_task(self.stop(), name=f"stop of {part}")
        _, late = await asyncio.wait([self._task], timeout=timeout)
        if late:
            log.warning("%s: requests not finished within %.0f s are cancelled", part, timeout)
            self.give_up()
            _, late = await asyncio.wait(late, timeout=timeouts.give_up)
        if late:
            log.error("%s: not all cancelled requests could be answered in time", part)
            self.give_up()
            self._task.cancel()
            await asyncio.wait(late)
        stopping.cancel()
        await asyncio.wait([closing], timeout=timeouts.close_record)
        closing.cancel()

    async def _close_record(self) -> None:
        if self.crash_record is not None:
            await self.crash_record.close()

    async def _serve_on(self) -> None:
        while not self.stopping.is_set():
            try:
                await self.serve()
            except Exception:
                log.exception("internal error, %s is restarted", _part(self.flow.name))
                await asyncio.sleep(self._services.timeouts.after_defect)

    async def _subscribe(self) -> Consumer | None:
        flow = self.flow
        consumer = await retry_until_stopped(_part(flow.name), self._open, self._waiting, self.stopping)
        self.attempted.set()
        if consumer is not None:
            log.info("serving", extra={"flow": flow.name, "topic": flow.input.topic})
        return consumer

    async def _open(self) -> Consumer:
        input = self.flow.input
        try:
            if self.crash_record is not None and await self.crash_record.open():
                await self._bury_unreceivable(self.crash_record.others)
            return await self._broker.consumer(input.topic, input.subscription, buffer=input.buffer)
        except Exception:
            self.attempted.set()
            raise

    async def _bury_unreceivable(self, workers: int) -> None:
        """Dead-letter messages that crash a worker on receipt, before it can record them."""
        if not workers:
            return
        flow, error = self.flow, "worker-crashed"
        input = flow.input
        properties = letters.failure_properties(error, flow.name, None, time())
        search = self._broker.bury_unreceivable(input.topic, input.subscription, workers, properties)
        try:
            buried = await cancel_when_stopped(search, self.stopping)
        except (BrokerError, ConfigError) as reason:
            log.warning("flow %s: cannot search for messages that crash consumers: %s", flow.name, reason)
            return
        for id in buried or ():
            log.error("dead letter: %s: message %s crashes its consumer on receipt", error, id)
            self._services.metrics.buried(flow.name, error)


def _part(flow: str) -> str:
    return f"flow {flow}"
