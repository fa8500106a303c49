"""Answers that a prompt's author wrote down, each with what must be read of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trustgraph_prompt.errors import Reason
from trustgraph_prompt.prompts.source_map import SourceMap

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["answer"],
    "additionalProperties": False,
    "properties": {
        "answer": {"type": "string", "description": "What a model answers, as it is."},
        "reads": {"description": "What must be read of it."},
        "refuses": {"type": "integer", "minimum": 0, "description": "How many of its objects are refused."},
        "truncated": {"type": "boolean", "description": "Whether it is cut off."},
        "stage": {
            "enum": ["direct", "extracted", "repaired", "salvaged"],
            "description": "What it takes to read it.",
        },
        "reason": {
            "enum": [reason.value for reason in Reason if reason is not Reason.SUCCESS],
            "description": "Why the whole answer must be refused.",
        },
        "finish-reason": {"type": "string", "description": "Why the model stopped, as its server says it."},
        "terms": {"type": "object", "description": "Terms with which the question must render."},
    },
}
"""The clauses of an `example`."""

_NOWHERE = SourceMap()


@dataclass(frozen=True, slots=True)
class Example:
    """An answer to a prompt, and what must be read of it.

    `prompt` is the id of the prompt. `reads` is the text, the value, or the list of objects (jsonl). With a
    `reason` other than `SUCCESS` None says that it does not matter, as it does for `refuses` (how many
    objects), `truncated` and `stage`. With `terms`, the question must render.
    """

    prompt: str
    answer: str
    reads: Any = None
    refuses: int | None = None
    truncated: bool | None = None
    stage: str | None = None
    reason: Reason = Reason.SUCCESS
    finish_reason: str | None = None
    terms: Mapping[str, Any] | None = None
    name: str = ""
    places: SourceMap = field(default=_NOWHERE, compare=False, repr=False)

    @classmethod
    def from_settings(
        cls, prompt: str, settings: Mapping[str, Any], *, name: str = "", places: SourceMap = _NOWHERE
    ) -> Example:
        """An example from its clauses, which `SCHEMA` allows.

        One without a `reason` refuses nothing and is not cut, unless it says so.
        """
        reason = Reason(settings.get("reason", Reason.SUCCESS))
        good = reason is Reason.SUCCESS
        return cls(
            prompt,
            settings["answer"],
            reads=settings.get("reads"),
            refuses=settings.get("refuses", 0 if good else None),
            truncated=settings.get("truncated", False if good else None),
            stage=settings.get("stage"),
            reason=reason,
            finish_reason=settings.get("finish-reason"),
            terms=settings.get("terms"),
            name=name,
            places=places,
        )

    def __str__(self) -> str:
        return f"{self.prompt}: {self.name or 'an example'}"
