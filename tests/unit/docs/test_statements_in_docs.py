"""What the pages name exists, and defaults, layers and lengths are those that they give."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import typer.main

from tests.support.guides import DOCS, ROOT, guide_page
from tests.unit.docs.test_configuration_page import commands
from trustgraph_prompt.cli.app import app
from trustgraph_prompt.worker.flow import Flow, Input, Outputs, TopicChoice
from trustgraph_prompt.worker.telemetry.metrics import Metrics

PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text("utf-8")
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
    if page.parent.name != "decisions"  # what these say is dated
}
SOURCES = "\n".join(
    file.read_text("utf-8")
    for folder in ("trustgraph_prompt", "benchmarks", "monitoring")
    for file in sorted((ROOT / folder).rglob("*"))
    if file.suffix in (".py", ".yaml")
)
MADE = {"tests/examples"}  # by the tests
OF_OTHERS = {"--namespace", "--set", "--volumes"}  # options


def unknown(pattern: str, known: set[str] | None = None) -> set[tuple[str, str]]:
    """What a pattern finds in the pages and that is neither known nor in the sources, with its page."""
    found = {(page, name) for page, text in PAGES.items() for name in re.findall(pattern, text)}
    assert found
    return {(page, name) for page, name in found if name not in (known or ()) and name not in SOURCES}


def files(pattern: str) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern.rstrip("/"))}


def test_files_named_in_the_docs_exist() -> None:
    folders = "|".join(each.name for each in ROOT.iterdir() if each.is_dir() and each.name[0] != ".")
    paths = {path for text in PAGES.values() for path in re.findall(rf"`((?:{folders})/[\w./*-]+)`", text)}
    assert {path for path in paths - MADE if not files(path)} == set()


def test_environment_variables_named_in_the_docs_are_read() -> None:
    assert unknown(r"\bTRUSTGRAPH_PROMPT_[A-Z_]+\b") == set()


def test_metrics_named_in_the_docs_are_exported_or_recorded() -> None:
    endings = ("", "_total", "_bucket")
    exported = {f"{family.name}{end}" for family in Metrics().registry.collect() for end in endings}
    assert unknown(r"\b(?:trustgraph_prompt|response_parse|response_cache)_[a-z_]+[a-z]\b", exported) == set()


def defaults_of_options() -> dict[str, set[str]]:
    """The defaults that an option has in one command or another."""
    defaults: dict[str, set[str]] = {}
    for _, command in commands(typer.main.get_command(app)):
        for parameter in command.get_params(command.make_context("", [], resilient_parsing=True)):
            for option in (*parameter.opts, *parameter.secondary_opts):
                defaults.setdefault(option, set()).add(str(parameter.default).removesuffix(".0"))
    return defaults


def test_options_named_in_the_docs_exist() -> None:
    found = unknown(r"`(?:[^`\n]* )?(--[a-z][a-z0-9-]+)[^`\n]*`", {*defaults_of_options(), *OF_OTHERS})
    assert {each for each in found if not each[0].endswith("trustgraph-differences.md")} == set()


def test_defaults_of_options_in_the_docs_are_those_of_the_commands() -> None:
    known = defaults_of_options()
    rows = re.findall(r"^\| (`--.*)$", PAGES["docs/reference/configuration.md"], re.MULTILINE)
    told = [
        pair
        for row in rows
        for pair in zip(re.findall("`(--[^`]+)`", row), re.findall("by default `([^`]+)`", row), strict=False)
    ]
    assert {(option, default) for option, default in told if default not in known[option]} == set()
    assert len(told) > 5


def test_defaults_of_flows_in_the_docs_are_those_of_the_code() -> None:
    flow = Flow("a", Input("persistent://a/b/c", "d"), Outputs())
    topics = TopicChoice("a", "b")
    page = PAGES["docs/reference/flows.md"]
    told = re.findall(r"^\| `([\w.-]+)` \|.*\| ([\d,]+)[^|]*\|$", page, re.MULTILINE)
    assert {key: int(number.replace(",", "")) for key, number in told} == {
        "concurrency": flow.concurrency,
        "deliveries": flow.deliveries,
        "crashes": flow.crashes,
        "input.buffer": flow.input.buffer,
        "budget.work-seconds": flow.budget.work_seconds,
        "budget.characters": flow.budget.characters,
        "provider.timeout": topics.timeout,
    }


def test_modules_named_in_the_docs_can_be_imported() -> None:
    names = {name for text in PAGES.values() for name in re.findall(r"\btrustgraph_prompt(?:\.\w+)+", text)}
    for name in names:
        module, _, member = name.rpartition(".")
        assert member[0] == "_" or hasattr(import_module(module), member) or import_module(name), name


def test_architecture_page_names_files_of_the_package() -> None:
    page = guide_page("architecture.md").read_text("utf-8")
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", page):
        assert files(f"trustgraph_prompt/**/{name}") or files(name), name


def test_architecture_page_gives_each_package_its_layer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    known = {name: n for n, layer in enumerate(reversed(layers), 1) for name in layer.split(" | ")}
    page = guide_page("architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)(?:/|\.py)` \|", page, re.MULTILINE)
    assert {name: int(layer) for layer, name in rows} == known
    assert [int(layer) for layer, _ in rows] == sorted(known.values())


def test_no_file_is_longer_than_contributing_says() -> None:
    [longest] = re.findall(r"None has more than (\d+)", PAGES["CONTRIBUTING.md"])
    for folder in ("trustgraph_prompt", "tests", "benchmarks"):
        for file in Path(ROOT / folder).rglob("*.py"):
            assert file.read_bytes().count(b"\n") <= int(longest), file
