"""What an answer must be stands in the question where its author wants it, or at its end, and in retries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.asking import OBJECT, Asked, Script, why
from trustgraph_prompt.ask import ask
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.doors import PromptManager
from trustgraph_prompt.doors.schema_language import WORDING, Workflow
from trustgraph_prompt.errors import PromptError, RenderError
from trustgraph_prompt.llm import ScriptedAnswer
from trustgraph_prompt.prompts import PromptDefinition, PromptSet

SCHEMA = {
    "type": "object",
    "properties": {"first name": {"type": "string", "description": "{{ text }}"}, "age": {}},
    "required": ["first name", "age"],
}
TOLD = Contract.from_schema(SCHEMA, format="jsonl").instructions()


def prompt(text: str, **entry: Any) -> PromptDefinition:
    named = {key.replace("_", "-"): value for key, value in entry.items()}
    given = {"dialect": "jinja", "response-type": "jsonl", "schema": SCHEMA, **named, "prompt": text}
    return PromptDefinition.from_entry("p", {key: value for key, value in given.items() if value is not None})


def asked_of(text: str, **entry: Any) -> str:
    return prompt(text, **entry).question({"text": "T"}).prompt


@pytest.mark.parametrize("dialect", ["jinja", "ibis"])
def test_the_term_stands_for_it(dialect: str) -> None:
    text = "Who?\n\n{{ answer_format }}\n\n<text>{{ text }}</text>"
    assert asked_of(text, dialect=dialect) == f"Who?\n\n{TOLD}\n\n<text>T</text>"
    assert prompt(text, dialect=dialect).missing({}) == ["text"]


def test_it_may_stand_in_the_system_message() -> None:
    question = prompt("Who? {{ text }}", system="Be exact. {{ answer_format }}").question({"text": "T"})
    assert (question.system, question.prompt) == (f"Be exact. {TOLD}", "Who? T")
    entries = {
        "system": {"dialect": "jinja", "prompt": "{{ answer_format }}"},
        "template.text": {"dialect": "jinja", "prompt": "Who?"},
        "template.keys": {"dialect": "jinja", "prompt": "Who?", "response-type": "jsonl", "schema": SCHEMA},
    }
    prompts = PromptSet.build({key: json.dumps(entry) for key, entry in entries.items()})
    assert prompts.question("text", {})[1].system == ""
    assert prompts.question("keys", {})[1] == prompts.prompts["keys"].question({})
    assert prompts.question("keys", {})[1].system == TOLD
    assert prompts.notes == {}


@pytest.mark.parametrize(
    "text", ["Who? {{ text }}\n", 'Who? With "age". {{ text }}', "Their ages, first names. {{ text }}"]
)
def test_a_question_that_does_not_name_the_keys_ends_with_it(text: str) -> None:
    assert asked_of(text) == text.strip().replace("{{ text }}", "T") + f"\n\n{TOLD}"
    assert prompt(text).unnamed_keys


@pytest.mark.parametrize(
    "text",
    [
        'Who? {"first name": "…", "age": 1}',
        "Give the first name and the age.",
        "{% if text %}The first name{% endif %}{% for each in text %}, age{% endfor %}",
    ],
)
def test_one_that_names_them_is_asked_as_it_is_written(text: str) -> None:
    assert prompt(text).unnamed_keys == []
    assert TOLD not in asked_of(text)


def test_names_in_the_system_message_count_and_those_in_comments_and_terms_do_not() -> None:
    assert prompt("Who?", system="The first name and the age.").unnamed_keys == []
    assert prompt("Who? {# first name, age #}{{ age }}", terms={"age": "age"}).unnamed_keys == [
        "first name",
        "age",
    ]


@pytest.mark.parametrize(
    ("schema", "unnamed"),
    [
        (None, []),
        ({"type": "object"}, []),
        ({"properties": {"a": {}, "who": {}}}, []),
        ({"properties": {"a": {}, "b": {}}}, ["a", "b"]),
        ({"required": ["Who", "b.c", '"', "名"]}, ["b.c", '"']),
        ({"anyOf": [{"type": "object", "required": [key]} for key in ("a", "people", "b")]}, ["a", "b"]),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "required": ["a"]}}}, ["a"]),
    ],
)
def test_which_keys_must_be_named(schema: Any, unnamed: list[str]) -> None:
    assert prompt("Who? people, who 有名字", schema=schema).unnamed_keys == unnamed


def test_key_after_key_is_looked_for_up_to_a_number() -> None:
    many = {"type": "object", "required": [f"key {number}" for number in range(3_000)]}
    assert len(prompt("key " * 30_000, schema=many).unnamed_keys) == 500


def test_json_objects_are_told_too_and_a_text_is_not() -> None:
    value = {"response_type": "json"}
    assert asked_of("Who?", **value) == f"Who?\n\n{Contract.from_schema(SCHEMA).instructions()}"
    assert "array of objects" in asked_of("Who?", **value, many=True)
    assert asked_of("Who?", **value, schema={"type": "string"}) == "Who?"
    assert asked_of("Who? {{ answer_format }}", response_type="text", schema=None) == "Who? "


def test_an_entry_may_want_it_in_any_case_or_not_at_all() -> None:
    named = "The first name and the age."
    assert asked_of(named, answer_format="append") == f"{named}\n\n{TOLD}"
    assert asked_of(f"{named} {{{{ answer_format }}}}", answer_format="append") == f"{named} {TOLD}"
    assert asked_of("Who?", answer_format="none") == "Who?"
    assert prompt("{{ answer_format }}", answer_format="none").missing({}) == ["answer_format"]
    with pytest.raises(PromptError, match="answer-format"):
        prompt("Who?", answer_format="append", response_type="text", schema=None)
    appended, left_out, by_need = (
        prompt("Who?", answer_format=each).version for each in ("append", "none", None)
    )
    assert appended == by_need != left_out  # one question, one version


def test_the_term_is_reserved() -> None:
    with pytest.raises(PromptError, match="`answer_format` is reserved") as refused:
        prompt("Who?", terms={"answer_format": "x"})
    assert refused.value.path == "/terms/answer_format"
    for text in ("Who?", "{{ answer_format }}"):
        with pytest.raises(RenderError, match="p: the term `answer_format` is reserved"):
            prompt(text).question({"answer_format": "x"})


def test_what_it_says_is_never_read_as_a_template() -> None:
    assert "{{ text }}" in asked_of("Who? {{ answer_format }}")
    assert "{{ text }}" in asked_of("Who?")


THEIRS = {"prompt": "Who? {{ answer_format }}{{ text }} \n", "response-type": "jsonl", "schema": SCHEMA}


def test_entries_of_trustgraph_render_as_before() -> None:
    theirs = PromptDefinition.from_entry("p", THEIRS)
    assert theirs.question({"text": "T"}).prompt == "Who? T \n"
    assert theirs.question({"text": "T", "answer_format": "x"}).prompt == "Who? xT \n"
    assert theirs.unnamed_keys == []
    wanting = {**THEIRS, "prompt": "Who? {{ text }} \n", "answer-format": "append"}
    assert PromptDefinition.from_entry("p", wanting).question({"text": "T"}).prompt == f"Who? T\n\n{TOLD}"


def rendered(entry: Any, **terms: Any) -> str:
    manager = PromptManager()
    manager.load_config({"template.p": json.dumps(entry)})
    return manager.render("p", terms)


def test_a_prompt_manager_renders_as_before_unless_an_entry_asks_for_it() -> None:
    assert rendered(THEIRS, text="T", answer_format="x") == "Who? xT \n"
    ours = {"dialect": "jinja", "response-type": "jsonl", "schema": SCHEMA, "prompt": "Who? {{ text }} \n"}
    assert rendered(ours, text="T") == "Who? T "
    for entry in (ours, {key: value for key, value in ours.items() if key != "dialect"}):
        assert rendered({**entry, "answer-format": "append"}, text="T") == f"Who? T\n\n{TOLD}"
    ours["prompt"] = "{{ answer_format }}!"
    assert rendered(ours) == f"{TOLD}!"
    with pytest.raises(RuntimeError, match="reserved"):
        rendered(ours, answer_format="x")


async def test_a_prompt_manager_tells_it_in_the_system_message() -> None:
    manager = PromptManager()
    entry = {"dialect": "jinja", "response-type": "jsonl", "schema": SCHEMA, "prompt": "Who?"}
    manager.load_config({"template.p": json.dumps({**entry, "system": "{{ answer_format }}"})})

    async def llm(system: str, prompt: str) -> str:
        return json.dumps({"first name": system, "age": prompt})

    assert await manager.invoke("p", {}, llm) == [{"first name": TOLD, "age": "Who?"}]


def test_a_workflow_tells_it_in_its_own_words_where_the_text_has_the_term() -> None:
    text = 'schema A:\n    a: int\nprompt p expecting A: "Well. {{ answer_format }} {{ x }}"\n'
    workflow = Workflow.load(text, Script())
    instructions = Contract.language(text.partition("prompt")[0])["A"].instructions(WORDING)
    assert workflow.prompts["p"].body({"x": 1}) == f"Well. {instructions} 1"


FORM = Contract.from_schema(OBJECT, format="jsonl").instructions()


@pytest.mark.parametrize(
    "answer", ["I cannot.", '{"n": "one"}', '{"n": 1}\n{"n": "two"}'], ids=["none", "invalid", "one of two"]
)
async def test_every_retry_says_it_again(asked: Asked, answer: str) -> None:
    script = Script(ScriptedAnswer(answer), ScriptedAnswer(answer), ScriptedAnswer('{"n": 2}'))
    outcome = await asked(script, attempts=3)
    assert why(outcome)[:2] == ["first", "invalid"]
    for call in script.calls[1:]:
        assert call.messages[-1].text.endswith(f"\n\n{FORM}")


async def test_of_a_schema_that_the_provider_is_told_that_tells_it(asked: Asked) -> None:
    script = Script(ScriptedAnswer('{"n": "one"}'), ScriptedAnswer('{"n": 1}'))
    await asked(script, format="json", attempts=2)
    assert script.calls[1].response_schema is not None
    assert script.calls[1].schema_in_words
    assert "Answer with one JSON" not in script.calls[1].messages[-1].text


@pytest.mark.parametrize("text", ["How many?", "How {{ answer_format }} many?", "With n."])
async def test_no_message_says_it_twice(text: str) -> None:
    definition = prompt(text, schema=OBJECT, attempts=2)
    script = Script(ScriptedAnswer(""), ScriptedAnswer('{"n": 1}'))
    await ask(definition, definition.question({}), script)
    (message,) = (one for one in script.calls[1].messages if one.role == "user")
    assert message.text.count(FORM) == 1
    assert "was empty" in message.text
