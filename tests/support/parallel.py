"""Pytest plugin: what the processes of a test run share, whether it is one process or several (`-n`).

One Pulsar: the controller of the run starts it in the background while the first tests run, and makes tenants
ahead of the tests that take them. And the machine: a test with the mark `alone` has it to itself.
"""

from __future__ import annotations

import fcntl
import json
import pickle
import shutil
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from _pytest.outcomes import OutcomeException
from _pytest.pathlib import import_path
from xdist.scheduler import LoadScheduling  # type: ignore[import-untyped]

from tests.support import pulsar_server
from tests.support.pulsar_server import PulsarServer, Unavailable
from tests.support.requirements import unavailable


class SharedPulsar:
    """The broker of the run, as each of its processes sees it: through a folder."""

    def __init__(self, folder: Path) -> None:
        self._found = folder / "pulsar.json"
        self._spaces = folder / "spaces"
        self._spaces.mkdir(exist_ok=True)

    def tell(self, **found: str | None) -> None:
        """Where the broker is, or why there is none."""
        draft = self._found.with_suffix(".draft")
        draft.write_text(json.dumps(found))
        draft.rename(self._found)

    @property
    def told(self) -> bool:
        return self._found.exists()

    def wait(self) -> None:
        while not self.told:
            time.sleep(0.05)

    def server(self) -> PulsarServer:
        self.wait()
        found = json.loads(self._found.read_text())
        if "unavailable" in found:
            unavailable(f"no Pulsar: {found['unavailable']}")
        if "failed" in found:
            pytest.fail(f"no Pulsar: {found['failed']}", pytrace=False)
        directory = None if found["directory"] is None else Path(found["directory"])
        return PulsarServer(found["url"], found["admin_url"], directory=directory)

    def make_space(self, server: PulsarServer) -> None:
        """A tenant that some test will take."""
        server.create_space(tenant := f"test-{uuid4().hex[:12]}")
        (self._spaces / tenant).touch()

    def take_space(self) -> str:
        """A tenant that nobody has seen, with TrustGraph's namespaces and `config`."""
        while True:
            for space in self._spaces.iterdir():
                with suppress(FileNotFoundError):  # else another process was faster
                    space.unlink()
                    return space.name
            self.make_space(self.server())


class _Starting:
    """The server on its way, in the controller; then the making of tenants."""

    def __init__(self, shared: SharedPulsar, spaces: int) -> None:
        self._shared, self._space_count = shared, spaces
        self._server: PulsarServer | None = None
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulsar", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._cancelled.set()
        self._thread.join()
        if self._server is not None:
            self._server.end()

    def _run(self) -> None:
        try:
            self._server = pulsar_server.find(self._cancelled)
        except Unavailable as reason:
            self._shared.tell(unavailable=str(reason))
            return
        except Exception as failure:
            self._shared.tell(failed=repr(failure))
            return
        found = self._server
        directory = None if found.directory is None else str(found.directory)
        self._shared.tell(url=found.url, admin_url=found.admin_url, directory=directory)
        with suppress(OSError, RuntimeError):  # a test that finds no tenant makes one, and meets the error
            for _ in range(self._space_count):
                if self._cancelled.is_set():
                    break
                self._shared.make_space(self._server)


