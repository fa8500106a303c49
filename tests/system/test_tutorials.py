"""Whoever walks a tutorial sees what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.guides import guide_page
from tests.support.tutorials import comparable, walk


@pytest.mark.parametrize(("name", "commands"), [("graph.md", 10), ("worker.md", 14)])
def test_a_tutorial_shows_what_its_commands_print(name: str, commands: int, tmp_path: Path) -> None:
    steps = list(walk(guide_page(name), tmp_path, "embedded:tutorial.db"))
    assert len(steps) >= commands
    for step in steps:
        assert comparable(step.shown) == comparable(step.printed), step.command
