"""The contract that an entry of a prompt gives its answer, and what the prompt must have for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.server_schema import server_schema
from trustgraph_prompt.errors import ContractError, PromptError
from trustgraph_prompt.prompts import answer_format

_CONTRACT_KEYS = ("repair", "extra", "coerce", "invariants", "versions", "many", "fences")

_OF_OBJECTS = ("repair-by-model", "echoes", "graph", "match", "answer-format")

_FORMATS_OF = {
    **dict.fromkeys(("schema", *_CONTRACT_KEYS), ("json", "jsonl")),
    **dict.fromkeys(("many", "fences"), ("json",)),
    "object-schema": ("jsonl",),
    **dict.fromkeys(_OF_OBJECTS, ("json", "jsonl")),
    **dict.fromkeys(("native", "passes", "ontology"), ("jsonl",)),
}
"""The formats of answers to which a key of an entry applies."""


def contract_of(id: str, entry: Mapping[str, Any], *, strict: bool) -> Contract:
    """Compile the contract of an entry. Raises `ContractError`, and `PromptError` for keys that do not apply.

    With `strict`, a key must apply to the type of the answer.
    """
    format = entry.get("response-type", "text")
    for key, formats in _FORMATS_OF.items():
        if strict and entry.get(key) is not None and format not in formats:
            problem, expected = f"`{key}` does not apply to an answer of type {format}", " or ".join(formats)
            raise PromptError(problem, path="/response-type", found=format, expected=expected)
    key = "object-schema" if format == "jsonl" and entry.get("object-schema") is not None else "schema"
    schema = None if format == "text" else entry.get(key)
    try:
        options = {name: entry[name] for name in _CONTRACT_KEYS if name in entry}
        return Contract.from_schema(schema, format=format, name=id, **options)
    except ContractError as error:
        # none of these keys is a keyword of JSON Schema
        is_schema = not error.path.startswith(tuple(f"/{name}" for name in _CONTRACT_KEYS))
        raise error.at("", f"/{key}" if is_schema else "") from error


def check_sources(contract: Contract, named: frozenset[str], entry: Mapping[str, Any]) -> None:
    """Raise `PromptError` if the schema grounds values (`x-from`) in a term that the prompt does not have."""
    known = (named - {answer_format.TERM}) | entry.get("terms", {}).keys()
    unknown = contract.sources.terms - known if contract.sources else ()
    for term in sorted(unknown):
        raise PromptError(
            "the schema takes values from a term that the prompt does not have",
            path="/object-schema" if entry.get("object-schema") is not None else "/schema",
            found=term,
            expected=", ".join(sorted(known)) or "a term of the prompt",
        )


def check_native(contract: Contract, entry: Mapping[str, Any]) -> None:
    """Raise `PromptError` if a server is to enforce a schema that it cannot."""
    if "native" in entry and server_schema(contract, items=True) is None:
        raise PromptError(
            "no server can enforce this schema",
            path="/native",
            found=entry["native"],
            expected="no `versions`, and a schema of objects without a key `items`",
        )
