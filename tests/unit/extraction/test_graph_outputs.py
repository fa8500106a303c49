"""The graph of an extraction: what was said, where it stands in the document, and what was refused."""

from __future__ import annotations

from typing import Any

import orjson

from trustgraph_prompt.documents import Document, DocumentChunk, Place
from trustgraph_prompt.extraction.graph_outputs import answer_statements
from trustgraph_prompt.extraction.questions import Job
from trustgraph_prompt.extraction.results import FoundObject, Result
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE, about_document, document_iri
from trustgraph_prompt.graph.statements import Iri, Literal, Statement, TripleTerm
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.worker.messages.answer_record import Answer

BEFORE = "🌋 火山。 "
DOCUMENT = Document(
    "vulcani.pdf", BEFORE + "Etna lies in Sicily.", "pdf", (Place(0, 1), Place(len(BEFORE), 2, "Italy"))
)
CHUNK = DocumentChunk(2, len(BEFORE), "Etna lies in Sicily.")
PROMPT = PromptDefinition.from_entry(
    "facts",
    {
        "dialect": "jinja",
        "prompt": "{{ text }}",
        "response-type": "jsonl",
        "schema": {"type": "object", "properties": {key: {"type": "string"} for key in "spo"}},
        "graph": [{"statement": {"subject": "s", "predicate": "p", "object": "o", "entity": True}}],
    },
)
ETNA, LIES_IN, SICILY = (Iri(f"http://trustgraph.ai/e/{name}") for name in ("etna", "lies-in", "sicily"))


def found(value: dict[str, Any], **spans: list[int] | None) -> FoundObject:
    grounding = {
        f"/{key}": span and {"term": "text", "kind": "exact", "score": 1.0, "spans": [span]}
        for key, span in spans.items()
    }
    return FoundObject(orjson.dumps(value), orjson.dumps(grounding).decode())


def made(*objects: FoundObject, model: str = "m", **answer: Any) -> list[Statement]:
    record = Answer(
        "r", "extract", "facts", "v1", "success", "direct", answer.pop("truncated", False), (), **answer
    )
    result = Result(Job(0, "r", "facts", DOCUMENT, CHUNK), objects, record)
    return list(answer_statements(result, PROMPT, model))


def objects_of(statements: list[Statement], subject: Any, predicate: Iri) -> list[Any]:
    return [each.object for each in statements if each[:2] == (subject, predicate)]


def subjects_of(statements: list[Statement], predicate: Iri, object: Any = None) -> list[Iri]:
    matching = (each for each in statements if each.predicate == predicate)
    return [each.subject for each in matching if object in (None, each.object)]


def quoted(statement: Statement) -> TripleTerm:
    assert not isinstance(statement.object, TripleTerm)
    return TripleTerm(statement.subject, statement.predicate, statement.object)


LIES = found({"s": "Etna", "p": "lies in", "o": "Sicily"}, s=[0, 4], o=[13, 19])


def test_every_statement_refers_to_its_passages_in_the_document() -> None:
    statements = made(LIES)

    said = [each for each in statements if each.graph == ""]
    assert said == [
        Statement(ETNA, LIES_IN, SICILY),
        Statement(ETNA, v.LABEL, Literal("Etna")),
        Statement(LIES_IN, v.LABEL, Literal("lies in")),
        Statement(SICILY, v.LABEL, Literal("Sicily")),
    ]
    quotes = []
    for each in said:
        (reifier,) = subjects_of(statements, v.REIFIES, quoted(each))
        for target in objects_of(statements, reifier, v.HAS_TARGET):
            assert objects_of(statements, target, v.HAS_SOURCE)[-1] == document_iri(DOCUMENT)
            assert objects_of(statements, target, v.PAGE_NUMBER)[-1] == Literal("2", v.INTEGER)
            assert objects_of(statements, target, v.HEADING)[-1] == Literal("Italy")
            start, end, quote = (
                objects_of(statements, f"{target}#{part}", predicate)[-1].value
                for part, predicate in (("position", v.START), ("position", v.END), ("quote", v.EXACT))
            )
            assert DOCUMENT.text[int(start) : int(end)] == quote
            quotes.append(quote)
    assert quotes == ["Etna", "Sicily", "Etna", "Etna", "Sicily", "Sicily"]
    contained = {each.object for each in statements if each.predicate == v.CONTAINS}
    assert contained == {quoted(each) for each in said}


