"""docs/reference/interfaces.md is true: what it says is here, is here."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.guides import guide_page
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.contract import ContractOptions
from trustgraph_prompt.language import parse
from trustgraph_prompt.prompts.entry_schema import SCHEMA

ROOT = Path(__file__).parents[3]
PAGE = guide_page("interfaces.md")
TEXT = PAGE.read_text("utf-8")
SEEDS = sorted((ROOT / "tests" / "system" / "seed_examples").glob("seed-*.md"))

ROOMS = "ask|broker|contract|cost|doors|errors|language|llm|prompts|reader|wire|worker"
DOTTED = re.compile(rf"((?:{ROOMS})(?:\.\w+)+)(?:\(([\w, ]*)\))?")
CELL = re.compile(r"(?<!\\)\|")

#: What the examples themselves define, in the place of whoever reads them.
OF_THE_READER = {
    "Guidance",
    "SchemaWorkflow",
    "SearchResult",
    "Summary",
    "TestResponseSchema",
    "prometheus_exporter",
    "statsd_exporter",
    "test_transparency",
}


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in CELL.split(row)[1:-1]]


ROWS = [cells(line) for line in TEXT.splitlines() if line.startswith("| ")]
HERE = [span for row in ROWS for cell in row[1:] for span in re.findall("`([^`]+)`", cell)]
NAMES = sorted({span for span in HERE if DOTTED.fullmatch(span)})
LINKS = sorted(set(re.findall(r"\]\(([^)]+)\)", TEXT)))


def found(dotted: str) -> Any:
    """The object of a name below the package."""
    *path, name = ("trustgraph_prompt", *dotted.split("."))
    try:
        return import_module(".".join((*path, name)))
    except ModuleNotFoundError:
        owner = found(".".join(path[1:])) if path[1:] else import_module(path[0])
        return member(owner, name)


def member(owner: Any, name: str) -> Any:
    """An attribute, also one that only instances have: a field, or what `__init__` sets."""
    if hasattr(owner, name):
        return getattr(owner, name)
    fields = owner.__dataclass_fields__ if is_dataclass(owner) else {}
    assert name in fields or name in set_by(owner), f"{owner} has no {name}"
    return None


def set_by(owner: Any) -> Iterator[str]:
    """What the class, or one that it extends, sets of itself when it is made."""
    for kind in owner.__mro__[:-1]:
        if "__init__" in vars(kind) and not is_dataclass(kind):
            yield from re.findall(r"self\.(\w+)(?:: [^=]+)? =", inspect.getsource(kind.__init__))
            for line in re.findall(
                r"^ +(self\.\w+(?:, self\.\w+)+) =", inspect.getsource(kind.__init__), re.M
            ):
                yield from re.findall(r"self\.(\w+)", line)


def parameters_of(thing: Any) -> set[str]:
    """The names of its parameters, with those that `**options: Unpack[ContractOptions]` stands for."""
    parameters = inspect.signature(thing).parameters
    unpacked = any(each.annotation == "Unpack[ContractOptions]" for each in parameters.values())
    return {*parameters, *(ContractOptions.__annotations__ if unpacked else ())}


def headings(page: Path) -> set[str]:
    """The anchors of a page."""
    prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("span", NAMES)
def test_every_name_on_the_page_is_where_the_page_says(span: str) -> None:
    match = DOTTED.fullmatch(span)
    assert match is not None
    thing = found(match[1])
    if match[2]:
        assert [name for name in match[2].split(", ") if name not in parameters_of(thing)] == []


@pytest.mark.parametrize("target", LINKS)
def test_every_link_of_the_page_leads_somewhere(target: str) -> None:
    file, _, anchor = target.partition("#")
    page = (PAGE.parent / file).resolve()
    assert page.exists()
    assert not anchor or anchor in headings(page)


def test_rules_and_alerts_on_the_page_are_those_of_prometheus() -> None:
    files = [
        yaml.safe_load((ROOT / "monitoring" / f"{name}.yaml").read_text("utf-8"))
        for name in ("rules", "alerts")
    ]
    groups = [group for file in files for group in file["groups"] if group["name"].startswith("response_")]
    rules = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    alerts = {rule["alert"] for rule in rules if "alert" in rule}
    told = {span for span in HERE if span.startswith(("response_parse_", "response_cache_"))}
    assert told
    assert told <= recorded
    assert {span for span in HERE if span in alerts} == alerts


def test_keys_of_the_seed_are_keys_of_an_entry() -> None:
    first = TEXT.partition("## 1 ")[2].partition("## 2 ")[0]
    keys = re.findall(r"^\| key `([\w-]+)`", first, re.MULTILINE)
    assert len(keys) >= 4
    assert set(keys) <= SCHEMA["properties"].keys()


def test_example_in_the_schema_language_is_a_valid_contract() -> None:
    [text] = re.findall(r"^```prompt\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    [prompt] = parse(text).prompts
    assert prompt.settings == {"attempts": 2}
    assert prompt.escalation is not None
    volcano = Contract.language(text)["Volcano"]
    etna = {
        "name": "Etna",
        "parts": [{"name": "Bove", "parts": []}],
        "height": 3403.5,
        "photo": "Zm9v",
        "seen": {"Anna": "2026-01-02"},
        "eruptions": [None, "2021-02-16T10:00:00Z"],
    }
    assert volcano.issues(etna) == ()
    assert not volcano.accepts({**etna, "kind": "cake"})
    assert not volcano.accepts({**etna, "height": -1})


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.stem)
def test_every_name_in_the_examples_of_a_seed_is_on_the_page(seed: Path) -> None:
    """The examples are copies of the documents: what has a name in them has a row here."""
    for code in re.findall(r"^```python\n(.*?)^```$", seed.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for name in set(names_of(code)) - OF_THE_READER:
            assert re.search(rf"\b{name}\b", TEXT), name


def names_of(code: str) -> Iterator[str]:
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trustgraph_prompt"):
            yield from (alias.name for alias in node.names)
