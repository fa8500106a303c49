"""What the Pods of the chart run is what the program takes: arguments, variables, flows, prompts, tests."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import typer.main
import yaml

from tests.support.chart import (
    CHART,
    Object,
    described,
    matrix,
    of_kind,
    places,
    pod_specs,
    render,
    schema,
)
from tests.support.command import environment, run
from tests.support.guides import guide_page
from tests.support.kubernetes_tools import HELM_4
from tests.support.worker_processes import Site
from tests.support.workers import entry
from trustgraph_prompt.broker import topics
from trustgraph_prompt.cli.app import app
from trustgraph_prompt.cli.lazy_commands import LazyCommand
from trustgraph_prompt.prompts import files
from trustgraph_prompt.trustgraph.extractors import EXTRACTORS
from trustgraph_prompt.worker import flow_file
from trustgraph_prompt.worker.flow import Flow

pytestmark = pytest.mark.xdist_group("chart")  # one process renders each once

every_values = pytest.mark.parametrize("name", matrix())


def parse(arguments: list[str]) -> dict[str, Any]:
    """The parameters that the program takes from a command line. Raises what it would complain of."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command, *arguments = command.commands[arguments[0]], *arguments[1:]
        command = command.load() if isinstance(command, LazyCommand) else command
    parameters: dict[str, Any] = command.make_context("", list(arguments)).params
    return parameters


@every_values
def test_the_program_takes_the_arguments(name: str) -> None:
    for place, pod in pod_specs(name):
        container = pod["containers"][0]
        if "command" not in container:
            assert parse(container["args"]), place


@every_values
def test_variables_of_the_pods_are_documented_ones(name: str) -> None:
    page = guide_page("configuration.md").read_text()
    known = {*re.findall(r"`([A-Z][A-Z0-9_]+)`", page), "OTEL_SERVICE_NAME", "OTEL_TRACES_SAMPLER"}

    for place, pod in pod_specs(name):
        assert {variable["name"] for variable in pod["containers"][0].get("env", [])} <= known, place


def test_extractors_are_replaced_by_their_ids_which_the_program_knows() -> None:
    (deployment,) = of_kind("extractors beside TrustGraph's", "Deployment").values()
    arguments = parse(deployment["spec"]["template"]["spec"]["containers"][0]["args"])
    assert arguments["trustgraph"]
    assert arguments["extractor"] == ("kg-extract-definitions", "kg-extract-rows")
    assert (arguments["into"], arguments["id"], arguments["space"]) == ("trial", "prompt-rag", "other")

    pattern = described(schema())["worker.extractors"]["items"]["pattern"]
    assert (
        pattern == f"^kg-extract-({'|'.join(sorted(id.removeprefix('kg-extract-') for id in EXTRACTORS))})$"
    )


def served(name: str, deployment: Object, folder: Path) -> tuple[list[Flow], str]:
    """The flows that a worker loads from its ConfigMap, and its id."""
    (container, *_) = deployment["spec"]["template"]["spec"]["containers"]
    processor = container["args"][container["args"].index("--id") + 1]
    config_map = of_kind(name, "ConfigMap").get(f"{deployment['metadata']['name']}-flows")
    if config_map is None:
        return [], processor
    place = folder / deployment["metadata"]["name"]
    place.mkdir(parents=True)
    for file, content in config_map["data"].items():
        (place / file).write_text(content)
    return flow_file.load(place, processor=processor), processor


@every_values
def test_the_flows_can_be_loaded_and_are_subscribed_to_as_without_the_chart(
    name: str, tmp_path: Path
) -> None:
    for deployment in of_kind(name, "Deployment").values():
        flows, processor = served(name, deployment, tmp_path)
        for flow in flows:
            given = matrix()[name].get("flows", {}).get(flow.name, {})
            subscription = given.get("input", {}).get("subscription")
            usual = f"{processor}--{flow.workspace}--{flow.name}--request"
            assert flow.input.subscription == (subscription or usual)


def test_only_a_release_that_asks_for_it_receives_chunks_of_the_bundled_graph(tmp_path: Path) -> None:
    names = {
        (name, flow.name)
        for name in ("defaults", "every bundled flow")
        for deployment in of_kind(name, "Deployment").values()
        for flow in served(name, deployment, tmp_path / name)[0]
    }

    usual = {("defaults", "requests"), ("defaults", "chunks")}
    assert names == usual | {
        ("every bundled flow", each) for each in ("requests", "chunks", "knowledge-graph")
    }


