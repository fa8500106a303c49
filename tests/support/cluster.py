"""The cluster that KUBECONFIG names: what it can do, and kubectl and helm in a namespace of it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from tests.support.chart import Object
from tests.support.kubernetes_tools import KUBECTL

VALUES: Final = os.environ.get("CLUSTER_VALUES", "")
_SECONDS: Final = 60
_KWOK: Final = "kwok.x-k8s.io/node"
_OURS: Final = "trustgraph-prompt-test"
_NO_LOGS: Final = "ailed to stream pod logs"
_LEVELS: Final = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}

_Seen = TypeVar("_Seen")


def run(binary: Path, *arguments: object, given: str | None = None) -> tuple[int, str, str]:
    """Run a program with a text on its standard input; return its exit code, output and errors."""
    command = [str(binary), *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=2 * _SECONDS)
    return done.returncode, done.stdout, done.stderr


def quietly(binary: Path, *arguments: object, given: str | None = None) -> str:
    """The output of a program, which must succeed and say nothing on stderr: warnings come there.

    Helm may say that it cannot print the log of a hook: Pods of fake nodes have none.
    """
    code, output, errors = run(binary, *arguments, given=given)
    errors = "".join(line for line in errors.splitlines(keepends=True) if _NO_LOGS not in line)
    assert (code, errors) == (0, ""), f"{binary.name} {' '.join(map(str, arguments))}: {errors}"
    return output


def kubectl(*arguments: object, objects: Iterable[Object] | None = None) -> str:
    """The output of kubectl, which reads objects from its standard input if there are any."""
    if objects is None:
        return quietly(KUBECTL, *arguments)
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]})
    return quietly(KUBECTL, *arguments, "--filename=-", given=given)


def items(*arguments: object) -> list[Object]:
    """The objects that `kubectl get` finds."""
    found: list[Object] = json.loads(kubectl("get", *arguments, "--output=json"))["items"]
    return found


def eventually(look: Callable[[], _Seen], accept: Callable[[_Seen], object]) -> _Seen:
    """What is seen once it is acceptable, or when a minute has passed."""
    end = time.monotonic() + _SECONDS
    while not accept(seen := look()) and time.monotonic() < end:
        time.sleep(0.2)
    return seen


class Namespace:
    """A namespace that takes only Pods of the PodSecurity level `restricted`, and warns of others."""

    def __init__(self) -> None:
        self.name = f"{_OURS}-{uuid4().hex[:8]}"
        metadata = {"name": self.name, "labels": {_OURS: "", **_LEVELS}}
        kubectl("create", objects=[{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])

    def delete(self) -> None:
        kubectl("delete", "namespace", self.name, "--wait=false")

    def kubectl(self, *arguments: object, objects: Iterable[Object] | None = None) -> str:
        return kubectl("--namespace", self.name, *arguments, objects=objects)

    def items(self, *arguments: object) -> list[Object]:
        return items("--namespace", self.name, *arguments)

    def events(self, *wanted: str) -> list[tuple[str, str]]:
        """The events so far that are `KIND REASON`, with the names of their objects, in order."""
        found = sorted(self.items("events"), key=lambda event: int(event["metadata"]["resourceVersion"]))
        named = [
            (f"{event['involvedObject']['kind']} {event['reason']}", event["involvedObject"]["name"])
            for event in found
        ]
        return [(what, name) for what, name in named if what in wanted]


@dataclass(frozen=True)
class Cluster:
    """What a cluster can do."""

    kinds: frozenset[tuple[str, str]]
    """The API versions and kinds that its server knows."""
    controllers: bool
    """Whether Deployments get Pods."""
    nodes: int
    """How many take Pods."""
    fake: bool
    """Whether these only look as if Pods ran: kwok's."""

    def lacks(self) -> str:
        """What is missing for Pods that become ready and Jobs that complete; empty if nothing is."""
        if not self.controllers:
            return "no controllers: a new namespace got no ServiceAccount `default`"
        if not self.nodes:
            return "no node takes Pods, and no kwok makes a fake one ready"
        if not self.fake and not VALUES:
            return "nodes are real: CLUSTER_VALUES must name a values file with an image and a Pulsar"
        return ""

    def unknown(self, objects: Iterable[Object]) -> set[str]:
        """The kinds that need a CRD which is missing."""
        return {each["kind"] for each in objects if (each["apiVersion"], each["kind"]) not in self.kinds}


def look_at(namespace: Namespace) -> Cluster:
    """Find out what the cluster of a new namespace can do; without controllers, make what they would."""
    lines = [line.split() for line in kubectl("api-resources", "--no-headers").splitlines()]
    code, *_ = run(
        KUBECTL, "wait", "--for=create", "serviceaccount/default", "--timeout=10s", "-n", namespace.name
    )
    if code:
        namespace.kubectl("create", "serviceaccount", "default")
    nodes = [node for node in items("nodes") if _takes_pods(node)]
    return Cluster(
        kinds=frozenset((line[-3], line[-1]) for line in lines),
        controllers=not code,
        nodes=len(nodes),
        fake=bool(nodes) and all(_KWOK in node["metadata"].get("annotations", {}) for node in nodes),
    )


def add_fake_nodes() -> list[str]:
    """Add two nodes, which kwok makes ready, if there are none; return the names of those that are now."""
    if items("nodes"):
        return []
    names = [f"{_OURS}-{uuid4().hex[:8]}" for _ in range(2)]
    kubectl("create", objects=[_fake_node(name) for name in names])
    code, *_ = run(KUBECTL, "wait", "--for=condition=Ready", "nodes", *names, "--timeout=10s")
    if code:
        kubectl("delete", "nodes", *names)
        return []
    return names


def remove_fake_nodes(names: list[str]) -> None:
    """Once the namespaces are gone: who else would end the Pods?"""
    run(KUBECTL, "wait", "--for=delete", "namespaces", f"--selector={_OURS}", f"--timeout={_SECONDS}s")
    kubectl("delete", "nodes", *names)


def _fake_node(name: str) -> Object:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64"}
    capacity = {"cpu": "32", "memory": "256Gi", "pods": "1000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {_KWOK: "fake"}},
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def _takes_pods(node: Object) -> bool:
    ready = any(
        each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", [])
    )
    return ready and not any(
        taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints", [])
    )


class Release:
    """A release of the packaged chart."""

    name = "demo"

    def __init__(self, helm: Path, chart: Path, namespace: Namespace, *options: str, more: str = "") -> None:
        """`options` are those of every step, `more` a file with further values."""
        self._helm, self._chart = helm, chart
        self._options = ("--namespace", namespace.name, *options)
        self._values = ("--values=-", f"--values={more}") if more else ("--values=-",)

    def install(self, values: Object) -> None:
        quietly(self._helm, *self._with_values("install"), given=json.dumps(values))

    def upgrade(self, values: Object) -> None:
        quietly(self._helm, *self._with_values("upgrade", "--reset-values"), given=json.dumps(values))

    def failing_upgrade(self, values: Object) -> str:
        """The errors of an upgrade that must fail."""
        code, _, errors = run(self._helm, *self._with_values("upgrade"), given=json.dumps(values))
        assert code != 0
        return errors

    def rollback(self) -> None:
        quietly(self._helm, "rollback", self.name, *self._options)

    def uninstall(self) -> None:
        quietly(self._helm, "uninstall", self.name, *self._options)

    def _with_values(self, *step: str) -> tuple[object, ...]:
        return (*step, self.name, self._chart, *self._values, *self._options)
