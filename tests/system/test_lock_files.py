"""The lock files: current, with hashes, without an index, and with wheels for both platforms of the image."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from tests.support.command import ROOT

REQUIREMENTS = ROOT / "requirements"
IMAGE = ("worker.txt", "build.txt", "sbom.txt")
LOCKS = (*IMAGE, "dev.txt", "ci.txt")
WHEELS = REQUIREMENTS / "image-wheels.txt"
MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
GLIBC = (2, 36)
"""Of Debian bookworm; that of the base image is newer."""


def locked(name: str) -> list[tuple[Requirement, set[str]]]:
    """The requirements of a lock file, and the hashes of each."""
    lines = (REQUIREMENTS / name).read_text().replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        if line and not line.startswith("#"):
            requirement, *hashes = line.split(" --hash=")
            found.append((Requirement(requirement.strip()), {each.strip() for each in hashes}))
    return found


def fits(tag: str, machine: str) -> bool:
    """Whether wheels of this platform run in the image."""
    modern = re.fullmatch(rf"manylinux_(\d+)_(\d+)_{machine}", tag)
    if modern:
        return (int(modern[1]), int(modern[2])) <= GLIBC
    return tag == "any" or re.fullmatch(rf"manylinux(1|2010|2014)_{machine}", tag) is not None


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_file_is_current(name: str) -> None:
    program = [sys.executable, str(REQUIREMENTS / "digest.py")]
    digest = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    first = (REQUIREMENTS / name).read_text().partition("\n")[0]
    assert first == f"# {digest}", "run `make lock`"


@pytest.mark.parametrize("name", [*LOCKS, "kubernetes.txt", "extractors.txt"])
def test_a_lock_file_has_versions_and_hashes_and_no_address(name: str) -> None:
    requirements = locked(name)
    assert requirements
    for requirement, hashes in requirements:
        assert re.fullmatch(r"==[\w.!+]+", str(requirement.specifier)), requirement
        assert hashes, requirement
    text = (REQUIREMENTS / name).read_text()
    assert not re.search(r"://|index-url|find-links|trusted-host", text)


def test_the_wheels_are_those_of_the_lock_files_of_today() -> None:
    of = dict(line[2:].split() for line in WHEELS.read_text().splitlines() if line.startswith("# "))
    digests = {name: hashlib.sha256((REQUIREMENTS / name).read_bytes()).hexdigest()[:16] for name in IMAGE}
    assert of == digests, "run `make lock`"


@pytest.mark.parametrize("platform", MACHINES)
@pytest.mark.parametrize("name", IMAGE)
def test_all_that_the_image_needs_has_a_wheel(name: str, platform: str) -> None:
    machine = MACHINES[platform]
    there = {
        "python_version": "3.13",
        "python_full_version": "3.13.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    environment: dict[str, str] = {**default_environment(), **there}  # type: ignore[dict-item]
    wheels: dict[str, list[tuple[str, bool]]] = {}
    for line in WHEELS.read_text().splitlines():
        if line.startswith(platform):
            _, file, sha = line.split()
            project, of_version, _, tags = parse_wheel_filename(file)
            fitting = any(fits(tag.platform, machine) for tag in tags)
            wheels.setdefault(f"{project}=={of_version}", []).append((sha, fitting))
    for requirement, hashes in locked(name):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            found = wheels.get(f"{canonicalize_name(requirement.name)}{requirement.specifier}", [])
            assert any(sha in hashes and fitting for sha, fitting in found), (requirement, platform, found)
