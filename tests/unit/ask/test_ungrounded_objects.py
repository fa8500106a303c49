"""What a model made up, or copied from the question: refused, asked for again, never given to anybody."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.ask import Piece, ask
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome

EXAMPLE = '{"name": "Etna", "kind": "volcano", "height": 3403}'
PROMPT = "Name what the text speaks of, like " + EXAMPLE + ".\n\n{{ text }}"
SCHEMA = {
    "properties": {"name": {"type": "string"}, "kind": {"enum": ["volcano", "river"]}},
    "required": ["name"],
}
MARKED = {**SCHEMA, "properties": {**SCHEMA["properties"], "name": {"type": "string", "x-from": "text"}}}  # type: ignore[dict-item]


def prompt(schema: Any = SCHEMA, **more: Any) -> PromptDefinition:
    entry = {"dialect": "jinja", "prompt": PROMPT, "response-type": "jsonl", "schema": schema, **more}
    return PromptDefinition.from_entry("p", entry)


async def asked(
    definition: PromptDefinition, text: str, *answers: str, pieces: list[Piece] | None = None
) -> tuple[Outcome, list[Call]]:
    calls: list[Call] = []
    script = iter(answers)

    def answer(call: Call) -> ScriptedAnswer:
        calls.append(call)
        return ScriptedAnswer(next(script))

    async def listen(piece: Piece) -> None:
        if pieces is not None:
            pieces.append(piece)

    question = definition.question({"text": text})
    return await ask(definition, question, ScriptedProvider(answer), listen=listen), calls


RHINE = '{"name": "Rhine", "kind": "river"}'


async def test_example_of_the_prompt_that_comes_back_is_refused_and_not_given() -> None:
    pieces: list[Piece] = []
    outcome, _ = await asked(prompt(), "The Rhine.", f"{EXAMPLE}\n{RHINE}", pieces=pieces)
    assert outcome.value == [{"name": "Rhine", "kind": "river"}]
    assert [one.issues[0].reason for one in outcome.rejected] == [Reason.ECHOED]
    assert [one for piece in pieces for one in piece.objects] == outcome.value


@pytest.mark.parametrize("schema", [SCHEMA, MARKED], ids=["no key looked up", "a key looked up"])
@pytest.mark.parametrize("echoes", ["refuse", "keep"])
async def test_word_of_the_text_is_not_restored_as_a_command(schema: Any, echoes: str) -> None:
    definition = prompt(schema, **({} if echoes == "refuse" else {"echoes": echoes}))
    outcome, _ = await asked(definition, "the end of a page\x0crac is a word", r'{"name": "page\frac"}')
    assert outcome.value == [{"name": "page\x0crac"}]
    outcome, _ = await asked(definition, r"the page \frac is one", r'{"name": "page \frac"}')
    assert outcome.value == [{"name": r"page \frac"}]


@pytest.mark.parametrize(
    ("text", "answer", "more"),
    [
        ("Mount ETNA erupts.", EXAMPLE, {}),
        ("The Rhine.", '{"name": "Etna", "kind": "volcano", "height": 3350}', {}),
        ("The Rhine.", EXAMPLE, {"echoes": "keep"}),
    ],
)
async def test_object_of_an_example_is_no_echo_where_the_text_names_it(
    text: str, answer: str, more: dict[str, Any]
) -> None:
    outcome, _ = await asked(prompt(**more), text, answer)
    assert len(outcome.value) == 1


@pytest.mark.parametrize(
    ("example", "text"),
    [
        ('{"mood": "good", "kind": "volcano"}', "It is fine."),
        ('{"score": 1, "spam": true}', "Buy now."),
        ('{"river": "Po"}', "The Po is long."),
        ('{"city": "北京"}', "他住在北京。"),
    ],
)
async def test_object_that_may_match_an_example_by_chance_is_no_echo(example: str, text: str) -> None:
    schema = {"properties": {"mood": {"enum": ["good", "bad"]}, "kind": {"const": "volcano"}}}
    outcome, _ = await asked(prompt(schema, prompt=f"Like {example}: {{{{ text }}}}"), text, example)
    assert len(outcome.value) == 1


@pytest.mark.parametrize(
    ("answer", "more"),
    [
        ('{"name": "Etna", "height": 3403.0, "kind": "volcano"}', {}),
        ('{"height": "3403", "name": "Etna", "kind": "volcano"}', {"coerce": True}),
        ('{"name": "Etna", "kind": "volcano", "height": 3403, "in": "Sicily"}', {"extra": "ignore"}),
    ],
)
async def test_example_written_in_another_way_is_an_echo(answer: str, more: dict[str, Any]) -> None:
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "height": {"type": "integer"}}}  # type: ignore[dict-item]
    outcome, _ = await asked(prompt(schema, **more), "The Rhine.", answer)
    assert outcome.reason is Reason.ECHOED


async def test_object_within_an_example_is_an_echo() -> None:
    definition = prompt(prompt=f'Like {{"items": [{EXAMPLE}], "more": false}}: {{{{ text }}}}')
    outcome, _ = await asked(definition, "The Rhine.", EXAMPLE)
    assert outcome.reason is Reason.ECHOED


async def test_outcome_holds_no_text_that_was_asked_about() -> None:
    definition = prompt(MARKED)
    outcome, _ = await asked(definition, "The Rhine.", RHINE)
    assert outcome.contract is definition.contract


async def test_values_prescribed_by_the_schema_do_not_ground_an_example() -> None:
    outcome, _ = await asked(prompt(), "A volcano.", EXAMPLE)
    assert outcome.value == []
    assert outcome.reason is Reason.ECHOED


async def test_json_answer_is_grounded_where_its_schema_marks_a_key() -> None:
    for schema, reason in ((SCHEMA, Reason.SUCCESS), (MARKED, Reason.UNGROUNDED)):
        outcome, _ = await asked(prompt(schema, **{"response-type": "json"}), "The Rhine.", EXAMPLE)
        assert outcome.reason is reason


async def test_examples_in_the_system_message_are_echoes_too() -> None:
    definition = prompt(prompt="{{ text }}", system=f"Answer like {EXAMPLE}")
    outcome, _ = await asked(definition, "The Rhine.", EXAMPLE)
    assert outcome.reason is Reason.ECHOED


async def test_ungrounded_object_is_asked_for_again() -> None:
    outcome, calls = await asked(
        prompt(MARKED, attempts=2), "The Rhine.", f'{RHINE}\n{{"name": "Nile"}}', "[]"
    )
    assert outcome.value == [{"name": "Rhine", "kind": "river"}]
    assert '"Nile" is not in the passage; leave the object out' in calls[1].messages[-1].text
    assert outcome.grounding is not None
    assert list(outcome.grounding[0]) == ["/name"]


async def test_advice_to_the_model_is_not_in_the_explanation_for_people() -> None:
    outcome, _ = await asked(prompt(MARKED), "The Rhine.", '{"name": "Nile"}')
    assert outcome.explain() == 'object 1 /name: "Nile" is not in the passage'
    assert [str(issue) for _, issue in outcome.errors()] == ['/name: "Nile" is not in the passage']
    assert outcome.explain(for_model=True) == f"{outcome.explain()}; leave the object out"


async def test_model_is_asked_to_write_null_for_a_value_that_may_be_null() -> None:
    length = {"type": ["integer", "null"], "x-from": "text"}
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "x-from": "text"}, "length": length},
    }
    outcome, _ = await asked(prompt(schema), "The Rhine.", '{"name": "Rhine", "length": 1230}')
    assert outcome.explain(for_model=True).endswith("; write null here if the passage does not say it")


async def test_pieces_say_where_their_objects_stand_in_the_text() -> None:
    pieces: list[Piece] = []
    outcome, _ = await asked(prompt(MARKED), "The Rhine.", RHINE, pieces=pieces)
    assert [piece.grounding for piece in pieces] == [outcome.grounding]


async def test_thousands_of_examples_cost_no_more_than_reading_them_once() -> None:
    examples = "\n".join(f'{{"name": "n{n}"}}' for n in range(5_000))
    definition = prompt(prompt=f"{examples}\n{{{{ text }}}}")
    outcome, _ = await asked(definition, "The Rhine.", '{"name": "n4999"}\n{"name": "n5000"}')
    assert outcome.value == [{"name": "n5000"}]


@pytest.mark.parametrize("last", ["[]", "There are no rivers in it."])
async def test_ungrounded_object_stays_listed_where_asking_again_brings_nothing(last: str) -> None:
    outcome, calls = await asked(prompt(MARKED, attempts=2), "The Rhine.", '{"name": "Nile"}', last)
    assert len(calls) == 2
    assert outcome.value == []
    assert [(one.raw, one.issues[0].reason) for one in outcome.rejected] == [
        ('{"name": "Nile"}', Reason.UNGROUNDED)
    ]
