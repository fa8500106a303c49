"""An embedded store of a graph: a folder on disk that one process at a time writes to.

What it holds is described in docs/how-to/graph-store.md.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyoxigraph as ox

from trustgraph_prompt.errors import ConfigError, StoreError
from trustgraph_prompt.graph import vocabulary as v
from trustgraph_prompt.graph.provenance import GRAPH_SOURCE
from trustgraph_prompt.graph.statements import Iri, Statement
from trustgraph_prompt.graph_store import rdf
from trustgraph_prompt.graph_store.view import SourceDocument

GRAPH_SAME: Final = "urn:graph:same"
"""The named graph of `owl:sameAs` statements, each with a reifier that has its reason and its score."""

GRAPH_DIFFERENT: Final = "urn:graph:different"
"""The named graph of `owl:differentFrom` statements: what a person decided to keep apart."""

GRAPH_OF: Final = {v.SAME_AS: GRAPH_SAME, v.DIFFERENT_FROM: GRAPH_DIFFERENT}

_UPDATE = re.compile(r"^[^\S\n]*(insert|delete|load|clear|create|drop|copy|move|add|with)\b", re.I | re.M)
_PLACE = re.compile(r"error at (\d+):(\d+): ")

_CHARACTERS = re.compile(r",? *\[[^,]*\](?=,|\Z)|^expected one of *(?=\Z)", re.S)  # among what is expected

_LOCKED = re.compile("While lock file|lock hold by")  # as RocksDB words it
_SECONDS_BETWEEN_ATTEMPTS = 0.2
_SECONDS_OF_MERGING = 2  # in which a reader may find files gone that a writer has merged

# Of 1,000,000 statements, bulk loading takes half the time of transactions and a third of the disk. In
# batches it takes 0.2 GB of memory, at once 1.3 GB; transactions take 0.9 GB. A few are one transaction.
_BATCH, _FEW = 100_000, 1_000


class GraphStore:
    """An open store. Leaving its `with` block closes it, and makes a `StoreError` of an error of the disk.

    `dataset` is the store of pyoxigraph, for what has no method here.
    """

    def __init__(
        self, dataset: ox.Store, where: str = "the store in memory", *, read_only: bool = False
    ) -> None:
        self.dataset = dataset
        self._where = where
        self._read_only = read_only

    @classmethod
    def in_memory(cls) -> Self:
        """Make an empty store that is gone when it is closed."""
        return cls(ox.Store())

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = False,
        create: bool = True,
        wait: float = 600,
        waiting: Callable[[str], None] = lambda _: None,
    ) -> Self:
        """Open a store, which is made if it does not exist, unless it is `read_only` or not to `create`.

        While another process writes to it, this waits for at most `wait` seconds, and calls `waiting` once to
        say so. A reader need not wait: it sees what there was when it opened the store. Raises `ConfigError`
        for what is not a store, and `StoreError`.
        """
        _check(path, create=create and not read_only)
        began, told = time.monotonic(), False
        while True:
            try:
                dataset = ox.Store.read_only(str(path)) if read_only else ox.Store(path)
                return cls(dataset, str(path), read_only=read_only)
            except (OSError, RuntimeError) as cause:
                is_locked = _LOCKED.search(str(cause))
                is_merging = read_only and "No such file" in str(cause)
                patience = wait if is_locked else _SECONDS_OF_MERGING if is_merging else 0
                if time.monotonic() - began >= patience:
                    problem = "another process is still writing to it" if is_locked else "cannot be opened"
                    raise StoreError(f"{path}: {problem}: {cause}") from cause
            if is_locked and not told:
                waiting(f"{path}: another process is writing to it: waiting")
                told = True
            time.sleep(_SECONDS_BETWEEN_ATTEMPTS)

    def add(self, statements: Iterable[Statement]) -> None:
        """Add statements, of which those that are there already change nothing.

        A process that is killed meanwhile leaves a store with a part of them; adding them again completes it.
        """
        quads = rdf.quads(statements)
        while batch := list(islice(quads, _BATCH)):
            (self.dataset.extend if len(batch) <= _FEW else self.dataset.bulk_extend)(batch)

    def query(self, sparql: str, **options: Any) -> ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples:
        """Evaluate a query on the facts; `GRAPH <urn:graph:source>` has where they come from.

        `options` are those of pyoxigraph. Raises `ConfigError` for a query that is not SPARQL.
        """
        try:
            return self.dataset.query(sparql, prefixes=v.PREFIXES, **options)
        except (SyntaxError, UnicodeEncodeError) as cause:
            raise _not_a_query(sparql, str(cause)) from None

    def documents(self) -> dict[str, SourceDocument]:
        """The documents by IRI, in the order of their names."""
        nodes = self.dataset.quads_for_pattern(
            None, ox.NamedNode(v.TYPE), ox.NamedNode(v.DIGITAL_DOCUMENT), ox.NamedNode(GRAPH_SOURCE)
        )
        found = [self._document(quad.subject) for quad in nodes if isinstance(quad.subject, ox.NamedNode)]
        return {each.iri: each for each in sorted(found, key=lambda each: (each.files, each.iri))}

    def _document(self, node: ox.NamedNode) -> SourceDocument:
        about: dict[str, list[str]] = defaultdict(list)
        for quad in self.dataset.quads_for_pattern(node, None, None, ox.NamedNode(GRAPH_SOURCE)):
            if isinstance(quad.object, ox.Literal):
                about[quad.predicate.value].append(quad.object.value)
        format, text = (min(about[each], default="") for each in (v.ENCODING_FORMAT, v.TEXT))
        return SourceDocument(node.value, tuple(sorted(about[v.NAME])), format, text)

    def pairs(self, predicate: Iri) -> set[frozenset[str]]:
        """The pairs of things that are `owl:sameAs` or `owl:differentFrom` each other."""
        quads = self.dataset.quads_for_pattern(
            None, ox.NamedNode(predicate), None, ox.NamedNode(GRAPH_OF[predicate])
        )
        nodes = ((quad.subject, quad.object) for quad in quads if quad.subject != quad.object)
        return {
            frozenset((one.value, other.value))
            for one, other in nodes
            if isinstance(one, ox.NamedNode) and isinstance(other, ox.NamedNode)
        }

    def close(self) -> None:
        """Write everything to the disk. Others may write once no result of a query is held any more."""
        if hasattr(self, "dataset"):
            if not self._read_only:
                self.dataset.flush()
            del self.dataset

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except (OSError, RuntimeError) as cause:
            error = error or cause
        if isinstance(error, OSError | RuntimeError) and str(error).startswith(("IO error", "Corruption")):
            if self._read_only and "No such file" in str(error):
                message = "another process changed it while it was read: run the same command again"
                raise StoreError(f"{self._where}: {message}") from error
            raise StoreError(f"{self._where}: {error}") from error


def _not_a_query(sparql: str, message: str) -> ConfigError:
    if _UPDATE.search(sparql):
        return ConfigError("this is an update, and a query only reads", where="query")
    found = _PLACE.match(message)
    where = f"query, line {found[1]}, column {found[2]}" if found else "query"
    if "Prefix not found" in message:
        return ConfigError(f"unknown prefix; declared are {', '.join(v.PREFIXES)}", where=where)
    message = " ".join(_CHARACTERS.sub("", _PLACE.sub("", message)).split())
    return ConfigError(f"not SPARQL: {message}" if message.split()[2:] else "not SPARQL", where=where)


def _check(path: Path, *, create: bool) -> None:
    """Check that there is a store, or that one can be made. Raises `ConfigError`."""
    where = str(path)
    try:
        if not path.exists():
            if not create:
                raise ConfigError("there is no graph store; `extract --store` makes one", where=where)
            path.mkdir(parents=True, exist_ok=True)
        elif not path.is_dir():
            raise ConfigError("is not a graph store, which is a folder", where=where)
        found = {each.name for each in path.iterdir()}
        if not found and create:
            (path / "LOCK").touch()  # so that another process sees that this becomes a store
            return
    except OSError as cause:
        raise ConfigError(f"cannot be opened: {cause.strerror}", where=where) from cause
    if not found & {"LOCK", "CURRENT"}:
        raise ConfigError("is not a graph store, but another folder", where=where)
