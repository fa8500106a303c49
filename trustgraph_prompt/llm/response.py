"""What `complete` gives back (seed 2, section 6)."""

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

    `parsed` is the value of the whole content where a schema was asked for and no tool; `stage` says what it
    took to read it, `schema_path` how the provider held the model to the schema. `finish_reason` is None
    where the wire did not say. `raw` is the body that the server sent, {} of a provider that has none.

    `calls` are all that were made for it, this answer the last of them; `usage` is what they cost together.
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
