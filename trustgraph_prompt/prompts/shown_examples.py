"""The examples that a model is shown before its question: turns of the conversation, or text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.alternatives import branches_of, chosen_by, discriminator_of, picked
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.contract.server_schema import server_schema
from trustgraph_prompt.json_text.encoding import encode


@dataclass(frozen=True, slots=True)
class Turn:
    """One example: what the user says, and what the assistant answers to it, before it has a form.

    `answer` is the text, the value, or the list of objects (jsonl); its keys are in the order of the schema.
    `is_nearest`: it was chosen from a pool for this question.
    """

    passage: str
    answer: Any
    is_nearest: bool = False

    @property
    def id(self) -> str:
        """A short hash of the passage, by which records name the example."""
        return hashlib.sha256(self.passage.encode(errors="surrogatepass")).hexdigest()[:12]


def answer_text(answer: Any, contract: Contract, *, items: bool = False) -> str:
    """The answer as the model has to write it: a text, a value, an object a line, or a list in `items`.

    The latter is the form of a list that servers enforce; of a jsonl answer only with `items`.
    """
    if contract.format == "text":
        return str(answer)
    if contract.many and server_schema(contract, items=items) is not None:
        return encode({"items": answer}).decode()
    lines = answer if contract.format == "jsonl" and answer else [answer]
    return "\n".join(encode(line).decode() for line in lines)


def in_schema_order(value: Any, contract: Contract) -> Any:
    """The value, or each object of a list (jsonl), with its keys in the order of the schema."""
    if not isinstance(contract.schema, dict):
        return value
    references = References(contract.schema)
    if contract.many and isinstance(value, list):
        return [_ordered(item, contract.schema, references) for item in value]
    return _ordered(value, contract.schema, references)


def _ordered(value: Any, schema: Any, references: References) -> Any:
    """A value, of a limited depth, with the keys of its objects in the order of their schema."""
    if isinstance(value, list):
        items = (references.followed(schema) or {}).get("items")
        return [_ordered(item, items, references) for item in value]
    if not isinstance(value, dict):
        return value
    properties = _properties_of(value, schema, references)
    keys = [*(key for key in properties if key in value), *(key for key in value if key not in properties)]
    return {key: _ordered(value[key], properties.get(key), references) for key in keys}


def _properties_of(value: Mapping[str, Any], schema: Any, references: References) -> Mapping[str, Any]:
    """The properties of the schema that describe an object: of a union, those of the branch it means."""
    top = references.followed(schema) or {}
    branches = branches_of(top, references)
    name = discriminator_of(branches)
    if name is not None and name in value:
        meant = picked(value[name], branches, [chosen_by(branch, name) for branch in branches])
    else:
        meant = next((b for b in branches if value.keys() <= b.get("properties", {}).keys()), None)
    properties: Mapping[str, Any] = (meant or top).get("properties", {})
    return properties
