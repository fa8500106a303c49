"""The commands on the graph in a store, as a person types them."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.support.command import PROGRAM, environment, run, started
from tests.support.stored_graph import CHALK, ROCKS, Answer, Paper, definition, relation, same
from tests.support.trustgraph_place import until
from trustgraph_prompt.graph.statements import Iri, Literal, Statement
from trustgraph_prompt.graph.vocabulary import LABEL
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.terminal import harmless

ORIGINS = """
SELECT ?file ?page ?start ?end ?quote ?subject ?predicate ?object WHERE {
  GRAPH <urn:graph:source> {
    ?statement rdf:reifies <<( ?subject ?predicate ?object )>> ; oa:hasTarget ?target .
    ?target oa:hasSource ?document ;
        oa:hasSelector [ oa:start ?start ; oa:end ?end ] , [ oa:exact ?quote ] .
    ?document schema:name ?file .
    OPTIONAL { ?target tg:pageNumber ?page }
  }
}
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with GraphStore.open(tmp_path / "store") as opened:
        opened.add([*CHALK.statements(), *ROCKS.statements()])
    return tmp_path / "store"


def content(store: Path) -> set[ox.Quad]:
    with GraphStore.open(store, read_only=True) as opened:
        return set(opened.dataset)


def test_a_query_prints_a_table(store: Path) -> None:
    ran = run("graph", "query", "SELECT ?s ?d { ?s skos:definition ?d }", "--store", store)
    assert [line.split() for line in ran.stdout.splitlines() if line.strip()] == [
        ["s", "d"],
        ["─" * 24],
        ["e:chalk", "A", "soft", "rock."],
    ]
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not [line for line in ran.stdout.splitlines() if line.endswith(" ")]


def test_a_table_with_one_wide_value_is_printed_at_once(store: Path) -> None:
    values = " ".join(f"({number} 'x')" for number in range(20))
    wide = f"'{'w' * 60_000}'"
    query = f"SELECT ?a ?b {{ VALUES (?a ?b) {{ {values} ({wide} 'x') }} }}"
    ran = run("graph", "query", "-", "--store", store, input=query)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("x\n") == 21


def test_query_leads_from_a_statement_to_document_page_offsets_and_quote(store: Path) -> None:
    ran = run("graph", "query", ORIGINS, "--store", store, "--format", "csv")
    rows = [*csv.DictReader(io.StringIO(ran.stdout))]
    texts = {CHALK.file: CHALK.text, ROCKS.file: ROCKS.text}
    assert len(rows) == 9
    for row in rows:
        assert texts[row["file"]][int(row["start"]) : int(row["end"])] == row["quote"]
    assert {row["page"] for row in rows} == {"1", "2", ""}


def test_json_is_that_of_sparql(store: Path) -> None:
    query = "SELECT ?name { e:chalk rdfs:label ?name }"
    ran = run("graph", "query", query, "--store", store, "--format", "json")
    (row,) = json.loads(ran.stdout)["results"]["bindings"]
    assert row["name"]["value"] == "Chalk"
    ran = run("graph", "query", "ASK { e:chalk e:found-in e:england }", "--store", store, "--format", "json")
    assert json.loads(ran.stdout)["boolean"] is True
    assert run("graph", "query", "ASK { e:england e:found-in [] }", "--store", store).stdout == "no\n"


@pytest.mark.parametrize("format", ["json", "table"])
def test_results_hold_nothing_that_a_terminal_obeys(store: Path, format: str) -> None:
    query = r"SELECT ?a { VALUES ?a { 'one\u001B]0;title\u0007\u009B2J\u202Etwo\r\nthree' } }"
    ran = run("graph", "query", query, "--store", store, "--format", format)
    assert ran.returncode == 0
    assert "one\\u001b]0;title\\u0007\\u009b2J\\u202etwo" in ran.stdout
    assert not [each for each in ran.stdout if harmless(each) != each and each != "\r"]


def test_construct_prints_turtle(store: Path) -> None:
    ran = run("graph", "query", "CONSTRUCT WHERE { ?a e:found-in ?b }", "--store", store)
    assert ran.stdout.endswith("e:chalk e:found-in e:england .\n")
    ran = run("graph", "query", "DESCRIBE e:chalk", "--store", store, "--format", "csv")
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: --format csv: a graph is printed as Turtle, without --format\n",
    )


