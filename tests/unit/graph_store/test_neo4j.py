"""The files for Neo4j's import, read by a reader of their format that knows nothing of ours.

The format is RFC 4180 with a header: each column is `name:type`, or one of `:ID`, `:LABEL`, `:START_ID`,
`:END_ID`, `:TYPE`; a type with `[]` is a list, as are labels. A list is split at each delimiter, which
nothing escapes. What is empty is no property.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.support.stored_graph import CHALK, ROCKS, Answer, Paper, definition, relation, same, type_
from trustgraph_prompt.graph_store.neo4j import import_command, write_neo4j
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.graph_store.view import GraphView

TYPES: Final = {"string": str, "long": int, "": str}
HEADER = re.compile(r"(?P<name>[^:]*)(?::(?P<type>[A-Za-z_]+)(?P<list>\[\])?)?\Z")

HOSTILE = 'O\'Neil "the \\ one"; a,b\r\nnew\tline 白亜 🦕'


class Row(NamedTuple):
    special: dict[str, str]
    properties: dict[str, Any]


def read(file: Path, delimiter: str) -> list[Row]:
    with file.open(encoding="utf-8", newline="") as stream:
        header, *lines = csv.reader(stream, strict=True)
    columns = [HEADER.match(each) for each in header]
    names = [column["name"] or column["type"] for column in columns if column]
    assert len(names) == len(set(names)) == len(header)
    rows = []
    for line in lines:
        assert len(line) == len(header)
        row = Row({}, {})
        for column, text in zip(columns, line, strict=True):
            assert column
            if (kind := column["type"] or "").isupper():
                row.special[kind] = text
                if column["name"]:
                    row.properties[column["name"]] = text
            elif text:
                made = TYPES[kind]
                value = [made(each) for each in text.split(delimiter)] if column["list"] else made(text)
                row.properties[column["name"]] = value
        rows.append(row)
    return rows


def imported(view: GraphView, folder: Path) -> tuple[dict[str, Row], list[Row]]:
    """What the command that we print would import."""
    write_neo4j(view, folder)
    options = dict(re.findall(r"--([\w-]+)=(.*)", "\n".join(shlex.split(import_command(folder)))))
    assert options["multiline-fields"] == "true"
    delimiter = options["array-delimiter"]
    assert delimiter.isascii()
    assert delimiter.isprintable()
    assert delimiter not in ',"'
    nodes = read(Path(options["nodes"]), delimiter)
    by_id = {row.special["ID"]: row for row in nodes}
    assert len(by_id) == len(nodes)
    relationships = read(Path(options["relationships"]), delimiter)
    assert all(each.special[end] in by_id for each in relationships for end in ("START_ID", "END_ID"))
    assert all(each.special["TYPE"] for each in relationships)
    return by_id, relationships


def view_of(*papers: Paper) -> GraphView:
    with GraphStore.in_memory() as store:
        for paper in papers:
            store.add(paper.statements())
        store.add(same("Needles", "The Needles"))
        return read_view(store)


def hostile() -> Paper:
    facts = {
        relation(HOSTILE, HOSTILE, "Chalk"): (HOSTILE.splitlines()[0],),
        definition(HOSTILE, HOSTILE): (),
        definition(HOSTILE, "another; one"): (),
        type_(HOSTILE, HOSTILE): (),
    }
    return Paper(HOSTILE, HOSTILE, {0: [Answer(HOSTILE, facts, [HOSTILE, "Chalk"])]}, pages=True)


@pytest.mark.parametrize("papers", [(CHALK, ROCKS), (hostile(),), ()], ids=["plain", "hostile", "empty"])
def test_imported_graph_is_that_of_the_view(papers: tuple[Paper, ...], tmp_path: Path) -> None:
    view = view_of(*papers)
    nodes, relationships = imported(view, tmp_path / "with a blank")
    documents = {id for id, row in nodes.items() if row.special["LABEL"] == "Document"}
    assert documents == view.documents.keys()
    assert nodes.keys() - documents == view.things.keys()
    literals: dict[str, set[str]] = defaultdict(set)
    for fact in view.facts:
        if not fact.is_relation:
            literals[fact.subject].add(fact.object)
    for iri, thing in view.things.items():
        properties = dict(nodes[iri].properties)
        assert properties.pop("name") == thing.name
        assert tuple(properties.pop("names")) == thing.names
        assert tuple(properties.pop("iris")) == thing.iris
        assert properties.pop("iri") == iri
        assert nodes[iri].special["LABEL"].split("|") == ["Thing", *thing.types]
        properties.pop("doubtfulFacts", None)
        assert {text for values in properties.values() for text in values} == literals[iri]
    assert [(r.special["START_ID"], r.special["TYPE"], r.special["END_ID"]) for r in relationships] == [
        (fact.subject, fact.predicate, fact.object) for fact in view.facts if fact.is_relation
    ]
    for row, fact in zip(relationships, [each for each in view.facts if each.is_relation], strict=True):
        found = row.properties
        assert found.get("starts", []) == [each.start for each in fact.passages]
        assert found.get("ends", []) == [each.end for each in fact.passages]
        assert found.get("documents", []) == [each.document for each in fact.passages]
        assert found.get("pages", []) == [each.page or 0 for each in fact.passages]
        assert found.get("prompts", []) == [*fact.prompts]
        assert found.get("quotes", []) == [
            view.documents[each.document].text[each.start : each.end] for each in fact.passages
        ]


def test_facts_in_doubt_are_marked(tmp_path: Path) -> None:
    likes, has, knows = (relation("Chalk", each, "Flint") for each in ("likes", "has", "knows"))
    soft, old = definition("Chalk", "soft"), definition("Chalk", "old")
    facts = {likes: ("Chalk", "Flint"), has: (), knows: ("Chalk",), soft: (), old: ("Chalk",)}
    stated = Answer("p", facts, ["Chalk", "Flint"], weak=[knows])
    nodes, relationships = imported(view_of(Paper("a", "Chalk and Flint.", {0: [stated]})), tmp_path)
    doubts = {each.special["TYPE"]: each.properties.get("doubt") for each in relationships}
    assert doubts == {"likes": None, "has": "ungrounded", "knows": "weak"}
    (chalk,) = (row.properties for row in nodes.values() if row.properties["name"] == "Chalk")
    assert chalk["doubtfulFacts"] == ["ungrounded: definition: soft"]


def test_property_names_are_safe_and_differ_from_ours(tmp_path: Path) -> None:
    def fact(predicate: str, text: str) -> Answer:
        stated = relation("Chalk", predicate, "x")._replace(object=definition("x", text).object)
        return Answer("p", {stated: ()}, ["Chalk", predicate])

    predicates = ["born: in (year)", "born in year", "name", "Höhe über 海", "::", "iri"]
    answers = [fact(predicate, f"text {n}") for n, predicate in enumerate(predicates)]
    nodes, _ = imported(view_of(Paper("a", "b", {0: answers})), tmp_path)
    (chalk,) = (row.properties for row in nodes.values() if row.special["LABEL"] == "Thing")
    assert sorted(chalk["born_in_year"]) == ["text 0", "text 1"]
    assert chalk["name_"] == ["text 2"]
    assert chalk["Höhe_über_海"] == ["text 3"]
    assert chalk["property"] == ["text 4"]
    assert chalk["iri_"] == ["text 5"]


def test_delimiter_in_a_text_is_replaced(tmp_path: Path) -> None:
    text = "a | b;\x1f c"
    facts = {definition("Chalk", text): (), type_("Chalk", text): (), relation("Chalk", text, "England"): ()}
    paper = Paper(text, text, {0: [Answer(text, facts, ["Chalk", text])]})
    nodes, (relationship,) = imported(view_of(paper), tmp_path)
    chalk = nodes[relationship.special["START_ID"]]
    instead = "a ¦ b;\x1f c"
    assert chalk.properties["definition"] == [instead]
    assert chalk.special["LABEL"].split("|") == ["Thing", instead]
    assert nodes[paper.iri].properties["names"] == [instead]
    assert relationship.properties["prompts"] == [instead]
    assert relationship.special["TYPE"] == text


def test_rare_predicates_share_a_property(tmp_path: Path) -> None:
    """A model makes up predicates: a column for each would make a large table of few values."""

    def fact(n: int) -> Answer:
        stated = relation("Chalk", f"p{n}", "x")._replace(object=definition("x", f"text {n}").object)
        return Answer("p", {stated: ()})

    nodes, _ = imported(view_of(Paper("a", "b", {0: [fact(n) for n in range(150)]})), tmp_path)
    (chalk,) = (row.properties for row in nodes.values() if row.special["LABEL"] == "Thing")
    assert len(chalk["otherFacts"]) == 50
    assert len(chalk) == 100 + len(("iri", "name", "names", "iris", "otherFacts", "doubtfulFacts"))
