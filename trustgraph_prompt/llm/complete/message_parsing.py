"""Parses messages and tools from mappings, in OpenAI's format or with our own blocks, into records.

Only the structure is checked here; `validation` checks the values and the conversation. Every error is a
`ProviderInvalidRequest` that begins with the place: `messages[3].tool_calls[0].id`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_origin

from trustgraph_prompt.contract.explain import show
from trustgraph_prompt.errors import (
    ProviderError,
    ProviderInvalidRequest,
    ProviderUnsupportedContentBlock,
    excerpt,
)
from trustgraph_prompt.llm.records import Block, ImageBlock, Message, TextBlock, Tool, ToolCall
from trustgraph_prompt.reader.decode import NotJson, decode

#: Keys of assistant messages that servers send, and that are never sent back.
_NOT_SENT_BACK = ("annotations", "reasoning", "reasoning_content", "signature")
_THOUGHTS = ("thinking", "redacted_thinking")
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


def message(found: object, place: str) -> Message:
    """A message, from a record or a mapping."""
    if isinstance(found, Message):
        return found
    entry = _entry(found, place, "a Message or an object")
    dropped = ("name",) if entry.get("role") == "tool" else _NOT_SENT_BACK
    _no_more(entry, place, ("role", "content", "refusal", "tool_calls", "tool_call_id", *dropped))
    calls = () if entry.get("tool_calls") is None else entry["tool_calls"]
    content = entry.get("refusal") if entry.get("content") is None else entry["content"]
    beside_text = _NOT_SENT_BACK if entry.get("role") == "assistant" else ()
    return Message(
        role=entry.get("role"),  # type: ignore[arg-type]
        content=_content(content, f"{place}.content", beside_text),
        tool_calls=tuple(tool_call(call, at) for call, at in each(calls, f"{place}.tool_calls")),
        tool_call_id=entry.get("tool_call_id"),
    )


def tool_call(found: object, place: str) -> ToolCall:
    """A tool call; its arguments may be JSON text, as they are on the wire."""
    if isinstance(found, ToolCall):
        return found
    entry = _entry(found, place, "a ToolCall or an object")
    _no_more(entry, place, ("id", "type", "index", "function", "name", "arguments", "signature"))
    if "function" in entry:
        _of_type(entry, place, "function")
        place_of_call, call = f"{place}.function", _entry(entry["function"], f"{place}.function", "an object")
        _no_more(call, place_of_call, ("name", "arguments"))
    else:
        place_of_call, call = place, entry
    arguments = written = call.get("arguments")
    if isinstance(written, str):
        arguments = _decoded(written, f"{place_of_call}.arguments")
    return ToolCall(
        entry.get("id"),  # type: ignore[arg-type]
        call.get("name"),  # type: ignore[arg-type]
        arguments,
        written if isinstance(written, str) else None,
    )


def tool(found: object, place: str) -> Tool:
    """A tool; the parameters may be left out."""
    if isinstance(found, Tool):
        return found
    entry = _entry(found, place, "a Tool or an object")
    if "function" in entry:
        _no_more(entry, place, ("type", "function"))
        _of_type(entry, place, "function")
        place, entry = f"{place}.function", _entry(entry["function"], f"{place}.function", "an object")
    _no_more(entry, place, ("name", "description", "parameters"))
    description, parameters = entry.get("description"), entry.get("parameters")
    return Tool(
        entry.get("name"),  # type: ignore[arg-type]
        "" if description is None else description,
        _NO_PARAMETERS if parameters is None else parameters,
    )


def each(found: object, place: str) -> Iterator[tuple[object, str]]:
    """The items of a list, each with its place."""
    if not isinstance(found, Sequence) or isinstance(found, str | bytes | bytearray):
        raise wrong(place, found, "a list")
    return ((item, f"{place}[{index}]") for index, item in enumerate(found))


def text(found: object, place: str, *, empty: bool = False) -> str:
    """A text that can be encoded in UTF-8."""
    if not isinstance(found, str) or not (found or empty):
        raise wrong(place, found, "a text" if empty else "a text that is not empty")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise ProviderInvalidRequest(f"{place}: half a surrogate pair cannot be encoded in UTF-8") from None
    return found


def json_object(found: object, place: str) -> Mapping[str, Any]:
    """An object whose values are all JSON."""
    if not isinstance(found, Mapping):
        raise wrong(place, found, "an object")
    try:
        json.dumps(dict(found), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ProviderInvalidRequest(f"{place}: cannot be written as JSON: {error}") from None
    return found


def wrong(
    place: str, found: object, expected: str, error: type[ProviderError] = ProviderInvalidRequest
) -> ProviderError:
    """The error for a value that is not what it should be."""
    return error(f"{place}: expected {expected}, found {_shown(found)}")


def _shown(found: object) -> str:
    if found is None or isinstance(found, str | int | float | dict | list):
        return show(found)
    if isinstance(found, type):
        return found.__qualname__
    return excerpt(str(found), 80) if get_origin(found) else type(found).__name__


def _content(found: object, place: str, beside_text: tuple[str, ...]) -> str | tuple[Block, ...]:
    if found is None or isinstance(found, str):
        return found or ""
    blocks = [_block(block, at, beside_text) for block, at in each(found, place)]
    return tuple(block for block in blocks if block is not None)


def _block(found: object, place: str, beside_text: tuple[str, ...]) -> Block | None:
    """A block; None for an assistant's thinking, which is not sent back."""
    if isinstance(found, TextBlock | ImageBlock):
        return found
    entry = _entry(found, place, "a block")
    match entry.get("type"):
        case "text":
            _no_more(entry, place, ("type", "text", *beside_text))
            return TextBlock(entry.get("text"))  # type: ignore[arg-type]
        case "image_url":
            _no_more(entry, place, ("type", "image_url"))
            return _image_by_url(entry.get("image_url"), f"{place}.image_url")
        case "image":
            _no_more(entry, place, ("type", "source", "media_type", "detail"))
            return _image(entry, place)
        case kind if kind in _THOUGHTS:
            return None
        case kind if isinstance(kind, str):
            raise wrong(f"{place}.type", kind, "text or image", ProviderUnsupportedContentBlock)
        case kind:
            raise wrong(f"{place}.type", kind, "text or image")


