"""Options of `extract`: what is asked of which chunks, and what is written beside the objects."""

from __future__ import annotations

from pathlib import Path

from trustgraph_prompt.cli.options import OptionGroup, option
from trustgraph_prompt.cli.prompt_options import (
    OntologyLanguageOption,
    OntologyOption,
    TemplatesOption,
    TermOption,
)


class QuestionOptions(OptionGroup):
    """Where prompts come from, and what each of them is asked with."""

    templates: TemplatesOption = None
    term: TermOption = None
    ontology: OntologyOption = None
    ontology_language: OntologyLanguageOption = None
    chunk_size: str = option(
        "--chunk-size N", "Maximum size of a chunk: characters (2000) or tokens (800t).", "2000"
    )
    overlap: str = option(
        "--overlap N",
        "How much of what precedes a chunk is shown to the model as context: a part of the chunk "
        "size (10%), characters (200) or tokens (80t). Nothing is extracted from it.",
        "0",
    )


class OutputOptions(OptionGroup):
    """What is written beside the objects, and whether these have their origin."""

    page: Path | None = option(
        "--graph FILE.html", "Write the graph of the objects as a page to open in a browser.", None
    )
    store: Path | None = option("--store DIR", "Put the graph into this store, beside what is there.", None)
    rdf: Path | None = option(
        "--rdf FILE", "Write the graph as RDF: .nt, .nq, .ttl, .trig, .jsonld or .rdf.", None
    )
    neo4j: Path | None = option("--neo4j DIR", "Write the graph as CSV files for Neo4j's import.", None)
    report: Path | None = option(
        "--report FILE.html",
        "Write what was extracted, refused and truncated, and what it cost, as a page to open in a browser.",
        None,
    )
    bare: bool = option("--bare", "Write the objects only, without their origin.", False)

    @property
    def has_graph(self) -> bool:
        """Whether the graph is written somewhere."""
        return any((self.page, self.store, self.rdf, self.neo4j))
