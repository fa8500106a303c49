"""Runs the cases beside this file over real HTTP; README.md says what they are made of."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.support.model_server import DONE, ModelServer, Reply, Then, event
from trustgraph_prompt.errors import ProviderError, StructuredOutputInvalid
from trustgraph_prompt.json_text.pointer import follow
from trustgraph_prompt.llm import Delta, OpenAIProvider, Response, RetryPolicy, RuntimeConfig, Timeout

HERE = Path(__file__).parent
CASES = sorted(path.stem for path in HERE.glob("[0-9]*.yaml"))
CASE = {"provider", "replies", "calls", "requests"}
CALL = {"complete", "ready", "response", "error", "heard", "retries"}
HELLO = [{"role": "user", "content": "Hello?"}]
TURNS = [b""] * 20  # of the loop, in which the client reads what has come before the connection breaks
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
NOBODY = "http://127.0.0.1:9"  # the port "discard", where nothing listens


def read_case(name: str) -> dict[str, Any]:
    """A case, all of whose keys mean something."""
    case: dict[str, Any] = yaml.load((HERE / f"{name}.yaml").read_text(), LOADER)
    calls = case.get("calls", [{key: case[key] for key in CALL & case.keys()}])
    unknown = [*case.keys() - CASE - (set() if "calls" in case else CALL)]
    assert not [*unknown, *(key for call in calls for key in call.keys() - CALL)]
    return case


def is_of_answers(case: Mapping[str, Any]) -> bool:
    """Whether the server does nothing in a case but answer, and the case says nothing of streams."""
    replies = case.get("replies", [])
    return bool(replies) and all("answer" in reply for reply in replies) and "stream" not in json.dumps(case)


@pytest.mark.parametrize("name", CASES)
async def test_requests_and_outcomes_are_those_of_the_case(name: str, server: ModelServer) -> None:
    case = read_case(name)
    replies = iter([reply_of(reply) for reply in case.get("replies", [])])
    server.reply = lambda body: next(replies, Reply(status=500))
    options = {"model": "small", **case.get("provider", {})}
    options["timeout"] = Timeout(**options.get("timeout", {}))
    url = NOBODY if options.pop("nobody_listens", False) else server.url
    async with OpenAIProvider(url, **options) as provider:
        for call in case.get("calls", [case]):
            await make(call, provider)
    expected = case.get("requests", [{}] * len(case.get("replies", [])))
    assert server.lines == [wanted.get("line", "POST /v1/chat/completions") for wanted in expected]
    for wanted, headers, body in zip(expected, server.headers, server.bodies, strict=True):
        check({key: value for key, value in wanted.items() if key not in ("line", "headers")}, body)
        assert wanted.get("headers", {}).items() <= headers.items()


@pytest.mark.parametrize("name", [name for name in CASES if is_of_answers(read_case(name))])
async def test_a_streamed_answer_is_the_same_answer(name: str, server: ModelServer) -> None:
    case = read_case(name)
    replies = iter([streamed(reply["answer"]) for reply in case["replies"]])
    server.reply = lambda body: next(replies, Reply(status=500))
    async with OpenAIProvider(server.url, **{"model": "small", **case.get("provider", {})}) as provider:
        for call in case.get("calls", [case]):
            await make({**call, "complete": {**call["complete"], "stream": True}}, provider)
    assert len(server.bodies) == len(case["replies"])


@pytest.mark.parametrize("name", CASES)
def test_every_case_says_what_it_shows(name: str) -> None:
    title, blank, *text = (HERE / f"{name}.md").read_text().splitlines()
    assert (title.startswith("# "), blank) == (True, "")
    assert 1 <= len(text) <= 8


async def make(call: Mapping[str, Any], provider: OpenAIProvider) -> None:
    """Make one call, and hold what comes of it against what is expected."""
    heard: list[str] = []
    retries: list[str] = []
    found: dict[str, Any] = {}
    outcome = "response"
    try:
        if "ready" in call:
            await provider.ready()
        else:
            found = said(
                await complete(call["complete"], provider, heard if "heard" in call else None, retries)
            )
    except (ProviderError, StructuredOutputInvalid) as error:
        outcome, found = "error", told(error)
    assert outcome == ("error" if "error" in call else "response"), found
    check(call.get(outcome, {}), found)
    assert heard == call.get("heard", [])
    assert retries == call.get("retries", [])


async def complete(
    given: Mapping[str, Any], provider: OpenAIProvider, heard: list[str] | None, retries: list[str]
) -> Response[Any]:
    """One completion, which changes nothing that it is given; `heard` is None where nobody listens."""

    async def listen(delta: Delta) -> None:
        if heard is not None and delta.text:
            heard.append(delta.text)

    async def on_retry(error: Any, _: int) -> None:
        retries.append(error.category)

    arguments = {"messages": HELLO, **given}
    if "config" in given:
        arguments["config"] = config_of(given["config"])
    if "retry" in given:
        arguments["retry"] = policy_of(given["retry"], on_retry)
    before = copy.deepcopy({key: value for key, value in arguments.items() if key != "retry"})
    try:
        response: Response[Any] = await provider.complete(
            **arguments, listen=None if heard is None else listen
        )
        return response
    finally:
        assert {key: value for key, value in arguments.items() if key != "retry"} == before


def config_of(written: Mapping[str, Any]) -> RuntimeConfig:
    if "stop_sequences" in written:
        written = {**written, "stop_sequences": tuple(written["stop_sequences"])}
    return RuntimeConfig(**written)


def policy_of(written: Mapping[str, Any], on_retry: Any) -> RetryPolicy:
    """A policy that waits no longer than a server says; it retries what has one of the `categories`."""
    options: dict[str, Any] = {**written, "backoff": lambda attempt: 0.0, "on_retry": on_retry}
    if (categories := options.pop("categories", None)) is not None:
        options["classifier"] = lambda error: getattr(error, "category", None) in categories
    if "per_attempt_override" in options:
        options["per_attempt_override"] = [config_of(one) for one in options["per_attempt_override"]]
    if "reask" in options:
        words = options["reask"]
        options["reask"] = lambda error: words.format(error=error.error_message)
    return RetryPolicy(**options)


def reply_of(written: Mapping[str, Any]) -> Reply:
    """What the server answers: headers, status, and one kind of body."""
    status, headers = written.get("status", 200), written.get("headers", {})
    if "events" in written:
        parts: list[bytes | Then] = [*events_of(written["events"])]
        return Reply(parts + [*TURNS, Then.DROP] * ("drop" in written), status, headers)
    if "hang" in written or "drop" in written:
        return Reply([Then.HANG if "hang" in written else Then.DROP], status, headers)
    if "text" in written:
        kind = written.get("content_type", "application/json")
        return Reply([written["text"].encode()], status, headers, kind)
    body = written["body"] if "body" in written else envelope(**written.get("answer", {}))
    return Reply([orjson.dumps(body)], status, headers, "application/json")


def envelope(
    content: str | None = "Hello.",
    finish_reason: str | None = "stop",
    tool_calls: list[list[str]] | None = None,
    usage: Any = None,
) -> dict[str, Any]:
    """The body of an answer; of a tool call its id, name and arguments."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if tool_calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in tool_calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    used = {} if usage is None else {"usage": usage}
    return {"id": "1", "object": "chat.completion", "model": "small", "choices": [choice], **used}


