"""Questions with examples of a pool: what the model is shown, what comes back of it, what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support import pools
from trustgraph_prompt.ask import MemoryCache, ask
from trustgraph_prompt.ask.messages import opening
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.graph.ontology_config import make_ontology
from trustgraph_prompt.llm import Call, Identity, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.prompts.pool import Pool
from trustgraph_prompt.prompts.within_ontology import within
from trustgraph_prompt.reader import Outcome

PASSAGE = "Stalker is a film by Andrei Tarkovsky."
SOLARIS = '{"film": "Solaris", "by": "Andrei Tarkovsky"}'
FROM_TEXT = {
    **pools.SCHEMA,
    "properties": {key: {"type": "string", "x-from": "text"} for key in ("film", "by")},
}


def films(of: Pool | None = None, **more: Any) -> PromptDefinition:
    return pools.prompts(of, **more).prompts["films"]


async def asked(definition: PromptDefinition, answer: str, **terms: str) -> Outcome:
    question = definition.question({"text": PASSAGE, **terms})
    return await ask(definition, question, ScriptedProvider([ScriptedAnswer(answer)]))


def test_own_examples_come_first_and_the_nearest_of_the_pool_last() -> None:
    own = [
        {"terms": {"text": "Ran is by Akira Kurosawa."}, "reads": [{"film": "Ran", "by": "Akira Kurosawa"}]}
    ]
    definition = films(shown=own)
    messages = opening(definition, definition.question({"text": PASSAGE}))
    assert [message.text for message in messages if message.role == "user"] == [
        "Ran is by Akira Kurosawa.",
        pools.FILMS[3][0],
        pools.FILMS[1][0],
        PASSAGE,
    ]
    assert messages[6].text == SOLARIS


def test_own_example_that_has_the_passage_is_not_shown() -> None:
    own = [{"terms": {"text": text}, "reads": []} for text in ("Ran is a film.", "Kagemusha is another.")]
    definition = films(shown=own)
    shown = definition.question({"text": "RAN is a film"}).examples
    assert "Ran is a film." not in [turn.passage for turn in shown]
    assert "Kagemusha is another." in [turn.passage for turn in shown]
    assert definition.chooser.left_out({"text": "RAN is a film"}) == 1


async def test_outcome_names_the_texts_that_were_shown_and_no_example_of_the_prompt() -> None:
    own = [{"terms": {"text": "Ran is by Akira Kurosawa."}, "reads": []}]
    definition = films(shown=own)
    outcome = await asked(definition, "[]")
    assert outcome.examples == tuple(turn.id for turn in definition.chooser.nearest({"text": PASSAGE}))
    assert len(set(outcome.examples)) == 2


async def test_outcome_without_a_pool_names_none() -> None:
    plain = PromptDefinition.from_entry("p", {"dialect": "jinja", "prompt": "{{ text }}"})
    assert (await asked(plain, "yes")).examples == ()


@pytest.mark.parametrize("schema", [pools.SCHEMA, FROM_TEXT])
async def test_nearest_example_that_comes_back_is_refused_though_one_end_is_in_the_passage(
    schema: Any,
) -> None:
    outcome = await asked(films(schema=schema), SOLARIS)
    assert outcome.value == []
    *_, issue = outcome.rejected[0].issues
    assert issue.reason is Reason.ECHOED
    assert issue.message == "this is an example that was shown, and not all of it is in the passage"


async def test_nearest_example_is_accepted_where_the_passage_has_each_of_its_names() -> None:
    definition = films()
    text = "Of Andrei Tarkovsky, Solaris is the longest film."
    outcome = await ask(
        definition, definition.question({"text": text}), ScriptedProvider([ScriptedAnswer(SOLARIS)])
    )
    assert len(outcome.value) == 1


async def test_names_of_a_nearest_example_in_other_terms_do_not_count() -> None:
    assert (await asked(films(), SOLARIS, comment="Solaris by Andrei Tarkovsky")).value == []


async def test_name_that_the_passage_has_in_part_does_not_count() -> None:
    definition = films()
    text = "Solaris, by a Tarkovsky, is a film."
    outcome = await ask(
        definition, definition.question({"text": text}), ScriptedProvider([ScriptedAnswer(SOLARIS)])
    )
    assert outcome.rejected[0].issues[0].reason is Reason.ECHOED


async def test_short_names_of_a_nearest_example_must_be_in_the_passage_too() -> None:
    poem = {"film": "静夜思", "by": "李白"}
    definition = films(pools.pool([("静夜思是李白的诗。", [poem])]))
    question = definition.question({"text": "静夜思是唐诗。"})
    outcome = await ask(definition, question, ScriptedProvider([ScriptedAnswer(json.dumps(poem))]))
    assert [each.issues[0].reason for each in outcome.rejected] == [Reason.ECHOED]


async def test_continuation_after_examples_in_one_text_speaks_of_the_last_passage() -> None:
    calls: list[Call] = []

    def answer(call: Call) -> ScriptedAnswer:
        calls.append(call)
        cut = '{"film": "Stalker", "by": "Andrei Tarkovsky"}\n{"film": '
        return ScriptedAnswer("[]") if len(calls) > 1 else ScriptedAnswer(cut, finish_reason="length")

    clause = {"pool": pools.pool().key.removeprefix("pool."), "as": "text"}
    definition = films(examples=clause)
    await ask(definition, definition.question({"text": PASSAGE}), ScriptedProvider(answer))
    assert "Your answer about this last passage was cut off" in calls[1].messages[-1].text


async def test_label_of_an_ontology_need_not_be_in_the_passage_for_an_object_to_be_no_echo() -> None:
    director = {"rdfs:label": [{"value": "director"}], "rdfs:domain": "Film", "rdfs:range": "Person"}
    document = {"classes": {"Film": {}, "Person": {}}, "objectProperties": {"P57": director}}
    fact = {"subject": "Stalker", "relation": "director", "object": "Andrei Tarkovsky"}
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in fact}}
    shown = pools.pool([("Stalker was directed by Andrei Tarkovsky.", [fact])])
    given = films(shown, schema={**schema, "required": [*fact]}, system="{{ classes }}")
    text = "Andrei Tarkovsky shot Stalker twice."
    definition, terms = within(OntologyIndex(make_ontology("b", document, "b")), given, text)
    question = definition.question({"text": text, **(terms or {})})
    assert question.examples
    outcome = await ask(definition, question, ScriptedProvider([ScriptedAnswer(json.dumps(fact))]))
    assert [(each["subject"], each["relation"]) for each in outcome.value] == [("Stalker", "P57")]


async def test_other_object_about_the_shared_end_is_no_echo() -> None:
    assert len((await asked(films(), '{"film": "Stalker", "by": "Andrei Tarkovsky"}')).value) == 1


async def test_echoes_are_kept_where_the_prompt_says_so() -> None:
    assert len((await asked(films(echoes="keep"), SOLARIS)).value) == 1


async def test_cached_answer_is_kept_for_as_long_as_its_examples_stay_the_same() -> None:
    calls: list[Call] = []

    def answer(call: Call) -> ScriptedAnswer:
        calls.append(call)
        return ScriptedAnswer('{"film": "Stalker", "by": "Andrei Tarkovsky"}')

    cache, provider = MemoryCache(), ScriptedProvider(answer)
    provider.identity = Identity("test", "m")

    async def ask_with(*more: tuple[str, list[Any]]) -> Outcome:
        definition = films(pools.pool([*pools.FILMS, *more]), cache=True)
        question = definition.question({"text": PASSAGE})
        return await ask(definition, question, provider, cache=cache)

    first = await ask_with()
    same = await ask_with(("Winter is cold.", []))
    assert (len(calls), same.cached, same.examples) == (1, True, first.examples)
    other = await ask_with(("Nostalghia is a film by Andrei Tarkovsky, too.", []))
    assert (len(calls), other.cached) == (2, False)


def test_shown_answer_is_a_list_of_items_where_the_server_is_held_to_one() -> None:
    definition = films(native="items")
    messages = opening(definition, definition.question({"text": PASSAGE}))
    assert json.loads(messages[-2].text) == {"items": pools.FILMS[1][1]}


async def test_nearest_example_with_another_quote_is_an_echo_all_the_same() -> None:
    quoting = {
        **FROM_TEXT,
        "properties": {"quote": {"type": "string", "x-quote": "text"}, **pools.SCHEMA["properties"]},
    }
    solaris = {"quote": pools.FILMS[1][0], "film": "Solaris", "by": "Andrei Tarkovsky"}
    definition = films(pools.pool([(pools.FILMS[1][0], [solaris])]), schema=quoting)
    outcome = await asked(definition, json.dumps({**solaris, "quote": PASSAGE}))
    assert [issue.reason for issue in outcome.rejected[0].issues] == [Reason.ECHOED]
