"""The term that stands for what the answer must be, and when it is needed."""

from __future__ import annotations

import json
import re

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.alternatives import branches_of
from trustgraph_prompt.contract.references import References

TERM = "answer_format"

RESERVED = f"the term `{TERM}` is reserved: it stands for what the answer must be"

_MOST_KEYS = 500
"""Of more keys, those that come behind are not looked for."""


def ending(question: str, instructions: str) -> str:
    """The question, with these at its end if there are any."""
    return f"{question.rstrip()}\n\n{instructions}" if instructions else question


def unnamed(contract: Contract, text: str) -> list[str]:
    """The keys that the objects of an answer must have and `text` never names.

    Where they must have none, all that they may have, unless one is named.
    """
    required, known = _keys(contract)
    words = frozenset(re.findall(r"\w+", text, re.ASCII))
    missing = [key for key in (required or known)[:_MOST_KEYS] if key not in words and not _names(text, key)]
    return missing if required or len(missing) == len(known[:_MOST_KEYS]) else []


def _keys(contract: Contract) -> tuple[list[str], list[str]]:
    """The keys that objects must have, and all that are declared."""
    schema = contract.schema
    references = References(schema if isinstance(schema, dict) else {})
    objects = branches_of(references.root, references) or [references.followed(schema) or {}]
    required = dict.fromkeys(key for each in objects for key in each.get("required", ()))
    known = dict.fromkeys(key for each in objects for key in each.get("properties", ()))
    return list(required), list(known)


def _names(text: str, key: str) -> bool:
    """Whether a key that is more than a word stands there, as it is or as JSON writes it."""
    return any(
        one in text and re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text, re.ASCII)
        for one in {key, json.dumps(key)[1:-1]}
    )
