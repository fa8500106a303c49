"""A real Pulsar for the tests: the one `PULSAR_URL` names, or our own from Docker, or from Java and Maven.

A server of our own lives as long as a pipe to this process is open, so it cannot be left behind, whatever
ends the test run.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import IO, Final

VERSION: Final = "4.0.6"
_IMAGE: Final = f"apachepulsar/pulsar:{VERSION}"
_ARTIFACT: Final = f"org.apache.pulsar:pulsar-server-distribution:{VERSION}:tar.gz:bin"
_SHA512: Final = (
    "ac174f604e94473215e07024d05853dbf24bf1520ec222c8bb0d87707a5f1267"
    "49df7d5733e06a2423456421489ed371e122f4f5a7793a5146a5a1b47f437e90"
)

#: A server lives for a few minutes, on cores that the tests need: what the second compiler and a concurrent
#: collector of garbage do beside it never pays. So a start takes half the CPU.
_JAVA: Final = {
    "PULSAR_MEM": "-Xms128m -Xmx640m -XX:MaxDirectMemorySize=512m",
    "PULSAR_GC": "-XX:+UseSerialGC",
    "PULSAR_GC_LOG": "-Xlog:gc:stdout:time",  # a pause stands where it can be seen what it held up
    "PULSAR_EXTRA_OPTS": "-XX:TieredStopAtLevel=1 -Dpulsar.allocator.exit_on_oom=true",
}
_START_SECONDS: Final = 300.0
_DOWNLOAD_SECONDS: Final = 1200.0
_KILL_SECONDS: Final = 30.0
_LOG: Final = "console.log"
_LOST_REGISTRATION: Final = "Lock on resource /ledgers/available/"
_MANY_LOSSES: Final = 10
_BROKER_STARTS: Final = "Starting Pulsar Broker service"
_TROUBLE: Final = re.compile(r" (WARN|ERROR) |Exception|Pause .* \d{4,}\.\d+ms")
_LINES_OF_TROUBLE: Final = 40

#: Runs a command until standard input ends, that is until the tests do, and takes its files away. A line is
#: an order: `kill` it and all its children without warning, `start` it again over what it has left behind,
#: `freeze` it, `thaw` it.
_TETHER: Final = """
set -m  # each start is a process group
start() { "$@" < /dev/null & child=$!; }
kill_it() { kill -9 -- -$child; wait $child; }
start "$@"
while read -r order; do
    case $order in
        kill) kill_it ;;
        start) start "$@" ;;
        freeze) kill -STOP -- -$child ;;
        thaw) kill -CONT -- -$child ;;
    esac
