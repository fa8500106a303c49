"""Objects with a quote: asked for again where it is wrong, the same object whatever it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustgraph_prompt.ask import MemoryCache, Piece, ask
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome, Stage

TEXT = "The Rhine rises\nin the Alps. It ends in the sea. The Rhine is long."
SCHEMA = {
    "type": "object",
    "properties": {
        "quote": {"type": "string", "x-quote": "text"},
        "name": {"type": "string", "x-from": "text"},
    },
    "required": ["quote", "name"],
}


def prompt(**more: Any) -> PromptDefinition:
    entry = {"dialect": "jinja", "prompt": "{{ text }}", "response-type": "jsonl", "schema": SCHEMA, **more}
    return PromptDefinition.from_entry("p", entry)


def said(quote: str, name: str = "Rhine") -> dict[str, str]:
    return {"quote": quote, "name": name}


def lines(*objects: object) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


class Asking:
    """Asks with scripted answers, and keeps the calls and the pieces."""

    def __init__(self, *answers: str | ScriptedAnswer, cache: MemoryCache | None = None) -> None:
        script = iter(answers)
        self.calls: list[Call] = []
        self.pieces: list[Piece] = []
        self._cache = cache

        def answer(call: Call) -> ScriptedAnswer:
            self.calls.append(call)
            each = next(script)
            return ScriptedAnswer(each) if isinstance(each, str) else each

        self._provider = ScriptedProvider(answer)

    async def __call__(self, definition: PromptDefinition) -> Outcome:
        async def listen(piece: Piece) -> None:
            self.pieces.append(piece)

        question = definition.question({"text": TEXT})
        return await ask(definition, question, self._provider, listen=listen, cache=self._cache)

    @property
    def given(self) -> list[Any]:
        return [value for piece in self.pieces for value in piece.objects]


async def test_object_with_a_wrong_quote_is_asked_for_again() -> None:
    wrong, right = said("The Rhine flows."), said("it ends in the sea", "sea")
    asking = Asking(lines(wrong, right), lines(said("the rhine RISES")))
    outcome = await asking(prompt(attempts=2))
    assert outcome.value == asking.given == [said("It ends in the sea", "sea"), said("The Rhine rises")]
    assert outcome.rejected == ()
    last = asking.calls[1].messages[-1].text
    assert "copy the words of the passage that say it, two sentences at most" in last
    assert "Give again only what is in the passage" in last


async def test_pieces_have_the_spans_of_the_outcome() -> None:
    asking = Asking(lines(said("the rhine rises in the alps"), said("it … the sea", "sea")))
    outcome = await asking(prompt())
    assert asking.given == outcome.value
    found = [each for piece in asking.pieces for each in piece.grounding or ()]
    assert found == list(outcome.grounding or ())
    assert [each["/quote"].spans for each in found] == [  # type: ignore[union-attr]
        ((0, 27),),
        ((29, 31), (40, 47)),
    ]


async def test_cached_answer_has_the_same_quotes_and_spans() -> None:
    cache = MemoryCache()
    first = await Asking(lines(said("the rhine rises in the alps.")), cache=cache)(prompt(cache=True))
    asking = Asking(cache=cache)
    again = await asking(prompt(cache=True))
    assert again.cached
    assert first.value == again.value == asking.given == [said("The Rhine rises in the Alps")]
    assert first.grounding == again.grounding


async def test_first_quote_of_an_object_stays_in_a_continuation() -> None:
    cut = ScriptedAnswer(lines(said("The Rhine rises")), finish_reason="length")
    asking = Asking(cut, lines(said("The Rhine is long"), said("the sea", "sea")))
    outcome = await asking(prompt())
    assert outcome.value == asking.given == [said("The Rhine rises"), said("the sea", "sea")]


@pytest.mark.parametrize("again", [said("The Rhine is long"), said("the ALPS", "the  rhine")])
async def test_object_with_another_quote_is_nothing_new_in_a_pass(again: dict[str, str]) -> None:
    asking = Asking(lines(said("The Rhine rises", "the Rhine")), lines({**again, "name": "the rhine"}))
    outcome = await asking(prompt(passes=3))
    assert outcome.value == asking.given == [said("The Rhine rises", "the Rhine")]
    assert len(asking.calls) == 2


async def test_loop_of_one_object_with_many_quotes_is_ended() -> None:
    words = TEXT.split()
    quotes = [" ".join(words[start:end]) for start in range(len(words)) for end in range(start + 1, 15)]
    endless = lines(*(said(quote) for quote in quotes))
    asking = Asking(ScriptedAnswer(endless, chunk=200), "[]")
    outcome = await asking(prompt())
    assert len(outcome.calls[0].text) < len(endless)
    assert outcome.reason is Reason.SUCCESS


async def test_model_sees_the_quote_as_the_first_key() -> None:
    asking = Asking(lines(said("The Rhine")))
    outcome = await asking(prompt(**{"answer-format": "append"}))
    text = asking.calls[0].messages[-1].text
    assert text.index('"quote"') < text.index('"name"')
    assert "x-quote" not in text
    assert outcome.stage is Stage.DIRECT


async def test_example_that_comes_back_with_words_of_the_passage_is_refused() -> None:
    example = '{"quote": "Etna is high.", "name": "Etna", "says": "is high"}'
    says = {**SCHEMA, "properties": {**SCHEMA["properties"], "says": {"type": "string"}}}  # type: ignore[dict-item]
    says["properties"]["name"] = {"type": "string"}  # type: ignore[index]
    echo = {"quote": "The Rhine rises", "name": "Etna", "says": "is high"}
    asking = Asking(lines(echo, {**echo, "name": "Rhine", "says": "rises"}))
    outcome = await asking(prompt(schema=says, prompt=f"Such as {example}: {{{{ text }}}}"))
    assert [value["name"] for value in outcome.value] == ["Rhine"]
    assert [issue.reason for each in outcome.rejected for issue in each.issues] == [Reason.ECHOED]
