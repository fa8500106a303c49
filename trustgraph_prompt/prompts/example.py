"""Sample answers in a prompt file, each with the expected result of reading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trustgraph_prompt.errors import Reason
from trustgraph_prompt.prompts.source_map import SourceMap

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "if": {"required": ["show"], "properties": {"show": {"const": True}}},
    "then": {"required": ["terms", "reads"]},
    "else": {"required": ["answer"]},
    "additionalProperties": False,
    "properties": {
        "answer": {"type": "string", "description": "The answer of a model, verbatim."},
        "reads": {"description": "The value that must be read from it."},
        "refuses": {"type": "integer", "minimum": 0, "description": "How many of its objects are rejected."},
        "truncated": {"type": "boolean", "description": "Whether it is truncated."},
        "stage": {
            "enum": ["direct", "extracted", "repaired", "salvaged"],
            "description": "The stage at which it is read.",
        },
        "reason": {
            "enum": [reason.value for reason in Reason if reason is not Reason.SUCCESS],
            "description": "The reason for which the whole answer must be rejected.",
        },
        "finish-reason": {"type": "string", "description": "The finish reason that the server reported."},
        "terms": {"type": "object", "description": "Terms with which the question must render."},
        "show": {"type": "boolean", "description": "Whether the model is shown `terms` and `reads`."},
    },
}
"""The clauses of an `example`."""

_NOWHERE = SourceMap()


@dataclass(frozen=True, slots=True)
class Example:
    """An answer to a prompt, and the expected result of reading it.

    `prompt` is the id of the prompt. `reads` is the text, the value, or the list of objects (jsonl); with a
    `reason` other than `SUCCESS`, None allows any value. None in `refuses` (the number of rejected objects),
    `truncated` and `stage` allows any. With `terms`, the question must render; with `show`, the model is
    shown them and what is read.
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
    show: bool = False
    name: str = ""
    places: SourceMap = field(default=_NOWHERE, compare=False, repr=False)

    @classmethod
    def from_settings(
        cls, prompt: str, settings: Mapping[str, Any], *, name: str = "", places: SourceMap = _NOWHERE
    ) -> Example:
        """Build an example from its clauses, which `SCHEMA` allows.

        Without a `reason`, the defaults are no rejected object and no truncation.
        """
        defaults = {} if "reason" in settings else {"refuses": 0, "truncated": False}
        fields = {key.replace("-", "_"): value for key, value in {**defaults, **settings}.items()}
        fields["reason"] = Reason(settings.get("reason", Reason.SUCCESS))
        return cls(prompt, **fields, name=name, places=places)

    def __str__(self) -> str:
        return f"{self.prompt}: {self.name or 'an example'}"
