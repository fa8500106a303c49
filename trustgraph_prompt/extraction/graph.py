"""Makes the graph of an extraction: what the objects say, where that stands, and what was refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trustgraph_prompt import __version__
from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.extraction.results import FoundObject, Result, refusal_reason
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.clause import GraphClause
from trustgraph_prompt.graph.mapping import Graph, graph_of
from trustgraph_prompt.graph.names import ENTITIES, naming
from trustgraph_prompt.graph.provenance import (
    GRAPH_SOURCE,
    Origin,
    about_passage,
    passage_iri,
    provenance,
)
from trustgraph_prompt.graph.statements import Iri, Literal, Statement
from trustgraph_prompt.grounding import MatchKind
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.worker.messages.answer_record import Answer

_COMPONENT: Final = "trustgraph-prompt"
_named = naming(ENTITIES)


def answer_statements(result: Result, prompt: PromptDefinition, model: str) -> Iterator[Statement]:
    """The statements of an answer to a prompt about a chunk, with those about their origin.

    Labels have an origin too, so that a document can be taken out of a graph again.
    """
    document, chunk, answer = result.job.document, result.job.chunk, result.answer
    assert answer is not None
    end = chunk.start + len(chunk.text)
    origin = Origin(
        chunk=passage_iri(document, chunk.start, end),
        text=chunk.text,
        prompt=prompt.id,
        version=answer.version,
        component=_COMPONENT,
        component_version=__version__,
        published=None,
        model=model,
        document=document,
        start=chunk.start,
    )
    graph = _graph(prompt.graph, result.objects)
    yield from graph.facts
    yield from provenance(graph, origin)
    yield from about_passage(document, chunk.start, end)
    yield from _about_answer(answer, origin)


def _graph(clause: GraphClause | None, objects: Sequence[FoundObject]) -> Graph:
    """The graph of an answer, its labels among the facts."""
    if clause is None:
        return Graph()
    values = [each.value for each in objects]
    graph = graph_of(clause, values, _named, tuple(map(groundings, objects)))
    return Graph({**graph.facts, **graph.labels})


def groundings(found: FoundObject) -> Mapping[str, Grounding | None]:
    """Where the values of an object occur, by JSON Pointer."""
    return {
        path: each
        and Grounding(each["term"], MatchKind(each["kind"]), each["score"], tuple(map(tuple, each["spans"])))
        for path, each in found.groundings.items()
    }


def _about_answer(answer: Answer, origin: Origin) -> Iterator[Statement]:
    """Statements about an answer that also one without facts has."""

    def about(subject: Iri, predicate: Iri, object: Iri | Literal) -> Statement:
        return Statement(subject, predicate, object, GRAPH_SOURCE)

    activity = origin.activity
    yield about(activity, v.TYPE, v.ACTIVITY)
    yield about(activity, v.USED, origin.chunk)
    yield about(activity, v.PROMPT, Literal(origin.prompt))
    yield about(activity, v.PROMPT_VERSION, Literal(origin.version))
    if answer.truncated:
        yield about(activity, v.TRUNCATED, Literal("true", v.BOOLEAN))
    for rejected in answer.rejected:
        refused = Iri(f"{activity}#refused-{rejected['index']}")
        yield about(activity, v.REFUSED, refused)
        yield about(refused, v.REFUSED_OBJECT, Literal(rejected["raw"]))
        yield about(refused, v.REASON, Literal(refusal_reason(rejected)))
