"""Seed 1's door: the interface and the results of TrustGraph's prompt manager, over the one reader."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support import pools
from trustgraph_prompt.doors import PromptManager
from trustgraph_prompt.prompts import files

DEFINITION = {
    "type": "object",
    "properties": {"entity": {"type": "string"}, "definition": {"type": "string"}},
    "required": ["entity", "definition"],
}
CAT = '{"entity": "cat", "definition": "A small predator."}'
DOG = '{"entity": "dog", "definition": "A loyal one."}'
BOTH = [json.loads(CAT), json.loads(DOG)]


def manager(system: str | None = None, /, **prompts: Any) -> PromptManager:
    config = {f"template.{id}": json.dumps(entry) for id, entry in prompts.items()}
    config["template-index"] = json.dumps(list(prompts))
    if system is not None:
        config["system"] = json.dumps(system)
    made = PromptManager()
    made.load_config(config)
    return made


def answering(answer: str | None) -> Callable[..., Awaitable[str | None]]:
    async def llm(system: str, prompt: str) -> str | None:
        return answer

    return llm


async def asked(response_type: str, answer: str | None, **entry: Any) -> Any:
    named = {key.replace("_", "-"): value for key, value in entry.items()}
    made = manager(p={"prompt": "x", "response-type": response_type, **named})
    return await made.invoke("p", {}, answering(answer))


async def test_model_is_called_with_the_system_message_and_the_prompt() -> None:
    made = manager("You are {{ who }}.", p={"prompt": "Say {{ text }} to {{ who }}"})
    seen: dict[str, Any] = {}

    async def llm(**call: Any) -> str:
        seen.update(call)
        return "said"

    assert await made.invoke("p", {"text": "hi", "who": "me"}, llm) == "said"
    assert seen == {"system": "You are me.", "prompt": "Say hi to me"}


def test_terms_are_merged_from_global_prompt_and_input() -> None:
    made = manager(p={"prompt": "{{ a }}{{ b }}{{ c }}"})
    made.terms = {"a": "g", "b": "g", "c": "g"}
    made.prompts["p"].terms = {"b": "p", "c": "p"}
    assert made.render("p", {"c": "i"}) == "gpi"
    made.terms["a"] = "G"
    made.prompts["p"].terms["b"] = "P"
    assert made.render("p", {}) == "GPp"


def test_loaded_configuration_can_be_looked_up() -> None:
    made = manager(
        a={"prompt": "x"},
        b={"prompt": "y", "response-type": "jsonl", "object-schema": DEFINITION, "schema": True},
    )
    assert list(made.prompts) == ["a", "b"]
    assert (made.prompts["a"].template, made.prompts["a"].response_type, made.prompts["a"].terms) == (
        "x",
        "text",
        {},
    )
    assert (made.prompts["b"].object_schema, made.prompts["b"].schema) == (DEFINITION, True)


def test_templates_are_in_trustgraphs_dialect_by_default() -> None:
    made = manager(
        a={"prompt": "{{ s }}"}, b={"prompt": "{{ s }}", "dialect": "jinja", "terms": {"s": [None]}}
    )
    assert made.render("a", {"s": [None]}) == "[None]"
    assert made.render("b", {}) == "[null]"


@pytest.mark.parametrize("system", [None, "5", "not json"])
async def test_default_system_message_is_that_of_trustgraph(system: str | None) -> None:
    made = PromptManager()
    config = {"template.p": json.dumps({"prompt": "x"})}
    made.load_config(config if system in (None, "5") else {**config, "system": str(system)})

    async def llm(system: str, prompt: str) -> str:
        return system

    assert await made.invoke("p", {}, llm) == "Be helpful."


async def test_text_answer_is_returned_unchanged() -> None:
    for text in ("", " \n", "```json\n{}\n```", "[1"):
        assert await asked("text", text) == text


@pytest.mark.parametrize(
    "answer",
    [
        '{"a": 1}',
        '```json\n{"a": 1}\n```',
        'Sure:\n```\n{"a": 1}\n```\nDone.',
        'Here: {"a": 1}',
        '```\n{"a": 1}',
    ],
)
async def test_json_value_is_found_in_fences_and_prose(answer: str) -> None:
    assert await asked("json", answer) == {"a": 1}
    assert PromptManager().parse_json(answer) == {"a": 1}


async def test_valid_one_of_two_json_values_is_returned() -> None:
    schema = {"type": "object", "required": ["a"]}
    assert await asked("json", '```json\n{"b": 2}\n```\n```json\n{"a": 1}\n```', schema=schema) == {"a": 1}


class Quoting(PromptManager):
    """Reads answers in a way of its own."""

    def parse_json(self, text: str) -> Any:
        return json.loads(text.removeprefix("> "))

    def parse_jsonl(self, text: str) -> list[Any]:
        return [json.loads(line.removeprefix("> ")) for line in text.splitlines()]


async def asked_in_its_own_way(answer: str, **entry: Any) -> Any:
    made = Quoting()
    made.load_config({"template.p": json.dumps({"prompt": "x", **entry})})
    return await made.invoke("p", {}, answering(answer))


async def test_override_of_a_reading_method_in_a_subclass_is_used(caplog: pytest.LogCaptureFixture) -> None:
    schema: dict[str, Any] = {"type": "object", "required": ["a"]}
    json_entry = {"response-type": "json", "schema": schema}
    assert await asked_in_its_own_way('> {"a": 1}', **json_entry) == {"a": 1}
    with pytest.raises(RuntimeError, match=r'^Schema validation fail: "a" is missing$'):
        await asked_in_its_own_way('> {"b": 1}', **json_entry)
    with pytest.raises(RuntimeError, match=r"^JSON parse fail$"):
        await asked_in_its_own_way("> oh", **json_entry)
    caplog.clear()
    lines = {"response-type": "jsonl", "schema": schema}
    assert await asked_in_its_own_way('> {"a": 1}\n> {"b": 1}', **lines) == [{"a": 1}]
    assert caplog.messages == ['Object 1 failed schema validation: "a" is missing']
    assert await asked_in_its_own_way("", **lines) == []
    assert await asked_in_its_own_way("> 1", **{"response-type": "jsonl"}) == [1]


async def test_function_assigned_in_place_of_a_method_is_used() -> None:
    made = manager(p={"prompt": "x", "response-type": "json"})
    made.parse_json = lambda text: len(text)  # type: ignore[method-assign]
    assert await made.invoke("p", {}, answering("abc")) == 3


@pytest.mark.parametrize("answer", ["", "no json", '{"a": 1', "{'a': 1}", '{"a": 1,}'])
async def test_answer_without_json_is_an_error(answer: str) -> None:
    with pytest.raises(RuntimeError, match=r"^JSON parse fail$"):
        await asked("json", answer)
    with pytest.raises(json.JSONDecodeError):
        PromptManager().parse_json(answer)


async def test_json_refused_by_the_schema_is_an_error_that_says_why() -> None:
    with pytest.raises(RuntimeError, match=r'^Schema validation fail: "a" is missing$'):
        await asked("json", '{"b": 1}', schema={"type": "object", "required": ["a"]})


async def test_jsonl_answer_is_the_list_of_accepted_objects(caplog: pytest.LogCaptureFixture) -> None:
    answer = f'{CAT}\n{{"entity": "bird"}}\n{DOG}'
    assert await asked("jsonl", answer, object_schema=DEFINITION) == BOTH
    assert caplog.messages == ['Object 1 failed schema validation: "definition" is missing']


async def test_object_schema_goes_before_schema() -> None:
    strict = {"type": "object", "required": ["never"]}
    assert await asked("jsonl", CAT, object_schema=DEFINITION, schema=strict) == BOTH[:1]
    assert await asked("jsonl", CAT, schema=strict) == []
    assert await asked("jsonl", CAT) == BOTH[:1]


@pytest.mark.parametrize("answer", ["", "\n \n", "[]", "I found nothing."])
async def test_empty_jsonl_answer_is_an_empty_list_with_a_warning(
    answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await asked("jsonl", answer, object_schema=DEFINITION) == []
    assert "JSONL parse returned no valid objects" in caplog.messages


@pytest.mark.parametrize(
    ("answer", "skipped"),
    [
        (f"{CAT}\n{DOG}", []),
        (f"\n\n{CAT}\n\n\n{DOG}\n\n", []),
        (f"```json\n{CAT}\n{DOG}\n```", []),
        (f"~~~\n{CAT}\n{DOG}\n~~~", []),
        (f"[\n{CAT},\n{DOG}\n]", []),
        (f"{CAT}\nnot json\n{DOG}", [2]),
        (f'Here they are:\n{CAT}\n{{"entity": "x",,}}\n{DOG}\nDone.', [1, 3, 5]),
        (f'{CAT}\n{DOG}\n{{"entity": "cow", "definit', [3]),
        ('{\n  "entity": "cat",\n  "definition": "A small predator."\n}\n' + DOG, []),
        ('oh\n{\n  "entity": "cat",\n  "definition": "A small predator."\n}\n' + DOG, [1]),
    ],
    ids=[
        "clean",
        "empty lines",
        "fences",
        "tildes",
        "array",
        "a bad line",
        "chatty",
        "cut",
        "pretty",
        "prose, pretty",
    ],
)
def test_each_bad_line_of_a_jsonl_answer_is_logged_with_its_number(
    answer: str, skipped: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    assert PromptManager().parse_jsonl(answer) == BOTH
    lines = [int(message.split("line ")[1].split(":")[0]) for message in caplog.messages]
    assert lines == skipped
    assert {record.levelno for record in caplog.records} <= {logging.WARNING}


def test_scalars_and_null_in_a_jsonl_answer_are_dropped() -> None:
    assert PromptManager().parse_jsonl(f'1\n"x"\nnull\ntrue\n{CAT}') == BOTH[:1]


async def test_objects_of_a_union_are_judged_by_the_branch_of_their_type() -> None:
    union = {
        "oneOf": [
            {
                "type": "object",
                "properties": {"type": {"const": "a"}, "x": {"type": "string"}},
                "required": ["type", "x"],
            },
            {
                "type": "object",
                "properties": {"type": {"const": "b"}, "y": {"type": "string"}},
                "required": ["type", "y"],
            },
        ]
    }
    answer = (
        '{"type": "a", "x": "1"}\n{"type": "b", "x": "2"}\n{"type": "b", "y": "3"}\n{"type": "c", "x": "4"}'
    )
    assert await asked("jsonl", answer, schema=union) == [{"type": "a", "x": "1"}, {"type": "b", "y": "3"}]


async def test_unknown_response_type_is_an_error_before_any_call() -> None:
    paid = []

    async def llm(**call: Any) -> str:
        paid.append(call)
        return "x"

    made = manager(p={"prompt": "x", "response-type": "xml"})
    with pytest.raises(RuntimeError, match=r"^Response type xml not known$"):
        await made.invoke("p", {}, llm)
    assert not paid


async def test_unknown_prompt_id_is_an_error() -> None:
    with pytest.raises(KeyError):
        await manager().invoke("nope", {}, answering(""))
    with pytest.raises(RuntimeError, match=r"^ID invalid$"):
        manager().render("nope", {})


async def test_missing_response_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"^LLM returned no response$"):
        await asked("text", None)


@pytest.mark.parametrize("response_type", ["text", "json", "jsonl"])
@pytest.mark.parametrize("answer", [5, b"{}", {"text": "{}"}, ["{}"]], ids=["int", "bytes", "dict", "list"])
async def test_response_that_is_no_text_is_an_error(response_type: str, answer: Any) -> None:
    with pytest.raises(RuntimeError, match=rf"^LLM returned {type(answer).__name__}, expected str$"):
        await asked(response_type, answer)


async def test_ontology_prompt_is_found_under_both_its_names() -> None:
    made = manager(None, **{"extract-with-ontologies": {"prompt": "x"}})
    assert made.render("ontology-extract", {}) == "x"
    assert await made.invoke("ontology-extract", {}, answering("a")) == "a"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('{"prompt": "{% if %}"}', "line 1"),
        ('{"prompt": "{{ x.__class__ }}"}', "`__class__`"),
        ('{"prompt": "x", "dialect": "jinja", "typo": 1}', "unknown key"),
        ('{"prompt": 5}', "the entry is not a prompt"),
        ('{"prompt": " "}', "the prompt has no text (found ' ')"),
        ("[]", "the entry is not a prompt"),
        ("{", "unexpected end"),
    ],
)
def test_bad_template_is_refused_and_the_previous_prompts_stay(entry: str, said: str) -> None:
    made = manager(old={"prompt": "still here"})
    with pytest.raises(RuntimeError, match="Error in template: bad: ") as raised:
        made.load_config({"system": '"New"', "template.good": '{"prompt": "x"}', "template.bad": entry})
    assert said in str(raised.value)
    assert made.render("old", {}) == "still here"
    assert list(made.prompts) == ["old"]


async def test_bad_schema_affects_only_its_own_prompt() -> None:
    made = manager(
        bad={"prompt": "x", "response-type": "json", "schema": {"type": "objct"}}, good={"prompt": "x"}
    )
    assert await made.invoke("good", {}, answering("fine")) == "fine"
    with pytest.raises(RuntimeError, match=r"Schema validation fail: .*objct"):
        await made.invoke("bad", {}, answering("{}"))


def test_terms_that_a_template_cannot_take_are_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"Error in template: p: .*expected plain JSON"):
        manager(p={"prompt": "x"}).render("p", {"x": object()})


async def test_reload_during_a_call_does_not_affect_it() -> None:
    made = manager(p={"prompt": "x", "response-type": "json"})

    async def llm(**call: Any) -> str:
        made.load_config({})
        return '{"a": 1}'

    assert await made.invoke("p", {}, llm) == {"a": 1}


async def test_bundled_prompts_can_be_loaded(tmp_path: Any) -> None:
    made = PromptManager()
    (tmp_path / "p.yaml").write_text("dialect: jinja\nsystem: Own {{ a }}\nterms: {a: 1}\nprompt: x\n")
    made.load_config(files.load(tmp_path))

    async def llm(system: str, prompt: str) -> str:
        return system

    assert await made.invoke("p", {}, llm) == "Own 1"


async def test_entry_in_our_own_format_keeps_all_its_settings() -> None:
    shape = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
    ours = {"dialect": "jinja", "prompt": "x", "response-type": "json", "schema": shape, "many": True}
    made = manager(p={**ours, "coerce": True})
    assert await made.invoke("p", {}, answering('[{"a": 1}, {"a": "2"}]')) == [{"a": 1}, {"a": 2}]
    with pytest.raises(RuntimeError, match="Schema validation fail"):
        await made.invoke("p", {}, answering('{"a": 1}'))


@pytest.mark.parametrize("way", ["turns", "text"])
async def test_examples_are_shown_only_as_text(way: str) -> None:
    shown = [{"terms": {"text": "A cat."}, "reads": [BOTH[0]]}]
    entry = {"dialect": "jinja", "response-type": "jsonl", "schema": DEFINITION, "prompt": "{{ text }}"}
    told = {"system": "Define. {{ answer_format }}", "shown": shown, "examples": {"as": way}}
    made = manager(p={**entry, **told})

    before = f"Passage:\nA cat.\n\nAnswer:\n{CAT}\n\nPassage:\n"
    assert made.render("p", {"text": "A dog."}) == (
        "A dog." if way == "turns" else f"{before}A dog.\n\nAnswer:"
    )
    assert await made.invoke("p", {"text": "A dog."}, answering(DOG)) == [BOTH[1]]


def test_nearest_texts_of_a_pool_are_shown_as_text() -> None:
    config = pools.entries(show=1, examples={"as": "text", "pool": pools.pool().key[5:], "show": 1})
    made = PromptManager()
    made.load_config(config)
    film = '{"film": "Solaris", "by": "Andrei Tarkovsky"}'
    assert made.render("films", {"text": "Stalker, by Andrei Tarkovsky"}) == (
        f"Passage:\n{pools.FILMS[1][0]}\n\nAnswer:\n{film}\n\n"
        "Passage:\nStalker, by Andrei Tarkovsky\n\nAnswer:"
    )


def test_missing_pool_is_an_error_where_it_would_be_shown() -> None:
    config = pools.entries(examples={"as": "text", "pool": pools.pool().key[5:]})
    del config[pools.pool().key]
    with pytest.raises(RuntimeError, match="its pool of examples is not there"):
        PromptManager().load_config(config)
    PromptManager().load_config({"template.films": pools.entries()["template.films"]})
