"""Finds texts of RDF that would overflow the stack of pyoxigraph, or that it would parse for minutes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final
from xml.parsers import expat

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.json_text.values import levels

MAX_BYTES: Final = 64 * 1024 * 1024
"""Of a file."""

MAX_CHARACTERS: Final = 4 * MAX_BYTES
"""Of all terms: prefixes and XML entities multiply their texts."""

_MAX_DEPTH: Final = 200
"""Of elements, of JSON, and of terms of a @context that are defined by each other."""

_MAX_TRIPLE_TERMS: Final = 1000
"""Of Turtle and N-Triples, in which they may contain each other."""

_MAX_COPIED: Final = 10_000_000
"""Terms: pyoxigraph copies all of them for each object, type or value that has a context of its own."""


def check_text(text: str, format: str, where: str) -> None:
    """Check the text of a file in a format of pyoxigraph.

    Raises `ConfigError`, and `ExpatError` or `JSONDecodeError` with their line.
    """
    if format == "RDF_XML":
        _check_xml(text, where)
    elif format == "JSON_LD":
        _check_json(text, where)
    elif text.count("<<(") > _MAX_TRIPLE_TERMS:
        expected = f"at most {_MAX_TRIPLE_TERMS:,}"
        raise ConfigError("too many triple terms", where=where, found=text.count("<<("), expected=expected)


def _check_xml(text: str, where: str) -> None:
    depth, most = 0, MAX_CHARACTERS // max(text.count("&"), 1)

    def declare(name: str, is_parameter: bool, value: str | None, *rest: object) -> None:
        if value is None or "&" in value or len(value) > most:
            expected = "short ones in the file, not nested"
            raise ConfigError("the XML entities are too large", where=where, found=name, expected=expected)

    def start(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise _too_deep("elements", where)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.EntityDeclHandler, parser.StartElementHandler, parser.EndElementHandler = declare, start, end
    parser.Parse(text, True)


def _check_json(text: str, where: str) -> None:
    try:
        documents = _listed(json.loads(text, object_pairs_hook=_object, parse_int=float))
    except RecursionError:
        raise _too_deep("objects and lists", where) from None
    if sum(_copied(document, where) for document in documents) > _MAX_COPIED:
        expected = "one @context, at the beginning"
        raise ConfigError("the contexts are too large", where=where, expected=expected)


def _copied(document: object, where: str) -> int:
    """Check the depth and each @context of a document; returns how many terms are copied at most."""
    values = terms = contexts = 0
    for depth, level in enumerate(levels(document)):
        containers = [each for each in level if isinstance(each, dict | list)]
        if containers and depth == _MAX_DEPTH:
            raise _too_deep("objects and lists", where)
        values += sum(map(len, containers))
        for each in containers:
            if isinstance(each, dict) and "@context" in each:
                contexts += 1
                terms += sum(_check_context(context, where) for context in _listed(each["@context"]))
    return terms * values if contexts > 1 else 0


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) < len(pairs):  # else only the last one would be checked
        raise SyntaxError("an object has a key twice")
    return keys


def _check_context(context: object, where: str) -> int:
    """Check that its terms are not defined by each other in a long chain; returns their number."""
    if not isinstance(context, dict):
        return 0
    if len(context) > _MAX_DEPTH and _has_long_chain(context):
        message = f"terms of a @context are defined by each other: over {_MAX_DEPTH}, or in a circle"
        raise ConfigError(message, where=where)
    return len(context)


def _has_long_chain(context: dict[str, Any]) -> bool:
    sorter = TopologicalSorter({term: _names(term, meaning) for term, meaning in context.items()})
    try:
        sorter.prepare()
    except CycleError:
        return True
    for _ in range(_MAX_DEPTH):
        sorter.done(*sorter.get_ready())
    return sorter.is_active()


def _names(term: str, meaning: object) -> set[str]:
    """The names that may be those of other terms, which a term is defined by."""
    parts = map(meaning.get, ("@id", "@type", "@reverse")) if isinstance(meaning, dict) else (meaning,)
    texts = [text for text in (term, *parts) if isinstance(text, str)]
    return {name for text in texts for name in (text, text.partition(":")[0])} - {term}


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _too_deep(what: str, where: str) -> ConfigError:
    return ConfigError(f"{what} are nested deeper than {_MAX_DEPTH} levels", where=where)
