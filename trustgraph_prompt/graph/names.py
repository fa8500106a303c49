"""The IRIs of names, as TrustGraph's extractors make them, so that both systems meet in one graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from urllib.parse import quote

from trustgraph_prompt.graph.statements import Iri
from trustgraph_prompt.graph.vocabulary import ENTITIES

_MOST_KEPT, _LONGEST_KEPT = 10_000, 200  # names whose IRIs are cached, and characters of each

Naming = Callable[[str], Iri]
"""Makes the IRI of a name."""


def naming(base: str = ENTITIES, *, exact: bool = False) -> Naming:
    """Return a function that makes IRIs under `base`: of names in lower case, with hyphens for spaces.

    With `exact` names stay as they are, as in TrustGraph's agent extractor. Either way they are
    percent-encoded in UTF-8.
    """

    def make(text: str) -> Iri:
        return Iri(base + quote(text if exact else text.replace(" ", "-").lower(), errors="replace"))

    kept = lru_cache(_MOST_KEPT)(make)
    return lambda text: kept(text) if len(text) <= _LONGEST_KEPT else make(text)
