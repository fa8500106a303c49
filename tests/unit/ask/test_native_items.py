"""`native: items`: a server that holds schemas gives many objects as the items of one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.asking import OBJECT, Asked, Script, cut, lines, numbers, why
from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.llm import ScriptedAnswer
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome

NATIVE = {"native": "items"}


def items(*values: Any) -> str:
    return json.dumps({"items": [{"n": value} for value in values]})


async def native(asked: Asked, script: Script, **options: Any) -> Outcome:
    return await asked(script, **{"attempts": 2, "entry": NATIVE, **options})


async def test_native_items_ask_the_server_for_one_object_that_holds_them(asked: Asked) -> None:
    script = Script(ScriptedAnswer(items(1, 2)))
    outcome = await native(asked, script)
    assert outcome.value == asked.given == numbers([1, 2])
    assert script.calls[0].response_schema == {
        "type": "object",
        "properties": {"items": {"type": "array", "items": OBJECT}},
        "required": ["items"],
        "additionalProperties": False,
    }
    assert not script.calls[0].schema_in_words


async def test_prompt_without_native_items_sends_no_schema(asked: Asked) -> None:
    script = Script(ScriptedAnswer(lines([1])))
    await native(asked, script, entry={})
    assert script.calls[0].response_schema is None


async def test_native_items_are_given_before_the_answer_ends(asked: Asked) -> None:
    await native(asked, Script(ScriptedAnswer(items(*range(30)))))
    assert len(asked.pieces) > 1


@pytest.mark.parametrize("rest", [items(3, 4), lines([3, 4])], ids=["items", "lines"])
@pytest.mark.parametrize("end", ["", ', {"n"', ", "], ids=["between", "within", "behind a comma"])
async def test_cut_answer_of_native_items_is_continued(asked: Asked, end: str, rest: str) -> None:
    begun = items(1, 2).removesuffix("]}") + end
    script = Script(cut(begun), ScriptedAnswer(rest))
    outcome = await native(asked, script, attempts=1)
    assert outcome.value == asked.given == numbers([1, 2, 3, 4])
    assert (why(outcome), outcome.truncated) == (["first", "continue"], False)
    assert script.calls[1].response_schema == script.calls[0].response_schema


async def test_native_items_cut_before_their_first_object_are_continued_from_there(asked: Asked) -> None:
    script = Script(cut('{"items": [{"n"'), ScriptedAnswer(': 1}, {"n": 2}]}'), prefill=True)
    outcome = await native(asked, script)
    assert outcome.value == numbers([1, 2])
    assert script.calls[1].messages[-1].text == '{"items": [{"n"'


async def test_refused_native_items_are_asked_for_again(asked: Asked) -> None:
    script = Script(ScriptedAnswer(items(1, "two", 3)), ScriptedAnswer(items(2)))
    outcome = await native(asked, script)
    assert outcome.value == asked.given == numbers([1, 3, 2])
    assert (why(outcome), outcome.rejected) == (["first", "invalid"], ())
    assert script.calls[1].response_schema is not None
    assert not script.calls[1].schema_in_words  # the message says what the answer must be
    assert "one object per line" in script.calls[1].messages[-1].text


async def test_empty_native_items_are_an_answer(asked: Asked) -> None:
    outcome = await native(asked, Script(ScriptedAnswer(items())))
    assert (outcome.value, why(outcome)) == ([], ["first"])


@pytest.mark.parametrize("kinds", ["anyOf", "oneOf"])
def test_native_items_may_be_of_several_kinds(kinds: str) -> None:
    several = {kinds: [{"$ref": "#/$defs/A"}, {"type": "object"}], "$defs": {"A": {"type": "object"}}}
    entry = {"dialect": "jinja", "prompt": "x", "response-type": "jsonl", "schema": several, **NATIVE}
    assert PromptDefinition.from_entry("p", entry).native_items


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"schema": {"type": "object", "properties": {"items": {}}}},
        {"versions": {"1.0": OBJECT}},
        {"schema": OBJECT, "response-type": "json"},
        {"schema": OBJECT, "native": "lines"},
    ],
    ids=["no schema", "a key of its own", "versions", "json", "unknown"],
)
def test_native_items_are_refused_where_no_schema_can_hold_them(entry: Any) -> None:
    whole = {"dialect": "jinja", "prompt": "x", "response-type": "jsonl", **NATIVE, **entry}
    with pytest.raises(PromptError):
        PromptDefinition.from_entry("p", whole)
