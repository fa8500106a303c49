"""The structured response, and its migration between versions."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from trustgraph_prompt.doors.structured_response.schema import (
    CURRENT_SCHEMA_VERSION,
    STRUCTURED_RESPONSE,
    CountQualifier,
    version_of,
)
from trustgraph_prompt.errors import Issue, Reason, StructuredOutputInvalid


@dataclass
class StructuredResponse:
    """An answer that states how many of the available items it shows.

    `answer` is called `response` in version 2.0. `confidence` (0 to 1) and `metadata` exist since 1.1,
    `citations` since 2.0. `truncated` is no field of the response: its text ended early and was completed, so
    the last string or number may be incomplete.
    """

    answer: str
    items_shown: int = 0
    items_total: int | None = None
    count_qualifier: str | None = None
    transparency_statement: str | None = None
    sources: list[dict[str, Any]] = field(default_factory=list)
    schema_version: str = CURRENT_SCHEMA_VERSION
    confidence: float | None = None
    metadata: dict[str, Any] | None = None
    citations: list[dict[str, Any]] = field(default_factory=list)
    truncated: bool = field(default=False, kw_only=True)

    @property
    def response(self) -> str:
        """The answer, by its name in version 2.0."""
        return self.answer

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, truncated: bool = False) -> StructuredResponse:
        """Make a response from the fields of its version, 1.0 by default.

        Raises `StructuredOutputInvalid` with `issues` for fields that do not match the contract.
        """
        try:
            given = deepcopy(dict(data) if isinstance(data, Mapping) else data)
        except RecursionError:
            issue = Issue(Reason.SCHEMA_VALUE_ERROR, "nested too deeply")
            raise StructuredOutputInvalid(str(issue), issues=(issue,)) from None
        value, accepted = STRUCTURED_RESPONSE.take(given)
        if not accepted:
            issues = STRUCTURED_RESPONSE.issues(given)
            raise StructuredOutputInvalid("; ".join(map(str, issues)), issues=issues)
        return cls.of_accepted(value, truncated=truncated)

    @classmethod
    def of_accepted(cls, value: Mapping[str, Any], *, truncated: bool = False) -> StructuredResponse:
        """Make a response from a value that the contract accepted, without copying it."""
        total = value.get("items_total")
        return cls(
            answer=value["response"] if "response" in value else value["answer"],
            items_shown=int(value["items_shown"]),  # in JSON Schema, 5.0 is an integer, too
            items_total=None if total is None else int(total),
            count_qualifier=value.get("count_qualifier"),
            transparency_statement=value.get("transparency_statement"),
            sources=value.get("sources") or [],
            schema_version=version_of(value.get("schema_version", CURRENT_SCHEMA_VERSION)),
            confidence=value.get("confidence"),
            metadata=value.get("metadata"),
            citations=value.get("citations") or [],
            truncated=truncated,
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields of its version, which `from_dict` accepts."""
        is_2 = self.schema_version == "2.0"
        fields: dict[str, Any] = {
            "schema_version": self.schema_version,
            "response" if is_2 else "answer": self.answer,
            "items_shown": self.items_shown,
            "items_total": self.items_total,
            "count_qualifier": self.count_qualifier,
            "transparency_statement": self.transparency_statement,
            "sources": deepcopy(self.sources),
        }
        if self.schema_version != "1.0":
            fields |= {"confidence": self.confidence, "metadata": deepcopy(self.metadata)}
        if is_2:
            fields["citations"] = deepcopy(self.citations)
        return fields

    def migrate(self, version: str) -> StructuredResponse:
        """A copy of the response in another version.

        Sources become citations in 2.0, and citations become sources before it. Version 1.0 drops
        `confidence` and `metadata`. Raises `ContractError` for an unsupported version.
        """
        version = version_of(version)
        moved = replace(deepcopy(self), schema_version=version)
        if version == self.schema_version:
            return moved
        if version == "2.0":
            if not moved.citations:
                moved.citations, moved.sources = moved.sources, []
        else:
            moved.sources += [citation for citation in moved.citations if citation not in moved.sources]
            moved.citations = []
        if version == "1.0":
            moved.confidence = moved.metadata = None
        return moved

    def generate_transparency_message(self) -> str:
        """State how many of the available items the answer shows; empty without `items_total`.

        Before 2.0, which deprecates it, the model's own `transparency_statement` takes precedence.
        """
        if self.transparency_statement and self.schema_version != "2.0":
            return self.transparency_statement
        shown, total = self.items_shown, self.items_total
        if total is None:
            return ""
        match self.count_qualifier:
            case CountQualifier.AT_LEAST:
                return f"Showing {shown} of at least {total} total items"
            case CountQualifier.APPROX:
                return f"Showing {shown} of approximately {total} total items"
        return f"Showing {shown} of {total} total items" if shown < total else f"Showing all {total} items"
