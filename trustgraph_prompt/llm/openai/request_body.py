"""Encodes a call as the request body of chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from trustgraph_prompt.errors import ProviderInvalidRequest, ProviderUnsupportedContentBlock
from trustgraph_prompt.llm.records import LIMITS, NUMBERS, Block, Call, ImageBlock, Message, ToolCall
from trustgraph_prompt.reader.decode import NotJson, decode


def encode(value: Any, *, sort: bool = False) -> bytes:
    """Encode as JSON, with keys in their order, or sorted at every level. Raises `ProviderInvalidRequest`."""
    try:
        return orjson.dumps(value, default=_mapping, option=orjson.OPT_SORT_KEYS if sort else 0)
    except TypeError as error:
        raise ProviderInvalidRequest(f"the call cannot be written as JSON: {error}") from error


def _mapping(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


#: How a server is told that the assistant's last message is the beginning of its answer: by nothing else
#: (llama.cpp), by two parameters of the request (vLLM), by a key of the message (Mistral, DeepSeek).
Prefill = Literal["assistant", "vllm", "prefix"]

#: Keys that are left out where empty, but that extras may not set either.
_OMITTED_IF_EMPTY = ("tools", "tool_choice", "stream")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one model of one server supports. `images` False: it accepts none."""

    model: str
    prefill: Prefill | None = None
    images: bool | None = None


def body(
    call: Call,
    dialect: Dialect,
    *,
    messages: Sequence[Message],
    response_format: Mapping[str, Any] | None = None,
    without: frozenset[str] = frozenset(),
) -> bytes:
    """Encode the body; the same call gives the same bytes, with the keys of tools and extras sorted.

    `messages` replace those of the call. Extras are sent as they are. An extra with a key that is written
    here already must have the same value, except that stop sequences are joined. Parameters in `without` are
    left out, unless the extras have them; the limit of the answer has its other name instead. Raises
    `ProviderInvalidRequest` for one that differs and for values that are not JSON, and
    `ProviderUnsupportedContentBlock` for an image that the model does not accept.
    """
    config = call.config
    if config.model is not None:
        dialect = replace(dialect, model=config.model)
    stop = _stop(config.stop_sequences, config.extras.get("stop")) if config.stop_sequences else None
    optional = {
        **{name: getattr(config, name) for name in NUMBERS},
        "stop": stop,
        "stream_options": {"include_usage": True} if call.stream else None,
        "response_format": response_format,
    }
    written: dict[str, Any] = {
        "model": dialect.model,
        "messages": [_message(message, dialect) for message in messages],
        "tools": [
            _function(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in call.tools
        ],
        "tool_choice": _tool_choice(call.tool_choice),
        "stream": call.stream,
        **{name: value for name, value in optional.items() if value is not None},
    }
    if goes_on(call):
        _mark_prefill(written, dialect.prefill)
    extras = _extras(config.extras, written) if config.extras else {}
    for key in _OMITTED_IF_EMPTY:
        if not written[key]:
            del written[key]
    if call.tools:
        written["tools"] = orjson.Fragment(encode(written["tools"], sort=True))
    sent = written | extras
    for name in without.intersection(sent) - (config.extras.keys() - set(LIMITS)):
        del sent[name]
        if name in LIMITS:
            (other,) = set(LIMITS) - {name}
            sent[other] = config.answer_limit
    return encode(sent)


def goes_on(call: Call) -> bool:
    """Whether the last message is the beginning of the answer (prefill)."""
    return bool(call.messages) and call.messages[-1].role == "assistant"


def _mark_prefill(written: dict[str, Any], prefill: Prefill | None) -> None:
    last = written["messages"][-1]
    if prefill is None or "tool_calls" in last:
        why = "tool calls cannot be continued" if prefill else "the provider was made without `prefill`"
        raise ProviderInvalidRequest(f"the last message is the assistant's: {why}")
    if prefill == "vllm":
        written |= {"continue_final_message": True, "add_generation_prompt": False}
    elif prefill == "prefix":
        last["prefix"] = True


def _message(message: Message, dialect: Dialect) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": _content(message, dialect)}
    if message.tool_calls:
        written["content"] = written["content"] or None
        written["tool_calls"] = [
            {"id": call.id, **_function(name=call.name, arguments=_arguments(call))}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        written["tool_call_id"] = message.tool_call_id
    return written


def _arguments(call: ToolCall) -> str:
    """The arguments as the model wrote them, unless the caller has changed their values."""
    text = call.arguments_text
    try:
        if text and decode(text) == call.arguments:
            return text
    except NotJson:
        pass
    return encode(call.arguments).decode()


def _content(message: Message, dialect: Dialect) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    if len(message.content) == 1 and not isinstance(message.content[0], ImageBlock):
        return message.text
    return [_block(block, dialect) for block in message.content]


def _block(block: Block, dialect: Dialect) -> dict[str, Any]:
    if not isinstance(block, ImageBlock):
        return {"type": "text", "text": block.text}
    if dialect.images is False:
        raise ProviderUnsupportedContentBlock(f"the model {dialect.model!r} does not accept images")
    url = block.url or f"data:{block.media_type};base64,{block.base64_data}"
    detail = {} if block.detail is None else {"detail": block.detail}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _function(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": function}


def _tool_choice(choice: str | Mapping[str, str] | None) -> Any:
    if choice is None or isinstance(choice, str):
        return choice
    return _function(name=choice.get("name"))


def _stop(sequences: Sequence[str], more: Any) -> list[str]:
    """The stop sequences, followed by those of the extras, if these are any."""
    more = [more] if isinstance(more, str) else more
    if not isinstance(more, list | tuple) or not all(isinstance(sequence, str) for sequence in more):
        more = ()
    return list(dict.fromkeys((*sequences, *more)))


def _extras(extras: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """The extras that are not written yet."""
    added = {}
    try:
        for key in sorted(extras):
            if key not in written:
                added[key] = orjson.Fragment(encode(extras[key], sort=True))
            elif key != "stop" and not _same(_plain(extras[key]), _plain(written[key])):
                raise ProviderInvalidRequest(f"config.extras: {key!r} differs from what the call sets")
    except TypeError:  # keys that are no strings have no order
        raise ProviderInvalidRequest("config.extras: the keys must be strings") from None
    return added


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 and 1.0 are, 1 and true are not; the order of keys is ignored."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _plain(value: Any) -> Any:
    return orjson.loads(encode(value))
