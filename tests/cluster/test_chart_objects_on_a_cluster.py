"""The server takes every object of the chart, and helm installs, changes and removes them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from tests.support.chart import Object, matrix
from tests.support.chart import helm as run_helm
from tests.support.cluster import Cluster, Namespace, Release, eventually
from tests.support.kubernetes_tools import HELM_4


@pytest.mark.parametrize("name", matrix())
def test_every_object_is_valid(name: str, chart: Path, cluster: Cluster, shared_namespace: Namespace) -> None:
    objects = _objects(name, chart, shared_namespace)
    accounts = [each for each in objects if each["kind"] == "ServiceAccount"]
    if accounts:  # no Pod is valid before its account exists
        shared_namespace.kubectl("apply", "--server-side", "--force-conflicts", objects=accounts)
    missing = cluster.unknown(objects)
    others = [each for each in objects if each["kind"] not in {"ServiceAccount", *missing}]
    for server_side in ("false", "true"):
        applied = ("apply", "--dry-run=server", f"--server-side={server_side}")
        shared_namespace.kubectl(*applied, objects=[*others, *_pods(others)])
    if missing:
        pytest.skip(f"all other objects are valid; no CRDs for {', '.join(sorted(missing))}")


@pytest.mark.parametrize(
    ("first", "second"),
    [("defaults", "every mode"), ("two workers", "everything"), ("everything", "defaults")],
)
def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(
    first: str, second: str, helm: Path, chart: Path, cluster: Cluster, namespace: Namespace
) -> None:
    """Its hooks run where Pods are fake: real ones would want the secrets that these values name."""
    objects = [*_objects(first, chart, namespace), *_objects(second, chart, namespace)]
    if missing := cluster.unknown(objects):
        pytest.skip(f"no CRDs for {', '.join(sorted(missing))}")
    kinds = ",".join(sorted({each["kind"] for each in objects} - {"Pod"}))
    options = ("--wait", "--timeout=60s") if cluster.fake else ("--no-hooks",)
    release = Release(helm, chart, namespace, *options)

    def deployed() -> dict[str, object]:
        return {
            f"{each['kind']} {each['metadata']['name']}": each.get("spec") or each.get("data")
            for each in namespace.items(kinds, f"--selector=app.kubernetes.io/instance={release.name}")
        }

    release.install(_values(first))
    installed = deployed()
    release.upgrade(_values(second))
    assert deployed() != installed
    release.rollback()
    assert deployed() == installed
    release.uninstall()
    assert not eventually(deployed, accept=lambda left: not left)
    assert not namespace.events("ReplicaSet FailedCreate", "Job FailedCreate"), "Pods were refused"


def _values(name: str) -> Object:
    """Those of the matrix, without a priority class: these belong to the whole cluster."""
    values = deepcopy(matrix()[name])
    values.get("worker", {}).pop("priorityClassName", None)
    return values


def _objects(name: str, chart: Path, namespace: Namespace) -> list[Object]:
    code, manifests, errors = run_helm(
        HELM_4, "template", "demo", chart, "--namespace", namespace.name, values=_values(name)
    )
    assert (code, errors) == (0, "")
    return list(yaml.safe_load_all(manifests))


def _pods(objects: list[Object]) -> Iterator[Object]:
    """A Pod of each template: PodSecurity refuses these, and only warns of a Deployment or a Job."""
    for each in objects:
        if template := each.get("spec", {}).get("template"):
            name = f"{each['kind']}-{each['metadata']['name']}".lower()
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                **template,
                "metadata": {**template["metadata"], "name": name},
            }
