"""The image, run as the chart runs it: unprivileged, with a read-only root, as PID 1."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from signal import SIGTERM

import pytest
import yaml

from tests.support.command import DOCUMENT, RECORDING, ROOT
from tests.support.command import run as run_here
from tests.support.containers import ContainerSite, Image
from tests.support.containers import run as run_container
from tests.support.worker_processes import Site
from tests.support.workers import entry

pytestmark = pytest.mark.xdist_group("image")

HOME = "/opt/trustgraph-prompt"
LARGEST_BASE = 128_000_000
"""What python:3.13-slim may grow to before the image has 250 MB."""

FLOW = "{name: f, input: {topic: 'persistent://tg/flow/in'}, outputs: {response: 'persistent://tg/flow/out'}}"


@pytest.fixture
async def container_site(image: Image, tmp_path: Path) -> AsyncIterator[ContainerSite]:
    """A folder for containers of the image, with an embedded broker in the /tmp of each."""
    async with AsyncExitStack() as stack:
        yield ContainerSite(image, tmp_path, stack, "embedded:/tmp/broker.db")


def python(image: Image, program: str) -> str:
    """What a program prints that the image's Python runs."""
    done = run_container(image, "-c", program, entrypoint="python")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.image
async def test_a_process_that_ignores_sigterm_is_killed_when_the_grace_period_is_over(
    base_image: Image, tmp_path: Path
) -> None:
    """What the tests below would see of a worker that did: this is their control."""
    async with AsyncExitStack() as stack:
        site = ContainerSite(base_image, tmp_path, stack)
        process = await site.spawn("-c", "import time; time.sleep(600)", stderr=PIPE, entrypoint="python3")
        await site.handles(2)  # Python's own, of SIGINT: it has started
        await site.stop(grace=1)
        assert await process.wait() == 137


@pytest.mark.image
def test_image_adds_one_folder_to_its_base_and_no_tools(
    base_image: Image, image: Image, record_counts: Callable[..., None]
) -> None:
    program = f"""
import json
from pathlib import Path
files = [str(p) for p in Path('/').rglob('*') if p.parts[1] not in ('proc', 'sys', 'dev', 'tmp')]
size = lambda folder: sum(p.stat().st_blocks * 512 for p in folder.rglob('*') if not p.is_symlink())
packages = {{p.name: size(p) >> 20 for p in Path('{HOME}').glob('lib/python*/site-packages/*') if p.is_dir()}}
largest = sorted(packages.items(), key=lambda each: -each[1])[:8]
print(json.dumps([files, dict(largest)]))
"""
    files, largest = json.loads(python(image, program))
    before = set(json.loads(python(base_image, program))[0])
    added = image.size - base_image.size
    record_counts(
        megabytes=image.size // 10**6,
        of_the_base=base_image.size // 10**6,
        base=base_image.name,
        largest=", ".join(f"{name} {size}" for name, size in largest.items()),
    )
    assert all(file.startswith(HOME) for file in {*files} - before), {*files} - before
    ours = [Path(file) for file in files if file.startswith(f"{HOME}/")]
    assert not [file for file in ours if file.name in {"pip", "tests", "gcc", "cc", "make"}]
    assert not [file for file in ours if file.suffix in {".pyi", ".pxd", ".h", ".whl", ".a", ".o"}]
    assert added < 250_000_000 - LARGEST_BASE


@pytest.mark.image
def test_image_has_labels_a_user_and_an_entry_point(image: Image) -> None:
    labels = {
        name.removeprefix("org.opencontainers.image."): text for name, text in image.config["Labels"].items()
    }
    assert {"title", "description", "licenses", "version", "revision"} <= labels.keys()
    assert (labels["title"], labels["version"]) == ("trustgraph-prompt", "test")
    assert image.config["User"] == "10001:10001"
    assert image.config["Entrypoint"] == ["trustgraph-prompt"]


