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
def test_answer_format_stands_where_the_template_has_the_term(dialect: str) -> None:
    text = "Who?\n\n{{ answer_format }}\n\n<text>{{ text }}</text>"
    assert asked_of(text, dialect=dialect) == f"Who?\n\n{TOLD}\n\n<text>T</text>"
    assert prompt(text, dialect=dialect).missing({}) == ["text"]


def test_answer_format_may_stand_in_the_system_message() -> None:
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
def test_answer_format_is_appended_where_the_question_does_not_name_the_keys(text: str) -> None:
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
def test_answer_format_is_left_out_where_the_question_names_the_keys(text: str) -> None:
    assert prompt(text).unnamed_keys == []
    assert TOLD not in asked_of(text)


def test_keys_named_in_the_system_message_count_and_those_in_comments_do_not() -> None:
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
def test_unnamed_keys_are_required_or_declared_ones_that_occur_nowhere(
    schema: Any, unnamed: list[str]
) -> None:
    assert prompt("Who? people, who 有名字", schema=schema).unnamed_keys == unnamed


def test_at_most_500_unnamed_keys_are_listed() -> None:
    many = {"type": "object", "required": [f"key {number}" for number in range(3_000)]}
    assert len(prompt("key " * 30_000, schema=many).unnamed_keys) == 500


def test_answer_format_is_appended_for_json_objects_and_not_for_texts() -> None:
    value = {"response_type": "json"}
    assert asked_of("Who?", **value) == f"Who?\n\n{Contract.from_schema(SCHEMA).instructions()}"
    assert "array of objects" in asked_of("Who?", **value, many=True)
    assert asked_of("Who?", **value, schema={"type": "string"}) == "Who?"
    assert asked_of("Who? {{ answer_format }}", response_type="text", schema=None) == "Who? "


def test_entry_may_always_append_the_answer_format_or_never() -> None:
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


def test_term_answer_format_is_reserved() -> None:
    with pytest.raises(PromptError, match="`answer_format` is reserved") as refused:
        prompt("Who?", terms={"answer_format": "x"})
    assert refused.value.path == "/terms/answer_format"
    for text in ("Who?", "{{ answer_format }}"):
        with pytest.raises(RenderError, match="p: the term `answer_format` is reserved"):
            prompt(text).question({"answer_format": "x"})


def test_answer_format_is_never_rendered_as_a_template() -> None:
    assert "{{ text }}" in asked_of("Who? {{ answer_format }}")
    assert "{{ text }}" in asked_of("Who?")


THEIRS = {"prompt": "Who? {{ answer_format }}{{ text }} \n", "response-type": "jsonl", "schema": SCHEMA}


def test_entries_of_trustgraph_have_no_answer_format() -> None:
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


def test_prompt_manager_has_an_answer_format_only_if_an_entry_asks_for_it() -> None:
    assert rendered(THEIRS, text="T", answer_format="x") == "Who? xT \n"
    ours = {"dialect": "jinja", "response-type": "jsonl", "schema": SCHEMA, "prompt": "Who? {{ text }} \n"}
    assert rendered(ours, text="T") == "Who? T "
    for entry in (ours, {key: value for key, value in ours.items() if key != "dialect"}):
        assert rendered({**entry, "answer-format": "append"}, text="T") == f"Who? T\n\n{TOLD}"
    ours["prompt"] = "{{ answer_format }}!"
    assert rendered(ours) == f"{TOLD}!"
    with pytest.raises(RuntimeError, match="reserved"):
        rendered(ours, answer_format="x")


async def test_prompt_manager_renders_the_answer_format_in_the_system_message() -> None:
    manager = PromptManager()
    entry = {"dialect": "jinja", "response-type": "jsonl", "schema": SCHEMA, "prompt": "Who?"}
    manager.load_config({"template.p": json.dumps({**entry, "system": "{{ answer_format }}"})})

    async def llm(system: str, prompt: str) -> str:
        return json.dumps({"first name": system, "age": prompt})

    assert await manager.invoke("p", {}, llm) == [{"first name": TOLD, "age": "Who?"}]


def test_workflow_words_the_answer_format_in_its_own_way() -> None:
    text = 'schema A:\n    a: int\nprompt p expecting A: "Well. {{ answer_format }} {{ x }}"\n'
    workflow = Workflow.load(text, Script())
    instructions = Contract.language(text.partition("prompt")[0])["A"].instructions(WORDING)
    assert workflow.prompts["p"].body({"x": 1}) == f"Well. {instructions} 1"


FORM = Contract.from_schema(OBJECT, format="jsonl").instructions()


@pytest.mark.parametrize(
    "answer", ["I cannot.", '{"n": "one"}', '{"n": 1}\n{"n": "two"}'], ids=["none", "invalid", "one of two"]
)
async def test_every_correction_repeats_the_answer_format(asked: Asked, answer: str) -> None:
    script = Script(ScriptedAnswer(answer), ScriptedAnswer(answer), ScriptedAnswer('{"n": 2}'))
    outcome = await asked(script, attempts=3)
    assert why(outcome)[:2] == ["first", "invalid"]
    for call in script.calls[1:]:
        assert call.messages[-1].text.endswith(f"\n\n{FORM}")


async def test_correction_leaves_the_answer_format_to_a_provider_given_the_schema(asked: Asked) -> None:
    script = Script(ScriptedAnswer('{"n": "one"}'), ScriptedAnswer('{"n": 1}'))
    await asked(script, format="json", attempts=2)
    assert script.calls[1].response_schema is not None
    assert script.calls[1].schema_in_words
    assert "Answer with one JSON" not in script.calls[1].messages[-1].text


@pytest.mark.parametrize("text", ["How many?", "How {{ answer_format }} many?", "With n."])
async def test_correction_has_the_answer_format_once(text: str) -> None:
    definition = prompt(text, schema=OBJECT, attempts=2)
    script = Script(ScriptedAnswer(""), ScriptedAnswer('{"n": 1}'))
    await ask(definition, definition.question({}), script)
    (message,) = (one for one in script.calls[1].messages if one.role == "user")
    assert message.text.count(FORM) == 1
    assert "was empty" in message.text