def test_a_query_comes_from_a_file_or_from_standard_input(store: Path, tmp_path: Path) -> None:
    (tmp_path / "query.rq").write_text("\ufeffASK {}", "utf-8")
    assert run("graph", "query", f"@{tmp_path / 'query.rq'}", "--store", store).stdout == "yes\n"
    assert run("graph", "query", "-", "--store", store, input="ASK {}").stdout == "yes\n"
    (tmp_path / "latin-1.rq").write_bytes(b"\xff")
    ran = run("graph", "query", f"@{tmp_path / 'latin-1.rq'}", "--store", store)
    assert ran.stderr == f"error: {tmp_path / 'latin-1.rq'}: cannot be read: not UTF-8\n"
    ran = run("graph", "query", "@missing.rq", "--store", store)
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: missing.rq: cannot be read: No such file or directory\n",
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT ?x {\n  ?x e:is }", "query, line 2, column 11: not SPARQL: expected one of"),
        (
            "SELECT ?x { ?x foo:is ?y }",
            "query, line 1, column 22: unknown prefix; declared are rdf, rdfs, owl",
        ),
        ("INSERT DATA { e:a e:b e:c }", "query: this is an update, and a query only reads"),
        ("PREFIX a: <urn:a>\nDROP ALL", "query: this is an update, and a query only reads"),
        ("", "query, line 1, column 1: not SPARQL"),
        ("ASK {} # \udcff", "query: not SPARQL: "),
    ],
)
def test_invalid_query_is_refused_with_its_place(query: str, message: str, store: Path) -> None:
    before = content(store)
    ran = run("graph", "query", query, "--store", store)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert content(store) == before


ENDLESS = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"


@pytest.fixture
def large_store(tmp_path: Path) -> Path:
    with GraphStore.open(tmp_path / "large") as opened:
        opened.add(relation(f"s{n}", "is", f"o{n}") for n in range(2_000))
    return tmp_path / "large"


