"""Ontologies in files: the formats of RDF, TrustGraph's JSON, and files that are wrong or hostile."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_config import make_ontology
from trustgraph_prompt.graph.ontology_files import load
from trustgraph_prompt.graph.ontology_statements import ontology_graph
from trustgraph_prompt.graph.rdf_limits import MAX_BYTES
from trustgraph_prompt.graph.statements import Iri

pytest.importorskip("pyoxigraph", reason="no pyoxigraph: pip install trustgraph-prompt[graph]")

ONTOLOGIES = Path(__file__).parents[2] / "data" / "ontologies"
PREFIXES = """@prefix : <http://plants.example/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
RDF_XML = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
    ' xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#" xmlns:owl="http://www.w3.org/2002/07/owl#">'
)
LISTS = "[" * 150 + "]" * 150


def context(terms: Mapping[str, object]) -> str:
    return json.dumps({"@context": terms})


def load_ontology(path: Path) -> Ontology:
    return load([path])


def loaded(tmp_path: Path, text: str, name: str = "plants.ttl") -> Ontology:
    (tmp_path / name).write_text(text)
    return load_ontology(tmp_path / name)


def turtle(tmp_path: Path, text: str) -> Ontology:
    return loaded(tmp_path, PREFIXES + text)


def refusal(tmp_path: Path, text: str, name: str = "plants.ttl") -> str:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, text, name)
    return str(error.value).replace(f"{tmp_path}/", "")


def relation(subject_type: str, id: str, object_type: str) -> dict[str, str]:
    names = {"type": "relationship", "subject": "Ada", "object": "Babbage Ltd"}
    return {**names, "subject_type": subject_type, "relation": id, "object_type": object_type}


def test_organization_ontology_in_turtle_allows_and_refuses_relations() -> None:
    org = load_ontology(ONTOLOGIES / "org.ttl")

    assert (org.id, len(org.classes), org.warnings) == ("org", 14, ())
    assert org.classes["FormalOrganization"].parents == (
        "Organization",
        "http://xmlns.com/foaf/0.1/Organization",
    )
    assert org.check(relation("Agent", "memberOf", "FormalOrganization")) == ()
    assert org.check(relation("Agent", "memberOf", "OrganizationalUnit")) == ()
    [issue] = org.check(relation("Agent", "memberOf", "Site"))
    assert issue.message == (
        "'memberOf' does not fit the class of the object: found 'Site', expected 'Organization' or a subclass"
    )


def test_misspelt_terms_of_owl_and_rdf_schema_are_errors_with_a_suggestion(tmp_path: Path) -> None:
    misspelt = ":eats a owl:ObjectPropertie ; rdfs:domian :Animal ; rdfs:range :Plant . :Plant a owl:Class ."
    with pytest.raises(ConfigError) as error:
        turtle(tmp_path, misspelt)
    messages = [one.message for one in (error.value, *error.value.others)]
    assert sorted(messages) == [
        "there is no owl:ObjectPropertie, did you mean 'owl:ObjectProperty'?",
        "there is no rdfs:domian, did you mean 'rdfs:domain'?",
    ]


def test_terms_of_any_version_of_owl_and_rdf_are_accepted(tmp_path: Path) -> None:
    real = ":A a owl:Class, rdfs:Class ; rdfs:isDefinedBy owl: ; rdf:_1 :A ; owl:disjointWith owl:Nothing ."
    assert turtle(tmp_path, real).warnings == ()


def test_class_that_is_only_a_domain_or_a_range_is_named_in_a_warning(tmp_path: Path) -> None:
    declared = ":Person a owl:Class . :knows a owl:ObjectProperty ; rdfs:domain :Persn ; rdfs:range :Person ."
    [warning] = turtle(tmp_path, declared).warnings
    assert warning == (
        f"{tmp_path / 'plants.ttl'}: http://plants.example/Persn is a domain or a range, but the file does "
        "not say that it is a class, did you mean 'Person'?"
    )


