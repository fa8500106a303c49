"""What a cache of responses keeps under a key, and how it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.doors.structured_response.response import StructuredResponse
from trustgraph_prompt.errors import Reason, StructuredOutputInvalid
from trustgraph_prompt.reader.decode import NotJson, decode
from trustgraph_prompt.wire import encode


@dataclass(frozen=True)
class CacheEntry:
    """A text, and what came of reading it; a negative one where that was nothing.

    `created_at` is in seconds since the epoch, for people: what has expired is known without it.
    """

    raw_response: str
    parsed_json: dict[str, Any] | None
    structured_response: StructuredResponse | None
    validation_result: bool
    reason_code: Reason
    fallback_used: str
    created_at: float
    ttl_seconds: float

    def pack(self) -> bytes:
        """As JSON. Raises `ValueError` where `parsed_json` is none."""
        response = self.structured_response
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["structured_response"] = None if response is None else response.to_dict()
        fields["truncated"] = response is not None and response.truncated
        try:
            return encode(fields)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"a cache of responses keeps JSON: {error}") from error

    @classmethod
    def unpack(cls, data: bytes) -> CacheEntry | None:
        """None where it is no entry, or its response would not be accepted any more."""
        try:
            match decode(data.decode()):
                case {
                    "raw_response": str() as raw,
                    "parsed_json": dict() | None as parsed,
                    "structured_response": dict() | None as response,
                    "truncated": bool() as truncated,
                    "validation_result": bool() as valid,
                    "reason_code": str() as reason,
                    "fallback_used": str() as fallback,
                    "created_at": int() | float() as created,
                    "ttl_seconds": int() | float() as ttl,
                }:
                    built = _response(response, truncated=truncated)
                    return cls(raw, parsed, built, valid, Reason(reason), fallback, created, ttl)
        except (NotJson, ValueError, StructuredOutputInvalid):
            pass
        return None


def _response(fields: Mapping[str, Any] | None, *, truncated: bool) -> StructuredResponse | None:
    return None if fields is None else StructuredResponse.from_dict(fields, truncated=truncated)
