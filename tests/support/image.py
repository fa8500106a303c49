"""Pytest plugin: the image of our Dockerfile, built by buildah.

A test that uses `base_image` or `image` has the mark `image`. Without a registry, a Debian with its Python
stands in for the base image.
"""

from __future__ import annotations

import ast
import configparser
import fcntl
import hashlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.command import ROOT
from tests.support.containers import PODMAN, Image, Unavailable, last_words, output, process, run, succeeds

BASE: Final = "docker.io/library/python:3.13-slim"
STAND_IN: Final = "localhost/trustgraph-prompt-test/python:3.13-slim"
IMAGE: Final = "localhost/trustgraph-prompt-test/image"

_INPUTS: Final = (
    *("Dockerfile", ".dockerignore", "pyproject.toml", "README.md", "LICENSE"),
    *(f"requirements/{name}" for name in ("build.txt", "extras.py", "sbom.txt", "worker.txt")),
    *("trustgraph_prompt", "templates", "flows"),
)
_PIP_SETTINGS: Final = {"index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout"}
_NO_NETWORK: Final = ("name resolution", "NewConnectionError", "ConnectTimeoutError", "is unreachable")

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
        base = Image.of(_base_name())
    tried = run(base, "-c", "pass", entrypoint="python3")
    if tried.returncode:
        raise Unavailable(f"no container runs here: {last_words(tried)}")
    return base


def _base_name() -> str:
    for name in (BASE, STAND_IN):
        if succeeds(*PODMAN, "image", "exists", name):
            return name
    if succeeds("buildah", "pull", "--quiet", BASE):
        return BASE
    _make_stand_in()
    return STAND_IN


def build(base: Image) -> Image:
    """The image as the sources are now; made once for the same sources. Raises `Unavailable`."""
    name = f"{IMAGE}:{_digest(base)}"
    with _one_at_a_time(), tempfile.TemporaryDirectory() as secrets:
        if not succeeds(*PODMAN, "image", "exists", name):
            command = ["buildah", "bud", "--layers", "--pull-never", "--tag", name]
            command += ["--isolation", "chroot", "--network", "host"]
            command += ["--build-arg", f"PYTHON={base.name}", "--build-arg", "VERSION=test"]
            done = process(*command, *_secrets(Path(secrets)), str(ROOT))
            if done.returncode and any(text in done.stderr for text in _NO_NETWORK):
                raise Unavailable(f"no package index: {last_words(done)}")
            assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            older = ("--filter", "label=org.opencontainers.image.version=test", "--filter", "until=24h")
            process(*PODMAN, "image", "prune", "--all", "--force", *older)
    return Image.of(name)


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
        made = process(*command, "trixie", archive)
        if made.returncode:
            raise Unavailable(f"{BASE} can neither be pulled nor stood in for: {last_words(made)}")
        container = output("buildah", "from", "scratch").strip()
        output("buildah", "add", "--quiet", container, archive, "/")
        path = "PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
        output("buildah", "config", "--env", path, container)
        output("buildah", "commit", "--quiet", "--rm", container, STAND_IN)


def _digest(base: Image) -> str:
    digest = hashlib.sha256(output(*PODMAN, "image", "inspect", "--format", "{{.Id}}", base.name).encode())
    for name in _INPUTS:
        for file in sorted([ROOT / name, *(ROOT / name).rglob("*")]):
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"{file.relative_to(ROOT)} {file.stat().st_mode} ".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _secrets(folder: Path) -> list[str]:
    """This machine's settings of pip, as far as they say where packages come from, and its authorities."""
    settings, secrets = {}, []
    for line in output(sys.executable, "-m", "pip", "config", "list").splitlines():
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
