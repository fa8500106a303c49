"""The guide "Show the model the nearest examples", command by command."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import ROOT
from tests.support.typed_guides import follow


def test_guide_shows_the_nearest_texts_and_publishes_them(tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    (tmp_path / "places").mkdir()
    assert follow("examples.md", tmp_path, {"prompt": "places/places.prompt"}) == 2