def test_labels_are_trimmed_with_their_languages_the_english_ones_of_each_kind_first(tmp_path: Path) -> None:
    known = turtle(
        tmp_path,
        '@prefix skos: <http://www.w3.org/2004/02/skos/core#> . :H a owl:Class ; skos:altLabel "weed"@en ;'
        ' rdfs:label " Kraut "@de, "herb "@en-GB, " " ; skos:prefLabel "herb", "plante"@fr .',
    )
    assert known.classes["H"].labels == ("herb", "Kraut", "plante", "weed")
    languages = known.classes["H"].languages
    assert [languages.get(each) for each in known.classes["H"].labels] == ["en", "de", "fr", "en"]


@pytest.mark.parametrize("labels", [0, 50])
def test_class_may_have_no_label_or_labels_in_fifty_languages(tmp_path: Path, labels: int) -> None:
    codes = [f"{first}{second}" for first in "abcde" for second in "abcdefghij"][:labels]
    texts = "".join(f' ; rdfs:label "herb in {code}"@{code}' for code in codes)
    known = turtle(tmp_path, f":Herb a owl:Class{texts} .")
    assert len(known.classes["Herb"].labels) == labels
    assert known.warnings == ()


def test_inverse_is_the_id_of_a_relation_or_the_name_of_one_that_is_elsewhere(tmp_path: Path) -> None:
    known = turtle(
        tmp_path,
        ":A a owl:Class . :eatenBy a owl:ObjectProperty ."
        " :eats a owl:ObjectProperty ; owl:inverseOf :eatenBy ."
        " :owns a owl:ObjectProperty ; owl:inverseOf <http://other.example/#ownedBy> ."
        " :sees a owl:ObjectProperty ; owl:inverseOf [ owl:inverseOf :eats ] .",
    )
    inverses = {id: each.entry.get("owl:inverseOf") for id, each in known.object_properties.items()}
    assert inverses == {"eatenBy": None, "eats": "eatenBy", "owns": "ownedBy", "sees": None}


def test_disjoint_classes_are_those_of_the_file(tmp_path: Path) -> None:
    known = turtle(tmp_path, ":A a owl:Class ; owl:disjointWith :B, :Gone, [] . :B a owl:Class .")
    assert known.are_disjoint("A", "B")
    assert known.are_disjoint("B", "A")
    assert known.classes["A"].entry["owl:disjointWith"] == ["B"]
    assert "owl:disjointWith" not in known.classes["B"].entry


def test_imports_are_named_and_restrictions_are_no_superclasses(tmp_path: Path) -> None:
    known = turtle(
        tmp_path,
        "<http://plants.example/> a owl:Ontology ; owl:imports <http://soil.example/> . :A a owl:Class ;"
        " rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :p ; owl:someValuesFrom :B ] .",
    )
    assert known.warnings == (
        f"{tmp_path / 'plants.ttl'}: http://soil.example/ is not imported: give its file, too",
    )
    assert (*known.classes, *known.classes["A"].parents) == ("A",)


def test_union_of_classes_as_a_domain_allows_each_of_them() -> None:
    org = load_ontology(ONTOLOGIES / "org.ttl")

    assert org.object_properties["role"].domain == ("Membership", "Post")


def test_foaf_vocabulary_in_rdf_xml_makes_a_graph() -> None:
    foaf = load_ontology(ONTOLOGIES / "foaf.rdf")

    assert {"Agent", "Person", "SpatialThing"} <= foaf.classes.keys()
    assert foaf.superclasses["Person"] >= {"Agent", "SpatialThing"}
    assert foaf.datatype_properties["age"].range == ("rdfs:Literal",)
    assert foaf.check(relation("Person", "knows", "Group"))
    [fact] = [
        fact
        for fact in ontology_graph(foaf, [relation("Person", "knows", "Person")]).facts
        if fact.predicate == "http://xmlns.com/foaf/0.1/knows"
    ]
    assert fact.subject == "https://trustgraph.ai/foaf/person-ada"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plants.nt", "<http://plants.example/Herb> <{type}> <{owl}Class> ."),
        ("plants.jsonld", '{{"@id": "http://plants.example/Herb", "@type": "{owl}Class"}}'),
        ("plants.owl", RDF_XML + '<owl:Class rdf:about="http://plants.example/Herb"/></rdf:RDF>'),
        ("plants.json", '{{"classes": {{"Herb": {{"uri": "http://plants.example/Herb"}}}}}}'),
    ],
)
def test_format_is_chosen_by_the_name_of_the_file(tmp_path: Path, name: str, text: str) -> None:
    rdf, owl = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2002/07/owl#"
    plants = loaded(tmp_path, text.format(type=f"{rdf}type", owl=owl), name)
    assert (plants.id, plants.classes["Herb"].iri) == ("plants", "http://plants.example/Herb")


