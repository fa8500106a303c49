"""Ontologies in the form of public ones are read whole: W3C ORG and FOAF themselves, others as made here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import public_ontologies as made
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_files import load, parse_ontology

pytest.importorskip("pyoxigraph", reason="no pyoxigraph: pip install trustgraph-prompt[graph]")

ONTOLOGIES = Path(__file__).parents[2] / "data" / "ontologies"


def parsed(name: str, text: str) -> Ontology:
    return parse_ontology(Path(name), text)


def sizes(ontology: Ontology) -> tuple[int, int, int]:
    return (
        len(ontology.classes),
        len(ontology.object_properties),
        len(ontology.datatype_properties),
    )


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("go.obo", lambda: made.gene_ontology(900), (800, 3, 0)),
        ("LegalPersons.rdf", lambda: made.fibo(100), (100, 2, 1)),
        ("schema.jsonld", lambda: made.schema_org(100), (100, 2, 2)),
        ("things.ttl", lambda: made.turtle(100), (100, 10, 0)),
    ],
)
def test_made_ontology_has_all_its_classes_and_properties(
    name: str, text: Callable[[], str], expected: tuple[int, int, int]
) -> None:
    assert sizes(parsed(name, text())) == expected


@pytest.mark.parametrize(("name", "expected"), [("org.ttl", (14, 32, 3)), ("foaf.rdf", (16, 35, 27))])
def test_public_ontology_has_all_its_classes_and_properties(
    name: str, expected: tuple[int, int, int]
) -> None:
    assert sizes(load([ONTOLOGIES / name])) == expected


def test_classes_that_foaf_declares_disjoint_exclude_each_other() -> None:
    foaf = load([ONTOLOGIES / "foaf.rdf"])
    assert foaf.are_disjoint("Person", "Organization")
    assert not foaf.are_disjoint("Person", "Agent")


def test_gene_ontology_of_more_than_40_000_terms_is_read() -> None:
    go = parsed("go.obo", made.gene_ontology(45_000))
    assert sizes(go) == (40_000, 3, 0)
    term = go.classes["GO:0000040"]
    assert term.iri == "http://purl.obolibrary.org/obo/GO_0000040"
    assert term.labels == ("positive regulation of process 40, type II", "up-regulation of process 40")
    assert term.parents == ("GO:0000013",)
    assert go.warnings == ()


def test_fibo_module_names_its_imports_and_ignores_its_restrictions() -> None:
    fibo = parsed("LegalPersons.rdf", made.fibo(3))
    assert fibo.warnings == tuple(
        f"LegalPersons.rdf: {iri} is not imported: give its file, too"
        for iri in (
            "https://spec.edmcouncil.org/fibo/ontology/FND/AgentsAndPeople/Agents/",
            "https://www.omg.org/spec/Commons/Classifiers/",
        )
    )
    person = fibo.classes["LegalPerson2"]
    assert person.parents == ("LegalPerson1",)
    assert person.labels == ("legal person 2", "Rechtsperson 2")
    assert person.comment == "any entity & person that can incur legal obligations"
    organized = fibo.object_properties["isOrganizedIn"]
    assert (organized.labels, organized.entry["owl:inverseOf"]) == (("is organized in",), "organizes")


def test_schema_org_has_unions_and_datatypes() -> None:
    schema = parsed("schema.jsonld", made.schema_org(3))
    author = schema.object_properties["author"]
    assert (author.domain, author.range) == (("Thing1", "Thing2"), ("Thing1", "Thing2"))
    assert author.entry["owl:inverseOf"] == "authorOf"
    assert schema.datatype_properties["name"].range == ("https://schema.org/Text",)
    assert schema.datatype_properties["size"].domain == ()
