"""The graph of a store as people see it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.support.stored_graph import CHALK, ROCKS, Answer, Paper, definition, entity, relation, same
from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.documents import Document
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.mapping import Graph, quoted
from trustgraph_prompt.graph.provenance import (
    GRAPH_SOURCE,
    Origin,
    about_document,
    passage_iri,
    provenance,
)
from trustgraph_prompt.graph.statements import Iri, Literal, Statement, TripleTerm
from trustgraph_prompt.graph_store.page import write_page
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.store import GRAPH_DIFFERENT, GraphStore
from trustgraph_prompt.graph_store.view import GraphView, SourcePassage
from trustgraph_prompt.grounding import MatchKind


def view(*statements: Statement) -> GraphView:
    with GraphStore.in_memory() as store:
        store.add(statements)
        return read_view(store)


def quotes(seen: GraphView, passages: tuple[SourcePassage, ...]) -> list[str]:
    return [seen.documents[each.document].text[each.start : each.end] for each in passages]


def test_facts_have_names_prompts_and_the_passages_that_they_were_read_in() -> None:
    seen = view(*CHALK.statements(), *ROCKS.statements())
    facts = {(seen.things[each.subject].name, each.predicate): each for each in seen.facts}
    assert list(facts) == [
        ("Chalk", "definition"),
        ("Chalk", "found in"),
        ("Chalk", "type"),
        ("England", "part of"),
        ("Needles", "made of"),
        ("Needles", "part of"),
    ]
    found_in = facts["Chalk", "found in"]
    assert (found_in.object, found_in.is_relation) == (entity("England"), True)
    assert found_in.prompts == ("relationships",)
    assert quotes(seen, found_in.passages) == ["Chalk", "England", "England", "chalk"]
    assert quotes(seen, found_in.chunks) == ["Chalk 🦕 is a soft rock of England.\n", "England has chalk.\n"]
    made_of = facts["Needles", "made of"]
    assert quotes(seen, made_of.passages) == ["Needles", "chalk"]
    assert [(each.page, each.heading) for each in made_of.passages] == [(2, "Line 2")] * 2
    ungrounded = facts["Needles", "part of"]
    assert (ungrounded.passages, ungrounded.is_ungrounded, made_of.is_ungrounded) == ((), True, False)
    assert quotes(seen, ungrounded.chunks) == ["The Needles of 白亜 are chalk.\n"]
    definition = facts["Chalk", "definition"]
    assert (definition.object, definition.is_relation) == ("A soft rock.", False)


def test_fact_is_weak_where_no_other_answer_found_all_of_its_names() -> None:
    fact = relation("Herb Tamm", "wrote", "Notes")
    weak = Answer("weak", {fact: ("Tamm", "Notes")}, weak=[fact])
    ungrounded, strong = Answer("ungrounded", {fact: ()}), Answer("strong", {fact: ("Tamm", "Notes")})

    def doubts(*answers: Answer) -> tuple[bool, bool]:
        (fact,) = view(*Paper("a.txt", "Tamm wrote Notes.", {0: answers}).statements()).facts
        return fact.is_weak, fact.is_ungrounded

    assert doubts(weak) == doubts(weak, ungrounded) == (True, False)
    assert doubts(ungrounded) == (False, True)
    assert doubts(strong) == doubts(weak, strong, ungrounded) == (False, False)


def test_fact_is_looked_up_if_an_answer_found_both_of_its_names() -> None:
    fact, name = relation("Tamm", "wrote", "Notes"), definition("Tamm", "A writer.")
    half, both = Answer("half", {fact: ("Tamm",)}), Answer("both", {fact: ("Tamm", "Notes")})

    def are_looked_up(*answers: Answer) -> list[bool]:
        seen = view(*Paper("a.txt", "Tamm wrote Notes.", {0: answers}).statements())
        return [each.is_looked_up for each in seen.facts]

    assert are_looked_up(half) == are_looked_up(half, Answer("again", {fact: ("Tamm",)})) == [False]
    assert are_looked_up(half, both) == are_looked_up(Answer("none", {fact: ()})) == [True]
    assert are_looked_up(Answer("defined", {name: ("Tamm",)})) == [True]
    assert [each.is_looked_up for each in view(fact, name).facts] == [False, False]
    assert are_looked_up(Answer("itself", {relation("Tamm", "is", "Tamm"): ("Tamm",)})) == [True]


@pytest.mark.parametrize("stretches", [((0, 16),), ((0, 4), (11, 16))])
@pytest.mark.parametrize(("looked_up", "is_whole"), [(2, True), (1, False), (0, False)])
def test_relation_with_a_quote_is_looked_up_if_its_names_were(
    stretches: tuple[tuple[int, int], ...], looked_up: int, is_whole: bool
) -> None:
    document = Document("a.txt", "Tamm wrote Notes.")
    names = [Grounding("text", MatchKind.EXACT, 1.0, (span,)) for span in ((0, 4), (11, 16))]
    quote = Grounding("text", MatchKind.EXACT, 1.0, stretches)
    evidence = quoted(tuple(names[:looked_up]), {"/quote": quote}, ["quote"])
    origin = Origin(
        chunk=passage_iri(document, 0, 17),
        text=document.text,
        prompt="p",
        version="v",
        component="c",
        component_version="1",
        published=None,
        document=document,
    )
    fact = relation("Tamm", "wrote", "Notes")
    seen = view(fact, *about_document(document), *provenance(Graph({fact: evidence}), origin))
    [shown] = seen.facts
    assert quotes(seen, shown.passages) == [document.text[start:end] for start, end in stretches]
    assert shown.is_looked_up is is_whole
    in_a_flow = provenance(Graph({fact: evidence}), replace(origin, document=None))
    assert v.LOOKED_UP not in {each.predicate for each in in_a_flow}


def test_page_says_that_nothing_was_looked_up_where_no_name_was(tmp_path: Path) -> None:
    fact = relation("Tamm", "wrote", "Notes")
    half = view(*Paper("a.txt", "Tamm wrote Notes.", {0: [Answer("half", {fact: ("Tamm",)})]}).statements())
    for seen, is_said in (half, False), (view(fact), True):
        write_page(seen, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert ("No name of any fact was looked up in the texts." in page) == is_said


def test_class_is_a_type_of_its_thing_and_no_thing() -> None:
    seen = view(*CHALK.statements())
    assert seen.things[entity("Chalk")].types == ("Rock",)
    assert entity("Rock") not in seen.things
    assert [each.object for each in seen.facts if each.predicate == "type"] == ["Rock"]


def test_classes_and_properties_of_an_ontology_name_types_and_relations_and_are_no_things() -> None:
    rock, wears = Iri("urn:o#Rock"), Iri("urn:o#wearsAway")
    seen = view(
        Statement(rock, v.TYPE, v.CLASS),
        Statement(rock, v.LABEL, Literal("kind of rock")),
        Statement(rock, v.SUBCLASS_OF, Iri("urn:o#Matter")),
        Statement(wears, v.TYPE, v.OBJECT_PROPERTY),
        Statement(wears, v.LABEL, Literal("wears away")),
        Statement(wears, v.RANGE, rock),
        Statement(entity("Chalk"), v.TYPE, rock),
        Statement(entity("Rain"), wears, entity("Chalk")),
    )
    assert seen.things.keys() == {entity("Chalk"), entity("Rain")}
    assert seen.things[entity("Chalk")].types == ("kind of rock",)
    assert {each.predicate for each in seen.facts} == {"type", "wears away"}


def test_refusals_and_truncations_have_their_passages() -> None:
    seen = view(*CHALK.statements())
    (refusal,) = seen.refusals
    assert refusal[1:] == ("relationships", '{"subject": "moon"}', "`moon` does not occur in the text")
    (cut,) = seen.cuts
    assert cut.prompt == "relationships"
    assert quotes(seen, (refusal.passage, cut.passage)) == [*CHALK.text.splitlines(keepends=True)[:2]]


def test_answer_without_facts_still_has_its_refusals() -> None:
    paper = Paper("a.txt", "Nothing.", {0: [Answer("p", {}, refused={"{}": "no `subject`"}, truncated=True)]})
    seen = view(*paper.statements())
    assert [each.reason for each in seen.refusals] == ["no `subject`"]
    assert len(seen.cuts) == 1
    assert (seen.things, seen.facts) == ({}, [])


def test_name_of_a_thing_is_that_of_most_answers() -> None:
    facts = {relation("Chalk", "is", "White"): ()}
    answers = [Answer(f"p{n}", facts, ["chalk" if n else "CHALK"]) for n in range(3)]
    seen = view(*Paper("a.txt", "Chalk.", {0: answers}).statements())
    assert seen.things[entity("chalk")].names == ("chalk", "CHALK")
    assert seen.things[entity("chalk")].name == "chalk"
    assert seen.things[entity("white")].name == "white"  # without a label: the end of the IRI
    assert seen.facts[0].prompts == ("p0", "p1", "p2")


def test_same_things_are_merged_with_their_facts() -> None:
    papers = [
        Paper(f"{name}.txt", f"{name} wrote Notes.", {0: [Answer("p", {fact: (name,)}, [name, "Notes"])]})
        for name in ("Ada Lovelace", "Lovelace", "A. Lovelace")
        for fact in [relation(name, "wrote", "Notes")]
    ]
    statements = [each for paper in papers for each in paper.statements()]
    seen = view(*statements, *same("Ada Lovelace", "Lovelace"), *same("Lovelace", "A. Lovelace"))
    (fact,) = seen.facts
    thing = seen.things[fact.subject]
    assert thing.iri == thing.iris[0]
    assert set(thing.iris) == {entity("Ada Lovelace"), entity("Lovelace"), entity("A. Lovelace")}
    assert set(thing.names) == {"Ada Lovelace", "Lovelace", "A. Lovelace"}
    assert set(quotes(seen, fact.passages)) == set(thing.names)
    assert len(seen.things) == 2


def test_names_that_are_one_by_rule_are_merged_on_request() -> None:
    paper = Paper(
        "a.txt",
        "The Merle Cooperative sells to Norwich. Merle Cooperative began in 1843.",
        {
            0: [
                Answer(
                    "p",
                    {
                        relation("The Merle Cooperative", "sells to", "Norwich"): ("The Merle Cooperative",),
                        definition("Merle Cooperative", "It began in 1843."): ("Merle Cooperative",),
                    },
                    ["The Merle Cooperative", "Merle Cooperative", "Norwich"],
                )
            ]
        },
    )
    with GraphStore.in_memory() as store:
        store.add(paper.statements())
        assert len(read_view(store).things) == 3
        seen = read_view(store, by_rule=True)
        assert {each.names for each in seen.things.values()} == {
            ("Merle Cooperative", "The Merle Cooperative"),
            ("Norwich",),
        }
        assert {each.subject for each in seen.facts} == {entity("Merle Cooperative")}
        apart = Statement(
            entity("Merle Cooperative"),
            v.DIFFERENT_FROM,
            entity("The Merle Cooperative"),
            GRAPH_DIFFERENT,
        )
        store.add([apart])
        assert len(read_view(store, by_rule=True).things) == 3


def test_circle_of_same_things_is_one_thing() -> None:
    circle = [*same("a", "b"), *same("b", "c"), *same("c", "a"), *same("a", "a")]
    seen = view(relation("a", "is", "b"), *circle)
    assert list(seen.things) == [entity("a")]
    assert seen.facts[0][:3] == (entity("a"), "is", entity("a"))


def test_statements_loaded_by_others_do_not_disturb() -> None:
    a, b, p = ox.NamedNode("urn:a"), ox.BlankNode("b"), ox.NamedNode("urn:p")
    source = ox.NamedNode(GRAPH_SOURCE)

    def about(subject: ox.NamedNode | ox.BlankNode, predicate: str, object: object) -> ox.Quad:
        return ox.Quad(subject, ox.NamedNode(predicate), object, source)  # type: ignore[arg-type]

    nested = ox.Triple(a, p, ox.Triple(a, p, b))
    with GraphStore.in_memory() as store:
        store.add(CHALK.statements())
        ours = read_view(store)
        store.dataset.extend(
            [
                about(a, v.CONTAINS, nested),
                about(a, v.CONTAINS, ox.Literal("a text")),
                about(b, v.REIFIES, nested),
                about(b, v.REIFIES, a),
                about(b, v.HAS_TARGET, ox.Literal("a text")),
                about(a, v.HAS_SOURCE, ox.NamedNode(CHALK.iri)),
                about(a, v.HAS_SELECTOR, b),
                about(b, v.START, ox.Literal("soon")),
                about(b, v.END, ox.Literal("-1")),
                about(b, v.TYPE, ox.NamedNode(v.DIGITAL_DOCUMENT)),
                about(b, v.CHAR_OFFSET, ox.Literal("²")),
                about(b, v.USED, b),
                about(b, v.REFUSED, b),
                about(b, v.TRUNCATED, ox.Literal("true")),
                ox.Quad(a, ox.NamedNode(v.LABEL), b),
                ox.Quad(a, p, nested),
                ox.Quad(a, ox.NamedNode("urn:graph:same"), b, ox.NamedNode("urn:graph:same")),
                ox.Quad(a, ox.NamedNode(v.SAME_AS), ox.Literal("a"), ox.NamedNode("urn:graph:same")),
            ]
        )
        assert read_view(store) == ours
        store.dataset.extend([ox.Quad(b, p, ox.Literal("Fels", language="de")), ox.Quad(a, p, b)])
        seen = read_view(store)
    assert {(each.predicate, each.object) for each in seen.facts} - {
        (each.predicate, each.object) for each in ours.facts
    } == {("p", "Fels"), ("p", str(b))}
    assert seen.things["_:b"].name == "_:b"


def test_target_with_impossible_offsets_is_no_passage() -> None:
    statements = [
        each._replace(object=Literal("99999", v.NON_NEGATIVE_INTEGER)) if each.predicate == v.START else each
        for each in CHALK.statements()
    ]
    assert not any(each.passages for each in view(*statements).facts)


def test_triple_terms_are_not_facts() -> None:
    quoted = TripleTerm(entity("a"), entity("is"), entity("b"))
    assert view(Statement(entity("x"), entity("says"), quoted)).facts == []


def test_definitions_of_one_thing_stay_apart() -> None:
    seen = view(definition("Chalk", "A rock."), definition("Chalk", "A stone."))
    assert [each.object for each in seen.facts] == ["A rock.", "A stone."]
