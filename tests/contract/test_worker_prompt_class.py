"""A prompt in sections, pushed to the config topic and asked through a worker; over every broker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest

from tests.support.workers import House
from trustgraph_prompt import MarkdownSection, Prompt, parse_structured_output
from trustgraph_prompt.doors import OutputParseError
from trustgraph_prompt.worker.config import config_topic


@dataclass
class Source:
    title: str
    page: int | None = None


@dataclass
class Summary:
    title: str
    words: int
    kind: Literal["long", "short"] = "short"
    sources: list[Source] = field(default_factory=list)


@dataclass
class Guidance:
    topic: str
    tone: str = "dry"


TASK = MarkdownSection[Guidance](title="Task", template="Sum up ${topic}, in ${tone} words. {{ not a term }}")

ONE = Prompt[Summary](ns="tests", key="sum-up", sections=[TASK])
OPEN = Prompt[Summary](ns="tests", key="sum-up-openly", sections=[TASK], allow_extra_keys=True)
MANY = Prompt[list[Summary]](ns="tests", key="sum-up-all", sections=[TASK])

CHALK, FLINT = '{"title": "Chalk", "words": "12"}', '{"title": "Flint", "words": 7}'
ANSWERS = [
    CHALK,
    f"```json\n{CHALK}\n```",
    f"Of [1]:\n```json\n{CHALK}\n```\nor {FLINT}",
    f"```json\n{{]\n```\n{FLINT}",
    f"```json\n{CHALK}\n```\n```json\n{FLINT}\n```",
    f"```python\nx = {{'a': 1}}\n```\n{FLINT}",
    f"{CHALK} or {FLINT}",
    '{"title": "Chalk", "words": 12.5}',
    '{"title": "Chalk", "words": true}',
    '{"title": "Chalk", "words": 1, "kind": "odd"}',
    '{"title": "Chalk", "words": 1, "sources": [{"title": "A", "page": "null"}]}',
    '{"title": "Chalk", "words": 1, "sources": [{"title": "A", "volume": 2}]}',
    '{"title": "Chalk", "words": 1, "more": 2}',
    '{"title": "Chalk"}',
    f"[{CHALK}, {FLINT}]",
    f"[{CHALK}, 5]",
    f'{{"items": [{CHALK}]}}',
    f'{{"items": [{CHALK}], "total": 1}}',
    f'{{"results": [{CHALK}]}}',
    "[]",
    "I cannot say.",
    '{"title": "Chalk", "wor',
]


def parsed(made: Prompt[Any], answer: str) -> Any:
    """What the prompt itself makes of an answer; None for a refusal."""
    try:
        built = parse_structured_output(answer, made.render(Guidance("chalk")))
    except OutputParseError:
        return None
    return [asdict(one) for one in built] if isinstance(built, list) else asdict(built)


def built(made: Prompt[Any], text: str | None) -> Any:
    """The same of what a worker has published."""
    if text is None:
        return None
    value = made.definition().contract.build(json.loads(text))
    return [asdict(one) for one in value] if isinstance(value, list) else asdict(value)


@pytest.mark.parametrize("made", [ONE, OPEN, MANY], ids=lambda made: made.key)
async def test_a_worker_accepts_what_the_prompt_accepts_and_refuses_what_it_refuses(
    house: House, made: Prompt[Any]
) -> None:
    flow = house.flow()
    responses = await house.hear(house.topic("responses"))
    entries = {f"template.{made.key}": json.dumps(made.entry())}
    await config_topic.push(house.broker, "default", entries, topic=house.topic("config"))
    questions: list[str] = []
    answers = iter(ANSWERS)

    def model(call: Any) -> str:
        questions.append(call.messages[-1].text)
        return next(answers)

    await house.work(flow, model, config=True)

    for answer in ANSWERS:
        [response] = await responses.under(await house.send(flow, made.key, topic="chalk"))
        expected = parsed(made, answer)
        assert built(made, response["object"]) == expected, answer
        assert (response["error"] is None) is (expected is not None), answer
    assert set(questions) == {made.render(Guidance("chalk")).text}
