"""The provenance of an answer's facts, and the messages that carry a graph."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from tests.support.graph_records import EntityContexts, Triples
from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.batches import entity_contexts, triples
from trustgraph_prompt.graph.mapping import Graph
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE, Origin, provenance
from trustgraph_prompt.graph.statements import Context, Iri, Literal, Statement, TripleTerm
from trustgraph_prompt.grounding import MatchKind
from trustgraph_prompt.wire import Chunk, Metadata

TEXT = "Etna is high. 🌋 Etna lies in Sicily, in the sea."
ORIGIN = Origin(
    chunk=Iri("urn:chunk:1"),
    text=TEXT,
    prompt="extract-relationships",
    version="abc",
    component="kg-extract-relationships",
    component_version="2.11.1",
    published=1_700_000_000.5,
)
QUOTED = TripleTerm(Iri("urn:etna"), Iri("urn:in"), Iri("urn:sicily"))
FACT = Statement(*QUOTED)
LIMIT = 5_000_000
CHUNK = Chunk(Metadata("urn:chunk:1", "urn:doc:1", "default"), TEXT)


def found(*spans: tuple[int, int], term: str = "text") -> Grounding:
    return Grounding(term, MatchKind.EXACT, 1.0, spans)


def grounded() -> Graph:
    second, sicily = TEXT.rindex("Etna"), TEXT.index("Sicily")
    return Graph({FACT: (found((0, 4), (second, second + 4)), found((sicily, sicily + 6)))})


def test_provenance_without_evidence_has_twelve_statements_and_one_per_fact() -> None:
    other = Statement(FACT.subject, FACT.predicate, Literal("sea"))

    made = provenance(Graph({FACT: (), other: ()}), ORIGIN)

    assert len(made) == len(set(made)) == 14
    assert {statement.graph for statement in made} == {GRAPH_SOURCE}
    assert [each.object for each in made[:2]] == [
        QUOTED,
        TripleTerm(FACT.subject, FACT.predicate, Literal("sea")),
    ]
    time = next(each.object for each in made if each.predicate == v.STARTED_AT_TIME)
    assert time == Literal("2023-11-14T22:13:20.500000Z")


def test_provenance_of_a_flow_has_no_marks_of_doubt() -> None:
    weak = Grounding("text", MatchKind.PART, 0.5, ((0, 4),))
    made = provenance(Graph({FACT: (weak, None)}), ORIGIN)
    assert not {v.WEAK, v.UNGROUNDED} & {each.predicate for each in made}


def test_answer_without_facts_has_no_provenance() -> None:
    assert provenance(Graph(), ORIGIN) == []


def test_model_and_ontology_are_named_if_known() -> None:
    made = provenance(Graph({FACT: ()}), replace(ORIGIN, model="m", ontology=Iri("urn:o")))

    assert [each.object for each in made[-2:]] == [Literal("m"), "urn:o"]


def test_ids_of_provenance_depend_only_on_the_answer_and_its_chunk() -> None:
    first = set(provenance(grounded(), ORIGIN))

    assert set(provenance(grounded(), replace(ORIGIN))) == first
    for other in (replace(ORIGIN, chunk=Iri("urn:chunk:2")), replace(ORIGIN, version="d")):
        contains = {each.subject for each in provenance(grounded(), other) if each.predicate == v.CONTAINS}
        assert contains.isdisjoint(each.subject for each in first)


def test_fact_points_to_the_occurrences_that_are_closest_together() -> None:
    made = provenance(grounded(), ORIGIN)

    def of(subject: str, predicate: str) -> list[object]:
        return [each.object for each in made if each.subject == subject and each.predicate == predicate]

    (reifier,) = (each for each in made if each.predicate == v.REIFIES)
    assert reifier.object == QUOTED
    seen = []
    for target in of(reifier.subject, v.HAS_TARGET):
        assert of(str(target), v.HAS_SOURCE) == [ORIGIN.chunk]
        position, quotation = of(str(target), v.HAS_SELECTOR)
        (start,), (end,) = of(str(position), v.START), of(str(position), v.END)
        assert isinstance(start, Literal)
        assert isinstance(end, Literal)
        assert start.datatype == v.NON_NEGATIVE_INTEGER
        exact = TEXT[int(start.value) : int(end.value)]
        assert of(str(quotation), v.EXACT) == [Literal(exact)]
        seen.append((int(start.value), exact))
    assert seen == [(TEXT.rindex("Etna"), "Etna"), (TEXT.index("Sicily"), "Sicily")]
    assert of(ORIGIN.chunk, v.SHA256) == [Literal(hashlib.sha256(TEXT.encode()).hexdigest())]


def test_occurrences_in_another_term_than_the_text_are_left_out() -> None:
    elsewhere = Graph({FACT: (found((0, 4), term="schema"),)})

    assert provenance(elsewhere, ORIGIN) == provenance(Graph({FACT: ()}), ORIGIN)


def test_provenance_without_triple_terms_has_reified_statements() -> None:
    made = provenance(grounded(), ORIGIN, triple_terms=False)

    assert not [each for each in made if isinstance(each.object, TripleTerm)]
    (contained,) = (each.object for each in made if each.predicate == v.CONTAINS)
    about = {each.predicate: each.object for each in made if each.subject == contained}
    assert (about[v.SUBJECT], about[v.PREDICATE], about[v.OBJECT]) == FACT[:3]
    assert about[v.TYPE] == v.STATEMENT


def test_statements_are_sent_in_messages_of_fifty() -> None:
    facts = [Statement(Iri(f"urn:{n}"), v.LABEL, Literal(str(n), "urn:type")) for n in range(100)]
    facts.append(Statement(Iri("urn:s"), v.CONTAINS, QUOTED, GRAPH_SOURCE))

    data = list(triples(facts, CHUNK, LIMIT))
    messages = list(map(Triples.decode, data))

    assert [len(message.triples) for message in messages] == [50, 50, 1]
    assert all(message.metadata == CHUNK.metadata for message in messages)
    assert [message.encode() for message in messages] == data
    assert json.loads(data[2])["triples"][0] == {
        "s": term(type="i", iri="urn:s"),
        "p": term(type="i", iri=v.CONTAINS),
        "o": term(
            type="t",
            triple={
                "s": term(type="i", iri="urn:etna"),
                "p": term(type="i", iri="urn:in"),
                "o": term(type="i", iri="urn:sicily"),
                "g": None,
            },
        ),
        "g": GRAPH_SOURCE,
    }


def term(**given: object) -> dict[str, object]:
    return {
        "type": "",
        "iri": "",
        "id": "",
        "value": "",
        "datatype": "",
        "language": "",
        "triple": None,
    } | given


def test_contexts_are_sent_in_messages_of_five_with_the_id_of_their_chunk() -> None:
    contexts = [Context(Iri("urn:etna"), str(n)) for n in range(6)]

    data = list(entity_contexts(contexts, CHUNK, LIMIT))
    messages = list(map(EntityContexts.decode, data))
    (of_document,) = entity_contexts(contexts[:1], replace(CHUNK, document_id="urn:d"), LIMIT)

    assert [len(message.entities) for message in messages] == [5, 1]
    assert messages[0].entities[0].chunk_id == "urn:chunk:1"
    assert EntityContexts.decode(of_document).entities[0].chunk_id == "urn:d"
    assert (messages[1].metadata, messages[1].entities[0].context) == (CHUNK.metadata, "5")
    assert messages[1].encode() == data[1]


def test_statements_too_large_for_one_message_are_sent_in_several() -> None:
    facts = [Statement(Iri(f"urn:{n}"), v.LABEL, Literal("x" * 1000)) for n in range(10)]

    data = list(triples(facts, CHUNK, 4_000))

    assert all(len(each) <= 4_000 for each in data)
    assert b"".join(data).count(b"x" * 1000) == 10
    assert list(triples(facts[:1], CHUNK, 100)) == list(triples(facts[:1], CHUNK, LIMIT))


def test_lone_surrogate_makes_no_message_unreadable() -> None:
    (statements,) = triples([Statement(Iri("urn:e"), v.LABEL, Literal("a\ud83cb"))], CHUNK, LIMIT)
    (contexts,) = entity_contexts([Context(Iri("urn:e"), "a\ud83cb")], CHUNK, LIMIT)

    assert json.loads(statements)["triples"][0]["o"] == term(type="l", value="a?b")
    assert Triples.decode(statements).metadata == CHUNK.metadata
    assert EntityContexts.decode(contexts).entities[0].context == "a?b"


def test_statements_are_sent_in_one_message_without_batches() -> None:
    facts = [Statement(Iri(f"urn:{n}"), v.LABEL, Literal(str(n))) for n in range(120)]

    (data,) = triples(facts, CHUNK, LIMIT, batched=False)

    assert len(Triples.decode(data).triples) == 120
