"""Parts of a prompt as its entry has them: the contract, settings; and what the prompt must have for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.server_schema import server_schema
from trustgraph_prompt.errors import ContractError, PromptError, RenderError
from trustgraph_prompt.llm.records import RuntimeConfig
from trustgraph_prompt.prompts import answer_format
from trustgraph_prompt.prompts.render_limits import RenderMeter, check_terms

CACHE_SECONDS = 3600.0
"""How long answers are cached where a prompt says `cache: true`."""

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


def check_texts(entry: Mapping[str, Any]) -> None:
    """Raise `PromptError` for a prompt without text, and for terms that cannot be rendered."""
    terms = entry.get("terms", {})
    if not entry["prompt"].strip():
        raise PromptError("the prompt has no text", path="/prompt", found=entry["prompt"])
    try:
        check_terms(terms, RenderMeter())
    except RenderError as error:
        raise PromptError(str(error), path="/terms") from error
    if (term := answer_format.TERM) in terms and entry.get("answer-format") != "none":
        path = f"/terms/{term}"
        raise PromptError(answer_format.RESERVED, path=path, found=term, expected="another name")


def check_attempts(entry: Mapping[str, Any]) -> None:
    attempts = entry.get("attempts", 1)
    if entry.get("repair-by-model") and attempts < 2:
        problem = "`repair-by-model` needs a second attempt"
        raise PromptError(problem, path="/attempts", found=attempts, expected="2 or more")


def config_of(model: Mapping[str, Any]) -> RuntimeConfig:
    """The settings of an entry's `model`: two keys have other names in `RuntimeConfig`."""
    settings = {key.replace("-", "_"): value for key, value in model.items()}
    if "stop" in settings:
        settings["stop_sequences"] = tuple(settings.pop("stop"))
    return RuntimeConfig(model=settings.pop("name", None), **settings)


def cache_seconds(cache: bool | Mapping[str, float]) -> float | None:
    if isinstance(cache, bool):
        return CACHE_SECONDS if cache else None
    return cache["seconds"]
