"""TrustGraph's own metrics (`tg_*`, as of release 2.11), so that its dashboards keep working."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from time import monotonic
from typing import Any

from prometheus_client import Counter, Enum, Gauge, Histogram, Info

from trustgraph_prompt.broker import Broker, Consumer, Message, Producer, topics
from trustgraph_prompt.broker.protocol import Caller
from trustgraph_prompt.broker.wrapper import BrokerWrapper
from trustgraph_prompt.errors import BrokerError, CallTimeout, ProviderError, ProviderRateLimit
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.worker.flow import Flow
from trustgraph_prompt.worker.telemetry.call_metrics import SECONDS, Ended
from trustgraph_prompt.worker.telemetry.series import Series, SeriesRegistry


class TrustGraphMetrics:
    """The metrics of TrustGraph's processors in one process. `processors` are their settings by id.

    What they share, producers and calls to other services, is counted under all their ids, joined by commas.
    The metrics are in the registry of the process's `Metrics`. Topics are labels under their names in
    TrustGraph (`request:tg:prompt:default:default`). The buckets are TrustGraph's and, because a model may
    take longer than 30 seconds, some more.
    """

    def __init__(self, processors: Mapping[str, Mapping[str, str]], registry: SeriesRegistry) -> None:
        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(name, help, ("processor", *labels), registry=registry)

        def seconds(name: str, help: str, *labels: str) -> Histogram:
            return Histogram(name, help, ("processor", *labels), buckets=SECONDS, registry=registry)

        def by_consumer(name: str, help: str, *labels: str) -> Series[Counter]:
            return registry.counter(name, help, "processor", "consumer", *labels)

        self.series = registry
        self.processor = ",".join(processors)
        self._ids = list(processors)
        self._consumers: dict[tuple[str, str], int] = defaultdict(int)
        self.state = Enum(
            "tg_consumer_state",
            "Whether the topic is consumed",
            ("processor", "consumer"),
            states=["stopped", "running"],
            registry=registry,
        )
        self.request_seconds = registry.histogram(
            "tg_consumer_request_duration_seconds",
            "From the receipt of a request until it was settled",
            "processor",
            "consumer",
            buckets=SECONDS,
        )
        self.processed = by_consumer("tg_consumer_processing", "Requests settled, by how it went", "status")
        self.rate_limits = by_consumer(
            "tg_consumer_rate_limit", "Calls to a model that were refused for their rate"
        )
        self.produced = registry.counter(
            "tg_producer_messages", "Messages that the broker has taken", "processor", "producer"
        )
        self.call_seconds = seconds(
            "tg_downstream_call_duration_seconds",
            "From a request to another service to the end of its answer",
            "target_service",
        )
        self.timeouts = counter(
            "tg_downstream_timeout", "Requests that another service did not answer in time", "target_service"
        )
        self.call_errors = counter(
            "tg_downstream_error", "Requests that reached no other service", "target_service", "error_type"
        )
        self.completion_seconds = seconds(
            "tg_text_completion_duration_seconds", "From a call to a model to the end of its answer"
        )
        self.model = Info("tg_text_completion_model", "The model", ("processor",), registry=registry)
        self._version = Gauge(
            "tg_config_version", "The version of the config in use", ("processor",), registry=registry
        )
        about = Info("tg_processor", "The settings of the processor", ("processor",), registry=registry)
        for id, settings in processors.items():
            about.labels(id).info(dict(settings))

    def configured(self, version: int) -> None:
        """Show the version of TrustGraph's config in use."""
        for id in self._ids:
            self._version.labels(id).set(version)

    def place(self, topic: str, subscription: str) -> tuple[str, str]:
        """The processor to which a subscription belongs, and the queue."""
        owners = (id for id in self._ids if subscription.startswith(f"{id}--"))
        return next(owners, self.processor), topics.queue_name(topic)

    def consumed(self, place: tuple[str, str], more: int) -> None:
        """Add to the number of consumers at a place: there are two for a while when a flow changes."""
        self._consumers[place] += more
        self._keep(place)
        self.state.labels(*place).state("running" if self._consumers[place] else "stopped")

    def forget(self, flow: Flow) -> None:
        """Let the metrics of a flow that has ended go, unless another flow consumes its request topic."""
        place = self.place(flow.input.topic, flow.input.subscription)
        if self._consumers[place]:
            return
        del self._consumers[place]
        self.state.remove(*place)
        self.series.leave(processor=place[0], consumer=place[1])

    def broker(self, broker: Broker) -> Broker:
        """Wrap a broker to count its consumers, producers and callers; goes outside of tracing."""
        return _CountedBroker(broker, self)

    def calls(self, flow: Flow, provider: Provider) -> Ended:
        """Returns what counts the calls of a flow that hit a rate limit, and times its text completions."""
        place = self.place(flow.input.topic, flow.input.subscription)
        self._keep(place)
        refused = self.rate_limits[place]
        timed: Histogram | None = None
        if flow.input.kind == "text-completion":
            timed = self.completion_seconds.labels(self.processor)
            model = flow.model or provider.identity.model or provider.identity.system
            temperature = "" if flow.temperature is None else str(flow.temperature)
            self.model.labels(self.processor).info({"model": model, "temperature": temperature})

        def ended(seconds: float, failure: ProviderError | None) -> None:
            if isinstance(failure, ProviderRateLimit):
                refused.inc()
            if timed is not None:
                timed.observe(seconds)

        return ended

    def _keep(self, place: tuple[str, str]) -> None:
        self.series.stay(processor=place[0], consumer=place[1])


