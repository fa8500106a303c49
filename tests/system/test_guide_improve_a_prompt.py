"""The guide "Improve a prompt", command by command: each works, and prints what the guide shows."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import ROOT
from tests.support.typed_guides import follow


def test_the_guide_takes_a_prompt_from_bad_to_better(tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    (tmp_path / "places").mkdir()
    assert follow("improve-a-prompt.md", tmp_path, {"prompt": "places/places.prompt"}) == 8
    assert len((tmp_path / "chalk.gold.jsonl").read_text().splitlines()) == 7
