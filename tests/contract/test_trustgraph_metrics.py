"""TrustGraph's metrics beside ours: its names, types and labels, fed by what the worker does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.deltas import CALL
from tests.support.trustgraph_place import Place, template, until
from tests.support.trustgraph_services import Completion
from tests.support.workers import House
from trustgraph_prompt.broker import topics
from trustgraph_prompt.errors import ProviderAuthentication, ProviderRateLimit, ProviderUnavailable
from trustgraph_prompt.llm import Provider, ScriptedAnswer, ScriptedProvider, TopicProvider
from trustgraph_prompt.trustgraph.tg_metrics import TrustGraphMetrics
from trustgraph_prompt.worker.flow import Flow, Input, Outputs
from trustgraph_prompt.worker.telemetry.call_metrics import CountedProvider
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.series import SECONDS_TO_KEEP

#: Name in the exposition, type, labels: as the classes of release 2.11.1 declare them.
THEIRS = {
    "tg_processor": ("info", {"processor", "concurrency"}),
    "tg_config_version": ("gauge", {"processor"}),
    "tg_consumer_state": ("gauge", {"processor", "consumer", "tg_consumer_state"}),
    "tg_consumer_request_duration_seconds": ("histogram", {"processor", "consumer"}),
    "tg_consumer_processing": ("counter", {"processor", "consumer", "status"}),
    "tg_consumer_rate_limit": ("counter", {"processor", "consumer"}),
    "tg_producer_messages": ("counter", {"processor", "producer"}),
    "tg_downstream_call_duration_seconds": ("histogram", {"processor", "target_service"}),
    "tg_downstream_timeout": ("counter", {"processor", "target_service"}),
    "tg_downstream_error": ("counter", {"processor", "target_service", "error_type"}),
    "tg_text_completion_duration_seconds": ("histogram", {"processor"}),
    "tg_text_completion_model": ("info", {"processor", "model", "temperature"}),
}

THEIR_BUCKETS = {"0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "30.0", "+Inf"}


class Exposed:
    """What a scrape gets."""

    def __init__(self, metrics: Metrics) -> None:
        self._families = {
            family.name: family for family in text_string_to_metric_families(metrics.text().decode())
        }

    def kind(self, name: str) -> str:
        # The text format has no type for an info metric: a gauge of 1 with `_info` at its end.
        if f"{name}_info" in self._families:
            return "info"
        return self._families[name].type

    def labels(self, name: str) -> set[str]:
        family = self._families.get(name) or self._families[f"{name}_info"]
        return {label for sample in family.samples for label in sample.labels} - {"le"}

    def value(self, name: str, **labels: str) -> float | None:
        wanted: Mapping[str, str] = {"processor": "prompt", **labels}
        samples = (sample for family in self._families.values() for sample in family.samples)
        return next((s.value for s in samples if s.name == name and s.labels == wanted), None)

    def buckets(self, name: str) -> set[str]:
        return {sample.labels["le"] for sample in self._families[name].samples if "le" in sample.labels}


class Observed:
    """A house whose broker is counted; a worker in it that is counted, too."""

    def __init__(self, house: House) -> None:
        self.now = 0.0
        self.metrics = Metrics(lambda: self.now)
        self.theirs = TrustGraphMetrics({"prompt": {"concurrency": "4"}}, self.metrics.registry)
        self.house = replace(house, broker=self.theirs.broker(house.broker))

    def metered(self, flow: Flow, provider: Provider) -> CountedProvider:
        return CountedProvider(provider, self.metrics.calls, ended=self.theirs.calls(flow, provider))

    async def until(self, count: float, name: str, **labels: str) -> Exposed:
        """What is exposed, once the sample has come so far."""
        async with asyncio.timeout(60):
            while (exposed := Exposed(self.metrics)).value(name, **labels) != count:
                await asyncio.sleep(0.02)
        return exposed


@pytest.fixture
def observed(house: House) -> Observed:
    return Observed(house)


async def test_names_types_and_labels_are_those_of_trustgraphs_metrics(observed: Observed) -> None:
    house, theirs = observed.house, observed.theirs
    prompts = house.flow()
    completions = house.flow(
        input=Input(house.topic("text-completion:w:f"), "s", kind="text-completion"),
        outputs=Outputs(response=house.topic("completed")),
    )
    theirs.configured(7)
    model = observed.metered(completions, ScriptedProvider(lambda _: "hi"))
    await house.work(completions, model)
    caller = await house.broker.caller(completions.input.topic, house.topic("completed"))
    asked = observed.metered(prompts, TopicProvider(caller))
    await house.work(prompts, asked)
    theirs.call_errors.labels("prompt", "text-completion-request", "BrokerUnavailable").inc(0)

    await house.send(prompts, "say", text="chalk")
    exposed = await observed.until(
        1, "tg_consumer_processing_total", consumer=queue(prompts.input.topic), status="ok"
    )

    assert {name: (exposed.kind(name), exposed.labels(name)) for name in THEIRS} == THEIRS
    assert exposed.buckets("tg_consumer_request_duration_seconds") > THEIR_BUCKETS
    assert exposed.buckets("tg_downstream_call_duration_seconds") > THEIR_BUCKETS
    for name, value, labels in (
        ("tg_processor_info", 1, {"concurrency": "4"}),
        ("tg_config_version", 7, {}),
        ("tg_consumer_request_duration_seconds_count", 1, {"consumer": queue(prompts.input.topic)}),
        ("tg_consumer_rate_limit_total", 0, {"consumer": queue(prompts.input.topic)}),
        ("tg_producer_messages_total", 1, {"producer": queue(house.topic("responses"))}),
        ("tg_downstream_call_duration_seconds_count", 1, {"target_service": "text-completion-request"}),
        ("tg_downstream_timeout_total", 0, {"target_service": "text-completion-request"}),
        ("tg_text_completion_duration_seconds_count", 1, {}),
        ("tg_text_completion_model_info", 1, {"model": "scripted", "temperature": ""}),
    ):
        assert exposed.value(name, **labels) == value, name


async def test_a_worker_in_trustgraphs_place_shows_its_metrics_beside_ours(place: Place) -> None:
    consumer = queue(place.topics()["request"])
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    limited, answered = Completion(error=("too-many-requests", "slow down")), Completion("chalk")
    turns = iter([limited, answered])
    await place.answer(script=lambda request: next(turns))
    metrics = (await place.work(concurrency=4)).worker.metrics

    await (await place.hear()).ask("say", text="chalk")

    await until(
        lambda: Exposed(metrics).value("tg_consumer_processing_total", consumer=consumer, status="ok") == 1
    )
    exposed = Exposed(metrics)
    for name, value, labels in (
        ("tg_processor_info", 1, {"id": "prompt", "concurrency": "4"}),
        ("tg_config_version", place.config.version, {}),
        ("tg_consumer_rate_limit_total", 1, {"consumer": consumer}),
        ("tg_downstream_call_duration_seconds_count", 2, {"target_service": "text-completion-request"}),
    ):
        assert exposed.value(name, **labels) == value, name
    assert 'trustgraph_prompt_outcomes_total{flow="default/f"' in metrics.text().decode()

    await place.config.stop_flow("f")
    await until(
        lambda: (
            Exposed(metrics).value("tg_consumer_state", consumer=consumer, tg_consumer_state="running")
            is None
        )
    )
    assert Exposed(metrics).value("tg_consumer_processing_total", consumer=consumer, status="ok") == 1


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_request_that_ends_as_a_dead_letter_is_an_error(
    observed: Observed, *, persistent: bool
) -> None:
    house = observed.house
    flow = house.flow(persistent=persistent)
    consumer = queue(flow.input.topic)
    await house.work(flow, lambda _: "hi")

    await house.send(flow, "unknown")
    await house.send(flow, "say", text="chalk")

    await observed.until(1, "tg_consumer_processing_total", consumer=consumer, status="error")
    await observed.until(1, "tg_consumer_processing_total", consumer=consumer, status="ok")
    await observed.until(2, "tg_consumer_request_duration_seconds_count", consumer=consumer)


async def test_a_consumer_is_running_until_it_is_closed(observed: Observed) -> None:
    house = observed.house
    flow = house.flow()
    labels = {"consumer": queue(flow.input.topic)}
    working = await house.work(flow, lambda _: "hi")
    await observed.until(1, "tg_consumer_state", tg_consumer_state="running", **labels)

    await working.stop()

    exposed = await observed.until(1, "tg_consumer_state", tg_consumer_state="stopped", **labels)
    assert exposed.value("tg_consumer_state", tg_consumer_state="running", **labels) == 0


async def test_a_topic_is_consumed_as_long_as_one_consumer_of_several_is_open(observed: Observed) -> None:
    house, flow = observed.house, observed.house.flow()
    labels = {"consumer": queue(flow.input.topic)}
    old = await house.broker.consumer(flow.input.topic, "s")
    new = await house.broker.consumer(flow.input.topic, "s")

    for _ in range(2):  # who closes once more closes nothing
        await old.close()
        exposed = Exposed(observed.metrics)
        assert exposed.value("tg_consumer_state", tg_consumer_state="running", **labels) == 1
    await new.close()
    exposed = Exposed(observed.metrics)
    assert exposed.value("tg_consumer_state", tg_consumer_state="stopped", **labels) == 1


async def test_counts_of_an_ended_flow_stay_until_they_were_read(
    observed: Observed,
) -> None:
    house, theirs, flow = observed.house, observed.theirs, observed.house.flow()
    consumer = queue(flow.input.topic)
    working = await house.work(flow, lambda _: "hi")
    await house.send(flow, "say", text="chalk")
    await observed.until(1, "tg_consumer_processing_total", consumer=consumer, status="ok")

    theirs.forget(flow)
    observed.now += SECONDS_TO_KEEP
    assert (
        Exposed(observed.metrics).value("tg_consumer_processing_total", consumer=consumer, status="ok") == 1
    )

    await working.stop()
    theirs.forget(flow)
    observed.now += SECONDS_TO_KEEP - 1
    exposed = Exposed(observed.metrics)
    assert exposed.value("tg_consumer_state", tg_consumer_state="stopped", consumer=consumer) is None
    assert exposed.value("tg_consumer_processing_total", consumer=consumer, status="ok") == 1
    observed.now += 1
    assert consumer not in observed.metrics.text().decode()
    assert queue(house.topic("responses")) not in observed.metrics.text().decode()


async def test_a_refusal_for_the_rate_is_counted_to_the_topic_that_asked(observed: Observed) -> None:
    flow = observed.house.flow()
    refused = ScriptedProvider(lambda _: ScriptedAnswer(error=ProviderRateLimit("slow down")))
    failing = ScriptedProvider(lambda _: ScriptedAnswer(error=ProviderAuthentication("who are you?")))

    for provider in (refused, failing):
        with pytest.raises((ProviderRateLimit, ProviderAuthentication)):
            async with aclosing(observed.metered(flow, provider).stream(CALL)) as deltas:
                await anext(deltas)

    labels = {"consumer": queue(flow.input.topic)}
    assert Exposed(observed.metrics).value("tg_consumer_rate_limit_total", **labels) == 1


async def test_a_service_that_does_not_answer_in_time_is_counted(observed: Observed) -> None:
    house = observed.house
    topic = house.topic("text-completion:w:f")
    caller = await house.broker.caller(topic, house.topic("completed"))

    with pytest.raises(ProviderUnavailable):
        async with aclosing(TopicProvider(caller, timeout=0.1).stream(CALL)) as deltas:
            await anext(deltas)

    exposed, labels = Exposed(observed.metrics), {"target_service": "text-completion-request"}
    assert exposed.value("tg_downstream_timeout_total", **labels) == 1
    assert exposed.value("tg_downstream_call_duration_seconds_count", **labels) == 1


def queue(topic: str) -> str:
    return topics.queue_name(topic)
