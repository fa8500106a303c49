"""`graph resolve`, as a person runs it on a store on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import run
from tests.support.stored_graph import Answer, Paper, definition
from trustgraph_prompt.graph_store.store import GraphStore

NAMES = ["Ada Lovelace", "Lovelace, Ada", "Holmes", "Sherlock\x1b Holmes"]
FACTS = {definition(name, f"Defined as {name}."): () for name in NAMES}
PAPER = Paper("names.txt", "A text.\n", {0: [Answer("definitions", FACTS, NAMES)]})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with GraphStore.open(tmp_path / "graph") as opened:
        opened.add(PAPER.statements())
    return tmp_path / "graph"


def resolve(store: Path, *options: object) -> str:
    done = run("graph", "resolve", "--store", store, *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_dry_run_merge_decisions_and_undo_follow_each_other(store: Path, tmp_path: Path) -> None:
    shown = resolve(store, "--dry-run")
    assert "things: 4\npairs that would be merged: 1, left open: 1\n" in shown
    assert "'Ada Lovelace' = 'Lovelace, Ada'" in shown
    assert "Holmes | Defined as Holmes. | names.txt: …A text.…" in shown
    assert "\x1b" not in shown
    pairs = tmp_path / "pairs.csv"
    assert "pairs merged: 1, left open: 1\n" in resolve(store, "--open", pairs)
    pairs.write_text(pairs.read_text("utf-8-sig").replace("\n,one may", "\nDIFFERENT,one may"))
    refused = run("graph", "resolve", "--store", store, "--open", pairs)
    assert refused.returncode == 2
    assert "exists, and may have decisions" in refused.stderr
    decided = resolve(store, "--decided", pairs, "--open", pairs)
    assert "decided by a person: 0 merged, 1 kept apart" in decided
    assert "things: 3\npairs merged: 0, left open: 0\n" in decided
    assert "pairs taken apart: 1" in resolve(store, "--undo")
    assert "things: 4\npairs merged: 1, left open: 0\n" in resolve(store)


@pytest.mark.parametrize("options", [("--undo", "--dry-run"), ("--dry-run", "--decided", "x.csv")])
def test_options_that_contradict_each_other_are_refused(store: Path, options: tuple[str, ...]) -> None:
    refused = run("graph", "resolve", "--store", store, *options)
    assert refused.returncode == 2
    assert "cannot be combined" in refused.stderr
