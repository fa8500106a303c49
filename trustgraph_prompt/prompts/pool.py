"""Pools of examples: texts with their objects, of which those nearest to a passage are shown before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Final

import orjson

from trustgraph_prompt.config_files import MAX_ERRORS, check
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ConfigError, PromptError, raise_first
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.prompts.nearest_texts import By, Choice, NearestTexts

POOL: Final = "pool."
"""Begins the key of the entry of a pool; the SHA-256 of its text follows."""

MAX_POOL: Final = 4 * 1024 * 1024
"""The maximum size of a pool, in bytes."""

MOST_SHOWN: Final = 10

CLAUSE: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "from": {"type": "string", "minLength": 1, "description": "A gold file, whose texts may be shown."},
        "pool": {
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
            "description": "The SHA-256 of the texts, which stand in the entry `pool.<sha256>`; `config push` "
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
            "description": "Which texts: those whose words are nearest to the passage's, the nearest last, or "
            "the first ones.",
        },
    },
    "oneOf": [{"required": ["from"]}, {"required": ["pool"]}],
    "description": "Texts with their objects of which some are shown as examples before the question.",
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
    def of(cls, clause: Mapping[str, Any]) -> PoolClause:
        """Make it from the clause of an entry, which `CLAUSE` allows."""
        return cls(**{"file" if key == "from" else key: value for key, value in clause.items()})


@dataclass(frozen=True, slots=True)
class PoolText:
    """The terms of a question, and the objects that a model should give. `where` names it in errors."""

    where: str
    terms: Mapping[str, Any] = field(repr=False)
    objects: Sequence[Any] = field(repr=False)


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
        """Make a pool of texts, whose passages are in one term; a passage that comes twice counts once.

        Raises `PromptError` if a text has no passage, or the same one as another with other objects, and for
        a pool that is too large, which `where` names.
        """
        first: dict[str, PoolText] = {}
        errors: list[ConfigError] = []
        for text in texts:
            passage = text.terms.get(term)
            layout = " ".join(passage.split()) if isinstance(passage, str) else ""
            before = first.setdefault(layout, text)
            if not layout:
                found = ", ".join(text.terms) or "no terms"
                errors.append(
                    _wrong("there is no passage to show", text, "/terms", found, f"`{term}`, a text")
                )
            elif before.objects != text.objects:
                expected = f"the objects of {before.where}, which has the same text, or only one of them"
                found = _counted(text.objects)
                errors.append(_wrong("the same text has other objects", text, "/objects", found, expected))
        raise_first(errors[:MAX_ERRORS])
        shown = tuple(first.values())
        lines = [{"terms": each.terms, "objects": each.objects} for each in shown]
        data = orjson.dumps({"term": term, "texts": lines})
        _check_size(data, where)
        return cls(data, term, shown)

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
        return cls.of(texts, entry["term"], key)

    @property
    def key(self) -> str:
        """The key of its entry."""
        return POOL + hashlib.sha256(self.text).hexdigest()

    @cached_property
    def index(self) -> NearestTexts:
        """The index of its passages."""
        return NearestTexts(str(text.terms[self.term]) for text in self.texts)

    def check(self, contract: Contract) -> None:
        """Raise `PromptError` for objects that a contract refuses; what a text says is not looked up."""
        raise_first(islice(self._refused(contract.without_terms), MAX_ERRORS))

    def choose(self, terms: Mapping[str, object], clause: PoolClause) -> Choice:
        """Choose the texts to show before a question with these terms: none without a passage."""
        passage = terms.get(self.term)
        return self.index.choose(passage, clause.show, clause.by) if isinstance(passage, str) else NONE_CHOSEN

    def _refused(self, contract: Contract) -> Iterator[ConfigError]:
        for text in self.texts:
            if not contract.many and len(text.objects) != 1:
                found, expected = _counted(text.objects), "one object, as the answer is one value"
                yield _wrong("the text cannot be shown", text, "/objects", found, expected)
            for index, value in enumerate(text.objects):
                whole = [value] if contract.many and contract.format == "json" else value
                for issue in islice(contract.issues(whole), 1):
                    message = f"an object that the prompt refuses cannot be shown: {issue.message}"
                    at, expected = pointer(("objects", str(index))), "an object that its schema accepts"
                    yield _wrong(message, text, at, value, expected)


NONE_CHOSEN: Final = Choice([], 0)


def _wrong(message: str, text: PoolText, path: str, found: object, expected: str) -> ConfigError:
    return PromptError(message, where=text.where, path=path, found=found, expected=expected)


def _check_size(data: bytes, where: str) -> None:
    if len(data) > MAX_POOL:
        expected = f"at most {MAX_POOL:,} bytes of texts and objects"
        raise PromptError(
            "the pool is too large", where=where, found=f"{len(data):,} bytes", expected=expected
        )


def _counted(objects: Sequence[Any]) -> str:
    return "1 object" if len(objects) == 1 else f"{len(objects)} objects"
