"""The graph of an extraction: what it says, and where it goes: into a store, and from there into files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trustgraph_prompt import __version__
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.extraction.output_checks import MayReplace, check_file, check_folder, check_page
from trustgraph_prompt.extraction.results import Result, refusal_reason
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.graph_clause import example_for
from trustgraph_prompt.graph.mapping import Graph, graph_of
from trustgraph_prompt.graph.names import naming
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_answer import asks_for_facts
from trustgraph_prompt.graph.ontology_statements import ontology_graph
from trustgraph_prompt.graph.provenance import (
    Origin,
    about,
    about_document,
    about_passage,
    passage_iri,
    provenance,
)
from trustgraph_prompt.graph.statements import Iri, Literal, Statement
from trustgraph_prompt.graph_store.forget import forget_text
from trustgraph_prompt.graph_store.neo4j import NODES, RELATIONSHIPS, write_neo4j
from trustgraph_prompt.graph_store.page import write_page
from trustgraph_prompt.graph_store.rdf import file_format, quads, write_rdf
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.worker.messages.answer_record import Answer

_named = naming()


@dataclass(frozen=True, slots=True)
class GraphOutputs:
    """Writes the graph of a run to what is not None.

    `store` is the folder of a store, `rdf` a file, `neo4j` a folder, `page` a file of HTML. Files and page
    show the whole store; without one, the graph of the run.
    """

    store: Path | None = None
    rdf: Path | None = None
    neo4j: Path | None = None
    page: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """What is written."""
        return [path for path in (self.store, self.rdf, self.neo4j, self.page) if path is not None]

    def check(
        self,
        prompts: Sequence[PromptDefinition],
        ontology: Ontology | None,
        used: Sequence[Path],
        may_replace: MayReplace,
    ) -> None:
        """Check that there can be a graph, and that writing it replaces nothing that no run wrote.

        `used` are other files of the run, which must not be overwritten. Raises `ConfigError`, `StoreError`.
        """
        if ontology is None and not any(prompt.graph for prompt in prompts):
            line = example_for(prompts[0].contract)
            raise ConfigError(
                "makes no graph: give another prompt, such as extract-relationships, or add a line that says "
                f"which key names a thing and which keys describe it, such as\n    {line}",
                where=f"--prompt {', '.join(prompt.id for prompt in prompts)}",
            )
        if self.rdf is not None:
            file_format(self.rdf)
            check_file("--rdf", self.rdf, used, may_replace)
        if self.page is not None:
            check_page("--graph", self.page, used, may_replace)
        if self.neo4j is not None:
            check_folder("--neo4j", self.neo4j, (NODES, RELATIONSHIPS), used, may_replace)
        if self.store is not None and self.store.exists() and not _is_empty(self.store):
            GraphStore.open(self.store, read_only=True).close()

    def open_store(self, waiting: Callable[[str], None]) -> None:
        """Make the store, or see that it can be opened; `waiting` is told if another process uses it.

        Raises `ConfigError`, `StoreError`.
        """
        if self.store is not None:
            GraphStore.open(self.store, waiting=waiting).close()

    def write(
        self,
        results: Iterable[Result],
        prompts: Mapping[str, PromptDefinition],
        ontology: Ontology | None,
        model: str,
        earlier: Mapping[str, str],
        note: Callable[[str], None],
        wrote: Callable[..., None],
        incomplete: str = "",
    ) -> list[Path]:
        """Write the graph of the results, in the terms of the ontology if any, and return where it is now.

        The texts that files had `earlier`, by their hashes, leave the store. `note` is told that, and that
        another process uses the store. `wrote` gets the files as soon as they are written. `incomplete`
        says on the page what the run lacks. Raises `ConfigError`, `StoreError`.
        """
        if self.store is not None:  # it keeps all facts, and the next answer may not have these
            results = [each for each in results if not each.is_asked_again]
        statements = _statements(results, prompts, ontology, model)
        if self.rdf is not None and not any((self.store, self.neo4j, self.page)):
            write_rdf(quads(statements), self.rdf)  # takes a fifth of the time of the way through a store
            wrote(self.rdf)
            return [self.rdf]
        with (
            tempfile.TemporaryDirectory(prefix="trustgraph-prompt-") as folder,  # in memory, 0.6 GB a million
            GraphStore.open(self.store or Path(folder), waiting=note) as store,
        ):
            store.add(statements)
            for file, sha256 in earlier.items():
                if gone := forget_text(store, sha256, file):
                    statements_of = f"{gone:,} statement{'s' * (gone != 1)} of"
                    note(f"{file}: its text has changed, and replaces {statements_of} the one before")
            if self.rdf is not None:
                write_rdf(store.dataset, self.rdf)
                wrote(self.rdf)
            if self.neo4j is not None:
                write_neo4j(read_view(store), self.neo4j)
                wrote(self.neo4j / NODES, self.neo4j / RELATIONSHIPS)
            if self.page is not None:
                write_page(read_view(store, by_rule=True), self.page, incomplete=incomplete)
                wrote(self.page)
        return self.paths


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _statements(
    results: Iterable[Result],
    prompts: Mapping[str, PromptDefinition],
    ontology: Ontology | None,
    model: str,
) -> Iterator[Statement]:
    answered = [each for each in results if each.answer is not None and each.failure is None]
    documents = [each.job.document for each in answered]
    for document in {(each.sha256, each.file): each for each in documents}.values():
        yield from about_document(document)
    for result in answered:
        yield from answer_statements(result, prompts[result.job.prompt], model, ontology)


def answer_statements(
    result: Result, prompt: PromptDefinition, model: str, ontology: Ontology | None = None
) -> Iterator[Statement]:
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
        component="trustgraph-prompt",
        component_version=__version__,
        published=None,
        model=model,
        document=document,
        start=chunk.start,
    )
    said = _said(result, prompt, ontology)
    graph = Graph({**said.facts, **said.labels})
    yield from graph.facts
    yield from provenance(graph, origin)
    yield from about_passage(document, chunk.start, end)
    yield from _about_answer(answer, origin)


def _said(result: Result, prompt: PromptDefinition, ontology: Ontology | None) -> Graph:
    """What the objects of an answer say."""
    objects = [each.value for each in result.objects]
    found, quotes = tuple(each.groundings for each in result.objects), prompt.contract.quote_keys
    if ontology is not None:
        return ontology_graph(ontology, objects, found, quotes, derived=asks_for_facts(prompt.contract))
    return graph_of(prompt.graph, objects, _named, found, quotes) if prompt.graph else Graph()


def _about_answer(answer: Answer, origin: Origin) -> Iterator[Statement]:
    """Statements about an answer that also one without facts has."""
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