class _CountedBroker(BrokerWrapper):
    def __init__(self, broker: Broker, counts: TrustGraphMetrics) -> None:
        super().__init__(broker)
        self._counts = counts

    async def caller(self, request: str, response: str) -> Caller:
        return _CountedCaller(await super().caller(request, response), request, self._counts)

    def _consumer(self, consumer: Consumer) -> Consumer:
        return _CountedConsumer(consumer, self._counts)

    def _producer(self, producer: Producer) -> Producer:
        return _CountedProducer(producer, self._counts)


class _CountedConsumer:
    """Times a request from its receipt until it is acknowledged, retried or dead-lettered."""

    def __init__(self, consumer: Consumer, counts: TrustGraphMetrics) -> None:
        self.topic = consumer.topic
        self.subscription = consumer.subscription
        self.stop = consumer.stop
        self.check = consumer.check
        self._consumer = consumer
        self._received: dict[str, float] = {}
        self._counts = counts
        self._place = counts.place(consumer.topic, consumer.subscription)
        self._open = True
        self._seconds = counts.request_seconds[self._place]
        self._ok, self._error = (counts.processed[(*self._place, status)] for status in ("ok", "error"))
        counts.consumed(self._place, 1)

    async def receive(self) -> Message | None:
        message = await self._consumer.receive()
        if message is not None:
            self._received[message.id] = monotonic()
        return message

    async def acknowledge(self, message: Message) -> None:
        await self._consumer.acknowledge(message)
        self._settled(message, self._ok)

    async def retry(
        self, message: Message, after: float, properties: Mapping[str, str] | None = None
    ) -> None:
        await self._consumer.retry(message, after, properties)
        self._settled(message, self._error)

    async def bury(self, message: Message, reason: str, properties: Mapping[str, str] | None = None) -> None:
        await self._consumer.bury(message, reason, properties)
        self._settled(message, self._error)

    async def close(self) -> None:
        if self._open:
            self._open = False
            self._counts.consumed(self._place, -1)
        await self._consumer.close()

    def _settled(self, message: Message, how: Counter) -> None:
        how.inc()
        if (received := self._received.pop(message.id, None)) is not None:
            self._seconds.observe(monotonic() - received)


class _CountedProducer:
    def __init__(self, producer: Producer, counts: TrustGraphMetrics) -> None:
        self.topic = producer.topic
        self._producer = producer
        self._counts = counts
        self._queue = topics.queue_name(producer.topic)
        counts.series.stay(processor=counts.processor, producer=self._queue)
        self._produced.inc(0)

    async def send(self, data: bytes, **how: Any) -> str:
        id = await self._producer.send(data, **how)
        self._produced.inc()
        return id

    async def close(self) -> None:
        self._counts.series.leave(processor=self._counts.processor, producer=self._queue)
        await self._producer.close()

    @property
    def _produced(self) -> Counter:
        return self._counts.produced[self._counts.processor, self._queue]


class _CountedCaller:
    """Counts calls to another service, which TrustGraph names like its topic: `text-completion-request`."""

    def __init__(self, caller: Caller, request: str, counts: TrustGraphMetrics) -> None:
        name = topics.resolve(request).rpartition("/")[2]  # such as text-completion:default:default
        self.close = caller.close
        self._caller = caller
        self._labels = counts.processor, f"{name.partition(':')[0]}-request"
        self._seconds = counts.call_seconds.labels(*self._labels)
        self._timeouts = counts.timeouts.labels(*self._labels)
        self._errors = counts.call_errors

    @property
    def closed(self) -> bool:
        return self._caller.closed

    async def call(self, data: bytes, **how: Any) -> AsyncGenerator[Message, None]:
        began = monotonic()
        try:
            async with aclosing(self._caller.call(data, **how)) as messages:
                async for message in messages:
                    yield message
        except CallTimeout:
            self._timeouts.inc()
            raise
        except BrokerError as error:
            self._errors.labels(*self._labels, type(error).__name__).inc()
            raise
        finally:
            self._seconds.observe(monotonic() - began)
