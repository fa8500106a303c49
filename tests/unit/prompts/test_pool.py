"""Pools of examples: what may be in one, and which of it a question shows."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from tests.support.pools import FILMS, entries, pool, prompts
from trustgraph_prompt.compute_thread import AT_ONCE
from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.prompts import PromptDefinition, PromptSet, Question
from trustgraph_prompt.prompts.pool import MAX_POOL, Pool, PoolClause, Pools, PoolText


def question(text: str, **more: Any) -> tuple[PromptDefinition, Question]:
    return prompts(**more).question("films", {"text": text})


def test_question_shows_the_nearest_texts_the_nearest_last() -> None:
    _, asked = question("Stalker is a film by Andrei Tarkovsky.")
    assert [turn.passage for turn in asked.examples] == [FILMS[3][0], FILMS[1][0]]
    assert asked.examples[1].answer == [{"film": "Solaris", "by": "Andrei Tarkovsky"}]
    assert len({turn.id for turn in asked.examples}) == 2


def test_first_texts_are_shown_in_the_order_of_the_file() -> None:
    _, asked = question("Stalker", by="first")
    assert [turn.passage for turn in asked.examples] == [FILMS[0][0], FILMS[1][0]]


def test_answer_has_its_keys_in_the_order_of_the_schema() -> None:
    _, asked = question("Hanna is a drama by Joe Wright", show=1)
    assert list(asked.examples[0].answer[0]) == ["film", "by"]


def test_text_without_objects_is_shown_with_an_empty_answer() -> None:
    assert question("A cold winter", show=1)[1].examples[0].answer == []


def test_passage_is_never_shown_as_its_own_example() -> None:
    definition, asked = question("ATONEMENT is a drama by Joe Wright!", show=4)
    assert FILMS[0][0] not in [turn.passage for turn in asked.examples]
    assert definition.chooser.left_out({"text": FILMS[0][0]}) == 1


@pytest.mark.parametrize("terms", [{}, {"text": 5}, {"text": None}, {"other": "a film"}])
def test_question_without_a_passage_shows_nothing(terms: dict[str, object]) -> None:
    assert prompts().prompts["films"].question(terms).examples == ()


CHANGED: list[tuple[Pool | None, dict[str, Any]]] = [
    (None, {}),
    (pool(FILMS[:3]), {}),
    (None, {"show": 1}),
    (None, {"by": "first"}),
]


def test_version_names_pool_number_and_choice() -> None:
    versions = {prompts(of, **more).prompts["films"].version for of, more in CHANGED}
    assert len(versions) == 4


def test_identity_changes_only_for_questions_whose_examples_change() -> None:
    more = pool([*FILMS, ("A lake is a body of water.", [])])
    near, far = "The lake was cold in winter.", "Gladiator is a film by Ridley Scott."

    def identities(of: Pool | None) -> list[str]:
        definition = prompts(of).prompts["films"]
        return [definition.identity(definition.chooser.nearest({"text": text})) for text in (near, far)]

    before, after = identities(None), identities(more)
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_identity_without_a_pool_is_the_version() -> None:
    plain = PromptDefinition.from_entry("p", {"dialect": "jinja", "prompt": "{{ text }}"})
    assert plain.identity(plain.chooser.nearest({"text": "a film"})) == plain.version


def test_identity_stays_where_a_contract_is_derived() -> None:
    definition, asked = question("a film")
    derived = definition.with_contract(definition.contract.with_terms({"text": "a film"}))
    assert derived.identity(asked.examples) == definition.identity(asked.examples)


def test_key_is_the_hash_of_the_text_and_survives_an_export() -> None:
    made = pool()
    assert made.key == f"pool.{sha256(made.text).hexdigest()}"
    again = Pool.parse(made.text, made.key)
    assert (again.key, len(again.texts)) == (made.key, len(FILMS))


def test_text_that_comes_twice_counts_once_if_its_objects_are_the_same() -> None:
    assert pool([FILMS[0], FILMS[1], (f"  {FILMS[0][0]}\n", FILMS[0][1])]).key == pool(FILMS[:2]).key


def test_entry_that_another_program_wrote_keeps_its_key() -> None:
    text = json.dumps(json.loads(pool().text), indent=1).encode()
    key = f"pool.{sha256(text).hexdigest()}"
    assert Pool.parse(text, key).key == key


def test_one_passage_may_be_asked_about_in_two_ways() -> None:
    asked = [({"text": "A mill.", "about": about}, [{"name": about}]) for about in ("brick", "wood")]
    texts = [PoolText("g:1", terms, objects) for terms, objects in asked]
    assert len(Pool.of(texts, "text", "g").texts) == 2


def test_text_with_two_answers_names_both_places() -> None:
    with pytest.raises(PromptError, match=r"^g:2 /objects: the same text has other objects .*g:1") as raised:
        pool([FILMS[0], (FILMS[0][0], [])])
    assert raised.value.found == "0 objects"


@pytest.mark.parametrize("said", ["", " \n", 5, None])
def test_text_without_a_passage_is_refused(said: Any) -> None:
    with pytest.raises(
        PromptError, match=r"g:1 /terms: there is no passage to show .*expected `text`, a text"
    ):
        pool([(said, [])])


def test_choice_takes_steps_for_each_character_of_the_passage_and_none_without_a_pool() -> None:
    definition = prompts().prompts["films"]
    long, short = (definition.chooser.effort({"text": text}) for text in ("film " * 100_000, "film"))
    assert long > AT_ONCE > short > 0
    plain = PromptDefinition.from_entry("p", {"dialect": "jinja", "prompt": "{{ text }}"})
    assert plain.chooser.effort({"text": "film"}) == 0


def test_pool_is_limited_in_size() -> None:
    with pytest.raises(PromptError, match=r"the pool is too large .*at most 4,194,304 bytes"):
        pool([("brick " * (MAX_POOL // 6 + 1), [])])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"film": "Alien"}, 'text 5 /objects/0: the answer is rejected: "by" is missing'),
        ({"film": "Alien", "by": 5}, "text 5 /objects/0/by: the answer is rejected"),
        ("Alien", "text 5 /objects/0: the answer is rejected"),
    ],
)
def test_prompt_with_an_object_that_it_refuses_is_refused(value: Any, why: str) -> None:
    built = prompts(pool([*FILMS, ("Alien again", [value])]))
    assert not built.prompts
    assert why in str(built.refused["template.films"])


@pytest.mark.parametrize(
    ("objects", "fits"), [([], False), ([{"a": 1}], True), ([{"a": 1}, {"a": 2}], False)]
)
def test_answer_of_one_value_needs_one_object(objects: list[Any], fits: bool) -> None:
    more = {"response-type": "json", "schema": {"properties": {"a": {"type": "integer"}}}}
    built = prompts(pool([("one", objects)]), **more)
    assert (not built.refused) is fits
    if fits:
        question = built.question("films", {"text": "one or two"})[1]
        assert question.examples == ()  # it contains the text
        assert built.question("films", {"text": "two ones"})[1].examples == ()
        shown = prompts(pool([("one kiln", objects)]), **more).question("films", {"text": "a kiln"})[1]
        assert shown.examples[0].answer == {"a": 1}


def test_list_of_values_is_checked_and_shown_as_a_list() -> None:
    more = {"response-type": "json", "many": True}
    assert question("Ridley, the film", show=1, **more)[1].examples[0].answer == FILMS[3][1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "the pool has another hash"),
        (b"[1", "not JSON"),
        (b"[]", "wrong type"),
        (b'{"term":"text","texts":[]}', "it is empty"),
        (b'{"term":"text","texts":[{"terms":{"other":"a"},"objects":[]}]}', "no passage"),
        (b'{"term":"text","texts":[{"terms":{"text":"a"},"objects":[],"more":1}]}', "unknown key"),
    ],
)
def test_entry_of_a_pool_that_is_not_valid_says_why(text: bytes, why: str) -> None:
    key = "pool." + ("0" * 64 if not text else sha256(text).hexdigest())
    with pytest.raises(PromptError, match=why) as raised:
        Pool.parse(text, key)
    assert (raised.value.where or "").startswith(key)


def test_pools_beyond_the_limit_of_a_workspace_are_refused_and_the_first_ones_stay() -> None:
    first, second = pool(), pool(FILMS[:1])
    given = Pools({each.key: each.text for each in (first, second)}, most=len(first.text) + 1)
    clauses = [PoolClause(each.key.removeprefix("pool.")) for each in (first, second)]
    assert given.get(clauses[0], "template.a") is given.get(clauses[0], "template.b")
    with pytest.raises(
        PromptError, match=r"^template\.c /examples/pool: the pools of the workspace are too large"
    ):
        given.get(clauses[1], "template.c")


def test_entry_with_another_hash_than_its_key_is_refused() -> None:
    made = pool()
    built = PromptSet.build({**entries(made), made.key: pool(FILMS[:1]).text})
    assert "another hash than its key" in str(built.refused["template.films"])


@pytest.mark.parametrize(
    "clause",
    [
        {"show": 2},
        {"pool": "abc"},
        {"pool": "0" * 64, "from": "x"},
        {"pool": "0" * 64, "show": 11},
        {"from": ""},
    ],
)
def test_clause_needs_one_pool_and_a_bounded_number(clause: dict[str, Any]) -> None:
    entry = {**json.loads(entries()["template.films"]), "examples": clause}
    with pytest.raises(PromptError, match="/examples"):
        PromptDefinition.from_entry("films", entry)


def test_entry_on_the_topic_cannot_name_a_file() -> None:
    entry = {**json.loads(entries()["template.films"]), "examples": {"from": "films.gold.jsonl"}}
    error = PromptSet.build({"template.films": json.dumps(entry)}).refused["template.films"]
    assert (error.path, error.found) == ("/examples/from", "films.gold.jsonl")


def test_text_prompt_has_no_pool() -> None:
    with pytest.raises(PromptError, match=r"/examples: .* does not apply to an answer of type text"):
        PromptDefinition.from_entry("p", {"dialect": "jinja", "prompt": "x", "examples": {"pool": "0" * 64}})
