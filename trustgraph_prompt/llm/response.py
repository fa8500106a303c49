"""The result of `complete` (OpenArmature, section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from trustgraph_prompt.cost import Usage
from trustgraph_prompt.llm.records import FinishReason, Message, SchemaPath
from trustgraph_prompt.reader import CallReport, Stage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Response(Generic[T]):
    """A model's answer. `message.content` is what the model wrote, byte for byte.

    `parsed` is the value of the content, if a schema was asked for and no tool was called; `stage` says how
    it was read, `schema_path` how the schema was enforced. `finish_reason` is None where the server did not
    give one. `raw` is the body that the server sent, {} for providers without one.

    `calls` are all calls that were made, this answer the last of them; `usage` is the sum over them.
    """

    message: Message
    finish_reason: FinishReason | None
    usage: Usage
    raw: dict[str, Any] = field(repr=False)
    parsed: T | None = None
    model: str | None = None
    thinking: str = ""
    stage: Stage | None = None
    schema_path: SchemaPath | None = None
    calls: tuple[CallReport, ...] = field(default=(), repr=False)
