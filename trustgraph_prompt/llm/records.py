"""Calls to a model and its answers, independent of any wire format (OpenArmature, sections 3 to 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trustgraph_prompt.cost import Usage

#: Names of the limit of an answer; newer models of OpenAI only accept the second, older servers the first.
LIMITS = ("max_tokens", "max_completion_tokens")

#: Parameters that neither a flow nor a prompt may add: they decide what a call is, and what it may cost.
NO_EXTRAS = (
    *LIMITS, "messages", "model", "n", "best_of", "stream",
    "tools", "tool_choice", "functions", "function_call",
)  # fmt: skip

#: Why a model stopped: by itself, truncated, for tools, filtered, aborted.
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "error"]

#: How an answer is made to match a schema: by the server, strictly or as best it can, or by instructions.
SchemaPath = Literal["strict", "native", "prompt"]


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text in a message."""

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
    """A tool that the model wants called; `arguments` is None only where they are not a JSON object.

    `arguments_text` is how the model wrote them, which the values alone do not tell; it is ignored when two
    calls are compared.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    arguments_text: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. Only an assistant has `tool_calls`, only a tool a `tool_call_id`.

    `is_example`: it belongs to an example that is shown before the question. Servers do not see that.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str | tuple[Block, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_example: bool = field(default=False, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The content without its images."""
        if isinstance(self.content, str):
            return self.content
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def has_images(self) -> bool:
        """Whether the content has an image."""
        return not isinstance(self.content, str) and any(isinstance(b, ImageBlock) for b in self.content)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """Settings of a call. None is not sent; `extras` are sent as they are.

    `model` names another model of the same server than the provider's own.
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
        """The most tokens that an answer may have, under whichever name; None without a limit."""
        limits = (self.max_tokens, *(self.extras.get(name) for name in LIMITS))
        return min((tokens for tokens in limits if isinstance(tokens, int)), default=None)

    def doubled(self) -> RuntimeConfig:
        """The same settings with twice the answer limit."""
        named = {name: 2 * self.extras[name] for name in LIMITS if isinstance(self.extras.get(name), int)}
        max_tokens = self.max_tokens and 2 * self.max_tokens
        return replace(self, max_tokens=max_tokens, extras={**self.extras, **named})

    def at_most(self, tokens: int | None) -> RuntimeConfig:
        """The same settings for an answer of at most `tokens`, under the name that the extras use."""
        if tokens is None:
            return self
        named = {name: _smaller(self.extras[name], tokens) for name in LIMITS if name in self.extras}
        only_named = named and self.max_tokens is None
        return replace(
            self,
            max_tokens=None if only_named else _smaller(self.max_tokens, tokens),
            extras={**self.extras, **named},
        )


#: The settings that are numbers; servers know them by the same names.
NUMBERS = ("temperature", "max_tokens", "top_p", "seed", "frequency_penalty", "presence_penalty")


@dataclass(frozen=True, slots=True)
class Identity:
    """The kind of a provider, its model, and where that is (a URL, a topic). No secrets.

    Providers with equal identities are assumed to give the same answers.
    """

    system: str
    model: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a provider.

    `response_schema` is sent natively where the server supports that, else in words if `schema_in_words`;
    answers are not validated here. If the last message is the assistant's, it is the beginning of the answer,
    for providers with `prefill`. `stream` says whether the answer comes over the wire in pieces. `labels`
    (prompt id and the like) are for observers and for the scripted provider; servers do not receive them.
    `discarded` is called with the usage and the model of each answer to the call that is paid for and not
    used, which may be after the call has ended. `request` is the id of the request that the call is made for,
    by which circuits tell requests apart.
    """

    messages: Sequence[Message]
    config: RuntimeConfig = RuntimeConfig()
    tools: Sequence[Tool] = ()
    tool_choice: str | Mapping[str, str] | None = None
    response_schema: Mapping[str, Any] | None = None
    schema_in_words: bool = True
    stream: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    discarded: Callable[[Usage, str], None] | None = field(default=None, compare=False, repr=False)
    request: str = field(default="", compare=False)


@dataclass(slots=True)
class Delta:
    """A piece of an answer as it arrives. What is not None has just become known.

    `finish_reason` and `usage` come with or after the last text; servers may omit both. `thinking` is
    reasoning that is not part of the answer. `tool_calls` are complete. `raw` is the body that the server
    sent, assembled where it was streamed; it comes last.

    Treat it as immutable. It is not frozen because making a frozen one takes longer than everything else that
    is done for a token.
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
