"""Ontologies in the form of public ones, of any size: their files cannot be had where tests run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_GO_HEADER = """format-version: 1.2
data-version: releases/2026-06-01
subsetdef: goslim_generic "Generic GO slim"
synonymtypedef: syngo_official_label "label approved by the SynGO project"
default-namespace: gene_ontology
ontology: go
property_value: http://purl.org/dc/terms/license http://creativecommons.org/licenses/by/4.0/

"""
_GO_RELATIONS = """[Typedef]
id: part_of
name: part of
namespace: external
xref: BFO:0000050
is_transitive: true
inverse_of: has_part ! has part

[Typedef]
id: has_part
name: has part
namespace: external
xref: BFO:0000051
is_transitive: true

[Typedef]
id: regulates
name: regulates
xref: RO:0002211
is_transitive: true

[Typedef]
id: term_tracker_item
name: term tracker item
namespace: external
xref: IAO:0000233
is_metadata_tag: true
is_class_level: true
"""


def gene_ontology(terms: int) -> str:
    """OBO in the form of the Gene Ontology: every ninth term is obsolete."""
    return _GO_HEADER + "".join(_go_term(number) for number in range(1, terms + 1)) + _GO_RELATIONS


def _go_term(number: int) -> str:
    stanza = (
        f"[Term]\nid: GO:{number:07d}\nname: positive regulation of process {number}, type II\n"
        f"namespace: biological_process\nalt_id: GO:9{number:06d}\n"
        f'def: "Any process \\"{number}\\" that activates\\, or increases the rate of, a pathway." '
        "[GOC:jl, PMID:10873824]\n"
        'comment: See also "another" process.\nsubset: goslim_generic\n'
        f'synonym: "up-regulation of process {number}" EXACT []\n'
        f'synonym: "stimulation of process {number}" NARROW [GOC:jl]\n'
        "xref: Wikipedia:Regulation\n"
    )
    if number % 9 == 0:
        return f"{stanza}is_obsolete: true\nconsider: GO:0000001\n\n"
    parent = f"GO:{number // 3:07d}"
    is_a = f"is_a: {parent} ! process {number // 3}\n" if number // 3 and number // 3 % 9 else ""
    return (
        f"{stanza}{is_a}intersection_of: GO:0000001 ! process\nintersection_of: part_of {parent}\n"
        f'relationship: part_of {parent} {{source="GOC:jl"}} ! process\n\n'
    )


_FIBO_HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE rdf:RDF [
  <!ENTITY dct "http://purl.org/dc/terms/">
  <!ENTITY fibo "https://spec.edmcouncil.org/fibo/ontology/BE/LegalEntities/LegalPersons/">
  <!ENTITY owl "http://www.w3.org/2002/07/owl#">
  <!ENTITY rdfs "http://www.w3.org/2000/01/rdf-schema#">
  <!ENTITY xsd "http://www.w3.org/2001/XMLSchema#">
]>
<rdf:RDF xml:base="https://spec.edmcouncil.org/fibo/ontology/BE/LegalEntities/LegalPersons/"
  xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
  xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:skos="http://www.w3.org/2004/02/skos/core#"
  xmlns:dct="http://purl.org/dc/terms/" xmlns:xsd="http://www.w3.org/2001/XMLSchema#">
  <owl:Ontology rdf:about="https://spec.edmcouncil.org/fibo/ontology/BE/LegalEntities/LegalPersons/">
    <rdfs:label xml:lang="en">Legal Persons Ontology</rdfs:label>
    <dct:abstract>Legal persons, and their capacities.</dct:abstract>
    <owl:imports rdf:resource="https://spec.edmcouncil.org/fibo/ontology/FND/AgentsAndPeople/Agents/"/>
    <owl:imports rdf:resource="https://www.omg.org/spec/Commons/Classifiers/"/>
    <owl:versionIRI rdf:resource="https://spec.edmcouncil.org/fibo/ontology/BE/20260101/LegalPersons/"/>
  </owl:Ontology>
"""
_FIBO_PROPERTIES = """  <owl:ObjectProperty rdf:about="&fibo;isOrganizedIn">
    <rdfs:label xml:lang="en"> is organized in </rdfs:label>
    <rdfs:domain rdf:resource="&fibo;LegalPerson1"/>
    <rdfs:range rdf:resource="&fibo;LegalPerson2"/>
    <owl:inverseOf rdf:resource="&fibo;organizes"/>
    <skos:definition>relates a legal person to where it is organized</skos:definition>
  </owl:ObjectProperty>
  <owl:ObjectProperty rdf:about="&fibo;organizes">
    <skos:prefLabel>organizes</skos:prefLabel>
  </owl:ObjectProperty>
  <owl:DatatypeProperty rdf:about="&fibo;hasLegalName">
    <rdfs:label xml:lang="en">has legal name</rdfs:label>
    <rdfs:domain rdf:resource="&fibo;LegalPerson1"/>
    <rdfs:range rdf:resource="&xsd;string"/>
  </owl:DatatypeProperty>
  <owl:AnnotationProperty rdf:about="&fibo;explanatoryNote"/>
</rdf:RDF>
"""


