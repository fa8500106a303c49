"""What goes to a model and what comes back, independent of any wire (seed 2, sections 3 to 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trustgraph_prompt.cost import Usage

#: What servers call the limit of an answer; newer models know the second name only.
_LIMITS = ("max_tokens", "max_completion_tokens")

#: Why a model stopped: by itself, cut, for tools, filtered, broken off.
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "error"]

#: How an answer is held to a schema: by the server, strictly or as best it can, or by being told in words.
SchemaPath = Literal["strict", "native", "prompt"]


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A piece of a message that is text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image in a user's message: by its `url`, or inline with its `media_type` (image/png or the like)."""

    url: str | None = None
    base64_data: str | None = None
    media_type: str | None = None
    detail: Literal["auto", "low", "high"] | None = None


Block = TextBlock | ImageBlock


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model wants called; `arguments` is None only where they could not be read.

    `arguments_text` is how the model wrote them, which says more than their values can: it makes no
    difference to whether two calls are equal.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    arguments_text: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. `tool_calls` only of an assistant, `tool_call_id` only of a tool."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | tuple[Block, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The content without its images."""
        if isinstance(self.content, str):
            return self.content
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def has_images(self) -> bool:
        """Whether the content is more than text."""
        return not isinstance(self.content, str) and any(isinstance(b, ImageBlock) for b in self.content)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the model may ask for; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Settings of a call; None is left out of the wire, `extras` go onto it as they are.

    `model` is another model of the same server than the provider's own.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    stop_sequences: tuple[str, ...] | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None

    @property
    def answer_limit(self) -> int | None:
        """Tokens of the answer at most, under whichever name it is said; None where nothing limits it."""
        said = (self.max_tokens, *(self.extras.get(name) for name in _LIMITS))
        return min((tokens for tokens in said if isinstance(tokens, int)), default=None)

    def doubled(self) -> RuntimeConfig:
        """The same with twice the room for the answer."""
        named = {name: 2 * self.extras[name] for name in _LIMITS if isinstance(self.extras.get(name), int)}
        max_tokens = self.max_tokens and 2 * self.max_tokens
        return replace(self, max_tokens=max_tokens, extras={**self.extras, **named})

    def at_most(self, tokens: int | None) -> RuntimeConfig:
        """The same for an answer of at most `tokens` tokens, said under the name that the extras use."""
        if tokens is None:
            return self
        named = {name: _smaller(self.extras[name], tokens) for name in _LIMITS if name in self.extras}
        only_named = named and self.max_tokens is None
        return replace(
            self,
            max_tokens=None if only_named else _smaller(self.max_tokens, tokens),
            extras={**self.extras, **named},
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answers: the kind of provider, the model it asks for, and where (a URL, a topic). No secrets.

    Two providers of one identity are taken to give the same answers.
    """

    system: str
    model: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a provider, whole.

    `response_schema` is asked for natively where the provider can, and else told in words if
    `schema_in_words`; nobody judges the answer by it here. A last message of the assistant's is the beginning
    of the answer, for providers that have `prefill`. `stream` says how the answer comes over the wire.
    `labels` (prompt id and the like) are for observers and for the scripted provider, never for a wire.
    """

    messages: Sequence[Message]
    config: RuntimeConfig = RuntimeConfig()
    tools: Sequence[Tool] = ()
    tool_choice: str | Mapping[str, str] | None = None
    response_schema: Mapping[str, Any] | None = None
    schema_in_words: bool = True
    stream: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Delta:
    """A piece of an answer as it comes. What is not None has just become known.

    `finish_reason` and `usage` come with or after the last text; None to the end means the wire did not say.
    `thinking` is reasoning that is not part of the answer. `tool_calls` are whole. `raw` is the body that the
    server sent, put together where it was streamed; it comes last.

    Nobody changes one. It is not frozen because that takes longer than all else that is done about a token.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    model: str | None = None
    schema_path: SchemaPath | None = None
    raw: Mapping[str, Any] | None = None


def _smaller(limit: Any, tokens: int) -> int:
    return min(limit, tokens) if isinstance(limit, int) else tokens
