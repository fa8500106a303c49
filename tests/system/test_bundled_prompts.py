"""Seed 1 from end to end: the shipped prompts, a model behind HTTP, and both doors to them.

Once through the worker at its topics, and once through `PromptManager` called from a program.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest

from tests.support.model_server import ModelServer, Reply, streamed
from tests.support.workers import House
from trustgraph_prompt import package_data
from trustgraph_prompt.broker import connect
from trustgraph_prompt.doors import PromptManager
from trustgraph_prompt.llm import Call, Message, OpenAIProvider
from trustgraph_prompt.prompts import files

ENTRIES = files.load(package_data.templates())

DEFINITIONS = [
    {"quote": f"entity {n}: one of twenty", "entity": f"entity {n}", "definition": "One of twenty."}
    for n in range(20)
]
PASSAGE = "; ".join(each["quote"] for each in DEFINITIONS)
MIXED: list[dict[str, Any]] = [
    {"type": "definition", "entity": "DNA", "definition": "Carries genetic instructions."},
    {
        "type": "relationship",
        "subject": "DNA",
        "predicate": "located in",
        "object": "cell nucleus",
        "object-entity": True,
    },
]
ONTOLOGY: list[dict[str, Any]] = [
    {
        "type": "relationship",
        "subject": "leek soup",
        "subject_type": "food/Recipe",
        "relation": "food/has_ingredient",
        "object": "leek",
        "object_type": "food/Vegetable",
    },
    {
        "type": "attribute",
        "entity": "leek soup",
        "entity_type": "food/Recipe",
        "attribute": "food/serves",
        "value": "4",
    },
]
FACTS: list[dict[str, Any]] = [
    {"subject": "leek soup", "relation": "has ingredient", "object": "leek"},
    {"subject": "leek soup", "relation": "food/serves", "object": 4},
]
ONTOLOGY_TERMS = {
    "text": "Leek soup serves 4.",
    "classes": {"food/Recipe": {"comment": "A recipe."}},
    "object_properties": {"food/has_ingredient": {"domain": "food/Recipe", "range": "food/Vegetable"}},
    "datatype_properties": {"food/serves": {"domain": "food/Recipe"}},
}

Ask = Callable[..., Awaitable[Any]]


def lines(objects: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


@pytest.fixture(params=["worker", "PromptManager"])
async def ask(request: pytest.FixtureRequest, server: ModelServer) -> AsyncIterator[Ask]:
    """`await ask(prompt, **terms)`: the answer, by one of the doors."""
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(OpenAIProvider(server.url, "small"))
        yield await _by_topics(provider, stack) if request.param == "worker" else _by_manager(provider)


async def _by_topics(provider: OpenAIProvider, stack: AsyncExitStack) -> Ask:
    broker = await connect("embedded:")
    stack.push_async_callback(broker.close)
    house = House(broker, "persistent://tg/flow", "non-persistent://tg/request", stack, ENTRIES)
    flow, responses = house.flow(), await house.hear(house.topic("responses"))
    await house.work(flow, provider, config=True)

    async def ask(prompt: str, **terms: Any) -> Any:
        [response] = await responses.under(await house.send(flow, prompt, **terms))
        assert response["error"] is None
        return response["text"] if response["object"] is None else json.loads(response["object"])

    return ask


def _by_manager(provider: OpenAIProvider) -> Ask:
    manager = PromptManager()
    manager.load_config(ENTRIES)

    async def llm(system: str, prompt: str) -> str:
        call = Call([Message("system", system), Message("user", prompt)])
        async with aclosing(provider.stream(call)) as deltas:
            return "".join([delta.text async for delta in deltas])

    async def ask(prompt: str, **terms: Any) -> Any:
        return await manager.invoke(prompt, terms, llm)

    return ask


async def test_definitions_are_extracted_as_json_lines(server: ModelServer, ask: Ask) -> None:
    server.reply = lambda body: Reply(streamed(lines(DEFINITIONS)))
    assert await ask("extract-definitions", text=PASSAGE) == DEFINITIONS
    system, *examples, question = server.bodies[0]["messages"]
    assert system["content"].startswith("You list the people, places")
    # A caller of `PromptManager` takes one text, which has no turns before it.
    assert [each["role"] for each in examples] in (["user", "assistant"] * 2, [])
    assert question == {"role": "user", "content": PASSAGE}


@pytest.mark.parametrize("kept", [0, 1, 7, 19])
async def test_objects_complete_before_the_cut_are_kept(server: ModelServer, ask: Ask, kept: int) -> None:
    cut = lines(DEFINITIONS[:kept]) + json.dumps(DEFINITIONS[kept])[:-5]
    # Nothing more comes when the rest is asked for, so that only what the cut left can be there.
    replies = iter([streamed(cut, "length")])
    server.reply = lambda body: Reply(next(replies, streamed("[]")))
    assert await ask("extract-definitions", text=PASSAGE) == DEFINITIONS[:kept]


async def test_a_json_array_cut_in_the_same_place_keeps_as_much(server: ModelServer, ask: Ask) -> None:
    array = json.dumps(DEFINITIONS)
    cut = array[: array.index('"entity 7"') + 4]
    replies = iter([streamed(cut, "length")])
    server.reply = lambda body: Reply(next(replies, streamed("[]")))
    assert await ask("extract-definitions", text=PASSAGE) == DEFINITIONS[:7]


async def test_fences_prose_and_bad_lines_cost_themselves_alone(server: ModelServer, ask: Ask) -> None:
    good = lines(DEFINITIONS[:2])
    bad = '{"entity": "no definition"}\n{"entity": "broken", "definition": }\nnot json\n'
    server.reply = lambda body: Reply(streamed(f"Here you are:\n```json\n{bad}{good}```\nThat is all."))
    assert await ask("extract-definitions", text=PASSAGE) == DEFINITIONS[:2]


async def test_mixed_objects_come_in_one_answer(server: ModelServer, ask: Ask) -> None:
    wrong = [
        {"type": "relationship", "subject": "DNA"},
        {"type": "other"},
        {"entity": "no type", "definition": "x"},
    ]
    server.reply = lambda body: Reply(streamed(lines([MIXED[0], *wrong, MIXED[1]])))
    assert await ask("agent-kg-extract", text="On DNA.") == MIXED


@pytest.mark.parametrize("name", ["extract-with-ontologies", "ontology-extract"])
async def test_facts_become_objects_in_the_terms_of_the_ontology(
    server: ModelServer, ask: Ask, name: str
) -> None:
    server.reply = lambda body: Reply(
        streamed(lines(FACTS) + lines([{"subject": "leek soup", "relation": "tastes", "object": "leek"}]))
    )
    assert await ask(name, **ONTOLOGY_TERMS) == ONTOLOGY
    system, question = server.bodies[0]["messages"]
    assert "- has ingredient (of a recipe, to a vegetable)\n" in system["content"]
    assert question["content"] == ONTOLOGY_TERMS["text"]


async def test_rows_have_the_keys_of_the_schema_in_the_request(server: ModelServer, ask: Ask) -> None:
    rows: list[dict[str, Any]] = [{"name": "Etna", "height": 3403}, {"name": "Vesuvius"}]
    server.reply = lambda body: Reply(streamed(lines(rows)))
    schema = {"name": "mountains", "fields": [{"name": "name", "type": "string", "primary": True}]}
    assert await ask("extract-rows", text="Etna is 3403 m high, Vesuvius less.", schema=schema) == rows
    assert '- "name" (string); required' in server.bodies[0]["messages"][-1]["content"]


async def test_text_and_json_prompts_have_text_and_a_value(server: ModelServer, ask: Ask) -> None:
    server.reply = lambda body: Reply(streamed("Etna is a volcano.\n\nIt is high."))
    assert await ask("question", question="What is Etna?") == "Etna is a volcano.\n\nIt is high."
    assert server.bodies[-1]["messages"][-1]["content"] == "What is Etna?"

    server.reply = lambda body: Reply(streamed('```json\n["mountains"]\n```'))
    assert await ask("schema-selection", question="How high is Etna?", schemas=[]) == ["mountains"]
