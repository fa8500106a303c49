"""The package as others install it: `pip install .` into an empty environment, used from elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import DOCUMENT, ROOT, SCRIPTED, environment, run

pytestmark = pytest.mark.xdist_group("install")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a fresh environment with the package in it."""
    home = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(home)]
    result = subprocess.run(
        [*pip, "install", "--no-compile", str(ROOT)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return home / "bin"


def test_an_installed_command_extracts_the_same_from_another_folder(installed: Path, tmp_path: Path) -> None:
    command = ["extract", str(DOCUMENT), "--provider", SCRIPTED, "--bare"]
    result = subprocess.run(
        [str(installed / "trustgraph-prompt"), *command, "-o", "here.jsonl"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=""),  # which would lead to the sources
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    there = run(*command, "-o", tmp_path / "there.jsonl")
    assert there.returncode == 0, there.stderr
    assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "there.jsonl").read_bytes() != b""


def test_prompts_flows_and_types_come_with_the_package(installed: Path, tmp_path: Path) -> None:
    look = (
        "import json, trustgraph_prompt, pathlib; from trustgraph_prompt import package_data; "
        "print(json.dumps([str(package_data.templates()), str(package_data.flows()), "
        "str(pathlib.Path(trustgraph_prompt.__file__).parent)]))"
    )
    result = subprocess.run(
        [str(installed / "python"), "-c", look],
        cwd=tmp_path,
        env=environment(PYTHONPATH=""),  # which would lead to the sources
        capture_output=True,
        text=True,
        check=True,
    )
    templates, flows, package = map(Path, json.loads(result.stdout))
    assert package.is_relative_to(installed.parent)
    assert (package / "py.typed").exists()
    assert {file.name for file in (package / "graph_store/page_files").iterdir()} == {
        "LICENSES.txt",
        "page.html",
    }
    assert {file.name for file in (package / "worker/telemetry/status_page").iterdir()} == {
        "page.css",
        "page.html",
        "page.js",
    }
    assert (package / "extraction/report_files/page.css").exists()
    assert (package / "html_pages/page.css").exists()
    for ours, theirs in ((ROOT / "templates", templates), (ROOT / "flows", flows)):
        assert theirs.is_relative_to(package)
        assert {file.name for file in theirs.iterdir()} == {file.name for file in ours.iterdir()}
