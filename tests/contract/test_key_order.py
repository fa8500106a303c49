"""The model is asked for the keys of an object in the order in which the author of the schema wrote them."""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path

import pytest

from tests.support.workers import House
from trustgraph_prompt.llm import Call, topic_messages
from trustgraph_prompt.llm.openai.request_body import Dialect, body
from trustgraph_prompt.llm.openai.schema_paths import PATHS, Wanted, told_in_words
from trustgraph_prompt.prompts import PromptSet, files
from trustgraph_prompt.wire import TextCompletionRequest
from trustgraph_prompt.worker import Answer
from trustgraph_prompt.worker.config import config_topic

KEYS = ("quote", "subject", "place", "because")
FIELDS = {"quote": "string @quote(text)", "place": "string @from(text)", "because?": "string"}
ORDERS = [KEYS, KEYS[::-1], ("place", "subject", "quote", "because")]
VALUE = '{"quote": "The Rhine rises", "subject": "it", "place": "Rhine"}'
_NAMED = re.compile(f'"({"|".join(KEYS)})')


def prompt(keys: tuple[str, ...]) -> str:
    fields = "".join(f"    {key}{'?' * (key == 'because')}: {FIELDS.get(key, 'string')}\n" for key in keys)
    settings = '    native: "items"\n    answer-format: "append"\n'
    return f'schema Fact:\n{fields}\nprompt facts expecting Fact[] as jsonl: "{{{{ text }}}}"\n{settings}'


def order_in(text: str) -> tuple[str, ...]:
    """The keys in the order in which a text names them first."""
    return tuple(dict.fromkeys(_NAMED.findall(text)))


def entries(folder: Path, keys: tuple[str, ...]) -> dict[str, str]:
    (folder / "facts.prompt").write_text(prompt(keys))
    return files.load(folder)


@pytest.mark.parametrize("keys", ORDERS, ids=",".join)
async def test_keys_are_asked_for_as_written(house: House, tmp_path: Path, keys: tuple[str, ...]) -> None:
    calls: list[Call] = []
    answers = await house.hear(house.topic("answers"))

    def answer(call: Call) -> str:
        calls.append(call)
        return VALUE

    changes = entries(tmp_path, keys)
    await config_topic.push(house.broker, "default", changes, topic=house.topic("config"))
    await house.work(house.flow(), answer, config=True)
    await house.send(house.flow(), "facts", text="The Rhine rises in the Alps.")

    [record] = await answers.until(1)
    assert len(Answer.decode(record.data).objects) == 1
    [call] = calls
    schema = call.response_schema
    assert schema is not None
    assert order_in(call.messages[-1].text) == keys
    wanted = Wanted("", "Fact", 0, is_alone=True)
    for path in PATHS:
        messages = told_in_words(call.messages[:0], schema) if path == "prompt" else call.messages[:0]
        form = wanted.response_format(schema, path)
        sent = body(call, Dialect("m"), messages=messages, response_format=form)
        assert order_in(sent.decode().replace("\\", "")) == keys
    over_a_topic = TextCompletionRequest.decode(topic_messages.request(call).encode())
    assert order_in(json.dumps(over_a_topic.schema)) == keys


def test_order_of_keys_is_part_of_the_version_of_a_prompt_with_quotes(tmp_path: Path) -> None:
    made = {PromptSet.build(entries(tmp_path, each)).get("facts").version for each in permutations(KEYS)}
    assert len(made) == 24