def streamed(answer: Mapping[str, Any]) -> Reply:
    """The same answer in pieces, tool calls too."""
    body = envelope(**answer)
    message, reason = body["choices"][0]["message"], body["choices"][0]["finish_reason"]
    content = message["content"] or ""
    deltas = [{"content": content[start : start + 3]} for start in range(0, len(content), 3)]
    for index, call in enumerate(message.get("tool_calls", ())):
        function, arguments = call["function"], call["function"]["arguments"]
        deltas += [
            {"tool_calls": [{**call, "index": index, "function": {**function, "arguments": arguments[:4]}}]},
            {"tool_calls": [{"index": index, "function": {"arguments": arguments[4:]}}]},
        ]
    used = [{"choices": [], "usage": body["usage"]}] if "usage" in body else []
    events = [
        *({"delta": delta} for delta in deltas),
        {"delta": {}, "finish_reason": reason},
        *used,
        "[DONE]",
    ]
    return Reply(list(events_of(events)))


def events_of(written: list[Any]) -> Iterator[bytes]:
    """Each event in its envelope: what has a `delta` is a choice, and a text is raw."""
    for one in written:
        if isinstance(one, str):
            yield one.encode() if one != "[DONE]" else DONE
        elif "delta" in one:
            choice = {"index": 0, "finish_reason": None, **one}
            yield event({"id": "1", "object": "chat.completion.chunk", "model": "small", "choices": [choice]})
        else:
            yield event(one)


def said(response: Response[Any]) -> dict[str, Any]:
    """A response as JSON."""
    return {
        "content": response.message.content,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in response.message.tool_calls
        ],
        "finish_reason": response.finish_reason,
        "usage": asdict(response.usage),
        "parsed": response.parsed,
        "raw": response.raw,
        "model": response.model,
        "thinking": response.thinking,
        "schema_path": response.schema_path,
        "calls": [call.why for call in response.calls],
    }


def told(error: ProviderError | StructuredOutputInvalid) -> dict[str, Any]:
    """An error as JSON."""
    common = {
        "category": error.category,
        "transient": error.transient,
        "message": str(error),
        "has_cause": error.__cause__ is not None,
    }
    if isinstance(error, ProviderError):
        return {**common, "retry_after": error.retry_after}
    return {
        **common,
        "response_schema": error.response_schema,
        "output_content": error.output_content,
        "error_message": error.error_message,
        "finish_reason": error.finish_reason,
        "usage": None if error.usage is None else asdict(error.usage),
        "issues": [{**asdict(issue)} for issue in error.issues],
    }


def check(expected: Mapping[str, Any], found: Any) -> None:
    """Hold `found` against what is expected of it: of its parts, by pointer, or by one of four words."""
    for key, value in expected.items():
        if key == "equals":
            same(found, value, "")
        elif key == "lacks":
            for path in value:
                assert follow(found, at(path)) is None, f"{path} is there"
        elif key == "says":
            for path, words in value.items():
                for word in words:
                    assert word.lower() in str(follow(found, at(path))).lower(), f"{path} says no {word!r}"
        elif key == "keys":
            for path, names in value.items():
                assert list(follow(found, at(path))) == names, path
        elif key == "json":
            for path, inner in value.items():
                same(json.loads(follow(found, at(path))), inner, path)
        else:
            same(follow(found, at(key)), value, key)


def at(path: str) -> str:
    return path if path.startswith("/") or not path else f"/{path}"


def same(found: Any, expected: Any, path: str) -> None:
    """Equal as JSON is: 1 is not true."""
    written = [json.dumps(one, sort_keys=True, default=str) for one in (found, expected)]
    assert written[0] == written[1], f"at {path or 'the whole'}"
