"""What the tests on a cluster need: its ways in, and a namespace."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cluster as clusters
from tests.support.chart import CHART
from tests.support.cluster import Cluster, Namespace, Release, look_at, run
from tests.support.kubernetes_tools import HELM_3, HELM_4, KUBECTL

_FAKE_NODES = pytest.StashKey[list[str]]()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """The controller of the run finds the cluster, and adds nodes if it has none."""
    if hasattr(config, "workerinput"):
        return
    if "KUBECONFIG" not in os.environ:
        raise pytest.UsageError("these tests need a cluster: set KUBECONFIG to its kubeconfig file")
    code, kubeconfig, errors = run(KUBECTL, "config", "view", "--raw", "--flatten")
    if code == 0:
        code, _, errors = run(KUBECTL, "get", "--raw", "/readyz")
    if code:
        raise pytest.UsageError(f"KUBECONFIG={os.environ['KUBECONFIG']}: {errors}")
    # Helm warns of a file that others may read, so it gets a copy.
    with tempfile.NamedTemporaryFile("w", prefix="kubeconfig-", delete=False) as copy:
        copy.write(kubeconfig)
    os.environ["KUBECONFIG"] = copy.name
    config.stash[_FAKE_NODES] = clusters.add_fake_nodes()


def pytest_unconfigure(config: pytest.Config) -> None:
    if names := config.stash.get(_FAKE_NODES, []):
        clusters.remove_fake_nodes(names)
    if _FAKE_NODES in config.stash:
        Path(os.environ["KUBECONFIG"]).unlink()


@pytest.fixture(scope="session")
def shared_namespace() -> Iterator[Namespace]:
    """One for all tests of this process that leave nothing in it but accounts."""
    namespace = Namespace()
    yield namespace
    namespace.delete()


@pytest.fixture(scope="session")
def cluster(shared_namespace: Namespace) -> Cluster:
    """What the cluster can do."""
    return look_at(shared_namespace)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """One of the test's own."""
    namespace = Namespace()
    yield namespace
    namespace.delete()


@pytest.fixture(params=[HELM_3, HELM_4], ids=lambda binary: str(binary.name))
def helm(request: pytest.FixtureRequest) -> Path:
    """Either helm."""
    binary: Path = request.param
    return binary


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart as it is handed out: a file without symbolic links, of which helm tells."""
    folder = tmp_path_factory.mktemp("chart")
    run(HELM_4, "package", CHART, "--destination", folder)
    (package,) = folder.iterdir()
    return package


@pytest.fixture
def running_pods(cluster: Cluster) -> None:
    """Skips the test where no Pod becomes ready and no Job completes."""
    if reason := cluster.lacks():
        pytest.skip(reason)


@pytest.fixture
def release(helm: Path, chart: Path, namespace: Namespace) -> Release:
    """A release whose hooks run, and whose Pods become ready."""
    return Release(helm, chart, namespace, "--wait", "--timeout=60s", more=clusters.VALUES)
