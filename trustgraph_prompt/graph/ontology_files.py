"""Loads ontologies from files, whose extensions say what their format is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from trustgraph_prompt.config_files import read_bytes
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph.obo import read_obo
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_config import make_ontology, merged, read_ontology
from trustgraph_prompt.graph.owl import FORMATS, read_owl
from trustgraph_prompt.graph.rdf_limits import MAX_BYTES

MOST_WARNINGS: Final = 20
"""Warnings about an ontology that people are shown."""


def load(files: Sequence[Path], language: str | None = None) -> Ontology:
    """The ontology of a file, or of several files, merged as TrustGraph does.

    A model sees the labels in the language, by default the first ones. Raises `ConfigError`.
    """
    counts = Counter(file.stem for file in files)
    for file in files:
        if counts[file.stem] > 1:
            expected = "files of different names, which begin the ids of their classes"
            raise ConfigError("two ontologies have the same name", where=str(file), expected=expected)
    ontology = merged([_loaded(file) for file in files])
    return ontology if language is None else ontology.in_language(language, str(files[0]))


def index_of(ontology: Ontology, warn: Callable[[str], None]) -> OntologyIndex:
    """The index of an ontology; `warn` gets the first warnings about it, and how many more there are."""
    for warning in ontology.warnings[:MOST_WARNINGS]:
        warn(warning)
    if (more := len(ontology.warnings) - MOST_WARNINGS) > 0:
        warn(f"{more:,} more warnings about the ontology {ontology.id}")
    return OntologyIndex(ontology)


def parse_ontology(path: Path, text: str) -> Ontology:
    """Parse the ontology in the text of a file; its id is the name of the file without the extension.

    A `.json` file is in TrustGraph's format. Those of RDF need the extra `graph`. Raises `ConfigError`.
    """
    where = str(path)
    if path.suffix == ".json":
        return read_ontology(path.stem, text, where, limit=MAX_BYTES)
    if path.suffix == ".obo":
        document, warnings = read_obo(text, path.stem, where)
    elif path.suffix in FORMATS:
        document, warnings = read_owl(path, text)
    else:
        expected = f"one of .json, .obo, {', '.join(FORMATS)}"
        raise ConfigError("unknown format of an ontology", where=where, found=path.name, expected=expected)
    ontology = make_ontology(path.stem, document, where)
    return replace(ontology, warnings=(*warnings, *ontology.warnings))


def _loaded(file: Path) -> Ontology:
    try:
        text = read_bytes(file, MAX_BYTES).decode()
    except UnicodeDecodeError as cause:
        raise ConfigError(f"not UTF-8 at byte {cause.start}", where=str(file)) from None
    ontology = parse_ontology(file, text)
    if not ontology.classes:
        raise ConfigError("the ontology has no class", where=str(file), path="/classes")
    return ontology
