"""Where the graph of an extraction goes: into a store, and from there into files and a page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.extraction.graph import answer_statements
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.extraction.run_record import EarlierText
from trustgraph_prompt.extraction.written_files import MayReplace, check_file, check_folder, check_page
from trustgraph_prompt.graph.provenance import about_document, document_iri
from trustgraph_prompt.graph.statements import Statement
from trustgraph_prompt.graph_store import rdf
from trustgraph_prompt.graph_store.forget import forget_text, texts_named
from trustgraph_prompt.graph_store.neo4j import NODES, RELATIONSHIPS, write_neo4j
from trustgraph_prompt.graph_store.page import write_page
from trustgraph_prompt.graph_store.rdf_files import file_format, write_rdf
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.prompts import PromptDefinition

_MOST_NAMED: Final = 3


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

    @property
    def files(self) -> list[Path]:
        """The files that are replaced; a store is added to."""
        neo4j = () if self.neo4j is None else (self.neo4j / NODES, self.neo4j / RELATIONSHIPS)
        return [path for path in (self.rdf, *neo4j, self.page) if path is not None]

    def check(self, prompts: Iterable[PromptDefinition], waiting: Callable[[str], None]) -> None:
        """Check before a question is asked that there can be a graph, and a store.

        `waiting` is told if another process uses the store. Raises `ConfigError`, `StoreError`.
        """
        if not any(prompt.graph for prompt in prompts):
            ids = ", ".join(prompt.id for prompt in prompts)
            raise ConfigError(
                "no prompt makes a graph", where="--prompt", found=ids, expected="one with `graph`"
            )
        if self.rdf is not None:
            file_format(self.rdf)
        if self.store is not None:
            GraphStore.open(self.store, waiting=waiting).close()

    def check_files(self, used: Sequence[Path], may_replace: MayReplace) -> None:
        """Check that the files can be written, and that nothing which no run wrote is replaced.

        `used` are other files of the run, which must not be overwritten. Raises `ConfigError`.
        """
        if self.rdf is not None:
            check_file("--rdf", self.rdf, used, may_replace)
        if self.page is not None:
            check_page("--graph", self.page, used, may_replace)
        if self.neo4j is not None:
            check_folder("--neo4j", self.neo4j, (NODES, RELATIONSHIPS), used, may_replace)

    def write(
        self,
        results: Sequence[Result],
        prompts: Mapping[str, PromptDefinition],
        model: str,
        earlier: Mapping[str, EarlierText],
        note: Callable[[str], None],
    ) -> list[Path]:
        """Write the graph of the results, and return where it is now.

        The texts that files had `earlier`, by their names now, leave the store. `note` is told so, and if
        another process uses the store. Raises `ConfigError`, `StoreError`.
        """
        statements = _statements(results, prompts, model)
        if self.rdf is not None and not any((self.store, self.neo4j, self.page)):
            write_rdf(rdf.quads(statements), self.rdf)  # takes a fifth of the time of the way through a store
            return [self.rdf]
        with (
            tempfile.TemporaryDirectory(prefix="trustgraph-prompt-") as folder,  # in memory, 0.6 GB a million
            GraphStore.open(self.store or Path(folder), waiting=note) as store,
        ):
            store.add(statements)
            _replace_texts(store, earlier, note)
            _note_namesakes(store, results, note)
            if self.rdf is not None:
                write_rdf(store.dataset, self.rdf)
            if self.neo4j is not None or self.page is not None:
                view = read_view(store)
                if self.neo4j is not None:
                    write_neo4j(view, self.neo4j)
                if self.page is not None:
                    write_page(view, self.page)
        return self.paths


def _replace_texts(
    store: GraphStore, earlier: Mapping[str, EarlierText], note: Callable[[str], None]
) -> None:
    for file, text in earlier.items():
        if gone := forget_text(store, text.sha256, text.name):
            note(f"{file}: its text has changed and replaces the one in the store, {gone:,} statements of it")


def _note_namesakes(store: GraphStore, results: Iterable[Result], note: Callable[[str], None]) -> None:
    """Tell of texts in the store that may be an older one of a file, which nothing says for sure."""
    now = {each.job.document.file: document_iri(each.job.document) for each in results}
    others = {file: next(iter(texts_named(store, file) - {iri}), None) for file, iri in now.items()}
    for file, iri in islice(((file, iri) for file, iri in others.items() if iri), _MOST_NAMED):
        note(f"{file}: the store has another text of this name; `graph forget` takes it out: {iri}")


def _statements(
    results: Iterable[Result], prompts: Mapping[str, PromptDefinition], model: str
) -> Iterator[Statement]:
    answered = [each for each in results if each.answer is not None and each.failure is None]
    documents = [each.job.document for each in answered]
    for document in {(each.sha256, each.file): each for each in documents}.values():
        yield from about_document(document)
    for result in answered:
        yield from answer_statements(result, prompts[result.job.prompt], model)
