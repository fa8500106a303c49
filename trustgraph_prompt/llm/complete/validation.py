"""Validates the arguments of `complete` before anything is sent (OpenArmature, sections 3 to 5).

Every function takes what the caller passed, of any type, and returns records without changing it, or raises
a `ProviderInvalidRequest` that names the place.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.contract.references import References
from trustgraph_prompt.errors import ContractError, ProviderInvalidRequest, ProviderUnsupportedContentBlock
from trustgraph_prompt.llm.complete import message_parsing
from trustgraph_prompt.llm.complete.answer_check import Contracts
from trustgraph_prompt.llm.complete.message_parsing import each, json_object, text, wrong
from trustgraph_prompt.llm.records import Block, ImageBlock, Message, RuntimeConfig, TextBlock, Tool, ToolCall

_ROLES = ("system", "user", "assistant", "tool")
_DETAILS = ("auto", "low", "high")
_MEDIA_TYPE = re.compile(r"image/[a-z0-9.+-]+", re.IGNORECASE)
_SETTINGS: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys(
        ("temperature", "top_p", "frequency_penalty", "presence_penalty"), (int | float, "a number")
    ),
    **dict.fromkeys(("max_tokens", "seed"), (int, "an integer")),
}

#: Keywords beside a root's `$ref` that do not constrain the value.
_ABOUT_ROOT = frozenset(("$ref", "$defs", "definitions", "$schema", "$id", "title", "description"))


def messages(found: object) -> tuple[Message, ...]:
    """A conversation: an optional system message, then a user's; the last is a user's or a tool's."""
    parsed = [_message(message_parsing.message(item, at), at) for item, at in each(found, "messages")]
    if not parsed:
        raise ProviderInvalidRequest("messages: expected at least one message")
    if parsed[0].role not in ("system", "user"):
        raise wrong("messages[0].role", parsed[0].role, "system or user first")
    if parsed[-1].role not in ("user", "tool"):
        raise wrong(f"messages[{len(parsed) - 1}].role", parsed[-1].role, "user or tool last")
    unanswered: set[str] = set()  # ids of tool calls
    for index, message in enumerate(parsed):
        place = f"messages[{index}]"
        if message.role == "system" and index > 0:
            raise wrong(f"{place}.role", message.role, "system first or nowhere")
        for number, call in enumerate(message.tool_calls):
            if call.id in unanswered:
                raise wrong(f"{place}.tool_calls[{number}].id", call.id, "a unique id")
            unanswered.add(call.id)
        if message.tool_call_id is not None:
            if message.tool_call_id not in unanswered:
                expected = "the id of an earlier, open tool call"
                raise wrong(f"{place}.tool_call_id", message.tool_call_id, expected)
            unanswered.discard(message.tool_call_id)
    return tuple(parsed)


def tools(found: object) -> tuple[tuple[Tool, ...], Contracts]:
    """Tools with unique names, and the contracts of their arguments."""
    offered: list[Tool] = []
    contracts: dict[str, Contract] = {}
    for item, place in each(() if found is None else found, "tools"):
        tool = message_parsing.tool(item, place)
        name = text(tool.name, f"{place}.name")
        if name in contracts:
            raise wrong(f"{place}.name", name, "a unique name")
        text(tool.description, f"{place}.description", empty=True)
        contract = _object_contract(tool.parameters, f"{place}.parameters")
        contracts[name] = contract
        offered.append(replace(tool, parameters=object_schema(contract, place)))
    return tuple(offered), contracts


def tool_choice(found: object, offered: tuple[Tool, ...]) -> str | dict[str, str] | None:
    """Which tools may be used: None, a word, `{"type": "tool", "name": …}`, or OpenAI's format of that."""
    if found is None or found in ("auto", "none"):
        return found if offered else None  # servers reject a choice without tools
    place = "tool_choice"
    if found == "required":
        if not offered:
            raise wrong(place, found, "tools to choose from")
        return "required"
    if not isinstance(found, Mapping):
        raise wrong(place, found, "auto, required, none or an object with the name of a tool")
    if found.get("type") == "function":
        place, found = f"{place}.function", found.get("function")
        if not isinstance(found, Mapping):
            raise wrong(place, found, "an object with the name of a tool")
    elif found.get("type") != "tool":
        raise wrong(f"{place}.type", found.get("type"), "tool or function")
    name = text(found.get("name"), f"{place}.name")
    if name not in [tool.name for tool in offered]:
        raise wrong(f"{place}.name", name, "the name of one of the tools")
    return {"type": "tool", "name": name}


def config(found: object, place: str = "config") -> RuntimeConfig:
    """Settings of a call, or of one attempt."""
    if found is None:
        return RuntimeConfig()
    if not isinstance(found, RuntimeConfig):
        raise wrong(place, found, "a RuntimeConfig")
    for name, (kinds, expected) in _SETTINGS.items():
        value = getattr(found, name)
        if value is not None and (not isinstance(value, kinds) or not _is_json_number(value)):
            raise wrong(f"{place}.{name}", value, expected)
    if found.model is not None:
        text(found.model, f"{place}.model")
    if found.stop_sequences is not None:
        for sequence, at in each(found.stop_sequences, f"{place}.stop_sequences"):
            text(sequence, at)
    json_object(found.extras, f"{place}.extras")
    return found