class _InOrder(LoadScheduling):  # type: ignore[misc]
    """Gives each worker the next test, or all of them that are of one group (`xdist_group`).

    A worker has the two tests at hand that xdist needs, and no more: tests that queue behind a long one would
    keep the whole run waiting. Every other worker turns to the tests that need Pulsar as soon as it is there:
    these wait more than they compute.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.maxschedchunk = self.config.getoption("maxschedchunk") or 1

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        if node.shutting_down:
            return
        if not self.pending:
            node.shutdown()
        elif (lacking := 2 - len(self.node2pending[node])) > 0:
            self._send_tests(node, max(lacking, self.maxschedchunk))

    def _send_tests(self, node: object, count: int) -> None:
        first, end = self._open_to(node)
        last = min(first + count, end)
        while first < last < end and self._continues_a_group(last):
            last += 1
        self.pending[:last] = self.pending[first:last] + self.pending[:first]
        super()._send_tests(node, last - first)

    def _continues_a_group(self, place: int) -> bool:
        """Whether the test at this place of `pending` is of the same group as the one before it."""
        groups = self.config.stash[_COLLECTED].groups
        group = groups.get(self.pending[place])
        return group is not None and group == groups.get(self.pending[place - 1])

    def _open_to(self, node: object) -> tuple[int, int]:
        """From where to where in `pending` are the tests of which the worker gets the next."""
        if self.nodes.index(node) % 2 and self.config.stash[_PULSAR].told:
            of_pulsar = self.config.stash[_COLLECTED].of_pulsar
            first, end = (bisect_left(self.pending, place) for place in of_pulsar)
            if end - first + len(self.node2pending[node]) >= 2:  # xdist starts one once it has the next
                return first, end
        return 0, len(self.pending)


@dataclass
class _Collected:
    """What only the processes know that collect the tests, and the controller needs."""

    pulsar: bool
    """Whether any test needs it."""
    of_pulsar: tuple[int, int]
    """From where to where are those that need it, but not the machine to themselves."""
    spaces: int
    """How many want a tenant of their own."""
    groups: dict[int, str]
    """By the place of the test."""

    @classmethod
    def of(cls, items: list[pytest.Item]) -> _Collected:
        needing = [item for item in items if _has(item, "pulsar")]
        shared = [item for item in items if not _has(item, "alone")]
        marks = enumerate(item.get_closest_marker("xdist_group") for item in items)
        return cls(
            pulsar=bool(needing),
            of_pulsar=(sum(not _has(item, "pulsar") for item in shared), len(shared)),
            spaces=sum(not {"space", "pulsar_space"}.isdisjoint(_fixtures(item)) for item in needing),
            groups={place: mark.args[0] for place, mark in marks if mark},
        )


_FOLDER: Final = pytest.StashKey[Path]()
_PULSAR: Final = pytest.StashKey[SharedPulsar]()
_COLLECTED: Final = pytest.StashKey[_Collected]()
_STARTING: Final = pytest.StashKey[_Starting]()


def shared_pulsar(config: pytest.Config) -> SharedPulsar:
    return config.stash[_PULSAR]


def pytest_configure(config: pytest.Config) -> None:
    """The controller, or the only process there is, makes the folder."""
    given = _workerinput(config).get("folder")
    config.stash[_FOLDER] = folder = Path(given or tempfile.mkdtemp(prefix="test-run-"))
    config.stash[_PULSAR] = SharedPulsar(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _STARTING in config.stash:
        config.stash[_STARTING].end()
    if not _workerinput(config):
        shutil.rmtree(config.stash[_FOLDER])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["folder"] = str(node.config.stash[_FOLDER])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _InOrder:
    return _InOrder(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each process begins with other modules: what one of them has compiled, the others only read."""
    config, given = session.config, _workerinput(session.config)
    if "workerid" not in given:
        return
    paths = sorted(path for folder in config.args for path in Path(folder).rglob("test_*.py"))
    first = int(given["workerid"].removeprefix("gw")) * len(paths) // int(given["workercount"])
    for path in paths[first:] + paths[:first]:
        with suppress(Exception, OutcomeException):  # pytest itself imports it again, and reports why not
            import_path(path, mode="importlib", root=config.rootpath, consider_namespace_packages=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that need Pulsar come late, for it takes a while to start; those that want to be alone last.

    Otherwise groups come first, then the folders of which the tests are longest and wait most: at the end
    all processes are at work on short ones.
    """
    items.sort(key=_turn_of)


def _turn_of(item: pytest.Item) -> tuple[bool, bool, bool, list[bool], str]:
    group = item.get_closest_marker("xdist_group")
    return (
        _has(item, "alone"),
        _has(item, "pulsar"),
        group is None,
        [folder not in item.path.parts for folder in ("system", "contract")],
        "" if group is None else str(group.args[0]),
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    config, collected = session.config, _Collected.of(session.items)
    if worker := _workerinput(config).get("workerid"):
        (config.stash[_FOLDER] / worker).write_bytes(pickle.dumps(collected))
    elif not config.option.collectonly:
        _begin(config, collected)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    if _COLLECTED not in node.config.stash:
        _begin(node.config, pickle.loads((node.config.stash[_FOLDER] / node.gateway.id).read_bytes()))


def _begin(config: pytest.Config, collected: _Collected) -> None:
    config.stash[_COLLECTED] = collected
    if collected.pulsar:
        config.stash[_STARTING] = _Starting(config.stash[_PULSAR], collected.spaces)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Wait here, where no test's time-out is running yet: the broker may have to be fetched."""
    if _has(item, "pulsar"):
        item.config.stash[_PULSAR].wait()
    with _turn(item.config.stash[_FOLDER], alone=_has(item, "alone")):
        return (yield)


@contextmanager
def _turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """While one process has its turn alone, no other has one; the end of a process ends its turn."""
    with (folder / "turn").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def _workerinput(config: pytest.Config) -> dict[str, str]:
    return getattr(config, "workerinput", {})


def _has(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])
