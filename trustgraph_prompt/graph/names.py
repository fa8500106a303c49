"""The IRIs of names, as TrustGraph's extractors make them, so that both systems meet in one graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from trustgraph_prompt.graph.statements import Iri

ENTITIES: Final = "http://trustgraph.ai/e/"
"""TrustGraph's base of the IRIs of entities and predicates."""

_MOST_KEPT: Final = 10_000  # names whose IRIs are cached

Naming = Callable[[str], Iri]
"""Makes the IRI of a name."""


def naming(base: str = ENTITIES, *, exact: bool = False) -> Naming:
    """Return a function that makes and caches the IRIs of names under `base`: `exact_iri` or `entity_iri`."""
    make = exact_iri if exact else entity_iri

    @lru_cache(maxsize=_MOST_KEPT)
    def named(text: str) -> Iri:
        return make(text, base)

    return named


def entity_iri(text: str, base: str = ENTITIES) -> Iri:
    """The IRI of a name: lower case, hyphens for spaces, percent-encoded UTF-8."""
    return exact_iri(text.replace(" ", "-").lower(), base)


def exact_iri(text: str, base: str = ENTITIES) -> Iri:
    """The IRI of a name, percent-encoded without other changes. TrustGraph's agent extractor makes these."""
    return Iri(base + quote(text, errors="replace"))