def _image_by_url(found: object, place: str) -> ImageBlock:
    if isinstance(found, str):
        found = {"url": found}
    entry = _entry(found, place, "a URL or an object with one")
    _no_more(entry, place, ("url", "detail"))
    url, detail = entry.get("url"), entry.get("detail")
    if not isinstance(url, str) or not url.startswith("data:"):
        return ImageBlock(url=url, detail=detail)
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise wrong(f"{place}.url", url, "data:image/…;base64,…")
    return ImageBlock(
        base64_data=data, media_type=head.removeprefix("data:").removesuffix(";base64"), detail=detail
    )


def _image(entry: Mapping[Any, Any], place: str) -> ImageBlock:
    source = _entry(entry.get("source"), f"{place}.source", "an object with a type")
    named = {"media_type": entry.get("media_type"), "detail": entry.get("detail")}
    match source.get("type"):
        case "url":
            _no_more(source, f"{place}.source", ("type", "url"))
            return ImageBlock(url=source.get("url"), **named)
        case "inline":
            _no_more(source, f"{place}.source", ("type", "base64_data"))
            return ImageBlock(base64_data=source.get("base64_data"), **named)
        case kind:
            raise wrong(f"{place}.source.type", kind, "url or inline")


def _decoded(arguments: str, place: str) -> Any:
    """Decode arguments; servers write empty text for no arguments."""
    try:
        return decode(arguments) if arguments.strip() else {}
    except NotJson as error:
        raise ProviderInvalidRequest(f"{place}: not JSON: {error}") from None


def _entry(found: object, place: str, expected: str) -> Mapping[Any, Any]:
    if not isinstance(found, Mapping):
        raise wrong(place, found, expected)
    return found


def _of_type(entry: Mapping[Any, Any], place: str, expected: str) -> None:
    if entry.get("type", expected) != expected:
        raise wrong(f"{place}.type", entry["type"], expected)


def _no_more(entry: Mapping[Any, Any], place: str, known: tuple[str, ...]) -> None:
    """Reject unknown keys, which would be lost, unless their value is None."""
    for key, value in entry.items():
        if key not in known and value is not None:
            raise ProviderInvalidRequest(f"{place}: unknown key {show(str(key))}")
