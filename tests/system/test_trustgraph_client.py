"""TrustGraph's own clients ask our worker instead of its prompt service: the same answers, or right ones."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from tests.support.trustgraph_cases import CASES, LINES, PERSON, STRICT, Case, answer, seen
from tests.support.trustgraph_client import TrustGraphClient
from tests.support.trustgraph_services import Completion, CompletionWorker, Script
from tests.support.trustgraph_site import TrustGraphSite
from trustgraph_prompt import package_data
from trustgraph_prompt.prompts import files
from trustgraph_prompt.wire import PromptRequest

pytestmark = [pytest.mark.pulsar, pytest.mark.upstream]

#: More, and the broker drops answers while others are on their way to the same client.
AT_ONCE = 6


async def flow_set(
    site: TrustGraphSite, script: Script, **templates: Any
) -> tuple[TrustGraphClient, CompletionWorker]:
    """A worker of ours that serves the flow `default`, and who asks it."""
    await site.prompts(**templates)
    await site.start_flow()
    model = await site.model(script)
    await site.work()
    return await site.client(), model


async def test_every_answer_is_as_from_trustgraphs_own_service_or_better(trustgraph: TrustGraphSite) -> None:
    await trustgraph.config.put(
        "default", {("prompt", f"template.{case.name}"): case.value for case in CASES}
    )
    client, model = await flow_set(trustgraph, answer)
    places = asyncio.Semaphore(AT_ONCE)

    async def ask(case: Case) -> dict[str, Any]:
        async with places:
            return await client.prompt(case.name, streaming=case.streaming, **case.terms)

    came = dict(zip(CASES, await asyncio.gather(*map(ask, CASES)), strict=True))

    wrong = {case.name: seen(came[case], case.expected) for case in CASES}
    wrong = {case.name: wrong[case.name] for case in CASES if wrong[case.name] != case.expected}
    better = sum(case.theirs is not None for case in CASES)
    same = len(CASES) - better
    print(f"{len(CASES)} cases: {same} as theirs, {better} right where theirs is not, {len(wrong)} wrong")  # noqa: T201
    assert wrong == {}

    whole = [
        each["result"] for each in came.values() if "result" in each and each["result"]["out_token"] == 5
    ]
    assert len(whole) > len(CASES) / 2
    assert {(result["in_token"], result["model"]) for result in whole} == {(10, "stand-in")}
    formats = {request["prompt"].partition("|")[0]: request for request in model.requests}
    assert (formats["json-strict"]["response_format"], formats["json-strict"]["schema"]) == ("json", STRICT)
    assert formats["jsonl-schema"]["response_format"] is formats["text"]["response_format"] is None


async def test_unknown_prompt_and_malformed_terms_are_errors_that_say_why(trustgraph: TrustGraphSite) -> None:
    client, model = await flow_set(trustgraph, lambda request: "yes", say="Say {{ text }}")

    unknown = await client.prompt("nope")
    streamed = await client.prompt("nope", streaming=True)
    topics = trustgraph.topics()
    caller = await trustgraph.broker.caller(topics["request"], topics["response"])
    raw = PromptRequest("say", {"text": "not JSON"}).encode()
    async with aclosing(caller.call(raw, timeout=60)) as responses:
        response = json.loads((await anext(responses)).data)
    await caller.close()

    for came in (unknown, streamed):
        assert (came["error"], came["chunks"]) == ("RuntimeError", [])
        assert "`nope`" in came["message"]
    assert response["error"]["type"] == "llm-error"
    assert "terms/text is not JSON" in response["error"]["message"]
    assert (response["end_of_stream"], response["text"], response["object"]) == (True, None, None)
    assert model.requests == []


async def test_two_equal_requests_are_two(trustgraph: TrustGraphSite) -> None:
    client, model = await flow_set(trustgraph, lambda request: Completion("yes", delay=0.2), say="Say it")

    came = await asyncio.gather(*(client.prompt("say") for _ in range(2)))

    assert [each["result"]["text"] for each in came] == ["yes", "yes"]
    assert model.asked == {"Say it": 2}


async def test_a_rate_limit_is_waited_out(trustgraph: TrustGraphSite) -> None:
    limit = Completion(error=("too-many-requests", "slow down"))
    turns = iter([limit] * 4)
    client, model = await flow_set(trustgraph, lambda request: next(turns, "yes"), say="Say it")

    came = await client.prompt("say")

    assert came["result"]["text"] == "yes"
    assert model.asked == {"Say it": 5}


async def test_a_large_answer_arrives_whole(trustgraph: TrustGraphSite) -> None:
    line = json.dumps({"name": "x" * 1000, "age": 1}) + "\n"
    entry = {"prompt": "List", "response-type": "jsonl", "schema": PERSON}
    client, _ = await flow_set(trustgraph, lambda request: line * 2000, list=entry)

    came = await client.prompt("list")

    assert came["result"]["objects"] == [json.loads(line)] * 2000


ROW = {"name": "Etna", "height": "3403"}
FIELDS = [{"name": "name", "type": "string"}, {"name": "height", "type": "integer", "required": True}]
TOOL = {
    "name": "look",
    "description": "Looks",
    "arguments": [{"name": "at", "type": "string", "description": "it"}],
}
PASSAGE = "Chalk is a soft white limestone."
DEFINITION = {
    "quote": "Chalk is a soft white limestone",
    "entity": "chalk",
    "definition": "a soft white limestone",
}
RELATIONSHIP = {
    "quote": "Chalk is a soft",
    "subject": "chalk",
    "predicate": "is",
    "object": "soft",
    "object-entity": False,
}

HELPERS: list[tuple[str, dict[str, Any], str, str, Any]] = [
    ("extract_definitions", {"text": PASSAGE}, json.dumps(DEFINITION), "objects", [DEFINITION]),
    ("extract_relationships", {"text": PASSAGE}, json.dumps(RELATIONSHIP), "objects", [RELATIONSHIP]),
    (
        "extract_objects",
        {"text": "Etna.", "schema": {"name": "mountains", "description": "Some", "fields": FIELDS}},
        json.dumps(ROW),
        "objects",
        [ROW],
    ),
    (
        "document_prompt",
        {"query": "What?", "documents": ["One.", "Two."]},
        "One and two.",
        "text",
        "One and two.",
    ),
    ("question", {"question": "What?"}, "That.", "text", "That."),
    (
        "agent_react",
        {"variables": {"question": "What?", "tools": [TOOL], "context": "", "history": []}},
        "Thought: so\nFinal Answer: that",
        "text",
        "Thought: so\nFinal Answer: that",
    ),
]


async def test_the_clients_own_helpers_work_with_the_stock_prompts(trustgraph: TrustGraphSite) -> None:
    stock = files.load(package_data.templates())
    await trustgraph.config.put("default", {("prompt", key): value for key, value in stock.items()})
    said = {helper: says for helper, _, says, _, _ in HELPERS}
    telling = {
        "extract_definitions": '"definition"',
        "extract_relationships": '"predicate"',
        "extract_objects": "mountains",
        "document_prompt": "<document",
        "agent_react": "step by step",
        "question": "What?",
    }

    def script(request: dict[str, Any]) -> str:
        asked = request["system"] + request["prompt"]
        return next(said[helper] for helper, words in telling.items() if words in asked)

    client, model = await flow_set(trustgraph, script)
    came = [await client.call(helper, **arguments, timeout=60) for helper, arguments, *_ in HELPERS]
    streams = [
        await client.call(helper, **arguments, streaming=True, timeout=60)
        for helper, arguments, *_ in HELPERS
        if helper in ("document_prompt", "agent_react")
    ]

    print(f"{len(came)} helpers, {len(streams)} of them streamed too, {len(model.requests)} calls")  # noqa: T201
    assert [
        each.get("result", each).get(name) for each, (*_, name, _) in zip(came, HELPERS, strict=True)
    ] == [expected for *_, expected in HELPERS]
    heard = ["".join(text for text, _ in each["chunks"]) for each in streams]
    assert heard == [said["document_prompt"], said["agent_react"]]
    assert all(each["chunks"][-1][1] for each in streams)


async def test_their_completion_client_is_answered_by_our_completion_worker(
    trustgraph: TrustGraphSite,
) -> None:
    topics = trustgraph.topics()
    queues = {name: topics[f"text-completion-{name}"] for name in ("request", "response")}
    await trustgraph.config.start_flow("default", queues, processor="text-completion")
    trustgraph.answers(
        {"contains": "Say", "answer": "Hello, world.", "chunk": 4},
        {"contains": "List", "answer": LINES},
    )
    place = ("--broker", trustgraph.url, "--trustgraph", "--space", trustgraph.space)
    await trustgraph.start("complete", *place, "--provider", trustgraph.provider)
    client = await trustgraph.client()

    whole = await client.complete("text_completion", system="Be brief.", prompt="Say it", timeout=60)
    piecewise = await client.complete("text_completion_stream", system="", prompt="Say it", timeout=60)
    lines = await client.complete("text_completion", system="", prompt="List", timeout=60)
    nobody = await client.complete("text_completion", system="", prompt="What?", timeout=60)

    assert (whole["result"]["text"], lines["result"]["text"]) == ("Hello, world.", LINES)
    assert whole["result"]["in_token"] > 0 < whole["result"]["out_token"]
    assert whole["result"]["model"] == piecewise["result"]["model"] == "scripted"
    texts, ends = zip(*piecewise["chunks"], strict=True)
    assert "".join(texts) == "Hello, world."
    assert len(texts) > 2
    assert ends == (*[False] * (len(ends) - 1), True)
    assert nobody["error"] == "RuntimeError"
    assert "no answer" in nobody["message"]


async def test_their_client_is_answered_where_both_services_are_ours(trustgraph: TrustGraphSite) -> None:
    topics = trustgraph.topics()
    queues = {name: topics[f"text-completion-{name}"] for name in ("request", "response")}
    await trustgraph.config.start_flow("default", queues, processor="text-completion")
    await trustgraph.prompts(
        say="Say it", list={"prompt": "List", "response-type": "jsonl", "schema": PERSON}
    )
    await trustgraph.start_flow()
    trustgraph.answers(
        {"contains": "Say", "answer": "Hello, world.", "chunk": 4}, {"contains": "List", "answer": LINES}
    )
    place = ("--broker", trustgraph.url, "--trustgraph", "--space", trustgraph.space)
    await trustgraph.start("complete", *place, "--provider", trustgraph.provider)
    await trustgraph.work()
    client = await trustgraph.client()

    said, listed = await client.prompt("say"), await client.prompt("list")

    assert said["result"]["text"] == "Hello, world."
    assert said["result"]["model"] == "scripted"
    assert listed["result"]["objects"] == [json.loads(line) for line in LINES.splitlines()]