@every_values
def test_keda_asks_for_the_backlog_of_each_subscription_and_of_its_retries(name: str, tmp_path: Path) -> None:
    deployments = of_kind(name, "Deployment")

    for place, found in of_kind(name, "ScaledObject").items():
        spec = found["spec"]
        deployment = deployments[spec["scaleTargetRef"]["name"]]
        assert "replicas" not in deployment["spec"]
        assert spec["minReplicaCount"] <= spec["maxReplicaCount"]
        assert {"failureThreshold", "replicas"} <= spec["fallback"].keys()
        assert all(isinstance(value, str) for each in spec["triggers"] for value in each["metadata"].values())

        flows, _ = served(name, deployment, tmp_path)
        expected = {
            (topic, flow.input.subscription)
            for flow in flows
            if topics.is_persistent(flow.input.topic)
            for topic in (flow.input.topic, topics.retry_topic(flow.input.topic, flow.input.subscription))
        }
        asked = [each["metadata"] for each in spec["triggers"] if each["type"] == "pulsar"]
        assert {(each["topic"], each["subscription"]) for each in asked} == expected
        others = [each["metadata"] for each in spec["triggers"] if each["type"] == "prometheus"]
        assert bool(others) == (
            not flows or any(not topics.is_persistent(flow.input.topic) for flow in flows)
        )
        for metadata in others:
            promql_parser.parse(metadata["query"])
            assert spec["minReplicaCount"] >= 1
            assert set(re.findall(r"trustgraph_prompt_\w+", metadata["query"])) == {
                "trustgraph_prompt_requests_in_work",
                "trustgraph_prompt_calls_waiting",
            }
        scale_down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
        grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert (
            min(scale_down["stabilizationWindowSeconds"], scale_down["policies"][0]["periodSeconds"]) >= grace
        )
        assert spec["cooldownPeriod"] >= (0 if name == "keda" else grace), place


def test_keda_scales_and_asks_prometheus_as_the_values_say() -> None:
    (found,) = of_kind("keda", "ScaledObject").values()
    assert found["spec"]["cooldownPeriod"] == 0

    for each in of_kind("keda where Pulsar keeps no backlog", "ScaledObject").values():
        trigger = each["spec"]["triggers"][-1]
        assert trigger["metadata"].items() >= {"authModes": "bearer", "unsafeSsl": "true"}.items()
        assert trigger["authenticationRef"] == {"name": "prometheus", "kind": "ClusterTriggerAuthentication"}
        # the series of requests in work begins with the first request
        assert re.match(
            r"\(sum\(\w+_requests_in_work\{.*?\}\) or vector\(0\)\) \+", trigger["metadata"]["query"]
        )


@every_values
def test_keda_uses_the_credentials_of_the_worker(name: str) -> None:
    known = of_kind(name, "TriggerAuthentication")

    for place, found in of_kind(name, "ScaledObject").items():
        container = of_kind(name, "Deployment")[place]["spec"]["template"]["spec"]
        secrets = {value for path, value in places(container["volumes"]) if path.endswith("/secretName")}
        for trigger in found["spec"]["triggers"]:
            if trigger["type"] == "pulsar" and "authenticationRef" in trigger:
                spec = known[trigger["authenticationRef"]["name"]]["spec"]
                parameters = {each["parameter"] for each in spec["secretTargetRef"]}
                assert {each["name"] for each in spec["secretTargetRef"]} <= secrets
                needed = {
                    "bearer": {"bearerToken"},
                    "tls": {"cert", "key"},
                    "oauth": {"clientID", "clientSecret"},
                }
                assert needed[trigger["metadata"]["authModes"]] <= parameters
                assert trigger["metadata"]["authModes"] != "oauth" or "configMapTargetRef" not in spec


