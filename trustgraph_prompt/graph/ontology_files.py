"""Loads ontologies from files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trustgraph_prompt.config_files import read_text
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph.ontology import Ontology
from trustgraph_prompt.graph.ontology_config import merged
from trustgraph_prompt.graph.owl import parse_ontology

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


def shown_warnings(ontology: Ontology) -> list[str]:
    """The first warnings about an ontology, and how many more there are."""
    more = len(ontology.warnings) - MOST_WARNINGS
    rest = [f"{more:,} more warnings about the ontology {ontology.id}"] if more > 0 else []
    return [*ontology.warnings[:MOST_WARNINGS], *rest]


def _loaded(file: Path) -> Ontology:
    ontology = parse_ontology(file, read_text(file))
    if not ontology.classes:
        raise ConfigError("the ontology has no class", where=str(file), path="/classes")
    return ontology
