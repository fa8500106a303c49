"""Pytest plugin: the image of our Dockerfile, built by buildah, run by podman as the chart runs it.

A test that uses `base_image` or `image` has the mark `image`. Without a registry, a Debian with its Python
stands in for the base image.
"""

from __future__ import annotations

import ast
import asyncio
import configparser
import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.support.command import ROOT
from tests.support.worker_processes import Site

BASE: Final = "docker.io/library/python:3.13-slim"
STAND_IN: Final = "localhost/trustgraph-prompt-test/python:3.13-slim"
IMAGE: Final = "localhost/trustgraph-prompt-test/image"

#: crun, podman's own choice, does not start where the machine has both versions of cgroups.
PODMAN: Final = ("podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file")
#: As a Pod of the chart: podman itself would make /run and /var/tmp writable too. Whatever ends the test run, no
#: container lives on.
RESTRICTED: Final = (
    *("--rm", "--pull", "never", "--network", "host", "--user", "10001:10001", "--memory", "256m"),
    *("--timeout", "600"),
    *("--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"),  # podman's exceed what may be given
)
GRACE: Final = 45
"""Seconds between SIGTERM and SIGKILL: what the chart grants with the default drain time-out."""

_INPUTS: Final = (
    *("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE"),
    *(f"requirements/{name}" for name in ("build.txt", "extras.py", "sbom.txt", "worker.txt")),
    *("trustgraph_prompt", "templates", "flows"),
)
_PIP_SETTINGS: Final = {"index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout"}
_NO_NETWORK: Final = (
    "name resolution",
    "NewConnectionError",
    "ConnectTimeoutError",
    "Network is unreachable",
)


class Unavailable(Exception):
    """Containers cannot be built or run here; says why."""


@dataclass(frozen=True)
class Image:
    """An image of this machine; sizes are in bytes."""

    name: str
    size: int
    config: dict[str, Any]

    @classmethod
    def of(cls, name: str) -> Image:
        (found,) = json.loads(_output(*PODMAN, "image", "inspect", name))
        return cls(name, found["Size"], found["Config"])


_BUILT: Final = pytest.StashKey[tuple[Image, Image] | Exception]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Build here, where no test's time-out is running yet."""
    if item.get_closest_marker("image") and _BUILT not in item.config.stash:
        try:
            item.config.stash[_BUILT] = (base := find_base()), build(base)
        except Exception as error:
            item.config.stash[_BUILT] = error
    return (yield)


@pytest.fixture
def images(request: pytest.FixtureRequest) -> tuple[Image, Image]:
    """The base image, and ours; the test must have the `image` mark."""
    built = request.config.stash[_BUILT]
    if isinstance(built, Unavailable):
        pytest.skip(f"no image: {built}")
    if isinstance(built, Exception):
        raise built
    return built


@pytest.fixture
def base_image(images: tuple[Image, Image]) -> Image:
    """What our image is made from."""
    return images[0]


@pytest.fixture
def image(images: tuple[Image, Image]) -> Image:
    """The image of the Dockerfile."""
    return images[1]


def find_base() -> Image:
    """The base image: this machine's, a registry's, or one that stands in. Raises `Unavailable`."""
    if missing := [tool for tool in ("buildah", "podman", "runc") if shutil.which(tool) is None]:
        raise Unavailable(f"missing: {', '.join(missing)}")
    if os.getuid() != 0:
        raise Unavailable("containers are run as root here")
    with _one_at_a_time():
        names = [name for name in (BASE, STAND_IN) if _succeeds(*PODMAN, "image", "exists", name)]
        if not names and _succeeds("buildah", "pull", "--quiet", BASE):
            names = [BASE]
        if not names:
            _make_stand_in()
    base = Image.of([*names, STAND_IN][0])
    tried = run(base, "-c", "pass", entrypoint="python3")
    if tried.returncode:
        raise Unavailable(f"no container runs here: {_last_words(tried)}")
    return base


def build(base: Image) -> Image:
    """The image as the sources are now; made once for the same sources. Raises `Unavailable`."""
    name = f"{IMAGE}:{_digest(base)}"
    with _one_at_a_time(), tempfile.TemporaryDirectory() as secrets:
        if not _succeeds(*PODMAN, "image", "exists", name):
            command = [
                "buildah",
                "bud",
                "--layers",
                "--isolation",
                "chroot",
                "--pull-never",
                "--network",
                "host",
            ]
            command += ["--build-arg", f"PYTHON={base.name}", "--build-arg", "VERSION=test"]
            done = _run(*command, *_secrets(Path(secrets)), "--tag", name, str(ROOT))
            if done.returncode and any(text in done.stderr for text in _NO_NETWORK):
                raise Unavailable(f"no package index: {_last_words(done)}")
            assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            of_tests = "label=org.opencontainers.image.version=test"
            _run(*PODMAN, "image", "prune", "--all", "--force", "--filter", of_tests, "--filter", "until=24h")
    return Image.of(name)


