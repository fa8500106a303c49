"""The chart, rendered by the real helm, 3 and 4: what Kubernetes takes, complete, in order and restricted."""

from __future__ import annotations

import difflib
import json
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.chart import (
    CHART,
    GOLDEN,
    NAMESPACE,
    Object,
    helm,
    matrix,
    objects,
    of_kind,
    places,
    pod_specs,
    render,
    text,
)
from tests.support.kubernetes_tools import HELM_3, HELM_4
from trustgraph_prompt import __version__

pytestmark = pytest.mark.xdist_group("chart")  # one process renders each once

every_values = pytest.mark.parametrize("name", matrix())
OLDEST = 29
NEWEST = int(kubernetes_validate.latest_version().split(".")[1])
OURS = ("ScaledObject", "TriggerAuthentication", "PodMonitor", "ServiceMonitor", "PrometheusRule")


@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_every_object_is_one_of_kubernetes(minor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # it reads a megabyte of definitions for every object
    once = cache(kubernetes_validate.utils.schema_contents)
    monkeypatch.setattr(kubernetes_validate.utils, "schema_contents", once)
    different = {json.dumps(found): found for name in matrix() for found in objects(name)}

    for found in different.values():
        if found["kind"] not in OURS:
            kubernetes_validate.validate(found, f"1.{minor}", strict=True)


@every_values
def test_helm_3_and_4_render_the_same(name: str) -> None:
    def ordered(found: list[Object]) -> list[Object]:
        return sorted(found, key=lambda each: (each["kind"], each["metadata"]["name"]))

    assert ordered(objects(name, HELM_3)) == ordered(objects(name, HELM_4))


@pytest.mark.parametrize("name", GOLDEN)
def test_manifests_are_those_kept_as_reviewed(name: str) -> None:
    """After a change that is meant: `python -m tests.support.chart`, and read the difference."""
    expected, found = GOLDEN[name].read_text(), text(name)

    difference = difflib.unified_diff(
        expected.splitlines(), found.splitlines(), str(GOLDEN[name]), "rendered"
    )
    assert not (lines := list(difference)), "\n".join(lines)


@every_values
def test_manifests_have_no_nulls_and_no_duplicate_names(name: str) -> None:
    found = objects(name)

    assert all(found), "an empty document"
    assert not [path for path, value in places(found) if value is None]
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(names) == len(set(names))
    for path, value in places(found):
        if path.endswith(("/name", "/namespace", "/key", "/path", "/secretName")) or "/labels/" in path:
            assert isinstance(value, str), path
    for place, pod in pod_specs(name):
        variables = [variable["name"] for variable in pod["containers"][0].get("env", [])]
        assert len(variables) == len(set(variables)), place
    assert all(len(each) <= 63 for _, each in names)
    assert {each["metadata"].get("namespace", NAMESPACE) for each in found} == {NAMESPACE}


def named(value: Any) -> set[tuple[str, str]]:
    """The ConfigMaps, secrets and accounts that an object names."""
    found = set()
    for path, each in places(value):
        match path.rsplit("/", 2)[-2:], each:
            case (["configMap" | "configMapRef", "name"], str(config_map)):
                found.add(("ConfigMap", config_map))
            case ([_, "serviceAccountName"], str(account)):
                found.add(("ServiceAccount", account))
    return found


def hook(found: Object) -> set[str]:
    return set(filter(None, found["metadata"].get("annotations", {}).get("helm.sh/hook", "").split(",")))


@every_values
def test_objects_that_another_object_names_exist_when_it_needs_them(name: str) -> None:
    found = objects(name)
    there = {(each["kind"], each["metadata"]["name"]): each for each in found}
    given = yaml.safe_dump(matrix()[name])

    for each in found:
        for needed in named(each.get("spec", {})):
            if needed not in there:
                assert needed[1] in given or needed == ("ServiceAccount", "default"), needed
            elif hook(each) & {"pre-install", "pre-upgrade", "test"} and needed[0] == "ConfigMap":
                assert hook(each) == hook(there[needed])
                assert weight(there[needed]) < weight(each)
            elif not hook(each) or "post-install" in hook(each):
                assert not hook(there[needed])


def weight(found: Object) -> int:
    return int(found["metadata"]["annotations"]["helm.sh/hook-weight"])


@every_values
def test_hooks_check_and_create_before_and_push_afterwards(name: str) -> None:
    jobs = of_kind(name, "Job").values()

    order = [job["metadata"]["labels"]["app.kubernetes.io/component"] for job in sorted(jobs, key=weight)]
    assert [step for step in ("check", "topics", "push") if step in order] == list(dict.fromkeys(order))
    for job in jobs:
        step = job["metadata"]["labels"]["app.kubernetes.io/component"]
        after = {"post-install", "post-upgrade", "post-rollback"}
        assert hook(job) == (after if step == "push" else {"pre-install", "pre-upgrade"})
        policy = job["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation,hook-succeeded"
        said = job["metadata"]["annotations"]["helm.sh/hook-output-log-policy"]
        assert said == ("hook-succeeded,hook-failed" if step == "push" else "hook-failed")
        assert job["spec"]["activeDeadlineSeconds"] > 0
        assert job["spec"]["backoffLimit"] == (0 if step == "check" else 3)


@every_values
def test_every_pod_is_restricted(name: str) -> None:
    for place, pod in pod_specs(name):
        container = pod["containers"][0]
        user = {} if name == "on OpenShift" else {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **user,
        }, place
        assert pod["automountServiceAccountToken"] is False, place
        security = dict(container["securityContext"])
        assert security.pop("readOnlyRootFilesystem", None) is True or name == "on OpenShift", place
        assert security == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}, place
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"], place
        assert pod.get("activeDeadlineSeconds", 300) == 300, place
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
        assert name == "nothing optional" or "memory" in container["resources"]["limits"], place


@every_values
def test_services_budgets_and_monitors_select_the_pods_of_their_worker(name: str) -> None:
    deployments = of_kind(name, "Deployment").values()

    for kind in ("Service", "PodDisruptionBudget", "PodMonitor", "ServiceMonitor"):
        for place, found in of_kind(name, kind).items():
            selector = found["spec"]["selector"]
            labels = selector.get("matchLabels", selector)
            chosen = [
                each["metadata"]["name"]
                for each in (of_kind(name, "Service").values() if kind == "ServiceMonitor" else deployments)
                if labels.items() <= each["spec"].get("template", each)["metadata"]["labels"].items()
            ]
            everybody = [deployment["metadata"]["name"] for deployment in deployments]
            assert chosen == (everybody if kind.endswith("Monitor") else [place])


def test_the_pulsar_to_try_it_with_is_one_of_kubernetes() -> None:
    for found in yaml.safe_load_all((CHART.parent / "pulsar-standalone.yaml").read_text()):
        kubernetes_validate.validate(found, f"1.{OLDEST}", strict=True)


def test_labels_of_ones_own_do_not_replace_those_that_select() -> None:
    name = "labels of one's own"

    (deployment,) = of_kind(name, "Deployment").values()
    (monitor,) = of_kind(name, "PodMonitor").values()
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector["app.kubernetes.io/instance"] == "demo"
    assert (
        deployment["spec"]["template"]["metadata"]["labels"].items()
        >= {"team": "prompts", **selector}.items()
    )
    assert deployment["metadata"]["labels"]["helm.sh/chart"] == "trustgraph-prompt-0.1.0"
    assert monitor["metadata"]["labels"].items() >= {"release": "monitoring", "team": "graph"}.items()
    assert monitor["metadata"]["labels"]["app.kubernetes.io/name"] == "trustgraph-prompt"


@pytest.mark.parametrize("name", ["monitoring", "service monitor and a choice of alerts"])
def test_each_worker_of_each_release_is_a_job_of_its_own(name: str) -> None:
    (monitor,) = [*of_kind(name, "PodMonitor").values(), *of_kind(name, "ServiceMonitor").values()]
    (endpoint,) = monitor["spec"].get("podMetricsEndpoints", monitor["spec"].get("endpoints"))

    kind = monitor["kind"].removesuffix("Monitor").lower()
    assert endpoint["relabelings"] == [
        {
            "sourceLabels": [f"__meta_kubernetes_{kind}_label_trustgraph_prompt_worker"],
            "targetLabel": "job",
            "replacement": "demo-trustgraph-prompt-$1",
        }
    ]


def test_a_worker_without_replicas_is_not_asked_whether_it_is_ready() -> None:
    assert of_kind("nothing to do", "Pod").keys() == {"demo-trustgraph-prompt-prompt-round-trip"}
    assert len(of_kind("defaults", "Pod")) == len(of_kind("hpa", "Pod")) == 2


def test_a_rollout_always_has_a_consumer_and_time_to_drain() -> None:
    (deployment,) = of_kind("keda with more triggers", "Deployment").values()

    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 615
    (constraint,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert constraint["labelSelector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]
    assert constraint["matchLabelKeys"] == ["pod-template-hash"], "else the Pods that it replaces count"


def test_unready_replicas_do_not_keep_a_node_from_being_drained() -> None:
    (budget,) = of_kind("defaults", "PodDisruptionBudget").values()

    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://pulsar-proxy:80", "http://pulsar-proxy.prompts:80"),
        ("https://pulsar-proxy/", "https://pulsar-proxy.prompts"),
        ("http://pulsar-proxy.pulsar:80", "http://pulsar-proxy.pulsar:80"),
        ("http://10.0.0.1:8080", "http://10.0.0.1:8080"),
        ("http://[fd00::1]:8080", "http://[fd00::1]:8080"),
    ],
)
def test_keda_asks_the_service_of_the_namespace_of_the_release(url: str, asked: str) -> None:
    worker = {"pulsar": {"adminUrl": url}, "scaling": {"keda": {"enabled": True}}}
    _, manifests, _ = render(HELM_4, {"worker": worker})
    (scaled,) = (found for found in yaml.safe_load_all(manifests) if found["kind"] == "ScaledObject")

    assert {trigger["metadata"]["adminURL"] for trigger in scaled["spec"]["triggers"]} == {asked}


def test_release_without_prompts_has_their_config_map_for_a_rollback() -> None:
    config_map = of_kind("defaults", "ConfigMap")["demo-trustgraph-prompt-prompts"]

    assert not config_map["data"]
    assert "annotations" not in config_map["metadata"], "it is no hook"


def test_changed_flows_roll_their_workers_and_changed_prompts_roll_none() -> None:
    def checksums(name: str) -> list[str]:
        pods = [each["spec"]["template"] for each in of_kind(name, "Deployment").values()]
        return [pod["metadata"]["annotations"]["checksum/flows"] for pod in pods]

    questions, definitions = checksums("own flows")[::-1]
    assert questions != definitions
    assert checksums("defaults") == checksums("prompts") == checksums("keda")


def test_network_policy_allows_only_what_the_release_needs() -> None:
    policies = of_kind("everything", "NetworkPolicy")

    assert policies["tp"]["spec"] == policies["tp-hooks"]["spec"]
    assert hook(policies["tp-hooks"]) == {"pre-install", "pre-upgrade"}
    spec = policies["tp"]["spec"]
    dns, servers, release, extra = spec["egress"]
    assert {port["port"] for port in dns["ports"]} == {53}
    assert [port["port"] for port in servers["ports"]] == [4318, 6379, 6651, 8000, 8080, 8443]
    assert release["ports"] == [{"port": 8080}]
    assert extra == matrix()["everything"]["networkPolicy"]["extraEgress"][0]
    assert spec["ingress"][0]["from"][1:] == matrix()["everything"]["networkPolicy"]["metricsFrom"]
    (own,) = [
        policy for place, policy in of_kind("provider", "NetworkPolicy").items() if "hooks" not in place
    ]
    assert [port["port"] for port in own["spec"]["egress"][1]["ports"]] == [
        3128,
        4318,
        443,
        6379,
        6650,
        80,
        8080,
        8443,
    ]


def test_rules_and_dashboards_are_those_of_monitoring() -> None:
    monitoring = CHART.parents[1] / "monitoring"
    (rule,) = of_kind("monitoring", "PrometheusRule").values()

    files = [yaml.safe_load((monitoring / file).read_text()) for file in ("rules.yaml", "alerts.yaml")]
    assert rule["spec"]["groups"] == [group for file in files for group in file["groups"]]
    dashboards = {
        file: content
        for found in of_kind("monitoring", "ConfigMap").values()
        if found["metadata"]["labels"].get("grafana_dashboard") == "1"
        for file, content in found["data"].items()
    }
    assert {
        file.removeprefix("trustgraph-prompt-"): content.strip() for file, content in dashboards.items()
    } == {path.name: path.read_text().strip() for path in (monitoring / "dashboards").glob("*.json")}


def test_alerts_lead_to_the_runbook_and_can_be_left_out() -> None:
    (every,) = of_kind("monitoring", "PrometheusRule").values()
    (chosen,) = of_kind("service monitor and a choice of alerts", "PrometheusRule").values()

    def pages(rule: Object) -> dict[str, str]:
        rules = [each for group in rule["spec"]["groups"] for each in group["rules"] if "alert" in each]
        return {each["alert"]: each["annotations"]["runbook_url"] for each in rules}

    assert pages(chosen) == {
        alert: f"https://git.example/prompt/{page}"
        for alert, page in pages(every).items()
        if alert != "PromptCostHigh"
    }


def test_package_has_the_linked_files_and_no_others(tmp_path: Path) -> None:
    code, said, errors = helm(HELM_4, "package", CHART, "--destination", tmp_path)
    assert code == 0, said + errors
    (package,) = tmp_path.iterdir()
    assert package.name == "trustgraph-prompt-0.1.0.tgz"

    code, packed, errors = helm(HELM_4, "template", "x", package, "--namespace", NAMESPACE, values={})
    code, linked, errors = helm(HELM_4, "template", "x", CHART, "--namespace", NAMESPACE, values={})
    assert packed == linked
    assert package.stat().st_size < 200_000


@pytest.mark.parametrize("binary", [HELM_3, HELM_4], ids=lambda binary: binary.name)
def test_lint_finds_nothing(binary: Path) -> None:
    code, said, errors = helm(binary, "lint", "--strict", CHART, values=matrix()["everything"])

    assert code == 0, said + errors


@pytest.mark.parametrize("binary", [HELM_3, HELM_4], ids=lambda binary: binary.name)
def test_a_release_may_be_named_like_a_number(binary: Path) -> None:
    values = {"fullnameOverride": "prompt"}

    code, rendered, errors = helm(binary, "template", "2026", CHART, "--namespace", "456", values=values)

    assert code == 0, errors
    for found in yaml.safe_load_all(rendered):
        assert found["metadata"]["namespace"] == "456"
        assert found["metadata"]["labels"]["app.kubernetes.io/instance"] == "2026"


@pytest.mark.parametrize("release", ["9a", "my.rel"])
def test_a_release_that_no_service_can_be_named_after_is_refused(release: str) -> None:
    code, rendered, errors = helm(HELM_4, "template", release, CHART, values={})

    assert code == 1, rendered
    assert f'"{release}-trustgraph-prompt"' in errors
    assert "fullnameOverride" in errors


@pytest.mark.parametrize("binary", [HELM_3, HELM_4], ids=lambda binary: binary.name)
@pytest.mark.parametrize("enabled", [True, False])
def test_parent_chart_may_disable_it(binary: Path, enabled: bool, tmp_path: Path) -> None:
    dependency = {"name": CHART.name, "version": __version__, "condition": f"{CHART.name}.enabled"}
    parent = {"apiVersion": "v2", "name": "parent", "version": "1.0.0", "dependencies": [dependency]}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(parent))
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / CHART.name).symlink_to(CHART)

    values = {CHART.name: {"enabled": enabled}}
    code, rendered, errors = helm(binary, "template", "demo", tmp_path, values=values)

    assert code == 0, errors
    assert ("kind: Deployment" in rendered) == enabled


def test_version_of_the_chart_is_that_of_the_program() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_notes_say_what_was_started_and_what_is_missing() -> None:
    arguments = ("install", "demo", CHART, "--namespace", NAMESPACE, "--dry-run=client")

    code, said, errors = helm(HELM_4, *arguments, values=matrix()["keda"])
    assert code == 0, errors
    notes = said.partition("NOTES:")[2]
    assert "0 to 20 replicas, by KEDA" in notes
    assert "persistent://tg/flow/chunks, subscription prompt--default--chunks--request" in notes
    assert "helm test demo --namespace prompts" in notes
    assert "WARNING: it has no model to call" in notes
    assert "WARNING" not in helm(HELM_4, *arguments, values=matrix()["two workers"])[1]
