"""The values of the chart: values.yaml, schema and README say the same; wrong ones are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.support.chart import (
    README,
    VALUES,
    comments,
    described,
    places,
    render,
    schema,
    with_table,
)
from tests.support.command import run
from tests.support.kubernetes_tools import HELM_3, HELM_4

pytestmark = pytest.mark.xdist_group("chart")  # one process renders each once

WRITE = "python -m tests.support.chart"

WORKER = {"provider": {"baseUrl": "http://vllm", "model": "m"}}
VOLATILE = {"volatile": {"input": {"topic": "request:tg:in"}, "outputs": {"response": "response:tg:out"}}}
TEXTS = {
    "texts": {
        "input": {"topic": "flow:tg:in", "kind": "text-completion"},
        "outputs": {"response": "flow:tg:out"},
    }
}


def keda(**more: Any) -> dict[str, Any]:
    return {"worker": {"scaling": {"keda": {"enabled": True, **more}}}}


WRONG: dict[str, tuple[Mapping[str, Any], list[str]]] = {
    "an unknown key": ({"workerz": {}}, ["'workerz'"]),
    "an unknown key of a worker": ({"workers": {"prompt": {"replica": 2}}}, ["/workers/prompt", "'replica'"]),
    "an unknown key deep in a worker": (
        {"worker": {"pulsar": {"auth": {"token": "x"}}}},
        ["/worker/pulsar/auth", "'token'"],
    ),
    "a type": ({"worker": {"replicas": "two"}}, ["/worker/replicas", "want integer"]),
    "a name of a worker": ({"workers": {"Prompt_1": {}}}, ["invalid propertyName", "Prompt_1"]),
    "no worker": ({"workers": {"prompt": {"enabled": False}}}, ["workers: none is enabled"]),
    "a URL": ({"worker": {"pulsar": {"url": "http://pulsar"}}}, ["/worker/pulsar/url"]),
    "a digest": ({"image": {"digest": "latest"}}, ["/image/digest"]),
    "a flow without an output": (
        {"flows": {"f": {"input": {"topic": "flow:tg:in"}}}},
        ["/flows/f", "outputs"],
    ),
    "a topic": ({"flows": {"f": {"input": {"topic": "in"}, "outputs": {}}}}, ["/flows/f/input/topic"]),
    "a number in a trigger": (
        keda(extraTriggers=[{"type": "cron", "metadata": {"desiredReplicas": 2}}]),
        ["/worker/scaling/keda/extraTriggers/0/metadata/desiredReplicas", "want string"],
    ),
    "a mode": (
        {"workers": {"prompt": {"mode": "walk"}}},
        ["workers.prompt.mode", '"walk"', "complete-trustgraph, extract-trustgraph, run"],
    ),
    "both scalers": (
        {"worker": {"scaling": {"keda": {"enabled": True}, "hpa": {"enabled": True}}}},
        ["workers.prompt.scaling", "keda and hpa are both enabled", "enable one"],
    ),
    "more replicas at least than at most": (
        keda(minReplicaCount=11),
        ["keda.minReplicaCount", "found 11", "(10)"],
    ),
    "more replicas of an HPA at least than at most": (
        {"worker": {"scaling": {"hpa": {"enabled": True, "minReplicas": 11}}}},
        ["hpa.minReplicas", "found 11", "(10)"],
    ),
    "a grace period below the drain": (
        {"worker": {"drainTimeout": 50, "terminationGracePeriodSeconds": 60}},
        ["workers.prompt.terminationGracePeriodSeconds", "found 60", "at least 65"],
    ),
    "a grace period below drain and sleep": (
        {
            "worker": {
                "terminationGracePeriodSeconds": 50,
                "lifecycle": {"preStop": {"sleep": {"seconds": 10}}},
            }
        },
        ["workers.prompt.terminationGracePeriodSeconds", "found 50", "at least 55"],
    ),
    "a backlog that nobody keeps": (
        {**keda(), "flows": VOLATILE},
        ["keda.prometheus.serverAddress", 'the topic of flow "volatile" is not persistent'],
    ),
    "flows that TrustGraph has": (
        {**keda(), "workers": {"prompt": {"mode": "trustgraph"}}},
        ["keda.prometheus.serverAddress", "TrustGraph's config service has the flows"],
    ),
    "flows of a ConfigMap": (
        {**keda(), "workers": {"prompt": {"existingFlows": "mine"}}},
        ["keda.prometheus.serverAddress", "the chart does not know the flows of existingFlows"],
    ),
    "no replica for a topic that keeps no backlog": (
        {**keda(minReplicaCount=0, prometheus={"serverAddress": "http://prometheus"}), "flows": VOLATILE},
        ["keda.minReplicaCount", "found 0", "at least 1"],
    ),
    "no admin API to ask": (
        {"worker": {"pulsar": {"adminUrl": ""}, **keda()["worker"]}},
        ["keda", "pulsar.adminUrl"],
    ),
    "no token URL": (
        {
            "worker": {
                "pulsar": {
                    "auth": {"type": "oauth2", "existingSecret": "s", "oauth2": {"issuerUrl": "https://i"}}
                },
                **keda()["worker"],
            }
        },
        ["keda", "pulsar.auth.oauth2.tokenUrl"],
    ),
    "a flow that is not there": (
        {"workers": {"prompt": {"flows": ["lost"]}}},
        ["workers.prompt.flows", '"lost"', "chunks, default, requests"],
    ),
    "a flow of another kind": (
        {"workers": {"prompt": {"flows": ["default"]}}},
        ["workers.prompt.flows", '"default"', "text-completion, expected prompt-request or chunk"],
    ),
    "no flow of its kind": (
        {"flows": TEXTS},
        ["workers.prompt.flows", "mode run", "prompt-request or chunk"],
    ),
    "flows in TrustGraph's place": (
        {"workers": {"prompt": {"mode": "trustgraph", "flows": ["chunks"]}}},
        ["workers.prompt.flows", "no effect with mode trustgraph"],
    ),
    "no extractor to replace": (
        {"workers": {"prompt": {"mode": "extract-trustgraph"}}},
        ["workers.prompt.extractors", "needed with mode extract-trustgraph"],
    ),
    "an extractor that is not there": (
        {"workers": {"prompt": {"mode": "extract-trustgraph", "extractors": ["kg-extract-topics"]}}},
        ["/workers/prompt/extractors/0", "'kg-extract-topics'", "definitions|"],
    ),
    "extractors in another mode": (
        {"workers": {"prompt": {"mode": "trustgraph", "extractors": ["kg-extract-rows"]}}},
        ["workers.prompt.extractors", "no effect with mode trustgraph", "extract-trustgraph"],
    ),
    "topics beside those of no extractor": (
        {"workers": {"prompt": {"into": "trial"}}},
        ["workers.prompt.into", "no effect with mode run", "extract-trustgraph"],
    ),
    "a prefix that no topic can have": (
        {"workers": {"prompt": {"into": "tri/al"}}},
        ["/workers/prompt/into", "'tri/al'"],
    ),
    "flows in the place of extractors": (
        {
            "workers": {
                "prompt": {
                    "mode": "extract-trustgraph",
                    "extractors": ["kg-extract-rows"],
                    "existingFlows": "mine",
                }
            }
        },
        ["workers.prompt.flows", "no effect with mode extract-trustgraph"],
    ),
    "no secret": (
        {"worker": {"pulsar": {"auth": {"type": "token"}}}},
        ["workers.prompt.pulsar.auth.existingSecret"],
    ),
    "no issuer": (
        {"worker": {"pulsar": {"auth": {"type": "oauth2", "existingSecret": "s"}}}},
        ["workers.prompt.pulsar.auth.oauth2.issuerUrl"],
    ),
    "two sources of authorities": (
        {"worker": {"pulsar": {"tls": {"caSecret": "a", "caConfigMap": "b"}}}},
        ["workers.prompt.pulsar.tls", "caSecret and caConfigMap"],
    ),
    "prompts that nobody reads": (
        {"prompts": {"existingConfigMaps": ["mine"]}, "workers": {"prompt": {"mode": "trustgraph"}}},
        ["prompts: no worker of mode run"],
    ),
    "prompt files that are not there": (
        {"prompts": {"files": "prompts/*.prompt"}},
        ["prompts.files", '"prompts/*.prompt"'],
    ),
    "both monitors": (
        {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}},
        ["serviceMonitor.enabled", "podMonitor.enabled"],
    ),
    "a monitor without its service": (
        {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}},
        ["serviceMonitor.enabled", "service.enabled"],
    ),
    "an alert that does not exist": (
        {"prometheusRule": {"enabled": True, "disabledAlerts": ["PromptCost"]}},
        ["prometheusRule.disabledAlerts", "PromptCost,", "PromptCostHigh"],
    ),
    "credentials for Prometheus of no kind": (
        {
            **keda(prometheus={"serverAddress": "http://prometheus", "authenticationRef": {"name": "a"}}),
            "flows": VOLATILE,
        },
        ["keda.prometheus.authenticationRef", "prometheus.metadata.authModes"],
    ),
    "a partitioned flow that is not there": (
        keda(partitionedFlows=["lost"]),
        ["keda.partitionedFlows", '"lost"', "chunks, default, requests"],
    ),
    "a group without a value": ({"tests": None}, ["missing property 'tests'"]),
    "a key of a group without a value": ({"prompts": {"entries": None}}, ["/prompts", "'entries'"]),
    "a key of all workers without a value": ({"worker": {"replicas": None}}, ["/worker", "'replicas'"]),
    "a name that no service can have": ({"fullnameOverride": "9a"}, ["/fullnameOverride"]),
    "a long name": ({"fullnameOverride": "a" * 50}, ["workers.prompt", "fullnameOverride"]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_values_are_refused_by_name(wrong: str) -> None:
    values, words = WRONG[wrong]

    code, rendered, errors = render(HELM_4, values)

    assert code == 1, rendered
    assert [word for word in words if word not in errors] == [], errors


@pytest.mark.parametrize(
    "wrong", ["an unknown key", "a type", "both scalers", "no worker", "a group without a value"]
)
def test_helm_3_refuses_them_alike(wrong: str) -> None:
    values, words = WRONG[wrong]

    code, rendered, errors = render(HELM_3, values)

    assert code == 1, rendered
    assert [word for word in words if word not in errors] == [], errors


def test_every_value_has_a_comment_which_is_its_description() -> None:
    known = {path: part for path, part in described(schema()).items() if path not in ("global", "enabled")}

    assert {path: part["description"] for path, part in known.items()} == comments(), WRITE


def test_every_key_of_the_values_is_known_to_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(yaml.safe_load(VALUES.read_text()), schema())


def test_the_schema_is_closed() -> None:
    open_objects = {
        path
        for path, part in places(schema())
        if isinstance(part, dict) and "properties" in part and "flows" not in path
        if part.get("additionalProperties") is not False and not path.endswith("/items")
    }

    assert open_objects == set()


def test_the_readme_lists_the_values() -> None:
    readme = README.read_text()

    assert with_table(readme) == readme, WRITE


def test_the_readme_shows_values_that_work(tmp_path: Path) -> None:
    blocks = [
        yaml.safe_load(block.partition("\n```")[0]) for block in README.read_text().split("```yaml\n")[1:]
    ]

    assert len(blocks) > 5
    for number, values in enumerate(blocks):
        code, rendered, errors = render(HELM_4, values)
        assert code == 0, f"{values}\n{errors}"
        for found in yaml.safe_load_all(rendered):
            names_files = found["metadata"]["name"].endswith(("-flows", "-prompts"))
            if found["kind"] == "ConfigMap" and names_files and found["data"]:
                folder = tmp_path / str(number) / found["metadata"]["name"]
                folder.mkdir(parents=True)
                for file, content in found["data"].items():
                    (folder / file).write_text(content)
                assert (checked := run("check", folder)).returncode == 0, checked.stderr