def test_english_labels_come_first_and_a_definition_stands_for_a_comment(tmp_path: Path) -> None:
    herb = turtle(
        tmp_path,
        """:Herb a owl:Class; rdfs:label "Kraut"@de, "herb"@en-GB;
           <http://www.w3.org/2004/02/skos/core#definition> "A plant without wood." .""",
    ).classes["Herb"]
    assert (herb.labels, herb.comment) == (("herb", "Kraut"), "A plant without wood.")


def test_restrictions_are_ignored_and_classes_that_are_only_named_are_known(tmp_path: Path) -> None:
    plants = turtle(
        tmp_path,
        """:Herb a owl:Class; rdfs:subClassOf :Plant, owl:Thing,
           [a owl:Restriction; owl:onProperty :eats; owl:someValuesFrom :Soil] .
           :eats a owl:ObjectProperty; rdfs:domain :Herb; rdfs:range [owl:unionOf (:Soil :Water)] .
           :likes a owl:ObjectProperty; rdfs:domain owl:Thing; rdfs:range [owl:complementOf :Soil] .""",
    )
    assert [*plants.classes] == ["Herb", "Plant", "Soil", "Water"]
    assert plants.classes["Herb"].parents == ("Plant",)
    assert plants.object_properties["eats"].range == ("Soil", "Water")
    assert (plants.object_properties["likes"].domain, plants.object_properties["likes"].range) == ((), ())


def test_property_of_rdf_schema_is_an_attribute_if_its_range_is_a_datatype(tmp_path: Path) -> None:
    plants = turtle(
        tmp_path,
        """:Herb a rdfs:Class . :height a rdf:Property; rdfs:domain :Herb; rdfs:range xsd:decimal .
           :shades a rdf:Property; rdfs:range :Herb .""",
    )
    assert plants.datatype_properties["height"].range == ("xsd:decimal",)
    assert plants.object_properties["shades"].range == ("Herb",)


def test_relative_iris_are_those_of_trustgraph_for_classes_without_one(tmp_path: Path) -> None:
    plants = turtle(tmp_path, "<> a owl:Ontology . <#Herb> a owl:Class .")
    assert plants.classes["Herb"].iri == "https://trustgraph.ai/ontology/plants#Herb"


