"""What went wrong, in the `error` of a response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from trustgraph_prompt.wire.records import take, take_if_any


@dataclass(frozen=True, slots=True)
class Error:
    """`type` is for programs, `message` for people."""

    type: str
    message: str

    @classmethod
    def of(cls, response: Mapping[str, Any], what: str) -> Self | None:
        """The error of a response, None where there is none; `what` names the record.

        Raises `RequestError` naming the field that is wrong.
        """
        error = take_if_any(response, "error", dict, what)
        if error is None:
            return None
        return cls(*(take(error, name, str, "", f"{what}/error") for name in ("type", "message")))
