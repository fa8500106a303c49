"""The worker in the place of TrustGraph's prompt service: its flows and prompts come, change and go."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import Any

import pytest

from tests.support.trustgraph_place import Place, template, until
from tests.support.trustgraph_services import Completion
from trustgraph_prompt.broker.topics import resolve
from trustgraph_prompt.llm import Limits

ANSWER = "trustgraph_prompt.trustgraph.config_client.SECONDS_FOR_AN_ANSWER"


async def test_flows_and_prompts_of_the_config_service_are_served(place: Place) -> None:
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    await place.answer()
    await place.work()
    asking = await place.hear()

    [response] = await asking.ask("say", text="chalk")

    assert response["text"] == "Say chalk"
    assert (response["object"], response["error"], response["end_of_stream"]) == (None, None, True)
    assert (response["in_token"], response["out_token"], response["model"]) == (10, 5, "stand-in")


async def test_flows_start_change_and_stop_while_the_worker_runs(place: Place) -> None:
    working = await place.work()
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    for flow in ("f", "g"):
        await place.answer(flow)

    await place.config.start_flow("f", place.topics("f"))
    await working.serves({"default/f": place.topics("f")["request"]})
    [response] = await (await place.hear("f")).ask("say", text="x")
    assert response["text"] == "Say x"

    await place.config.start_flow("f", place.topics("g"))  # the same name, other topics
    await working.serves({"default/f": place.topics("g")["request"]})
    [response] = await (await place.hear("g")).ask("say", text="y")
    assert response["text"] == "Say y"

    await place.config.stop_flow("f")
    await working.serves({})


async def test_request_under_way_when_its_flow_stops_is_finished(place: Place) -> None:
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    worker = await place.answer(delay=0.5)
    working = await place.work()
    asking = await place.hear()

    response = asyncio.create_task(asking.ask("say", text="x"))
    await until(lambda: worker.in_hand)
    await place.config.stop_flow("f")
    await working.serves({})

    assert [answer["text"] for answer in await response] == ["Say x"]


async def test_changed_template_is_served_and_a_bad_one_leaves_the_last_good(
    place: Place,
) -> None:
    await place.config.put(
        "default",
        {
            ("prompt", "template.say"): template("Say {{ text }}"),
            ("prompt", "template.other"): template("Tell {{ text }}"),
        },
    )
    await place.config.start_flow("f", place.topics())
    await place.answer()
    working = await place.work()
    asking = await place.hear()
    notes = working.worker.health.notes

    await place.config.set("prompt", "default", "template.say", template("Say {{ text "))
    await until(lambda: "config entry prompt default/template.say" in notes())
    assert (await asking.ask("say", text="x"))[0]["text"] == "Say x"
    assert (await asking.ask("other", text="x"))[0]["text"] == "Tell x"

    await place.config.set("prompt", "default", "template.say", template("Whisper {{ text }}"))
    await until(lambda: not notes())
    assert (await asking.ask("say", text="x"))[0]["text"] == "Whisper x"


async def test_a_flow_that_cannot_be_served_is_noted_and_disturbs_no_other(place: Place) -> None:
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    await place.config.start_flow("halved", {"request": f"request:{place.space}:halved"})
    await place.config.set("processor:prompt", "default", "broken", "{")
    await place.answer()

    working = await place.work()

    notes = working.worker.health.notes()
    assert "/topics/response: the topic is missing" in notes["config entry processor:prompt default/halved"]
    assert "not JSON" in notes["config entry processor:prompt default/broken"]
    [response] = await (await place.hear()).ask("say", text="x")
    assert response["text"] == "Say x"


async def test_workspaces_have_their_own_flows_and_reserved_ones_are_ignored(place: Place) -> None:
    for workspace in ("one", "two", "__template__"):
        entry = template(f"{workspace}: {{{{ text }}}}")
        await place.config.put(workspace, {("prompt", "template.say"): entry})
        await place.config.start_flow("f", place.topics(workspace=workspace), workspace)
        await place.answer(workspace=workspace)

    working = await place.work()

    served = {f"{name}/f": place.topics(workspace=name)["request"] for name in ("one", "two")}
    await working.serves(served)
    for name in ("one", "two"):
        [response] = await (await place.hear(workspace=name)).ask("say", text="x")
        assert response["text"] == f"{name}: x"

    await place.config.delete("processor:prompt", "two", "f")
    await working.serves({name: topic for name, topic in served.items() if name == "one/f"})


async def test_a_service_that_starts_anew_is_asked_for_everything(place: Place) -> None:
    working = await place.work()
    place.config.values = {
        ("default", "prompt", "template.say"): template("Say {{ text }}"),
        ("default", "processor:prompt", "f"): json.dumps({"topics": place.topics()}),
    }

    await place.config.poke({})

    await working.serves({"default/f": place.topics()["request"]})


async def test_a_poke_that_was_lost_is_noticed_by_the_next(place: Place) -> None:
    working = await place.work()
    await place.config.poke({"other": ["default"]}, version=7)
    place.config.values = {
        ("default", "prompt", "template.say"): template("Say {{ text }}"),
        ("default", "processor:prompt", "f"): json.dumps({"topics": place.topics()}),
    }

    await place.config.poke({"other": ["default"]}, version=9)

    await working.serves({"default/f": place.topics()["request"]})


async def test_config_changes_are_found_without_pokes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trustgraph_prompt.trustgraph.config_follower.SECONDS_BETWEEN_FETCHES", 0.2)
    working = await place.work()

    place.config.values = {
        ("default", "prompt", "template.say"): template("Say {{ text }}"),
        ("default", "processor:prompt", "f"): json.dumps({"topics": place.topics()}),
    }

    await working.serves({"default/f": place.topics()["request"]})


async def test_config_of_a_service_whose_database_was_wiped_is_served(place: Place) -> None:
    queues = {name: place.topics(name) for name in ("old", "new")}
    await place.config.put("default", {("prompt", "template.say"): template("Old {{ text }}")})
    await place.config.start_flow("old", queues["old"])
    await place.answer("new")
    working = await place.work()
    await working.serves({"default/old": queues["old"]["request"]})

    place.config.values.clear()
    place.config.version = 0
    await place.config.put("default", {("prompt", "template.say"): template("New {{ text }}")})
    await place.config.start_flow("new", queues["new"])

    await working.serves({"default/new": queues["new"]["request"]})
    [response] = await (await place.hear("new")).ask("say", text="x")
    assert response["text"] == "New x"


async def test_a_workspace_that_fails_for_good_holds_no_other_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ANSWER, 0.5)
    for workspace in ("bad", "good"):
        await place.config.put(workspace, {("prompt", "template.say"): template("Say {{ text }}")})
        await place.config.start_flow("f", place.topics("f", workspace), workspace)
    place.config.mute.add("bad")
    good = place.topics("f", "good")["request"]
    working = await place.work()
    await working.serves({"good/f": good})
    await until(lambda: "flows of workspace bad" in working.worker.health.notes())

    monkeypatch.setattr(ANSWER, 600.0)
    place.config.held["bad", "processor:prompt"] = answers = asyncio.Event()
    place.config.mute.clear()
    asked = place.config.asked("bad")
    await until(lambda: place.config.asked("bad") > asked)
    for n in range(2):  # while the bad one is waited for
        name = f"g{n}"
        await place.config.start_flow(name, place.topics(name, "good"), "good")
        await working.serves(
            {"good/f": good, **{f"good/g{m}": place.topics(f"g{m}", "good")["request"] for m in range(n + 1)}}
        )

    answers.set()
    await until(lambda: "bad/f" in working.flows)
    await until(lambda: not any("bad" in what for what in working.worker.health.notes()))


async def test_a_flow_that_starts_again_has_the_prompts_of_now(place: Place) -> None:
    queues = place.topics()
    await place.config.put("default", {("prompt", "template.say"): template("Old {{ text }}")})
    await place.config.start_flow("f", queues)
    await place.answer()
    working = await place.work()
    await working.serves({"default/f": queues["request"]})
    await place.config.stop_flow("f")
    await working.serves({})
    await place.config.put("default", {("prompt", "template.say"): template("New {{ text }}")})

    await place.config.start_flow("f", queues)

    await working.serves({"default/f": queues["request"]})
    [response] = await (await place.hear()).ask("say", text="x")
    assert response["text"] == "New x"


async def test_service_that_refuses_getkeys_is_asked_for_all_values_at_once(place: Place) -> None:
    place.config.refuses = {"getkeys-all-ws"}
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())

    working = await place.work()

    await working.serves({"default/f": place.topics()["request"]})


async def test_a_service_that_does_not_answer_is_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trustgraph_prompt.trustgraph.config_client.SECONDS_FOR_AN_ANSWER", 0.2)
    place.config.silent = True
    working = await place.work(ready=False)
    no_response = (
        f"{place.broker.address}: no response from the config service on "
        f"non-persistent://{place.space}/request/config in 0.2 s"
    )
    await until(lambda: no_response in working.worker.health.waiting.get("config", ""))
    place.config.silent = False
    await working.ready()

    place.config.silent = True
    await place.config.start_flow("f", place.topics())
    await until(lambda: working.worker.health.notes())
    assert working.worker.health.ready
    place.config.silent = False
    await working.serves({"default/f": place.topics()["request"]})
    await until(lambda: not working.worker.health.notes())


@pytest.mark.parametrize("silent", [True, False], ids=["while it is asked", "while it serves"])
async def test_stopping_logs_no_error(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr("trustgraph_prompt.worker.telemetry.watch.SECONDS_BETWEEN_LOOKS", 0.001)
    place.config.silent = silent
    working = await place.work(ready=not silent)
    await until(lambda: place.config.requests)
    await working.stop()
    ours = [record for record in caplog.records if record.name.startswith("trustgraph_prompt.")]
    assert [record.getMessage() for record in ours if record.levelname == "ERROR"] == []


async def test_errors_have_the_types_that_trustgraphs_clients_know(place: Place) -> None:
    pick = template("no {{ text }}", **{"response-type": "json"})
    say = template("Say {{ text }}")
    await place.config.put("default", {("prompt", "template.say"): say, ("prompt", "template.pick"): pick})
    await place.config.start_flow("f", place.topics())
    await place.config.start_flow("f", place.topics(workspace="empty"), "empty")
    await place.answer()
    await place.work()
    asking, empty = await place.hear(), await place.hear(workspace="empty")

    [unknown] = await asking.ask("nosuch")
    [unread] = await asking.put(b'{"id": "say", "terms": {"text": "no JSON"}}')
    [unusable] = await asking.ask("pick", text="JSON")
    [unconfigured] = await empty.ask("say", text="x")

    assert {each["error"]["type"] for each in (unknown, unread, unusable)} == {"llm-error"}
    assert "nosuch" in unknown["error"]["message"]
    assert "terms/text is not JSON" in unread["error"]["message"]
    assert unconfigured["error"]["type"] == "no-configuration"
    for response in (unknown, unread, unconfigured):
        assert (response["text"], response["object"], response["end_of_stream"]) == (None, None, True)


async def test_a_rate_limit_is_waited_out(place: Place) -> None:
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    refusals = 5  # more than one delivery tries by itself

    def script(request: dict[str, Any]) -> Completion:
        nonlocal refusals
        refusals -= 1
        limited = ("too-many-requests", "slow down") if refusals >= 0 else None
        return Completion(request["prompt"], error=limited)

    await place.answer(script=script)
    # The pauses grow to half a minute; here their seconds are hundredths.
    limits = Limits(clock=lambda: monotonic() * 100, sleep=lambda seconds: asyncio.sleep(seconds / 100))
    await place.work(limits=limits)

    [response] = await (await place.hear()).ask("say", text="x")

    assert response["text"] == "Say x"


@pytest.mark.parametrize("drain_timeout", [30.0, 0.1])
async def test_requests_received_before_the_worker_stops_are_answered(
    place: Place, drain_timeout: float
) -> None:
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    worker = await place.answer(delay=0.5 if drain_timeout > 1 else 60)
    working = await place.work(drain_timeout, concurrency=2)
    asking = await place.hear()
    asked = [asyncio.create_task(asking.ask("say", text=str(n))) for n in range(6)]
    await until(lambda: worker.in_hand == 2 and asking.published == 6)

    await working.stop()

    answers = [answer for [answer] in await asyncio.gather(*asked)]
    if drain_timeout > 1:
        assert sorted(answer["text"] for answer in answers) == [f"Say {n}" for n in range(6)]
    else:
        assert all("shutting down" in answer["error"]["message"] for answer in answers)


async def test_a_slow_completion_counts_although_the_second_asking_meets_a_rate_limit(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trustgraph_prompt.trustgraph.flow_definitions.SECONDS_TO_ANOTHER", 1.0)
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    slow = asyncio.Event()

    def script(request: dict[str, Any]) -> Completion:
        if len(worker.requests) == 1:
            return Completion("slow", once=slow)
        asyncio.get_running_loop().call_later(0.1, slow.set)
        return Completion(error=("too-many-requests", "slow down"))

    worker = await place.answer(script=script)
    await place.work()

    [response] = await (await place.hear()).ask("say", text="x")

    assert response["text"] == "slow"
    assert len(worker.requests) == 2


async def test_a_completion_that_was_lost_is_asked_for_once_more(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trustgraph_prompt.trustgraph.flow_definitions.SECONDS_TO_ANOTHER", 0.2)
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    worker = await place.answer(
        script=lambda request: Completion(request["prompt"], lost=len(worker.requests) == 1)
    )
    await place.work()

    [response] = await (await place.hear()).ask("say", text="x")

    assert response["text"] == "Say x"
    assert len(worker.requests) == 2


async def test_tokens_of_an_answer_that_came_second_are_counted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trustgraph_prompt.trustgraph.flow_definitions.SECONDS_TO_ANOTHER", 0.2)
    await place.config.put("default", {("prompt", "template.say"): template("Say {{ text }}")})
    await place.config.start_flow("f", place.topics())
    slow = asyncio.Event()

    def script(request: dict[str, Any]) -> Completion:
        return Completion("slow", once=slow) if len(worker.requests) == 1 else Completion("quick")

    worker = await place.answer(script=script)
    metrics = (await place.work()).worker.metrics
    [response] = await (await place.hear()).ask("say", text="x")
    assert response["text"] == "quick"
    slow.set()

    def value(name: str, **labels: str) -> float | None:
        labels = {"flow": "default/f", "prompt": "say", "model": "stand-in", **labels}
        return metrics.registry.get_sample_value(f"trustgraph_prompt_{name}", labels)

    await until(lambda: value("calls_total", why="resent") == 1)
    for reason in ("success", "discarded"):
        assert value("tokens_total", reason=reason, direction="in") == 10
        assert value("tokens_total", reason=reason, direction="out") == 5


async def test_seconds_after_which_a_request_is_sent_again_are_a_metric(place: Place) -> None:
    await place.config.start_flow("f", place.topics())
    metrics = (await place.work()).worker.metrics
    queue = resolve(place.topics()["text-completion-request"])

    [line] = [line for line in metrics.text().decode().split("\n") if "_resend_after_seconds{" in line]
    assert queue in line
    assert line.endswith(" 240.0")

    await place.config.stop_flow("f")
    await until(lambda: "_resend_after_seconds{" not in metrics.text().decode())
