"""The contract of structured responses in all versions, and the instructions for a model."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.judge import Extra
from trustgraph_prompt.contract.schema_versions import PROPERTY, Version
from trustgraph_prompt.errors import ContractError

CURRENT_SCHEMA_VERSION = "1.0"
"""The version that models are asked for, and the default of responses."""


class CountQualifier(StrEnum):
    """How exact `items_total` is."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    APPROX = "approx"


_COUNTS: Mapping[str, Any] = {
    "items_shown": {"type": "integer", "description": "How many items the answer shows, from 0."},
    "items_total": {
        "type": ["integer", "null"],
        "description": "How many items there are, null where nobody knows; never fewer than are shown.",
    },
    "count_qualifier": {
        "type": ["string", "null"],
        "description": "How items_total is meant: exact, at_least or approx.",
    },
}
_SOURCES: Mapping[str, Any] = {"type": ["array", "null"], "items": {"type": "object"}}
_TEXT: Mapping[str, Any] = {"type": "string", "description": "The answer itself, for who asked."}
_STATEMENT: Mapping[str, Any] = {"type": ["string", "null"], "description": "How complete the answer is."}
_CONFIDENCE: Mapping[str, Any] = {
    "confidence": {"type": ["number", "null"], "description": "From 0 to 1."},
    "metadata": {"type": ["object", "null"]},
}


def _schema(version: str, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    named = {PROPERTY: {"const": version}, **properties}
    return {"type": "object", "properties": named, "required": required}


_V1 = {"answer": _TEXT, **_COUNTS, "transparency_statement": _STATEMENT, "sources": _SOURCES}
_V2 = {
    "response": _TEXT,
    **_COUNTS,
    "citations": {"type": "array", "items": {"type": "object"}, "description": "What the answer rests on."},
    "transparency_statement": {**_STATEMENT, "deprecated": True},
    "sources": _SOURCES,
    **_CONFIDENCE,
}
SCHEMAS: Mapping[str, dict[str, Any]] = {
    "1.0": _schema("1.0", _V1, ["answer", "items_shown"]),
    "1.1": _schema("1.1", {**_V1, **_CONFIDENCE}, ["answer", "items_shown"]),
    "2.0": _schema("2.0", _V2, ["response", "items_shown", "citations"]),
}
"""The schema of each version. A minor version adds optional fields; a major one may rename and require."""

SUPPORTED_SCHEMA_VERSIONS = frozenset(SCHEMAS)
"""The versions that are read. A newer minor version is read as the newest one of its major version."""

RESPONSE_SCHEMA = SCHEMAS[CURRENT_SCHEMA_VERSION]
"""The JSON Schema of the current version."""

INVARIANTS = (
    ("items_shown >= 0", "'items_shown' must be >= 0"),
    ("items_total is none or items_total >= 0", "'items_total' must be >= 0"),
    ("items_total is none or items_total >= items_shown", "'items_total' must be >= 'items_shown'"),
    (
        f"count_qualifier is none or count_qualifier in {[one.value for one in CountQualifier]}",
        f"'count_qualifier' must be one of: {', '.join(CountQualifier)}",
    ),
    ("answer is undefined or answer | trim != ''", "'answer' must not be empty"),
    ("response is undefined or response | trim != ''", "'response' must not be empty"),
    (
        "confidence is none or (confidence >= 0 and confidence <= 1)",
        "'confidence' must be between 0 and 1",
    ),
)


def _contract(*, repair: bool, extra: Extra | None = "ignore") -> Contract:
    return Contract.from_schema(
        RESPONSE_SCHEMA,
        versions=SCHEMAS,
        invariants=INVARIANTS,
        repair=repair,
        extra=extra,
        name="structured_response",
    )


STRUCTURED_RESPONSE = _contract(repair=True)
"""The contract of a structured response, in the version that it names."""

WITHOUT_REPAIR = _contract(repair=False)
WITH_ALL_KEYS = _contract(repair=True, extra=None)


def version_of(written: object) -> str:
    """The supported version that reads a response of version `written`.

    For a newer minor version, which only adds optional fields, the newest known one. Raises `ContractError`
    for an unsupported version.
    """
    if isinstance(written, str) and written in SCHEMAS:
        return written
    named = Version.parse(written)
    known = {Version.parse(version): version for version in SCHEMAS}
    older = [
        version
        for version in known
        if version and named and version.major == named.major and version <= named
    ]
    if not older:
        raise ContractError(
            "unsupported schema version", found=written, expected=f"one of {', '.join(SCHEMAS)}"
        )
    return known[max(older)]


RESPONSE_SCHEMA_INSTRUCTIONS = f"""

Your whole reply is one JSON object, with no fence and no other text around it:

{{
    "schema_version": "{CURRENT_SCHEMA_VERSION}",
    "answer": "what you have to say",
    "items_shown": 5,
    "items_total": 18,
    "count_qualifier": "exact",
    "sources": [{{"title": "ADR.21", "type": "ADR"}}]
}}

- answer (a string) and items_shown (a whole number) must be there, the rest may be left out.
- items_shown is how many items the answer names; where it lists nothing, 0.
- items_total is how many there are altogether, and never less than items_shown; null if you do not know.
- count_qualifier says how good that number is: "exact", "at_least" or "approx".
- sources are the documents that the answer rests on, an object each.
- Within a string, write line breaks as \\n and quotes as \\".
"""
"""The instructions to append to a prompt whose answer is a structured response."""