done
kill_it
rm -rf "$TETHERED_FILES"
"""


class Unavailable(Exception):
    """No broker can be had here; says why, and how to get one."""


@dataclass(frozen=True)
class PulsarServer:
    """A broker that answers: its service URL, its admin URL, and how to end it where it is ours."""

    url: str
    admin_url: str
    process: subprocess.Popen[bytes] | None = None
    directory: Path | None = None
    token: str = field(default="", repr=False)

    def put(self, path: str, body: object = None) -> None:
        """Have the admin interface make something, e.g. a namespace; what is there already stays as it is."""
        _put(f"{self.admin_url}/admin/v2/{path}", body, self.token)

    def create_space(self, tenant: str) -> None:
        """A tenant with the namespaces of TrustGraph's classes, and `config`.

        What is published under `flow` stays: a test reads it later, and subscribes to none of it before.
        """
        self.put(f"tenants/{tenant}", {"allowedClusters": self.clusters()})
        for namespace in ("request", "response", "notify", "config"):
            self.put(f"namespaces/{tenant}/{namespace}", {})
        for_good = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        self.put(f"namespaces/{tenant}/flow", {"retention_policies": for_good})

    def kill(self) -> None:
        """SIGKILL to a server of our own, as a machine that fails would; returns when nobody listens."""
        self._order("kill")
        address = urllib.parse.urlsplit(self.url)
        _wait_until(
            lambda: not _listens(str(address.hostname), address.port or 0),
            f"the broker at {self.url} was killed and still listens",
        )

    def start_again(self) -> None:
        """After `kill`: the same ports, and what was on the disk; returns when it is healthy.

        Pulsar may find the registration of its killed bookie, delete it, take the notice of that for the loss
        of its new one, and delete and renew that for ever. Then it is killed and started once more.
        """
        assert self.directory is not None
        with (self.directory / _LOG).open(errors="replace") as log:
            log.seek(0, os.SEEK_END)
            self._order("start")
            while _fights_over_its_registration(log):
                self.kill()
                self._order("start")
        _see_it_healthy(self, threading.Event())

    def freeze(self) -> None:
        """SIGSTOP to a server of our own: it takes nothing in and says nothing until `thaw`.

        Returns when it has stopped; one in a container does so soon after.
        """
        self._order("freeze")
        _wait_until(self._has_stopped, f"the broker at {self.url} was told to stop and still runs")

    def thaw(self) -> None:
        """After `freeze`: it goes on."""
        self._order("thaw")

    def _has_stopped(self) -> bool:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        states = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in children]
        return all(state == "T" for state in states)

    def _order(self, order: str) -> None:
        if self.process is None or self.process.stdin is None:
            raise RuntimeError(f"the broker at {self.url} is not ours")
        self.process.stdin.write(f"{order}\n".encode())
        self.process.stdin.flush()

    def end(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait(30)
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def trouble(self) -> str:
        """What the log of a server of our own has complained of last, and where a copy of all of it lies."""
        if self.directory is None:
            return "its log is not ours"
        copy = Path(tempfile.gettempdir()) / f"pulsar-{urllib.parse.urlsplit(self.url).port}.log"
        shutil.copy(self.directory / _LOG, copy)
        lines = copy.read_text(errors="replace").splitlines()
        found = [line[:500] for line in lines if _TROUBLE.search(line)]
        return "\n".join([*found[-_LINES_OF_TROUBLE:], f"all of its log: {copy}"])

    def clusters(self) -> list[str]:
        """The clusters that tenants may use; none at first, even of a broker that is healthy."""
        clusters = _request(f"{self.admin_url}/admin/v2/clusters", self.token)
        with urllib.request.urlopen(clusters, timeout=30) as response:
            return [name for name in json.load(response) if name != "global"]


def find(cancelled: threading.Event) -> PulsarServer:
    """The broker to test with, answering, in about ten seconds. Raises `Unavailable`, also when cancelled."""
    if url := os.environ.get("PULSAR_URL"):
        host = urllib.parse.urlsplit(url).hostname
        admin_url = os.environ.get("PULSAR_ADMIN_URL", f"http://{host}:8080").rstrip("/")
        return _wait_for(PulsarServer(url, admin_url), cancelled)
    return start(cancelled)


def start(cancelled: threading.Event) -> PulsarServer:
    """A broker of our own, answering. Raises `Unavailable`, also when cancelled."""
    if _succeeds("docker", "info"):
        return _wait_for(_in_docker(), cancelled)
    missing = _missing_for_java()
    if missing:
        raise Unavailable(
            f"no PULSAR_URL, no running Docker, {missing}. "
            "Start one of these, or install Java 17 or newer and Maven, to test against a real broker"
        )
    return _wait_for(_with_java(), cancelled)


def start_configured(settings: Mapping[str, object], token: str = "") -> PulsarServer:
    """A broker of our own with more settings; `token` opens its admin interface. Raises `Unavailable`."""
    if missing := _missing_for_java():
        raise Unavailable(missing)
    return _wait_for(replace(_with_java(settings), token=token), threading.Event())


def _in_docker() -> PulsarServer:
    broker, web = free_ports(2)
    settings = {"brokerServicePort": broker, "webServicePort": web, **_JAVA}
    start = (
        "bin/apply-config-from-env.py conf/standalone.conf && "
        "exec bin/pulsar standalone -nfw -nss --advertised-address 127.0.0.1"
    )
    command = ["docker", "run", "--rm", "--init", "--interactive"]
    for port in (broker, web):
        command += ["--publish", f"127.0.0.1:{port}:{port}"]
    for name, setting in settings.items():
        command += ["--env", f"{name}={setting}"]
    # The tether is inside, so that the container ends with its standard input.
    command += [_IMAGE, "bash", "-c", _TETHER, "tether", "bash", "-c", start]
    return _start(command, broker, web, tethered=True)


def _with_java(more: Mapping[str, object] | None = None) -> PulsarServer:
    home = _distribution()
    broker, web, bookie = free_ports(3)
    directory = Path(tempfile.mkdtemp(prefix="pulsar-"))
    settings = {
        "brokerServicePort": broker,
        "webServicePort": web,
        "bindAddress": "127.0.0.1",
        "brokerDeleteInactiveTopicsEnabled": "false",
        "brokerShutdownTimeoutMs": 1000,
        "managedLedgerCacheSizeMB": 32,
        "numIOThreads": 2,
        "numHttpServerThreads": 4,
        "bookkeeperNumberOfChannelsPerBookie": 1,
        "dbStorage_writeCacheMaxSizeMb": 32,
        "dbStorage_readAheadCacheMaxSizeMb": 32,
        **(more or {}),
    }
    conf = directory / "standalone.conf"
    conf.write_text(_configured((home / "conf/standalone.conf").read_text(), settings))
    command = [str(home / "bin/pulsar"), "standalone", "--no-functions-worker", "--no-stream-storage"]
    command += ["--config", str(conf), "--advertised-address", "127.0.0.1"]
    command += [
        "--metadata-dir",
        str(directory / "metadata"),
        "--bookkeeper-dir",
        str(directory / "bookkeeper"),
    ]
    command += ["--bookkeeper-port", str(bookie)]
    environment = {
        **os.environ,
        **_JAVA,
        "PULSAR_LOG_DIR": str(directory / "logs"),
        "PULSAR_STANDALONE_CONF": str(conf),
        "TETHERED_FILES": str(directory),
    }
    return _start(command, broker, web, directory=directory, environment=environment)


def _start(
    command: list[str],
    broker: int,
    web: int,
    *,
    tethered: bool = False,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> PulsarServer:
    directory = directory or Path(tempfile.mkdtemp(prefix="pulsar-"))
    if not tethered:
        command = ["bash", "-c", _TETHER, "tether", *command]
    with (directory / _LOG).open("wb") as console:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=console,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    return PulsarServer(f"pulsar://127.0.0.1:{broker}", f"http://127.0.0.1:{web}", process, directory)


def _wait_for(server: PulsarServer, cancelled: threading.Event) -> PulsarServer:
    try:
        _see_it_healthy(server, cancelled)
    except BaseException:
        server.end()
        raise
    return server


def _see_it_healthy(server: PulsarServer, cancelled: threading.Event) -> None:
    deadline = time.monotonic() + _START_SECONDS
    health = _request(f"{server.admin_url}/admin/v2/brokers/health", server.token)
    reason = "the tests have ended"
    while time.monotonic() < deadline and not cancelled.is_set():
        try:
            with urllib.request.urlopen(health, timeout=60) as response:
                if response.status == 200 and server.clusters():
                    return
                reason = "no cluster is registered yet"
        except OSError as error:
            reason = str(error)
        if server.process is not None and server.process.poll() is not None:
            reason = f"it ended with {server.process.returncode}"
            break
        cancelled.wait(0.25)
    raise Unavailable(
        f"the broker at {server.url} is not healthy ({health.full_url}): {reason}{_last_words(server)}"
    )


def _fights_over_its_registration(log: IO[str]) -> bool:
    """Follow the log of a start; whether its bookie loses its registration again and again."""
    deadline = time.monotonic() + _START_SECONDS
    said = ""
    while _BROKER_STARTS not in said and time.monotonic() < deadline:
        said += log.read()
        if said.count(_LOST_REGISTRATION) >= _MANY_LOSSES:
            return True
        time.sleep(0.05)
    return False


def _last_words(server: PulsarServer) -> str:
    if server.directory is None:
        return ""
    lines = (server.directory / _LOG).read_text(errors="replace").splitlines()
    return "\n" + "\n".join(lines[-20:])


def _distribution() -> Path:
    """The unpacked server of our version, fetched once into the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trustgraph-prompt"
    home = cache / f"apache-pulsar-{VERSION}"
    if home.exists():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as fetching:
        archive = _fetch(Path(fetching))
        with tarfile.open(archive) as packed:
            packed.extractall(fetching, filter="data")
        try:
            (Path(fetching) / home.name).rename(home)
        except OSError:
            if not home.exists():  # else another test run was faster
                raise
    return home