def run(image: Image, *arguments: str, entrypoint: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a container to its end."""
    program = ("--entrypoint", entrypoint) if entrypoint else ()
    return _run(*PODMAN, "run", *RESTRICTED, *program, image.name, *arguments)


class ContainerSite(Site):
    """A site whose processes are containers of an image, with the site's folder and the host's network."""

    def __init__(self, image: Image, folder: Path, stack: AsyncExitStack, *place: str) -> None:
        super().__init__(folder, stack, *place)
        folder.chmod(0o755)  # the container's user is not ours
        self._image = image
        self.container = ""
        """The name of the latest."""

    async def spawn(
        self, *arguments: object, stderr: int, entrypoint: str = "", **variables: str
    ) -> asyncio.subprocess.Process:
        self.container = f"trustgraph-prompt-{uuid4().hex[:12]}"
        command = [*PODMAN, "run", *RESTRICTED, "--name", self.container]
        command += ["--volume", f"{self.folder}:{self.folder}:ro", "--workdir", "/tmp"]
        for name, value in variables.items():
            command += ["--env", f"{name}={value}"]
        if entrypoint:
            command += ["--entrypoint", entrypoint]
        self._stack.push_async_callback(_remove, self.container)
        return await asyncio.create_subprocess_exec(
            *command, self._image.name, *map(str, arguments), stderr=stderr
        )

    async def stop(self, grace: int = GRACE) -> None:
        """What a kubelet does to the latest: SIGTERM, and SIGKILL when the grace period is over."""
        await _finish("stop", "--time", str(grace), self.container)

    async def handles(self, number: int) -> None:
        """Wait until the process of the latest has a handler of this signal."""
        async with asyncio.timeout(60):
            while not (int(await asyncio.to_thread(self._caught), 16) >> (number - 1)) & 1:
                await asyncio.sleep(0.02)

    def _caught(self) -> str:
        found = _run(*PODMAN, "inspect", "--format", "{{.State.Pid}}", self.container)
        if not (pid := found.stdout.strip()).isdecimal() or pid == "0":
            return "0"
        status = Path(f"/proc/{pid}/status").read_text()
        return next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))


async def _remove(container: str) -> None:
    await _finish("rm", "--force", "--time", "0", container)


async def _finish(*arguments: str) -> None:
    done = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*PODMAN, *arguments, stdout=done, stderr=done)
    await process.wait()


def _make_stand_in() -> None:
    """What the real one is made from, Debian trixie without its manuals, and Debian's own Python 3.13."""
    if shutil.which("mmdebstrap") is None:
        raise Unavailable(f"{BASE} cannot be pulled, and there is no mmdebstrap to make one that stands in")
    with tempfile.TemporaryDirectory() as folder:
        archive = str(Path(folder) / "root.tar")
        command = ["mmdebstrap", "--variant=apt", "--include=python3,python3-venv,ca-certificates"]
        for left_out in ("doc", "man", "info", "locale"):
            command.append(f"--dpkgopt=path-exclude=/usr/share/{left_out}/*")
        for name in ("python", "python3"):
            command.append(f'--customize-hook=ln -s /usr/bin/python3 "$1/usr/local/bin/{name}"')
        made = _run(*command, "trixie", archive)
        if made.returncode:
            raise Unavailable(f"{BASE} can neither be pulled nor stood in for: {_last_words(made)}")
        container = _output("buildah", "from", "scratch").strip()
        _output("buildah", "add", "--quiet", container, archive, "/")
        path = "PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
        _output("buildah", "config", "--env", path, container)
        _output("buildah", "commit", "--quiet", "--rm", container, STAND_IN)


def _digest(base: Image) -> str:
    digest = hashlib.sha256(_output(*PODMAN, "image", "inspect", "--format", "{{.Id}}", base.name).encode())
    for name in _INPUTS:
        for file in sorted([ROOT / name, *(ROOT / name).rglob("*")]):
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"{file.relative_to(ROOT)} {file.stat().st_mode} ".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _secrets(folder: Path) -> list[str]:
    """This machine's settings of pip, as far as they say where packages come from, and its authorities."""
    settings, secrets = {}, []
    for line in _output(sys.executable, "-m", "pip", "config", "list").splitlines():
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = ast.literal_eval(value)
    kept = {name: value for name, value in settings.items() if name in _PIP_SETTINGS}
    if "cert" in settings:
        kept["cert"] = "/run/secrets/ca"
        secrets += ["--secret", f"id=ca,src={settings['cert']}"]
    config = configparser.RawConfigParser()
    config["global"] = kept
    config.write(text := io.StringIO())
    (folder / "pip.conf").write_text(text.getvalue())
    return [*secrets, "--secret", f"id=pip,src={folder / 'pip.conf'}"]


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Processes of a test run, and test runs, do not make the same image at once."""
    with (Path(tempfile.gettempdir()) / "trustgraph-prompt-image.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join(done.stderr[-500:].split())


def _succeeds(*command: str) -> bool:
    return _run(*command).returncode == 0


def _output(*command: str) -> str:
    done = _run(*command)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {_last_words(done)}")
    return done.stdout