def fibo(classes: int) -> str:
    """RDF/XML in the form of a module of the Financial Industry Business Ontology."""
    return _FIBO_HEADER + "".join(map(_fibo_class, range(1, classes + 1))) + _FIBO_PROPERTIES


def _fibo_class(number: int) -> str:
    above = f'<rdfs:subClassOf rdf:resource="&fibo;LegalPerson{number // 2}"/>' if number > 1 else ""
    return f"""  <owl:Class rdf:about="&fibo;LegalPerson{number}">
    {above}
    <rdfs:subClassOf>
      <owl:Restriction>
        <owl:onProperty rdf:resource="&fibo;isOrganizedIn"/>
        <owl:someValuesFrom rdf:resource="https://www.omg.org/spec/LCC/Countries/Country"/>
      </owl:Restriction>
    </rdfs:subClassOf>
    <rdfs:label xml:lang="en">legal person {number}</rdfs:label>
    <skos:altLabel xml:lang="de">Rechtsperson {number}</skos:altLabel>
    <skos:definition>any entity &amp; person that can incur legal obligations</skos:definition>
    <fibo-note xmlns="https://www.omg.org/spec/Commons/AnnotationVocabulary/">A note.</fibo-note>
  </owl:Class>
"""


def schema_org(classes: int) -> str:
    """JSON-LD in the form of schema.org, whose properties have `domainIncludes` and `rangeIncludes`."""
    graph: list[dict[str, Any]] = [*_schema_org_classes(classes)]
    both = [{"@id": "schema:Thing1"}, {"@id": "schema:Thing2"}]
    graph += [
        _schema_org_term("rdf:Property", "author", domains=both, ranges=both, inverse="schema:authorOf"),
        _schema_org_term("rdf:Property", "authorOf"),
        _schema_org_term("rdf:Property", "name", domains=both[:1], ranges=[{"@id": "schema:Text"}]),
        _schema_org_term("rdf:Property", "size", ranges=[{"@id": "schema:Number"}, {"@id": "schema:Text"}]),
    ]
    context = {
        "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
        "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
        "schema": "https://schema.org/",
    }
    return json.dumps({"@context": context, "@graph": graph}, indent=2)


def _schema_org_classes(classes: int) -> Iterator[dict[str, Any]]:
    for datatype in ("Text", "Number"):
        yield {
            "@id": f"schema:{datatype}",
            "@type": ["schema:DataType", "rdfs:Class"],
            "rdfs:label": datatype,
        }
    for number in range(1, classes + 1):
        above = {"rdfs:subClassOf": {"@id": f"schema:Thing{number // 2}"}} if number > 1 else {}
        yield _schema_org_term("rdfs:Class", f"Thing{number}") | above


def _schema_org_term(
    type: str,
    name: str,
    *,
    domains: list[dict[str, str]] | None = None,
    ranges: list[dict[str, str]] | None = None,
    inverse: str | None = None,
) -> dict[str, Any]:
    return {
        "@id": f"schema:{name}",
        "@type": type,
        "rdfs:label": name,
        "rdfs:comment": f"The {name}, as in <a href='https://schema.org/{name}'>{name}</a>.",
        "schema:source": {"@id": "https://github.com/schemaorg/schemaorg/issues/1"},
        **({"schema:domainIncludes": domains if len(domains) > 1 else domains[0]} if domains else {}),
        **({"schema:rangeIncludes": ranges if len(ranges) > 1 else ranges[0]} if ranges else {}),
        **({"schema:inverseOf": {"@id": inverse}} if inverse else {}),
    }


def turtle(classes: int) -> str:
    """Turtle with a label in two languages and a comment for each class, and a property for every ten."""
    lines = [
        "@prefix : <https://example.org/things#> .",
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .",
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .",
    ]
    for number in range(1, classes + 1):
        above = f" ; rdfs:subClassOf :Thing{number // 2}" if number > 1 else ""
        lines.append(
            f':Thing{number} a owl:Class{above} ; rdfs:label "thing {number}"@en, "Ding {number}"@de ; '
            f'rdfs:comment "Any thing that is kept in place {number} of a house." .'
        )
        if number % 10 == 0:
            lines.append(
                f":uses{number} a owl:ObjectProperty ; rdfs:domain :Thing{number} ; rdfs:range :Thing1 ."
            )
    return "\n".join(lines)
