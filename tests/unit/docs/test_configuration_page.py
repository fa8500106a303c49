"""configuration.md lists all that can be set: every option, environment variable and key of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.support.guides import guide_page
from trustgraph_prompt.cli.app import app
from trustgraph_prompt.cli.lazy_commands import LazyCommand
from trustgraph_prompt.worker.dead_letters.letters import ADVICE

ROOT = Path(__file__).parents[3]
PAGE = guide_page("configuration.md").read_text("utf-8")
VARIABLE = re.compile(r'"((?:TRUSTGRAPH|OPENAI|OTEL|PULSAR|SSL)_[A-Z0-9_]+|NO_COLOR)"')


def rows(heading: str) -> list[list[list[str]]]:
    """What stands in backticks, cell by cell, in the tables under a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[re.findall("`([^`]+)`", cell) for cell in line.split("|")[1:-1]] for line in lines]


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each command that can be run, and the program itself under ''."""
    command = command.load() if isinstance(command, LazyCommand) else command
    children = getattr(command, "commands", {})
    if not (children and path):
        yield path, command
    for name, child in children.items():
        yield from commands(child, f"{path} {name}".strip())


def keys(schema: Any, path: str = "") -> Iterator[str]:
    """The keys that a schema names, as paths."""
    for part in (schema, schema.get("items", {}), *schema.get("oneOf", ())):
        for name, inner in part.get("properties", {}).items():
            yield f"{path}{name}"
            yield from keys(inner, f"{path}{name}.")


def test_page_lists_each_option_with_its_commands_and_its_variable() -> None:
    known = {
        (option, path, parameter.envvar)
        for path, command in commands(typer.main.get_command(app))
        for parameter in command.get_params(command.make_context("", [], resilient_parsing=True))
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-") and option not in ("--help", "-h")
    }
    told = {
        (option, path, variables[0] if variables else None)
        for options, paths, variables, _ in rows("Options")
        for option, path in product(options, paths or [""])
    }
    assert told == known


def test_every_option_has_a_help_text() -> None:
    unsaid = [
        f"{path} {parameter.name}"
        for path, command in commands(typer.main.get_command(app))
        for parameter in command.get_params(command.make_context("", [], resilient_parsing=True))
        if not parameter.help
    ]
    assert unsaid == []


def test_page_lists_every_environment_variable() -> None:
    sources = (file.read_text("utf-8") for file in (ROOT / "trustgraph_prompt").rglob("*.py"))
    known = {name for source in sources for name in VARIABLE.findall(source)}
    assert known
    assert {name for name in known if f"`{name}`" not in PAGE} == set()


@pytest.mark.parametrize(
    ("heading", "schema"),
    [("Flow files", "flows/flow.schema.json"), ("Prompt files", "templates/prompt.schema.json")],
)
def test_page_lists_every_key_of_a_file(heading: str, schema: str) -> None:
    told = [key for first, *_ in rows(heading) for key in first]
    assert sorted(told) == sorted(set(keys(json.loads((ROOT / schema).read_text("utf-8")))))


def test_page_explains_each_error_of_dead_letters_as_dead_show_does() -> None:
    page = guide_page("errors.md").read_text("utf-8")
    table = page.partition("| type |")[2].partition("\n\n")[0]
    told = [line.removesuffix(" |").split(" | ") for line in table.splitlines()[2:]]
    assert {name: helps for names, _, helps in told for name in re.findall("`([a-z-]+)`", names)} == ADVICE
