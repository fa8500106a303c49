"""The term `answer_format`, which stands for the instructions about the answer."""

from __future__ import annotations

import json
import re

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.alternatives import branches_of
from trustgraph_prompt.contract.references import References

TERM = "answer_format"

RESERVED = f"the term `{TERM}` is reserved for the instructions about the answer"

_MAX_KEYS = 500
"""Keys that are looked for in the templates; the rest is ignored."""


def append(question: str, instructions: str) -> str:
    """The question, followed by the instructions if there are any."""
    return f"{question.rstrip()}\n\n{instructions}" if instructions else question


def unnamed_keys(contract: Contract, text: str) -> list[str]:
    """The required keys of the answer's objects that `text` does not name.

    If none is required, all declared keys, unless the text names at least one of them.
    """
    schema = contract.schema
    references = References(schema if isinstance(schema, dict) else {})
    objects = branches_of(references.root, references) or [references.followed(schema) or {}]
    required = list(dict.fromkeys(key for branch in objects for key in branch.get("required", ())))
    declared = list(dict.fromkeys(key for branch in objects for key in branch.get("properties", ())))
    words = frozenset(re.findall(r"\w+", text, re.ASCII))
    keys = (required or declared)[:_MAX_KEYS]
    missing = [key for key in keys if key not in words and not _is_named(key, text)]
    return missing if required or len(missing) == len(keys) else []


def _is_named(key: str, text: str) -> bool:
    """Whether the text holds a key that is more than one word, raw or as JSON escapes it."""
    return any(
        spelling in text and re.search(rf"(?<!\w){re.escape(spelling)}(?!\w)", text, re.ASCII)
        for spelling in {key, json.dumps(key)[1:-1]}
    )