def test_the_check_and_the_push_find_the_prompts(tmp_path: Path) -> None:
    maps = of_kind("prompts", "ConfigMap")
    own = maps["demo-trustgraph-prompt-prompts"]["data"]
    assert own == maps["demo-trustgraph-prompt-prompts-hooks"]["data"]
    for file, content in own.items():
        (tmp_path / file).write_text(content)
    assert files.load(tmp_path).keys() == {"template.question", "template.volcanoes"}

    jobs = of_kind("prompts", "Job")
    for job, suffix in (
        ("demo-trustgraph-prompt-check", "-hooks"),
        ("demo-trustgraph-prompt-prompt-push", ""),
    ):
        volumes = jobs[job]["spec"]["template"]["spec"]["volumes"]
        (projected,) = (volume["projected"]["sources"] for volume in volumes if "projected" in volume)
        names = [source["configMap"]["name"] for source in projected]
        assert names == [f"demo-trustgraph-prompt-prompts{suffix}", "more-prompts"]
    arguments = jobs["demo-trustgraph-prompt-prompt-push"]["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    assert arguments[3:] == ["--owner", "prompts/demo", "--workspace", "science", "--force"]


def test_a_broken_prompt_stops_the_release_and_the_check_says_where(tmp_path: Path) -> None:
    code, rendered, errors = render(
        HELM_4, {"prompts": {"entries": {"broken": "prompt broken:\n    text: {{"}}}
    )
    assert code == 0, errors
    found = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(rendered)}
    for volume, config_map in (("flows-prompt", "prompt-flows-hooks"), ("prompts", "prompts-hooks")):
        (tmp_path / volume).mkdir()
        for file, content in found["ConfigMap", f"demo-trustgraph-prompt-{config_map}"]["data"].items():
            (tmp_path / volume / file).write_text(content)
    job = found["Job", "demo-trustgraph-prompt-check"]["spec"]["template"]["spec"]["containers"][0]

    done = run(*(argument.replace("/etc/trustgraph-prompt", str(tmp_path)) for argument in job["args"]))

    assert done.returncode == 2
    assert f"{tmp_path}/prompts/broken.prompt:2:" in done.stderr


def variables(name: str) -> dict[str, Object]:
    """The variables of the only worker."""
    (deployment,) = of_kind(name, "Deployment").values()
    return {each["name"]: each for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}


def test_commands_in_a_pod_see_its_flows() -> None:
    assert variables("defaults")["TRUSTGRAPH_PROMPT_FLOWS"]["value"] == "/etc/trustgraph-prompt/flows"


def test_variables_of_ones_own_and_secrets_count_instead() -> None:
    found = variables("provider")

    assert found["TRUSTGRAPH_PROMPT_MODEL"]["value"] == "larger"
    assert found["TRUSTGRAPH_PROMPT_CACHE"]["valueFrom"] == {"secretKeyRef": {"name": "redis", "key": "url"}}


def test_traces_do_not_go_through_the_proxy() -> None:
    assert variables("provider")["NO_PROXY"]["value"].split(",")[-1] == "otel.observability"


def test_each_config_topic_is_pushed_to_once() -> None:
    jobs = [job for job in of_kind("prompts on two clusters", "Job") if job.endswith("-push")]

    assert jobs == ["demo-trustgraph-prompt-away-push", "demo-trustgraph-prompt-prompt-push"]
    for job in jobs:
        (container,) = of_kind("prompts on two clusters", "Job")[job]["spec"]["template"]["spec"][
            "containers"
        ]
        assert container["args"][3:5] == ["--owner", "team-a"]
    assert not [job for job in of_kind("prompts that nobody pushes", "Job") if job.endswith("-push")]


def test_a_release_without_prompts_pushes_nothing_which_deletes_what_it_had() -> None:
    push = of_kind("defaults", "Job")["demo-trustgraph-prompt-prompt-push"]

    assert {"name": "prompts", "emptyDir": {}} in push["spec"]["template"]["spec"]["volumes"]


async def helm_test(*arguments: str, **variables: str) -> tuple[int | None, str]:
    """Run what `helm test` runs; return its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        CHART / "files" / "helm_test.py",
        *arguments,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def test_the_round_trip_is_answered(place: tuple[Site, str]) -> None:
    site, space = place

    topic = f"non-persistent://{space}/request/helm-test"
    code, said = await helm_test("round-trip", topic, "60", TRUSTGRAPH_PROMPT_BROKER=site.url)

    assert code == 0, said
    assert "Hello, helm." in said


async def test_a_worker_is_asked_whether_it_is_ready(site: Site) -> None:
    flow = "name: f\ninput: {topic: flow:tg:in}\noutputs: {response: flow:tg:out}\n"
    site.serves(flow, {"template.a": entry("a")})
    site.answers()
    host, port = await (await site.run()).address()

    code, said = await helm_test("ready", f"http://{host}:{port}/readyz", "60")

    assert code == 0, said
    assert '"ready": true' in said


async def test_a_worker_that_is_not_there_is_reported() -> None:
    code, said = await helm_test("ready", "http://127.0.0.1:9/readyz", "0")

    assert code == 1
    assert "not ready within 0 s: http://127.0.0.1:9/readyz:" in said


def test_round_trips_use_namespaces_that_their_workers_have() -> None:
    topics = {
        pod["containers"][0]["args"][1]
        for name in ("every mode", "flows in a ConfigMap")
        for place, pod in pod_specs(name)
        if place.endswith("round-trip")
    }

    used = ("tg/flow", "tg/request", "other/request", "tg/config")
    assert topics == {f"non-persistent://{namespace}/helm-test" for namespace in used}