def test_two_classes_of_one_name_have_different_ids(tmp_path: Path) -> None:
    plants = turtle(tmp_path, ":Herb a owl:Class . <http://other.example/kinds/Herb> a owl:Class .")
    assert [*plants.classes] == ["Herb", "http://other.example/kinds/Herb"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "plants.ttl",
            PREFIXES + ":Herb a owl:Class .\n:Tree a .\n",
            "plants.ttl:7: not Turtle: . is not a valid RDF object",
        ),
        ("plants.owl", "Class: Herb", "plants.owl:1: not RDF/XML:"),
        ("plants.owl", RDF_XML + "\n<owl:Class>\n", "plants.owl:3: not RDF/XML: no element found"),
        ("plants.rdf", RDF_XML + "<owl:Class></rdf:RDF>", "plants.rdf:1: not RDF/XML: mismatched tag"),
        ("plants.json", "{", "plants.json: not JSON"),
        ("plants.json", '{"classes": []}', "plants.json /classes: it is of the wrong type"),
        ("plants.omn", "", "plants.omn: unknown format of an ontology (found 'plants.omn', expected one of"),
        ("plants.ttl", PREFIXES, "plants.ttl: the file has no class (found None, expected owl:Class"),
    ],
)
def test_invalid_file_is_refused_with_the_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    assert refusal(tmp_path, text, name).startswith(message)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "plants.jsonld",
            '{"@context": "http://schema.example/", "@id": "http://plants.example/Herb"}',
            "JSON-LD with its @context in the file",
        ),
        (
            "plants.ttl",
            PREFIXES
            + ":p a owl:ObjectProperty; rdfs:domain [owl:unionOf _:a] . _:a rdf:first :A; rdf:rest _:a .",
            "invalid union of classes",
        ),
        (
            "plants.rdf",
            '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]>' + RDF_XML + "</rdf:RDF>",
            "the XML entities are too large",
        ),
        (
            "plants.rdf",
            f'<!DOCTYPE a [<!ENTITY a "{"a" * 400_000}">]>{RDF_XML}<owl:Class>{"&a;" * 1000}',
            "the XML entities are too large",
        ),
        (
            "plants.rdf",
            f'<!DOCTYPE a [<!-- <!ENTITY " --><!ENTITY a0 "{"a" * 50}">'
            + "".join(f"""<!-- <!ENTITY " --><!ENTITY a{n + 1} "{f"&a{n};" * 10}">""" for n in range(9))
            + f"]>{RDF_XML}<owl:Class rdf:about='http://plants.example/&a9;'/></rdf:RDF>",
            "the XML entities are too large",
        ),
        (
            "plants.ttl",
            f"@prefix : <http://{'a' * 100_000}/> . :a :a {', '.join(f':c{n}' for n in range(3000))} .",
            "the ontology is too large",
        ),
        ("plants.ttl", "# " + "<!ENTITY" * 200_000, "the file has no class"),
        (
            "plants.rdf",
            RDF_XML + "<rdf:Description><a:b xmlns:a='urn:a'>" * 150,
            "elements are nested deeper than 200",
        ),
        ("plants.rdf", "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>" + RDF_XML, "too large"),
        ("plants.ttl", PREFIXES + ":a :b " + "(" * 20_000, "not Turtle: Unexpected end"),
        ("plants.jsonld", "[" * 200_000, "objects and lists are nested deeper than 200"),
        (
            "plants.jsonld",
            '{"@graph":[' * 5_000 + "]}" * 5_000,
            "objects and lists are nested deeper than 200",
        ),
        (
            "plants.jsonld",
            f'{{"a": {LISTS}, "a": 1}}',
            "not JSON-LD with its @context in the file: an object",
        ),
        ("plants.jsonld", f'{{"a": {"1" * 5_000}}}', "the file has no class"),
        (
            "plants.jsonld",
            context({f"t{n}": f"t{n + 1}:x" for n in range(20_000)}),
            "terms of a @context are defined by each other",
        ),
        (
            "plants.jsonld",
            context({f"t{n}": {"@type": f"t{n + 1}"} for n in range(5_000)}),
            "defined by each other",
        ),
        ("plants.jsonld", context({f"t{n}:x": f"t{n + 1}:x" for n in range(5_000)}), "defined by each other"),
        (
            "plants.jsonld",
            context({f"t{n}": f"t{(n + 1) % 300}:x" for n in range(300)}),
            "defined by each other",
        ),
        (
            "plants.jsonld",
            context({"t": {"@context": {f"t{n}": f"t{n + 1}" for n in range(300)}}}),
            "defined by each other",
        ),
        (
            "plants.jsonld",
            json.dumps(
                [{"@context": {f"t{n}": "a:b" for n in range(5_000)}, "@graph": [{"@context": {}}] * 5_000}]
            ),
            "the contexts are too large",
        ),
        (
            "plants.jsonld",
            json.dumps(
                {
                    "@context": {
                        **{f"t{n}": "a:b" for n in range(1_000)},
                        "T": {"@id": "a:T", "@context": {}},
                    },
                    "@graph": [{"@type": ["T"] * 100}] * 100,
                }
            ),
            "the contexts are too large",
        ),
        ("plants.nt", f"<a:a> <a:b> {'<<(<a:a> <a:b> ' * 50_000}", "too many triple terms"),
        ("plants.ttl", "#" * (MAX_BYTES + 1), "larger than 67,108,864 bytes"),
        (
            "plants.ttl",
            PREFIXES + "".join(f":c{n} a owl:Class; rdfs:subClassOf :c{n + 1} .\n" for n in range(300)),
            "too many superclasses",
        ),
    ],
)
def test_hostile_file_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    assert message in refusal(tmp_path, text, name)