@pytest.mark.image
def test_image_runs_without_privileges_and_writes_to_tmp_only(image: Image) -> None:
    program = """
import json, os
status = dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines())
def writable(folder):
    try:
        os.mkdir(f'{folder}/new')
    except OSError:
        return False
    return True
folders = [folder for folder, _, _ in os.walk('/') if not folder.startswith(('/proc', '/sys', '/dev'))]
print(json.dumps({
    'pid': os.getpid(), 'user': [os.getuid(), os.getgid()],
    'capabilities': {status[f'Cap{kind}'].strip('0') for kind in ('Inh', 'Prm', 'Eff', 'Bnd', 'Amb')} == {''},
    'no new privileges': status['NoNewPrivs'], 'writable': [folder for folder in folders if writable(folder)],
}))
"""
    assert json.loads(python(image, program)) == {
        "pid": 1,
        "user": [10001, 10001],
        "capabilities": True,
        "no new privileges": "1",
        "writable": ["/tmp"],
    }


@pytest.mark.image
def test_bill_of_materials_installed_and_locked_packages_are_the_same(image: Image) -> None:
    program = f"""
import json, re
from importlib.metadata import distributions
canonical = lambda name: re.sub('[-_.]+', '-', name).lower()
print(json.dumps([
    {{canonical(found.name): found.version for found in distributions()}},
    json.load(open('{HOME}/sbom.cdx.json')),
]))
"""
    installed, bill = json.loads(python(image, program))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {each["name"].lower().replace("_", "-"): each["version"] for each in bill["components"]}
    assert listed == installed
    assert {"redis", "opentelemetry-sdk", "trustgraph-prompt"} <= installed.keys()
    locked = (ROOT / "requirements" / "worker.txt").read_text()
    for name, version in installed.items():
        assert name == "trustgraph-prompt" or f"\n{name}=={version} " in locked


@pytest.mark.image
def test_nothing_that_the_package_imports_was_left_out(image: Image) -> None:
    program = """
import importlib, pkgutil, trustgraph_prompt
for module in pkgutil.walk_packages(trustgraph_prompt.__path__, 'trustgraph_prompt.', onerror=str):
    if not module.name.endswith('__main__'):
        try:
            importlib.import_module(module.name)
        except Exception as error:
            missing = error if isinstance(error, ModuleNotFoundError) else error.__cause__
            assert isinstance(missing, ModuleNotFoundError), (module.name, error)
            assert missing.name.startswith(('numpy', 'pydantic', 'pyoxigraph', 'scipy')), (module.name, error)
"""
    python(image, program)


@pytest.mark.image
async def test_image_extracts_the_same_as_outside(container_site: ContainerSite, tmp_path: Path) -> None:
    for file in (DOCUMENT, RECORDING):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    scripted = ("--provider", f"scripted:{tmp_path / RECORDING.name}", "--bare")
    extract = f"trustgraph-prompt extract {tmp_path / DOCUMENT.name} {' '.join(scripted)} -o found.jsonl"
    command = ("-c", f"{extract} && cat found.jsonl >&2")
    process = await container_site.spawn(*command, stderr=PIPE, entrypoint="sh")
    _, found = await process.communicate()
    there = run_here("extract", DOCUMENT, *scripted, "-o", tmp_path / "there.jsonl")
    assert (process.returncode, there.returncode) == (0, 0), found.decode()
    objects = {line for line in found.decode().splitlines() if line.startswith("{")}
    assert objects == set((tmp_path / "there.jsonl").read_text().splitlines()) != set()


@pytest.mark.image
@pytest.mark.alone
async def test_worker_in_the_image_becomes_live(
    site: Site, container_site: ContainerSite, record_counts: Callable[..., None]
) -> None:
    async def seconds(place: Site) -> float:
        began = time.monotonic()
        worker = await place.begin(*place.arguments)
        await worker.shows("/livez", "live")
        taken = time.monotonic() - began
        worker.send_signal(SIGTERM)
        await worker.ended()
        return taken

    site.serves(FLOW, {"template.say": entry("Say {{ text }}")})
    site.answers({"answer": "said"})
    outside = min([await seconds(site) for _ in range(2)])
    inside = min([await seconds(container_site) for _ in range(2)])
    record_counts(outside=f"{outside:.2f} s", in_a_container=f"{inside:.2f} s")


def test_the_compose_file_is_valid_and_runs_the_worker_unprivileged() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    command = [str(checker), "--builtin-schema", "vendor.compose-spec", str(ROOT / "compose.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for service in (services["topics"], services["worker"]):
        assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, ["/tmp"], ["ALL"])
