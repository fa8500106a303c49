"""Pools of examples: texts with their objects, of which those nearest to a passage are shown before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import orjson

from trustgraph_prompt.config_files import MAX_ERRORS, check
from trustgraph_prompt.contract import Format
from trustgraph_prompt.errors import ConfigError, PromptError, raise_first
from trustgraph_prompt.prompts.nearest_texts import By, NearestTexts

POOL: Final = "pool."
"""Begins the key of the entry of a pool; the SHA-256 of its text follows."""

MAX_POOL: Final = 4 * 1024 * 1024
"""The maximum size of a pool, in bytes."""

MAX_POOLS: Final = 32 * 1024 * 1024
"""The maximum size of all pools that the prompts of a workspace name, in bytes."""

MOST_SHOWN: Final = 10

_Entry = TypeVar("_Entry")

CLAUSE: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "as": {
            "enum": ["turns", "text"],
            "default": "turns",
            "description": "turns: as messages of user and assistant before the question; text: in "
            "the question itself, for completion workers that receive one text.",
        },
        "from": {
            "type": "string",
            "minLength": 1,
            "description": "A gold file, of whose texts some are shown, too.",
        },
        "pool": {
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
            "description": "The hash of these texts, which are an entry `pool.<sha256>`; `config push` "
            "writes it in place of `from`.",
        },
        "show": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_SHOWN,
            "default": 3,
            "description": "How many texts are shown.",
        },
        "by": {
            "enum": ["nearest", "first"],
            "default": "nearest",
            "description": "nearest: the texts whose words are nearest to those of the passage, the nearest "
            "last; first: the first texts.",
        },
    },
    "description": "How the model is shown examples, and which ones beside those of the prompt itself.",
}
"""The clause `examples` of a prompt."""

_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["term", "texts"],
    "additionalProperties": False,
    "properties": {
        "term": {"type": "string"},
        "texts": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["terms", "objects"],
                "additionalProperties": False,
                "properties": {"terms": {"type": "object"}, "objects": {"type": "array"}},
            },
        },
    },
}
"""The format of the entry of a pool."""


@dataclass(frozen=True, slots=True)
class PoolClause:
    """What a prompt says of its examples: how many texts it shows of which pool.

    `pool` is the hash of the pool, None if the prompt names a `file` that was not read.
    """

    pool: str | None = None
    file: str | None = None
    show: int = 3
    by: By = "nearest"

    @classmethod
    def of(cls, clause: Mapping[str, Any], format: Format) -> PoolClause | None:
        """Make it from the clause of an entry, which `CLAUSE` allows; None if that names no texts.

        Raises `PromptError` for a clause that names two sources of texts, or none to show from, and for an
        answer of format text, which has no objects.
        """
        known = {"file" if key == "from" else key: value for key, value in clause.items() if key != "as"}
        if not known:
            return None
        if len(known.keys() & {"file", "pool"}) != 1:
            expected = "`from`, the name of a gold file, or `pool`, the hash of its texts"
            raise PromptError("names no pool of texts, or two", found=", ".join(clause), expected=expected)
        if format == "text":
            message = "a pool has objects, and does not apply to an answer of type text"
            raise PromptError(message, found=", ".join(clause), expected="json or jsonl")
        return cls(**known)


@dataclass(frozen=True, slots=True)
class PoolText:
    """The terms of a question, and the objects that a model should give. `where` names it in errors."""

    where: str
    terms: Mapping[str, Any] = field(repr=False)
    objects: Sequence[Any] = field(repr=False)

    @property
    def id(self) -> str:
        """A short hash of what is shown, by which records name it."""
        shown = orjson.dumps([self.terms, self.objects], option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(shown).hexdigest()[:12]


@dataclass(frozen=True, eq=False)
class Pool:
    """Texts of which some are shown. `term` is the term of a question in which its passage stands.

    `text` is that of its entry, of which its key has the hash.
    """

    text: bytes = field(repr=False)
    term: str
    texts: Sequence[PoolText] = field(repr=False)

    @classmethod
    def of(cls, texts: Iterable[PoolText], term: str, where: str) -> Pool:
        """Make a pool of texts, whose passages are in one term; a text that comes twice counts once.

        Raises `PromptError` if a text has no passage, or the same terms as another with other objects, and
        for a pool that is too large, which `where` names.
        """
        distinct = _distinct(texts, term)
        lines = b",".join(map(_line, distinct))
        text = b'{"term":%b,"texts":[%b]}' % (orjson.dumps(term), lines)
        _check_size(text, where)
        return cls(text, term, distinct)

    @classmethod
    def parse(cls, text: bytes, key: str) -> Pool:
        """Read the entry of a pool. Raises `PromptError` if it is not valid, or not the one of its key."""
        _check_size(text, key)
        if (found := hashlib.sha256(text).hexdigest()) != key.removeprefix(POOL):
            raise PromptError("the pool has another hash than its key", where=key, found=found)
        try:
            entry = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise PromptError(f"the pool is not JSON: {error}", where=key) from error
        check(entry, _SCHEMA, key, PromptError)
        lines = enumerate(entry["texts"], 1)
        texts = (PoolText(f"{key} text {at}", line["terms"], line["objects"]) for at, line in lines)
        return cls(text, entry["term"], _distinct(texts, entry["term"]))

    @cached_property
    def key(self) -> str:
        """The key of its entry."""
        return POOL + hashlib.sha256(self.text).hexdigest()

    @cached_property
    def index(self) -> NearestTexts:
        """The index of its passages."""
        return NearestTexts(text.terms[self.term] for text in self.texts)


class Pools:
    """The pools of a workspace, at most `most` bytes of them, each read when the first prompt names it."""

    def __init__(
        self, texts: Mapping[str, bytes], known: Iterable[Pool] = (), *, most: int = MAX_POOLS
    ) -> None:
        self.texts = texts
        self._most = most
        self._read = {pool.key: pool for pool in known}

    def get(self, clause: PoolClause, where: str) -> Pool:
        """The pool that the prompt at `where` names by its hash.

        Raises `PromptError` if it is missing, not valid, or one too many.
        """
        if clause.pool is None:
            message, expected = (
                "an entry of the topic cannot name a file",
                "`pool`, as `config push` writes it",
            )
            raise PromptError(
                message, where=where, path="/examples/from", found=clause.file, expected=expected
            )
        key, wrong = POOL + clause.pool, partial(PromptError, where=where, path="/examples/pool")
        if key not in self.texts:
            message, expected = "its pool of examples is not there", f"the entry {key} beside it"
            raise wrong(message, found="no such entry", expected=expected)
        if key not in self._read:
            size = len(self.texts[key]) + sum(len(pool.text) for pool in self._read.values())
            if size > self._most:
                message, expected = (
                    "the pools of the workspace are too large",
                    f"at most {self._most:,} bytes",
                )
                raise wrong(message, found=f"{size:,}", expected=expected)
            self._read[key] = Pool.parse(self.texts[key], key)
        return self._read[key]


def pools_in(entries: Mapping[str, _Entry]) -> dict[str, _Entry]:
    """The pools among config entries, by key."""
    return {key: entry for key, entry in entries.items() if key.startswith(POOL)}


def _distinct(texts: Iterable[PoolText], term: str) -> tuple[PoolText, ...]:
    """The texts, of which one that comes twice counts once. Raises `PromptError` as `Pool.of`."""
    first: dict[bytes, PoolText] = {}
    errors: list[ConfigError] = []
    for text in texts:
        wrong = partial(PromptError, where=text.where)
        passage = text.terms.get(term)
        layout = " ".join(passage.split()) if isinstance(passage, str) else ""
        if not layout:
            found, expected = ", ".join(text.terms) or "no terms", f"`{term}`, a text"
            errors.append(wrong("there is no passage to show", path="/terms", found=found, expected=expected))
            continue
        before = first.setdefault(_line(replace(text, terms={**text.terms, term: layout}, objects=())), text)
        if before.objects != text.objects:
            expected = f"the objects of {before.where}, which has the same text, or only one of them"
            found, message = f"{len(text.objects)} objects", "the same text has other objects"
            errors.append(wrong(message, path="/objects", found=found, expected=expected))
    raise_first(errors[:MAX_ERRORS])
    return tuple(first.values())


def _line(text: PoolText) -> bytes:
    """The text in the entry of its pool. Raises `PromptError`."""
    try:
        return orjson.dumps({"terms": text.terms, "objects": text.objects})
    except orjson.JSONEncodeError as error:
        raise PromptError(f"cannot be shown: {error}", where=text.where) from error


def _check_size(data: bytes, where: str) -> None:
    if len(data) > MAX_POOL:
        found, expected = f"{len(data):,} bytes", f"at most {MAX_POOL:,} bytes of texts and objects"
        raise PromptError("the pool is too large", where=where, found=found, expected=expected)
