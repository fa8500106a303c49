"""`extract` as a process: the graph of documents in a store, in files and as a page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from tests.support.command import DOCUMENT, SCRIPTED, run, started
from tests.support.document_files import pdf
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.store import GraphStore

ORIGINS = """
SELECT ?file ?text ?page ?start ?end ?quote ?s ?p ?o WHERE {
  ?s ?p ?o
  GRAPH <urn:graph:source> {
    ?statement rdf:reifies <<( ?s ?p ?o )>> ; oa:hasTarget ?target .
    ?target oa:hasSource ?document ;
        oa:hasSelector [ oa:start ?start ; oa:end ?end ] , [ oa:exact ?quote ] .
    ?document schema:name ?file ; schema:text ?text .
    OPTIONAL { ?target tg:pageNumber ?page }
  }
}
"""


def extracted(folder: Path, *arguments: str | Path) -> dict[str, Any]:
    result = run("extract", *arguments, "--provider", SCRIPTED, "-o", "out.jsonl", "--json", folder=folder)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def origins(store: GraphStore) -> list[ox.QuerySolution]:
    rows = store.query(ORIGINS)
    assert isinstance(rows, ox.QuerySolutions)
    return list(rows)


def statements(store: Path) -> set[str]:
    with GraphStore.open(store, read_only=True) as opened:
        return {str(quad) for quad in opened.dataset}


def test_every_statement_of_the_demo_leads_to_its_quotes(tmp_path: Path) -> None:
    extracted(tmp_path, DOCUMENT, "--store", "graph")

    with GraphStore.open(tmp_path / "graph", read_only=True) as store:
        said = {str(quad.triple) for quad in store.dataset if quad.graph_name == ox.DefaultGraph()}
        rows = origins(store)
        led = {str(ox.Triple(row["s"], row["p"], row["o"])) for row in rows}
        files = {row["file"].value for row in rows}
        for row in rows:
            start, end = int(row["start"].value), int(row["end"].value)
            assert row["text"].value[start:end] == row["quote"].value

    assert said
    assert led == said
    assert files == {str(DOCUMENT)}


def test_pages_of_a_pdf_are_known(tmp_path: Path) -> None:
    paragraphs = DOCUMENT.read_text(encoding="utf-8").split("\n\n")
    (tmp_path / "lecture.pdf").write_bytes(pdf(paragraphs))
    extracted(tmp_path, "lecture.pdf", "--store", "graph")

    with GraphStore.open(tmp_path / "graph", read_only=True) as store:
        rows = origins(store)
        assert rows
        for row in rows:
            page = int(row["page"].value)
            assert " ".join(row["quote"].value.split()) in " ".join(paragraphs[page - 1].split())


def test_each_output_has_the_same_graph(tmp_path: Path) -> None:
    found = extracted(
        tmp_path,
        DOCUMENT,
        "--store",
        "graph",
        "--rdf",
        "graph.nq",
        "--graph",
        "graph.html",
        "--neo4j",
        "neo4j",
    )

    assert found["graph"] == ["graph", "graph.nq", "neo4j", "graph.html"]
    assert set((tmp_path / "graph.nq").read_text(encoding="utf-8").splitlines()) == {
        f"{each} ." for each in statements(tmp_path / "graph")
    }
    with GraphStore.open(tmp_path / "graph", read_only=True) as store:
        view = read_view(store)
    nodes = (tmp_path / "neo4j" / "nodes.csv").read_text(encoding="utf-8")
    page = (tmp_path / "graph.html").read_text(encoding="utf-8")
    for thing in view.things.values():
        assert thing.iri in nodes
        assert thing.name in page


def test_a_graph_that_is_asked_for_later_costs_nothing_and_is_the_same(tmp_path: Path) -> None:
    extracted(tmp_path, DOCUMENT, "--rdf", "first.nq")
    again = extracted(tmp_path, DOCUMENT, "--rdf", "second.nq", "--store", "graph")

    assert again["from_earlier_runs"] == again["answers"]
    # In a store, each kind of integer is an xsd:integer.
    first = (tmp_path / "first.nq").read_text(encoding="utf-8").replace("nonNegativeInteger", "integer")
    second = (tmp_path / "second.nq").read_text(encoding="utf-8")
    assert set(first.splitlines()) == set(second.splitlines())


def test_the_same_run_adds_nothing_to_a_store_and_forgetting_takes_all_of_it(tmp_path: Path) -> None:
    shutil.copy(DOCUMENT, tmp_path / "a.txt")
    (tmp_path / "b.txt").write_text(
        DOCUMENT.read_text(encoding="utf-8") + "\nChalk is old.\n", encoding="utf-8"
    )
    extracted(tmp_path, "a.txt", "--store", "graph")
    of_a = statements(tmp_path / "graph")
    extracted(tmp_path, "a.txt", "--store", "graph")
    assert statements(tmp_path / "graph") == of_a

    extracted(tmp_path, "b.txt", "--store", "graph")
    assert statements(tmp_path / "graph") > of_a
    result = run("graph", "forget", "--store", "graph", "b.txt", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert statements(tmp_path / "graph") == of_a


def test_outputs_in_the_folder_of_documents_are_no_documents(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    shutil.copy(DOCUMENT, tmp_path / "papers" / "chalk.txt")
    outputs = ["--graph", "papers/graph.html", "--neo4j", "papers/neo4j", "--store", "papers/graph"]
    first = extracted(tmp_path, "papers", *outputs)
    second = extracted(tmp_path, "papers", *outputs)
    third = extracted(tmp_path, "papers")

    assert third["chunks"] == second["chunks"] == first["chunks"]
    assert second["from_earlier_runs"] == second["answers"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rdf", "graph.txt"], "graph.txt"),
        (["--rdf", "nowhere/graph.ttl"], "nowhere/graph.ttl"),
        (["--graph", "folder.html"], "folder.html"),
        (["--rdf", "chalk.ttl"], "chalk.ttl"),
        (["--graph", "mine.html"], "mine.html"),
        (["--graph", "graph.pdf"], "graph.pdf"),
        (["--store", "chalk.txt"], "chalk.txt"),
        (["--store", "graph", "--prompt", "extract-rows", "-t", "schema=a table"], "--prompt"),
        (["--rdf", "chalk.txt/graph.ttl"], "chalk.txt/graph.ttl"),
        (["--neo4j", "chalk.txt"], "chalk.txt"),
        (["--neo4j", "theirs"], "theirs/nodes.csv: exists"),
    ],
)
def test_output_that_cannot_be_written_is_refused_before_a_question(
    options: list[str], said: str, tmp_path: Path
) -> None:
    shutil.copy(DOCUMENT, tmp_path / "chalk.txt")
    shutil.copy(DOCUMENT, tmp_path / "mine.html")
    (tmp_path / "folder.html").mkdir()
    shutil.copy(DOCUMENT, tmp_path / "chalk.ttl")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "nodes.csv").write_text("theirs")
    before = (tmp_path / "chalk.txt").read_bytes()

    result = run(
        "extract",
        "chalk.txt",
        "chalk.ttl",
        "--provider",
        SCRIPTED,
        *options,
        "-o",
        "out.jsonl",
        folder=tmp_path,
    )

    assert result.returncode == 2
    assert said in result.stderr
    assert not (tmp_path / "out.jsonl").exists()
    assert (tmp_path / "chalk.txt").read_bytes() == (tmp_path / "mine.html").read_bytes() == before
    assert (tmp_path / "theirs" / "nodes.csv").read_text() == "theirs"


def test_a_document_in_a_folder_is_not_replaced_by_a_page_of_a_later_run(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "chalk.html").write_text(
        f"<html><body><p>{DOCUMENT.read_text()}</p></body></html>"
    )
    command = ("extract", "papers", "--provider", SCRIPTED, "-o", "out.jsonl")
    run(*command, folder=tmp_path)
    before = (tmp_path / "papers" / "chalk.html").read_bytes()

    result = run(*command, "--graph", "papers/chalk.html", folder=tmp_path)

    assert "--graph papers/chalk.html: is another file of this run" in result.stderr
    assert (tmp_path / "papers" / "chalk.html").read_bytes() == before


def test_a_run_that_waits_for_its_store_says_so_before_it_asks(tmp_path: Path) -> None:
    outputs = ("--store", tmp_path / "graph", "-o", tmp_path / "out.jsonl")
    holding = GraphStore.open(tmp_path / "graph")
    with started("extract", DOCUMENT, "--provider", SCRIPTED, *outputs) as process:
        assert process.stderr is not None
        assert (
            process.stderr.readline() == f"{tmp_path / 'graph'}: another process is writing to it: waiting\n"
        )
        holding.close()
        assert process.wait(100) == 0
