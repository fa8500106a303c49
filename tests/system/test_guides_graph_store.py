"""The guides about a graph store, command by command: each works, and prints what the guide shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import ROOT, SCRIPTED, run
from tests.support.typed_guides import follow

pytest.importorskip("pyoxigraph")


def test_a_graph_is_stored_asked_written_and_forgotten(tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    assert follow("graph-store.md", tmp_path, {"sparql": "origins.rq"}) == 5
    assert (tmp_path / "graph.trig").stat().st_size > 0


def test_the_names_of_one_thing_are_merged_and_decided(tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    document = "demo/on-a-piece-of-chalk.txt"
    run("extract", document, "--provider", SCRIPTED, "--store", "graph", folder=tmp_path)
    assert follow("one-name.md", tmp_path, {}) == 1