def _fetch(directory: Path) -> Path:
    copy = ["mvn", "--batch-mode", "--quiet", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"]
    copy += [f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={directory}"]
    fetched = subprocess.run(copy, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False)
    archives = list(directory.glob("*.tar.gz"))
    if fetched.returncode or not archives:
        raise Unavailable(f"Maven could not fetch {_ARTIFACT}: {(fetched.stdout + fetched.stderr)[-2000:]}")
    with archives[0].open("rb") as archive:
        found = hashlib.file_digest(archive, "sha512").hexdigest()
    if found != _SHA512:
        raise Unavailable(f"{_ARTIFACT} has the checksum {found}, expected {_SHA512}")
    return archives[0]


def _configured(conf: str, settings: Mapping[str, object]) -> str:
    for name, value in settings.items():
        conf, count = re.subn(rf"(?m)^{name}=.*$", f"{name}={value}", conf)
        if not count:
            conf += f"\n{name}={value}\n"
    return conf


def _missing_for_java() -> str | None:
    for tool in ("bash", "java", "mvn"):
        if shutil.which(tool) is None:
            return f"no {tool}"
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=False)
    version = re.search(r'version "(\d+)', told.stdout + told.stderr)
    if version is None or int(version[1]) < 17:
        return f"Java older than 17 ({version[1] if version else 'unknown'})"
    return None


def _succeeds(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _wait_until(happened: Callable[[], bool], otherwise: str) -> None:
    """Raises `RuntimeError` if it does not happen in time."""
    deadline = time.monotonic() + _KILL_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.01)


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports for a server that takes seconds to bind them: none that the system gives to others meanwhile."""
    free: list[int] = []
    while len(free) < count:
        port = random.randrange(15_000, 32_000)  # below the ephemeral ones
        if port not in free and not _listens("127.0.0.1", port):
            free.append(port)
    return free


def _request(url: str, token: str) -> urllib.request.Request:
    return urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})


def _put(url: str, body: object, token: str = "") -> None:
    request = _request(url, token)
    request.method = "PUT"
    request.data = json.dumps(body).encode() if body is not None else b""
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=60):
            pass
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.CONFLICT:
            raise RuntimeError(f"PUT {url}: {error.code} {error.read(500)!r}") from error