def response_schema(found: object) -> Contract | None:
    """The contract of an answer, from a contract, a JSON Schema or a class."""
    place = "response_schema"
    if found is None:
        return None
    if isinstance(found, Contract):
        if found.format != "json" or found.many:
            raise wrong(
                place, "many objects" if found.many else found.format, "a contract of one json object"
            )
        return found
    if isinstance(found, Mapping):
        return _object_contract(found, place)
    try:
        contract = _contract_of(found) if isinstance(found, type) else None
    except ContractError as error:
        raise ProviderInvalidRequest(f"{place}: {error}") from error
    if contract is None or not _is_of_object(contract):
        raise wrong(place, found, "a JSON Schema of an object, a dataclass, a Pydantic model or a Contract")
    return contract


def object_schema(contract: Contract, place: str = "response_schema") -> Mapping[str, Any]:
    """The schema of a contract, which must have an object at its root."""
    schema = contract.schema if isinstance(contract.schema, Mapping) else {}
    if not _is_of_object(contract):
        raise wrong(f"{place}.type", schema.get("type"), "object at the root")
    return schema


def _is_of_object(contract: Contract) -> bool:
    return isinstance(contract.schema, Mapping) and contract.schema.get("type") == "object"


@lru_cache(128)
def _contract_of(cls: type) -> Contract:
    return Contract.of(cls)


def _object_contract(schema: object, place: str) -> Contract:
    """The contract of a schema with an object at its root; a root that is a mere `$ref` is resolved."""
    if not isinstance(schema, Mapping):
        raise wrong(place, schema, "a JSON Schema of an object")
    try:
        contract = Contract.from_schema(schema)
        written = contract.schema
        if isinstance(written, Mapping) and "$ref" in written and written.keys() <= _ABOUT_ROOT:
            root = References(written).followed(written) or {}
            beside = {key: value for key, value in written.items() if key != "$ref"}
            contract = Contract.from_schema({**root, **beside})
    except ContractError as error:
        raise ProviderInvalidRequest(f"{place}: {error}") from error
    object_schema(contract, place)
    return contract


def _is_json_number(value: Any) -> bool:
    """Whether it is a number that all servers can decode: finite, integers of 64 bits, not a bool."""
    return not isinstance(value, bool) and -(2**63) <= value < 2**64


def _message(message: Message, place: str) -> Message:
    """A message that has what its role allows."""
    if message.role not in _ROLES:
        raise wrong(f"{place}.role", message.role, "system, user, assistant or tool")
    calls = tuple(_tool_call(call, at) for call, at in each(message.tool_calls, f"{place}.tool_calls"))
    if calls and message.role != "assistant":
        raise ProviderInvalidRequest(f"{place}.tool_calls: only assistant messages may have tool calls")
    if message.role == "tool":
        text(message.tool_call_id, f"{place}.tool_call_id")
    elif message.tool_call_id is not None:
        raise ProviderInvalidRequest(f"{place}.tool_call_id: only tool messages may have one")
    may_be_empty = message.role == "tool" or bool(calls)
    content = _content(message.content, f"{place}.content", message.role, may_be_empty)
    return Message(message.role, content, calls, message.tool_call_id)


def _content(found: object, place: str, role: str, may_be_empty: bool) -> str | tuple[Block, ...]:
    if isinstance(found, str) or found is None or role in ("system", "tool"):
        return text(found, place, empty=may_be_empty)
    blocks = tuple(_block(block, at, role) for block, at in each(found, place))
    if not blocks and not may_be_empty:
        raise wrong(place, [], "a text or blocks, not empty")
    if all(isinstance(block, TextBlock) for block in blocks) and len(blocks) < 2:
        return "".join(block.text for block in blocks if isinstance(block, TextBlock))
    return blocks


def _block(found: object, place: str, role: str) -> Block:
    if isinstance(found, TextBlock):
        text(found.text, f"{place}.text")
        return found
    if not isinstance(found, ImageBlock):
        raise wrong(place, found, "a TextBlock or an ImageBlock")
    if role != "user":
        raise ProviderInvalidRequest(f"{place}: only user messages may have images")
    if (found.url is None) == (found.base64_data is None):
        raise ProviderInvalidRequest(f"{place}: expected either a url or base64_data")
    if found.detail is not None and found.detail not in _DETAILS:
        raise wrong(f"{place}.detail", found.detail, "auto, low or high")
    if found.url is not None:
        text(found.url, f"{place}.url")
    else:
        text(found.media_type, f"{place}.media_type")
        _base64(found.base64_data, f"{place}.base64_data")
    if found.media_type is not None and not _MEDIA_TYPE.fullmatch(
        text(found.media_type, f"{place}.media_type")
    ):
        raise wrong(f"{place}.media_type", found.media_type, "image/…", ProviderUnsupportedContentBlock)
    return found


def _base64(found: object, place: str) -> None:
    try:
        binascii.a2b_base64(text(found, place), strict_mode=True)
    except ValueError as error:  # binascii.Error, too
        raise ProviderInvalidRequest(f"{place}: not base64: {error}") from None


def _tool_call(found: object, place: str) -> ToolCall:
    if not isinstance(found, ToolCall):
        raise wrong(place, found, "a ToolCall")
    text(found.id, f"{place}.id")
    text(found.name, f"{place}.name")
    json_object(found.arguments, f"{place}.arguments")
    return found
