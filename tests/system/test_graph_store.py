"""Graph stores on disk: what is one, who may write, and what a crash leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from tests.support.stored_graph import CHALK, ROCKS, definition, relation
from tests.unit.extraction.test_graph_outputs import CHUNK, DOCUMENT, LIES
from tests.unit.extraction.test_graph_outputs import PROMPT as FACTS
from trustgraph_prompt.errors import ConfigError, StoreError
from trustgraph_prompt.extraction.graph_outputs import GraphOutputs
from trustgraph_prompt.extraction.questions import Job
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.graph.statements import Statement
from trustgraph_prompt.graph_store import rdf
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.worker.messages.answer_record import Answer

ROOT = Path(__file__).parents[2]

KEEP_OPEN = """
store = GraphStore.open(Path(sys.argv[1]))
store.add(CHALK.statements())
print("open", flush=True)
sys.stdin.read()
store.close()
"""
ADD_UNTIL_KILLED = """
store = GraphStore.open(Path(sys.argv[1]))
for n in itertools.count():
    size = int(sys.argv[2])
    store.add(relation(f"s{n}-{i}", "is", "o") for i in range(size))
    print(n, flush=True)
"""


@contextmanager
def another_process(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    imports = (
        "import itertools, sys\n"
        "from pathlib import Path\n"
        "from tests.support.stored_graph import CHALK, relation\n"
        "from trustgraph_prompt.graph_store.store import GraphStore\n"
    )
    command = [sys.executable, "-c", imports + program, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_store_keeps_what_was_added(tmp_path: Path) -> None:
    with GraphStore.open(tmp_path / "new" / "store") as store:
        store.add(CHALK.statements())
        content, view = set(store.dataset), read_view(store)
    for read_only in (True, False):
        with GraphStore.open(tmp_path / "new" / "store", read_only=read_only) as store:
            assert set(store.dataset) == content
            assert read_view(store) == view


@pytest.mark.parametrize("count", [10, 5_000])
def test_the_same_statements_again_add_nothing(count: int, tmp_path: Path) -> None:
    statements = [relation(f"s{n}", "is", "o") for n in range(count)]
    for _ in range(2):
        with GraphStore.open(tmp_path / "store") as store:
            store.add(statements)
            store.add([*statements, *statements])
            assert len(store.dataset) == count


def test_a_text_of_ten_megabytes_is_kept(tmp_path: Path) -> None:
    text = "白亜 🦕 \x00" * (10 * 2**20 // len("白亜 🦕 \x00".encode()))
    with GraphStore.open(tmp_path / "store") as store:
        store.add([definition("Chalk", text)])
    with GraphStore.open(tmp_path / "store", read_only=True) as store:
        assert [fact.object for fact in read_view(store).facts] == [text]


def test_path_that_is_not_a_store_is_refused(tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    (folder / "thesis.docx").touch()
    file.touch()
    for read_only in (True, False):
        with pytest.raises(ConfigError, match="folder: is not a graph store, but another folder"):
            GraphStore.open(folder, read_only=read_only)
        with pytest.raises(ConfigError, match="file: is not a graph store, which is a folder"):
            GraphStore.open(file, read_only=read_only)
        with pytest.raises(ConfigError, match="there is no graph store"):
            GraphStore.open(tmp_path / "missing", read_only=read_only, create=False)
    with pytest.raises(ConfigError, match="cannot be opened: Not a directory"):
        GraphStore.open(file / "store")
    assert sorted(tmp_path.iterdir()) == [file, folder]
    assert [*folder.iterdir()] == [folder / "thesis.docx"]


def test_an_empty_folder_becomes_a_store_and_pyoxigraphs_own_store_is_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    GraphStore.open(tmp_path / "empty").close()
    foreign = ox.Store(tmp_path / "foreign")
    foreign.add(ox.Quad(ox.NamedNode("urn:a"), ox.NamedNode("urn:b"), ox.Literal("c")))
    del foreign
    for read_only in (True, False):
        with GraphStore.open(tmp_path / "foreign", read_only=read_only) as store:
            assert len(read_view(store).facts) == 1


@pytest.mark.parametrize("damage", ["nonsense in CURRENT", "no CURRENT", "no data"])
def test_a_damaged_store_is_an_error_that_names_it(damage: str, tmp_path: Path) -> None:
    """Nobody is told that another process is writing, and nobody waits for it."""
    with GraphStore.open(tmp_path / "store") as store:
        store.add(CHALK.statements())
    current = tmp_path / "store" / "CURRENT"
    if damage == "no data":
        for each in (tmp_path / "store").glob("*.sst"):
            each.unlink()
    elif damage == "no CURRENT":
        current.unlink()
    else:
        current.write_text("nonsense\n")
    told: list[str] = []
    with pytest.raises(StoreError, match="store: cannot be opened"):
        GraphStore.open(tmp_path / "store", read_only=True, waiting=told.append)
    assert not told


def test_a_writer_waits_for_another_one_and_says_so_once(tmp_path: Path) -> None:
    with another_process(KEEP_OPEN, tmp_path / "store") as other:
        assert line(other) == "open"
        told: list[str] = []

        def waiting(text: str) -> None:
            told.append(text)
            other.stdin.close()  # type: ignore[union-attr]

        with GraphStore.open(tmp_path / "store", waiting=waiting) as store:
            store.add(ROCKS.statements())
            assert {each.files for each in store.documents().values()} == {("chalk.txt",), ("rocks.md",)}
    assert told == [f"{tmp_path / 'store'}: another process is writing to it: waiting"]


def test_a_writer_gives_up_after_a_while(tmp_path: Path) -> None:
    with another_process(KEEP_OPEN, tmp_path / "store") as other:
        assert line(other) == "open"
        with pytest.raises(StoreError, match="store: another process is still writing to it"):
            GraphStore.open(tmp_path / "store", wait=0)


def test_a_folder_in_which_another_process_begins_a_store_is_one(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "LOCK").touch()
    GraphStore.open(tmp_path / "store").close()


def test_a_reader_sees_what_a_writer_has_added_so_far(tmp_path: Path) -> None:
    with another_process(KEEP_OPEN, tmp_path / "store") as other:
        assert line(other) == "open"
        with GraphStore.open(tmp_path / "store", read_only=True) as store:
            assert [each.files for each in store.documents().values()] == [("chalk.txt",)]


@pytest.mark.parametrize(
    ("read_only", "error", "message"),
    [
        (True, "IO error: No such file or directory: 7.sst", "another process changed it while it was read"),
        (True, "Corruption: block checksum mismatch", "Corruption: block checksum mismatch"),
        (False, "IO error: No space left on device", "No space left on device"),
    ],
)
def test_errors_of_the_disk_name_the_store(read_only: bool, error: str, message: str, tmp_path: Path) -> None:
    """As RocksDB words them. A reader finds files gone that a writer merged."""
    GraphStore.open(tmp_path / "store").close()

    def fail() -> None:
        with GraphStore.open(tmp_path / "store", read_only=read_only):
            raise OSError(error)

    with pytest.raises(StoreError, match=f"store: .*{message}"):
        fail()


def test_errors_of_others_stay_as_they_are(tmp_path: Path) -> None:
    def fail() -> None:
        with GraphStore.open(tmp_path / "store"):
            raise BrokenPipeError("Broken pipe")

    with pytest.raises(BrokenPipeError):
        fail()


@pytest.mark.parametrize("size", [100, 2_000], ids=["transactions", "bulk"])
def test_a_process_that_is_killed_while_it_adds_leaves_a_store_that_opens(size: int, tmp_path: Path) -> None:
    path = tmp_path / "store"
    for _ in range(5):
        with another_process(ADD_UNTIL_KILLED, path, size) as process:
            added = [int(line(process)) for _ in range(3)]
            process.send_signal(signal.SIGKILL)
            process.wait()
        with GraphStore.open(path) as store:
            there = set(store.dataset)
            for n in added:
                assert set(rdf.quads(statements(n, size))) <= there
            store.add(statements(0, size))
            assert set(store.dataset) == there
            (counted,) = store.query("SELECT (COUNT(*) AS ?n) WHERE { ?s e:is ?o }")  # type: ignore[misc]
            assert int(counted["n"].value) == len(there)


def statements(batch: int, size: int) -> list[Statement]:
    return [relation(f"s{batch}-{i}", "is", "o") for i in range(size)]


def test_store_has_no_facts_of_an_answer_that_the_next_run_asks_again(tmp_path: Path) -> None:
    def result(**call: Any) -> Result:
        record = Answer("r", "extract", "facts", "v1", "success", "direct", True, (), calls=(call,))
        return Result(Job(0, "r", "facts", DOCUMENT, CHUNK), (LIES,), record)

    def facts(one: Result) -> int:
        outputs = GraphOutputs(tmp_path / "store", None, None, None)
        outputs.write([one], {"facts": FACTS}, None, "m", {}, print, lambda *files: None)
        with GraphStore.open(tmp_path / "store") as store:
            return len(read_view(store).facts)

    assert facts(result(error="answer_seconds: more than 600 seconds (--answer-seconds)")) == 0
    assert facts(result(finish_reason="stop")) == 1