def test_value_that_occurs_nowhere_marks_its_statements() -> None:
    statements = made(found({"s": "Etna", "p": "is", "o": "a volcano"}, s=[0, 4], o=None))

    (marked, *_) = subjects_of(statements, v.UNGROUNDED)
    (fact,) = objects_of(statements, marked, v.REIFIES)
    assert fact.subject == ETNA
    assert len(objects_of(statements, marked, v.HAS_TARGET)) == 1


def test_object_with_a_lone_surrogate_is_in_the_graph() -> None:
    statements = made(FoundObject(encode({"s": "Etna", "p": "lies in", "o": "Sicily \ud800"})))

    assert Literal("Sicily \ud800") in [each.object for each in statements if each.predicate == v.LABEL]


def test_value_found_only_in_part_marks_its_statements() -> None:
    grounding = {"term": "text", "kind": "part", "score": 0.5, "spans": [[0, 4]]}
    whole = {"/o": {**grounding, "kind": "folded", "spans": [[13, 19]]}, "/s": grounding}
    value = orjson.dumps({"s": "Mount Etna", "p": "lies in", "o": "Sicily"})
    statements = made(FoundObject(value, orjson.dumps(whole).decode()))

    facts = [
        fact for each in subjects_of(statements, v.WEAK) for fact in objects_of(statements, each, v.REIFIES)
    ]
    assert TripleTerm(Iri("http://trustgraph.ai/e/mount-etna"), LIES_IN, SICILY) in facts
    assert TripleTerm(SICILY, v.LABEL, Literal("Sicily")) not in facts
    assert not subjects_of(made(LIES), v.WEAK)
    [chunk] = {*objects_of(statements, subjects_of(statements, v.WEAK)[0], v.WAS_DERIVED_FROM)}
    assert chunk.startswith(document_iri(DOCUMENT))  # by which it is forgotten, also without a passage


def test_answer_without_objects_has_its_refusals_and_its_truncation() -> None:
    issue = {
        "reason": "ungrounded",
        "path": "/s",
        "message": "does not occur in the passage; leave the object out",
    }
    refusal = {"index": 3, "raw": '{"s": "Vesuvius"}', "issues": [issue]}
    statements = made(rejected=(refusal,), truncated=True)

    assert {each.graph for each in statements} == {GRAPH_SOURCE}
    (activity,) = subjects_of(statements, v.TRUNCATED)
    assert objects_of(statements, activity, v.PROMPT) == [Literal("facts")]
    (refused,) = objects_of(statements, activity, v.REFUSED)
    assert objects_of(statements, refused, v.REFUSED_OBJECT) == [Literal('{"s": "Vesuvius"}')]
    assert objects_of(statements, refused, v.REASON) == [Literal("/s: does not occur in the passage")]
    (chunk,) = objects_of(statements, activity, v.USED)
    assert chunk == f"{document_iri(DOCUMENT)}#char={CHUNK.start},{len(DOCUMENT.text)}"
    assert objects_of(statements, chunk, v.CHAR_OFFSET) == [Literal(str(CHUNK.start), v.INTEGER)]


def test_answers_of_two_models_are_two_extractions() -> None:
    def contains(statements: list[Statement]) -> set[Iri]:
        return set(subjects_of(statements, v.CONTAINS))

    assert contains(made(LIES)) == contains(made(LIES))
    assert contains(made(LIES)).isdisjoint(contains(made(LIES, model="other")))


def test_document_has_its_text_and_the_hash_of_it() -> None:
    statements = list(about_document(DOCUMENT))

    iri = document_iri(DOCUMENT)
    assert {each.subject for each in statements} == {iri}
    assert objects_of(statements, iri, v.TEXT) == [Literal(DOCUMENT.text)]
    assert objects_of(statements, iri, v.NAME) == [Literal("vulcani.pdf")]
    assert iri == f"urn:sha256:{DOCUMENT.sha256}"