def reader_of(store: Path, pid: int) -> int | None:
    """The child of a process that has the store open."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    files = [file.resolve() for child in children for file in Path(f"/proc/{child}/fd").glob("*")]
    return int(children[0]) if any(file.is_relative_to(store) for file in files) else None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signal_ends_a_query_that_nothing_can_cancel(number: signal.Signals, large_store: Path) -> None:
    with started("graph", "query", ENDLESS, "--store", large_store) as process:
        await until(lambda: reader_of(large_store, process.pid) is not None)
        child = reader_of(large_store, process.pid)
        process.send_signal(number)
        assert process.wait(100) == -number
        with pytest.raises(ProcessLookupError):
            os.kill(child or 0, 0)


def test_query_that_takes_too_long_ends_with_an_error(large_store: Path) -> None:
    ran = run("graph", "query", ENDLESS, "--store", large_store, "--max-seconds", 1)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "error: query: takes longer than 1 second; restrict it, or give --max-seconds\n"


@pytest.mark.parametrize(
    "query",
    [
        f"ASK {{ FILTER({'(' * 20_000}1{')' * 20_000}) }}",
        f"ASK {'{' * 20_000}{'}' * 20_000}",
        f"ASK {{ FILTER({'1+' * 20_000}1) }}",
        f"ASK {{ ?a {'<a:b>/' * 20_000}<a:b> ?b }}",
    ],
)
def test_query_that_is_nested_too_deep_is_refused(query: str, store: Path) -> None:
    ran = run("graph", "query", "-", "--store", store, input=query)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "error: query: nested too deep\n")


@pytest.mark.parametrize("format", ["table", "csv", "json"])
def test_more_results_than_wanted_are_not_printed(format: str, store: Path) -> None:
    query = "SELECT ?n { VALUES ?n { '1' '2' '3' } }"
    command = ("graph", "query", query, "--store", store, "--format", format)
    ran = run(*command, "--max-results", 2)
    assert re.findall("[123]", ran.stdout) == ["1", "2"]
    assert (ran.returncode, ran.stderr) == (
        1,
        "error: query: more than 2 results, of which these are printed; restrict it, or give --max-results\n",
    )
    assert run(*command, "--max-results", 3).returncode == 0


def test_more_statements_than_wanted_are_not_printed(store: Path) -> None:
    ran = run("graph", "query", "CONSTRUCT WHERE { ?a ?b ?c }", "--store", store, "--max-results", 2)
    assert ran.returncode == 1
    assert len([*ox.parse(ran.stdout, ox.RdfFormat.TURTLE)]) == 2


def test_csv_and_json_are_as_pyoxigraph_writes_them(store: Path) -> None:
    query = """SELECT ?a ?b { VALUES (?a ?b) { ("x,\\"y\\n" <a:b>) (UNDEF "é"@de) (1 "t"^^<a:t>) ("" UNDEF)
        (<<( <a:a> <a:b> "c"@en--ltr )>> " ") } }"""
    formats = {"csv": ox.QueryResultsFormat.CSV, "json": ox.QueryResultsFormat.JSON}
    for name, format in formats.items():
        command = [str(PROGRAM), "graph", "query", query, "--store", str(store), "--format", name]
        printed = subprocess.run(command, env=environment(), capture_output=True, check=True).stdout
        results = ox.Store().query(query)
        assert isinstance(results, ox.QuerySolutions)
        expected = results.serialize(None, format) or b""
        if name == "csv":
            assert printed == expected
        else:
            assert json.loads(printed) == json.loads(expected)


def test_texts_of_others_do_not_reach_the_terminal_as_commands(tmp_path: Path) -> None:
    text = "\x1b]0;title\x07 [bold]red[/bold]"
    with GraphStore.open(tmp_path / "store") as opened:
        paper = Paper(text, text, {0: [Answer(text, {definition(text, text): ()}, [text])]})
        opened.add(paper.statements())
    for arguments in (
        ["query", "SELECT * { ?a ?b ?c }"],
        ["query", "CONSTRUCT WHERE { ?a ?b ?c }"],
        ["stats"],
        ["show", text],
        ["show", "title"],
        ["forget", text],
    ):
        ran = run("graph", *arguments, "--store", tmp_path / "store")
        assert "\x1b" not in ran.stdout + ran.stderr, arguments
        assert "\x07" not in ran.stdout + ran.stderr, arguments
        assert ran.returncode == (1 if arguments[-1] == "title" else 0), ran.stderr


def test_csv_on_a_terminal_is_escaped(store: Path) -> None:
    terminal, theirs = pty.openpty()
    command = [
        "graph",
        "query",
        "SELECT ?a { VALUES ?a { '\x1b[1m' } }",
        "--format",
        "csv",
        "--store",
        str(store),
    ]
    subprocess.run([str(PROGRAM), *command], env=environment(), stdout=theirs, check=True)
    os.close(theirs)
    assert os.read(terminal, 100) == b"a\r\n\\u001b[1m\r\n"
    os.close(terminal)


def test_counts_of_one_are_printed_in_the_singular(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with GraphStore.open(store) as opened:
        opened.add([Statement(Iri("urn:a"), Iri("urn:likes"), Iri("urn:b"))])
    assert run("graph", "export", tmp_path / "a.ttl", "--store", store).stdout.startswith("1 statement -> ")
    page = run("graph", "page", "-o", tmp_path / "a.html", "--store", store).stdout
    assert page.startswith("2 things, 1 fact -> ")
    lines = run("graph", "stats", "--store", store).stdout.splitlines()
    assert {"        0 documents", "        2 things", "        1 fact", "        0 refused"} <= {*lines}
    assert "        1 fact not looked up" in lines


def test_stats_counts_what_is_there(store: Path) -> None:
    ran = run("graph", "stats", "--store", store, "--json")
    assert json.loads(ran.stdout) == {
        "documents": 2,
        "things": 5,
        "things-by-type": {"no type": 4, "Rock": 1},
        "facts": 6,
        "facts-by-predicate": {"part of": 2, "definition": 1, "found in": 1, "type": 1, "made of": 1},
        "facts-by-prompt": {"relationships": 4, "definitions": 2},
        "facts-with-names-found-in-the-text": 4,
        "facts-with-a-name-found-only-in-part": 0,
        "facts-with-a-name-not-found-in-the-text": 1,
        "facts-not-looked-up": 1,
        "refused": 1,
        "truncated": 1,
    }
    lines = [line.strip() for line in run("graph", "stats", "--store", store).stdout.splitlines()]
    assert {"2 documents", "6 facts", "2 part of", "1 refused"} <= {*lines}
    assert {"4 facts with names found in the text", "1 fact not looked up"} <= {*lines}


def test_show_prints_what_is_known_with_its_sentences(store: Path) -> None:
    ran = run("graph", "show", "CHALK", "--store", store)
    assert ran.stdout == (
        "Chalk (Rock)\n"
        "  http://trustgraph.ai/e/chalk\n"
        "\n"
        "Chalk · definition · A soft rock.\n"
        "  chalk.txt, page 1, Line 1: Chalk 🦕 is a soft rock of England.\n"
        "\n"
        "Chalk · found in · England\n"
        "  chalk.txt, page 1, Line 1: Chalk 🦕 is a soft rock of England.\n"
        "  rocks.md: England has chalk.\n"
        "\n"
        "Chalk · type · Rock\n"
        "  chalk.txt, page 1, Line 1: Chalk 🦕 is a soft rock of England.\n"
        "\n"
        "Needles · made of · Chalk\n"
        "  chalk.txt, page 2, Line 2: The Needles of 白亜 are chalk.\n"
    )
    shown = run("graph", "show", "isle of wight", "--store", store).stdout
    assert shown.endswith(
        "Needles · part of · Isle of Wight\n  chalk.txt: a name was not found in the text\n"
    )


def test_show_prints_a_sentence_once_in_which_both_values_stand(tmp_path: Path) -> None:
    text = f"Chalk is {'very ' * 20}white{', and soft' * 20}."
    fact = relation("Chalk", "is", "white")
    with GraphStore.open(tmp_path / "store") as opened:
        opened.add(Paper("a.txt", text, {0: [Answer("p", {fact: ("Chalk", "white")})]}).statements())
    shown = run("graph", "show", "chalk", "--store", tmp_path / "store").stdout
    (line,) = [line for line in shown.splitlines() if "a.txt" in line]
    assert line == f"  a.txt: {text[:205].rpartition(' ')[0]} …"


def test_show_cuts_a_long_sentence_between_words_and_says_so(tmp_path: Path) -> None:
    text = f"{'very ' * 60}white chalk{' and soft' * 60}."
    with GraphStore.open(tmp_path / "store") as opened:
        answer = Answer("p", {relation("Chalk", "is", "white"): ("white", "chalk")})
        opened.add(Paper("a.txt", text, {0: [answer]}).statements())
    shown = run("graph", "show", "chalk", "--store", tmp_path / "store").stdout
    for line in (line.removeprefix("  a.txt: ").split() for line in shown.splitlines() if "a.txt" in line):
        assert (line[0], line[-1]) == ("…", "…")
        assert {*line} == {"…", "very", "white", "chalk", "and", "soft"}


def test_show_suggests_a_name_and_lists_things_of_the_same_name(store: Path) -> None:
    ran = run("graph", "show", "Needle", "--store", store)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "error: nothing in the store has the name 'Needle', did you mean 'Needles'?\n"
    ran = run("graph", "show", "ENGLNAD", "--store", store)
    assert ran.stderr == "error: nothing in the store has the name 'ENGLNAD', did you mean 'England'?\n"
    mercury = [relation("Mercury planet", "is", "x"), relation("Mercury metal", "is", "x")]
    answer = Answer("p", dict.fromkeys(mercury, ()))
    with GraphStore.open(store) as opened:
        opened.add(Paper("m.txt", "m", {0: [answer]}).statements())
        opened.add(Statement(each.subject, LABEL, Literal("Mercury")) for each in mercury)
    ran = run("graph", "show", "mercury", "--store", store)
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        "error: 2 things have the name 'mercury'; give the IRI of one:",
        "  http://trustgraph.ai/e/mercury-metal  Mercury",
        "  http://trustgraph.ai/e/mercury-planet  Mercury",
    ]
    ran = run("graph", "show", "http://trustgraph.ai/e/mercury-metal", "--store", store)
    assert ran.stdout.startswith("Mercury\n  http://trustgraph.ai/e/mercury-metal\n")


def test_show_finds_a_thing_without_a_label_by_the_end_of_its_iri(store: Path) -> None:
    etna, is_in = (Iri(f"https://example.org/{name}") for name in ("Etna", "is-in"))
    with GraphStore.open(store) as opened:
        opened.add([Statement(etna, is_in, Iri("http://trustgraph.ai/e/england"))])
    ran = run("graph", "show", "etna", "--store", store)
    assert ran.stdout == "Etna\n  https://example.org/Etna\n\nEtna · is-in · England\n"


def test_export_writes_files_and_replaces_none_without_overwrite(store: Path, tmp_path: Path) -> None:
    file = tmp_path / "graph.nq"
    ran = run("graph", "export", file, "--store", store)
    assert (ran.returncode, ran.stdout) == (0, f"{len(content(store)):,} statements -> {file}\n")
    assert set(ox.parse(path=file)) == content(store)
    file.write_text("mine")
    ran = run("graph", "export", file, "--store", store)
    assert ran.returncode == 2
    assert ran.stderr == f"error: {file}: exists; give --overwrite to replace it, or another name\n"
    assert file.read_text() == "mine"
    assert run("graph", "export", file, "--store", store, "--overwrite").returncode == 0
    assert set(ox.parse(path=file)) == content(store)


def test_export_prints_the_command_of_neo4j(store: Path, tmp_path: Path) -> None:
    ran = run("graph", "export", "--neo4j", tmp_path / "neo4j", "--store", store)
    assert "neo4j-admin database import full --nodes=" in ran.stdout
    assert sorted(each.name for each in (tmp_path / "neo4j").iterdir()) == ["nodes.csv", "relationships.csv"]
    ran = run("graph", "export", "--neo4j", tmp_path / "neo4j", "--store", store)
    assert "nodes.csv: exists" in ran.stderr
    ran = run("graph", "export", "--store", store)
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: graph export: nothing to write to: give FILE or --neo4j DIR\n",
    )


@pytest.mark.parametrize("name", ["chalk.txt", CHALK.iri, CHALK.iri.removeprefix("urn:sha256:")[:6]])
def test_forget_takes_a_document_out(name: str, store: Path) -> None:
    with GraphStore.open(store) as opened:
        opened.add(same("Chalk", "Needles"))
    before = content(store)
    ran = run("graph", "forget", name, "--store", store)
    with GraphStore.in_memory() as rest:
        rest.add(ROCKS.statements())
        left = set(rest.dataset)
    assert content(store) == left
    assert ran.stdout == f"removed chalk.txt: {len(before) - len(left)} statements\n"
    ran = run("graph", "forget", "rock.md", "--store", store)
    message = "the store has no document of this name or hash, did you mean 'rocks.md'?"
    assert (ran.returncode, ran.stderr) == (2, f"error: rock.md: {message}\n")


def test_forget_asks_which_of_two_documents(store: Path) -> None:
    with GraphStore.open(store) as opened:
        opened.add(Paper("papers/chalk.txt", "Chalk.", {}).statements())
        opened.add(Paper("old/rocks.md", "Rocks.", {}).statements())
        opened.add(Paper("new/rocks.md", "Rocks!", {}).statements())
    before = content(store)
    ran = run("graph", "forget", "", "--store", store)
    assert ran.returncode == 2
    assert run("graph", "forget", "rocks.md", "--store", store).returncode == 0  # its whole name comes first
    ran = run("graph", "forget", "rocks.md", "--store", store)
    assert ran.returncode == 2
    assert "several documents have this name; give the IRI of one: " in ran.stderr
    assert len(before) > len(content(store))


def test_commands_need_a_store_that_is_there(tmp_path: Path) -> None:
    for arguments in (["stats"], ["forget", "a"], ["show", "a"], ["query", "ASK {}"], ["export", "a.nt"]):
        ran = run("graph", *arguments, "--store", tmp_path / "missing", folder=tmp_path)
        message = f"error: {tmp_path / 'missing'}: there is no graph store; `extract --store` makes one\n"
        assert (ran.returncode, ran.stderr) == (2, message)
    assert not [*tmp_path.iterdir()]
