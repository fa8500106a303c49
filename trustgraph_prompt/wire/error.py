"""The `error` of a response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from trustgraph_prompt.wire.records import take, take_optional


@dataclass(frozen=True, slots=True)
class Error:
    """An error: `type` for programs, `message` for people."""

    type: str
    message: str

    @classmethod
    def of(cls, response: Mapping[str, Any], record: str) -> Self | None:
        """Take the error out of a response of type `record`, None if it has none. Raises `RequestError`."""
        error = take_optional(response, "error", dict, record)
        if error is None:
            return None
        return cls(*(take(error, name, str, "", f"{record}/error") for name in ("type", "message")))