def test_json_ld_with_many_terms_of_one_prefix_is_read(tmp_path: Path) -> None:
    terms = {f"t{n}": {"@id": f"ex:t{n}", "@type": "ex:t"} for n in range(2_000)}
    herbs = [{"@id": f"ex:Herb{n}", "type": "owl:Class"} for n in range(2_000)]
    text = json.dumps(
        {
            "@context": {
                **terms,
                "ex": "http://plants.example/",
                "owl": "http://www.w3.org/2002/07/owl#",
                "type": "@type",
            },
            "@graph": herbs,
        }
    )
    assert len(loaded(tmp_path, text, "plants.jsonld").classes) == 2_000


def test_json_ld_of_many_documents_with_a_context_each_is_read(tmp_path: Path) -> None:
    terms = {"ex": "http://plants.example/", "owl": "http://www.w3.org/2002/07/owl#", "type": "@type"}
    herbs = [{"@context": terms, "@id": f"ex:Herb{n}", "type": "owl:Class"} for n in range(2_000)]
    assert len(loaded(tmp_path, json.dumps(herbs), "plants.jsonld").classes) == 2_000


def test_classes_in_a_circle_are_subclasses_of_each_other(tmp_path: Path) -> None:
    plants = turtle(tmp_path, ":A a owl:Class; rdfs:subClassOf :B . :B a owl:Class; rdfs:subClassOf :A .")
    assert (plants.is_a("A", ("B",)), plants.is_a("B", ("A",))) == (True, True)


def test_missing_extra_is_named_with_the_command_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    assert "pip install 'trustgraph-prompt[graph]'" in refusal(tmp_path, PREFIXES)
    assert loaded(tmp_path, json.dumps({"classes": {"Herb": {}}}), "plants.json").classes.keys() == {"Herb"}


def test_file_may_have_any_name(tmp_path: Path) -> None:
    known = loaded(tmp_path, PREFIXES + "<Herb> a owl:Class .", "my plants%.ttl")

    assert known.id == "my plants%"
    assert [each.iri for each in known.classes.values()] == ["https://trustgraph.ai/ontology/Herb"]


def test_every_iri_of_a_graph_is_valid() -> None:
    import pyoxigraph as rdf

    odd = 'my "<onto>" {x}|^`\\ \u00e9'
    document = {
        "classes": {odd: {}, "B": {"uri": "no iri"}, "C": {"uri": "http://x y/<C>"}, "a:D": {}},
        "datatypeProperties": {odd: {"rdfs:range": "xsd:my type"}, "b": {"rdfs:range": "http://x y"}},
    }
    known = make_ontology(odd, document, "o")
    objects = [
        {"type": "attribute", "entity": odd, "entity_type": class_, "attribute": id, "value": "1"}
        for class_ in known.classes
        for id in known.datatype_properties
    ]
    graph = ontology_graph(known, objects)
    iris = {term for each in (*graph.facts, *graph.labels) for term in each[:3] if isinstance(term, Iri)}

    assert len(iris) > 10
    iris |= {Iri.of(id, "urn:chunk:") for id in ("7", "a>b", "urn:chunk:1", "100% %41")}
    text = "".join(f"<{iri}> <urn:p> <{iri}> .\n" for iri in iris)
    assert len([*rdf.parse(text, rdf.RdfFormat.N_TRIPLES)]) == len(iris)
    assert Iri.of("100% %41", "urn:chunk:") == "urn:chunk:100%25%20%41"
