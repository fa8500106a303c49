"""Ontologies in OBO: what is read of classes and relations, and files that are wrong."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.steps import is_linear
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph.obo import read_obo
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_files import parse_ontology

HEADER = "format-version: 1.4\nontology: zoo\n"


def parsed(text: str, header: str = HEADER) -> Ontology:
    return parse_ontology(Path("zoo.obo"), header + text)


def test_term_has_its_name_exact_synonyms_definition_superclass_and_purl() -> None:
    known = parsed(
        "\n[Term]\nid: ZO:1 ! the first\nname: cat \\{tame\\}, house\\Wcat ! felis\n"
        'def: "Says \\"meow\\"! Often." [ISBN:1, "a note"] {source="x"}\n'
        'synonym: "mouser" EXACT LAYPERSON [ZO:ab]\nsynonym: "pet" BROAD []\n'
        'is_a: ZO:2 {source="y"} ! animal\n'
        "relationship: eats ZO:3 ! mouse\nintersection_of: ZO:2\nproperty_value: note \"x\" xsd:string\n"
        "\n[Term]\nid: ZO:2\nname: animal\n"
    )  # fmt: skip
    cat = known.classes["ZO:1"]
    assert cat.labels == ("cat {tame}, house cat", "mouser")
    assert cat.comment == 'Says "meow"! Often.'
    assert (cat.parents, known.warnings) == (("ZO:2",), ())
    assert cat.iri == "http://purl.obolibrary.org/obo/ZO_1"


@pytest.mark.parametrize(
    ("stanza", "iri"),
    [
        ("[Typedef]\nid: part_of\nxref: BFO:0000050\n", "http://purl.obolibrary.org/obo/BFO_0000050"),
        ("[Typedef]\nid: part_of\nxref: http://x\n", "http://purl.obolibrary.org/obo/zoo#part_of"),
        ("[Typedef]\nid: RO:0002211\n", "http://purl.obolibrary.org/obo/RO_0002211"),
        ("[Typedef]\nid: https://zoo.example/eats\n", "https://zoo.example/eats"),
        ("[Typedef]\nid: OWN:7\n", "https://own.example/7"),
    ],
)
def test_iri_of_an_id_is_a_purl(stanza: str, iri: str) -> None:
    known = parsed(f"idspace: OWN https://own.example/\n{stanza}[Term]\nid: ZO:1\n")
    assert [each.iri for each in known.object_properties.values()] == [iri]


def test_typedef_is_a_relation_or_with_a_datatype_an_attribute() -> None:
    known = parsed(
        "[Term]\nid: ZO:1\n[Typedef]\nid: eats\nname: eats\ndomain: ZO:1 ! animal\nrange: ZO:1\n"
        "inverse_of: eaten_by ! eaten by\n[Typedef]\nid: weighs\nrange: xsd:decimal\n"
        "[Typedef]\nid: tracker\nis_metadata_tag: true\n[Instance]\nid: ZO:9\nname: Tom\n"
    )
    eats = known.object_properties["eats"]
    assert (eats.domain, eats.range, eats.labels) == (("ZO:1",), ("ZO:1",), ("eats",))
    assert eats.entry["owl:inverseOf"] == ["eaten_by"]
    assert known.datatype_properties["weighs"].range == ("xsd:decimal",)
    assert len(known) == 3


def test_relation_without_a_range_joins_things_of_any_class() -> None:
    relation = parsed("[Term]\nid: ZO:1\n[Typedef]\nid: part_of\n").object_properties["part_of"]
    assert (relation.domain, relation.range, relation.has_range) == ((), (), True)


def test_obsolete_term_is_left_out_and_imports_are_named() -> None:
    known = parsed("import: http://x.example/y.obo\n[Term]\nid: ZO:1\n[Term]\nid: ZO:2\nis_obsolete: true\n")
    assert [*known.classes] == ["ZO:1"]
    assert known.warnings == ("zoo.obo: http://x.example/y.obo is not imported: give its file, too",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[Term]\nid: ZO:1\nname cat\n", "zoo.obo:5: not OBO: not a tag with a value, such as name: cell"),
        ("[Term]\nname: cat\n", "zoo.obo:3: not OBO: the [Term] has no id"),
        ("[Term\nid: ZO:1\n", "zoo.obo:3: not OBO: not a stanza such as [Term] (found '[Term'"),
        ('[Term]\nid: ZO:1\ndef: "no end\n', "zoo.obo:5: not OBO: not a text in quotes"),
        ("[Term]\nid: ZO:1\nsynonym: cat EXACT []\n", "zoo.obo:5: not OBO: not a text in quotes"),
        ("@prefix owl: <x> .\n", "zoo.obo:3: not OBO: not a tag"),
    ],
)
def test_broken_file_is_refused_with_the_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parsed(text)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "line",
    [
        *("name: " + "{a= " * 100, "name: " + " !\\!" * 100, 'def: "' + '\\"' * 200),
        *("x" * 400, "[" * 400, "a:" * 200),
    ],
)
def test_hostile_line_takes_linear_time(line: str) -> None:
    def work(size: int) -> None:
        text = f"{HEADER}[Term]\nid: ZO:1\n{line * size}\n"
        with suppress(ConfigError):
            read_obo(text, "zoo", "zoo.obo")

    assert is_linear(work, 10)
