"""Images and containers of this machine: podman runs them, restricted as the Pods of the chart are."""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from tests.support.worker_processes import Site

#: crun, podman's own choice, does not start where the machine has both versions of cgroups.
PODMAN: Final = ("podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file")
#: As a Pod of the chart: podman itself would make /run and /var/tmp writable too. Whatever ends the test run,
#: no container lives on.
RESTRICTED: Final = (
    *("--rm", "--pull", "never", "--network", "host", "--user", "10001:10001", "--memory", "256m"),
    *("--timeout", "600"),
    *("--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"),  # podman's exceed what may be given
)
GRACE: Final = 45
"""Seconds between SIGTERM and SIGKILL: what the chart grants with the default drain time-out."""


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
        (found,) = json.loads(output(*PODMAN, "image", "inspect", name))
        return cls(name, found["Size"], found["Config"])


def run(image: Image, *arguments: str, entrypoint: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a container to its end."""
    program = ("--entrypoint", entrypoint) if entrypoint else ()
    return process(*PODMAN, "run", *RESTRICTED, *program, image.name, *arguments)


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
        found = process(*PODMAN, "inspect", "--format", "{{.State.Pid}}", self.container)
        if not (pid := found.stdout.strip()).isdecimal() or pid == "0":
            return "0"
        status = Path(f"/proc/{pid}/status").read_text()
        return next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))


async def _remove(container: str) -> None:
    await _finish("rm", "--force", "--time", "0", container)


async def _finish(*arguments: str) -> None:
    done = asyncio.subprocess.DEVNULL
    command = await asyncio.create_subprocess_exec(*PODMAN, *arguments, stdout=done, stderr=done)
    await command.wait()


def process(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """The end of what it said, in one line."""
    return " ".join(done.stderr[-500:].split())


def succeeds(*command: str) -> bool:
    """Whether it exits with 0."""
    return process(*command).returncode == 0


def output(*command: str) -> str:
    """What it prints. Raises `Unavailable` where it fails."""
    done = process(*command)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {last_words(done)}")
    return done.stdout
