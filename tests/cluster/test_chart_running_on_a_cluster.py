"""What controllers make of a release: hooks in order, rollouts, evictions, scaling down."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Final

import pytest

from tests.support.chart import Object
from tests.support.cluster import Cluster, Namespace, Release, eventually, run
from tests.support.kubernetes_tools import HELM_4, KUBECTL

_VALUES: Final[Object] = {
    "fullnameOverride": "demo",
    "worker": {"provider": {"baseUrl": "http://vllm:8000/v1", "model": "small"}},
    "workers": {"prompt": {}, "completion": {"mode": "complete"}},
    "prompts": {"entries": {"volcanoes": {"dialect": "jinja", "prompt": "Describe {{ thing }}."}}},
}
_BEFORE: Final = ["demo-check", "demo-completion-topics", "demo-prompt-topics"]
_AFTER: Final = ["demo-prompt-push"]

pytestmark = pytest.mark.usefixtures("running_pods")
_with_helm_4 = pytest.mark.parametrize("helm", [HELM_4], ids=["helm4"])


@pytest.fixture
def values() -> Object:
    """Two workers and a prompt."""
    return deepcopy(_VALUES)


def test_hooks_check_and_make_topics_before_the_workers_and_push_after_them(
    values: Object, release: Release, namespace: Namespace
) -> None:
    release.install(values)
    steps = _steps(namespace, 6)
    assert steps[:3] == _BEFORE
    assert sorted(steps[3:5]) == ["demo-completion", "demo-prompt"]
    assert steps[5:] == _AFTER


def test_a_prompt_changes_without_a_rollout(values: Object, release: Release, namespace: Namespace) -> None:
    """The hooks run, also after a rollback; no Deployment gets other Pods."""
    release.install(values)
    installed = _steps(namespace, 6)
    values["prompts"]["entries"]["volcanoes"]["prompt"] = "Name {{ thing }}."
    release.upgrade(values)
    release.rollback()
    assert _steps(namespace, 11) == [*installed, *_BEFORE, *_AFTER, *_AFTER]


def test_a_failing_hook_leaves_the_workers_as_they_were(
    values: Object, release: Release, namespace: Namespace
) -> None:
    """The hook fails because no node takes its Pod; the next upgrade finds nothing in its way."""
    release.install(values)
    deployments = namespace.items("deployments")
    nowhere = {"nodeSelector": {"example.com/nowhere": "yes"}, "drainTimeout": 40}
    wrong = {**values, "worker": {**values["worker"], **nowhere}, "hooks": {"activeDeadlineSeconds": 1}}
    assert "demo-check" in release.failing_upgrade(wrong)
    assert namespace.items("deployments") == deployments
    release.upgrade(values)


@_with_helm_4
def test_a_changed_flow_replaces_the_pods_of_its_worker_a_new_one_first(
    values: Object, release: Release, namespace: Namespace
) -> None:
    flow = {"input": {"topic": "flow:tg:chunks"}, "prompt": "p", "outputs": {"response": "flow:tg:answers"}}
    values["flows"] = {
        "questions": flow,
        "completions": {**flow, "input": {"topic": "flow:tg:completions", "kind": "text-completion"}},
    }
    release.install(values)
    values["flows"]["questions"] = {**flow, "concurrency": 3}
    release.upgrade(values)
    (completion,) = namespace.items("replicasets", "--selector=trustgraph-prompt/worker=completion")
    new_before_old = ["SuccessfulCreate", "SuccessfulCreate", "SuccessfulDelete"]

    def changes() -> list[str]:
        events = namespace.events("ReplicaSet SuccessfulCreate", "ReplicaSet SuccessfulDelete")
        return [what.split()[1] for what, name in events if name != completion["metadata"]["name"]]

    assert eventually(changes, accept=lambda seen: len(seen) >= 3) == new_before_old


@_with_helm_4
def test_an_eviction_beyond_the_disruption_budget_is_refused(
    values: Object, release: Release, namespace: Namespace
) -> None:
    values["workers"]["prompt"] = {"replicas": 2, "pdb": {"minAvailable": 2}}
    release.install(values)

    def healthy() -> list[int]:
        return [each["status"].get("currentHealthy", 0) for each in namespace.items("poddisruptionbudgets")]

    assert eventually(healthy, accept=lambda seen: seen == [1, 2]) == [1, 2]
    (first, _), (other,) = (_pods(namespace, worker) for worker in ("prompt", "completion"))
    assert "TooManyRequests" in _evict(first)
    assert _evict(other) == ""


@_with_helm_4
def test_scaling_down_leaves_replicas_on_different_nodes(
    values: Object, release: Release, namespace: Namespace, cluster: Cluster
) -> None:
    """Of three replicas on two nodes, one of the two goes that share a node."""
    if cluster.nodes < 2:
        pytest.skip("only one node takes Pods, two are needed")
    spread = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    values["workers"]["prompt"] = {"replicas": 3, "topologySpreadConstraints": [spread]}
    release.install(values)
    values["workers"]["prompt"]["replicas"] = 2
    release.upgrade(values)
    left = eventually(lambda: _pods(namespace, "prompt"), accept=lambda pods: len(pods) == 2)
    assert len({pod["spec"]["nodeName"] for pod in left}) == len(left) == 2


def _steps(namespace: Namespace, count: int) -> list[str]:
    """The Jobs that completed and the Deployments that were scaled, in order, once there are so many."""

    def names() -> list[str]:
        return [name for _, name in namespace.events("Job Completed", "Deployment ScalingReplicaSet")]

    return eventually(names, accept=lambda seen: len(seen) >= count)


def _pods(namespace: Namespace, worker: str) -> list[Object]:
    """The Pods of a worker, without those of its hooks and those that are ending."""
    selector = f"trustgraph-prompt/worker={worker},app.kubernetes.io/component=worker"
    pods = namespace.items("pods", f"--selector={selector}")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _evict(pod: Object) -> str:
    """What the server says against the eviction of a Pod."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    _, _, errors = run(KUBECTL, "create", "--raw", path, "--filename=-", given=json.dumps(eviction))
    return errors
