"""Models that go round in circles: neither continued nor paid for twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.asking import Asked, Script, cut, lines, numbers, why
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.llm import Call, Delta, RuntimeConfig, ScriptedAnswer, ScriptedProvider

PHRASES = ["the ", "A knowledge graph is a graph of knowledge. ", "\n", '{"n": ', "word " * 60]


@pytest.mark.parametrize("phrase", PHRASES)
@pytest.mark.parametrize("format", ["json", "jsonl", "text"])
@pytest.mark.parametrize("prefill", [True, False])
async def test_phrase_over_and_over_is_not_continued(
    asked: Asked, phrase: str, format: str, prefill: bool
) -> None:
    script = Script(cut("Well. " + phrase * (2400 // len(phrase))), prefill=prefill)
    outcome = await asked(script, format=format, attempts=3, config=RuntimeConfig(max_tokens=600))

    assert why(outcome) == ["first"]
    assert outcome.truncated is True
    assert "only repeated itself" in str(outcome.issues[-1])


async def test_phrase_over_and_over_after_objects_ends_the_request(asked: Asked) -> None:
    outcome = await asked(Script(cut(lines(range(9)) + "\nand so on " * 60)), attempts=3)

    assert outcome.value == numbers(range(9))
    assert why(outcome) == ["first"]


async def test_continuation_that_repeats_a_whole_chapter_ends_the_request(asked: Asked) -> None:
    chapter = " ".join(f"sentence {n} of the chapter." for n in range(60))
    script = Script(cut('{"n": 1, "text": "'), cut(chapter), cut(chapter), prefill=True)
    outcome = await asked(script, format="json")

    assert why(outcome) == ["first", "continue", "continue"]
    assert "only repeated itself" in outcome.explain()


async def test_repetition_is_found_across_continuations(asked: Asked) -> None:
    script = Script(cut('{"n": 1, "text": "'), *(cut("ever and " * 6) for _ in range(60)), prefill=True)
    outcome = await asked(script, format="json")

    assert 4 < len(outcome.calls) < 10


async def test_objects_that_hardly_vary_are_a_repetition(asked: Asked) -> None:
    said = list(islice(cycle(range(20)), 100))
    said[70] = 777
    outcome = await asked(Script(cut(lines(said))))

    assert why(outcome) == ["first"]


async def test_model_that_begins_anew_in_each_call_is_ended(asked: Asked) -> None:
    outcome = await asked(Script(cut(lines(range(50))), cut(lines(range(51)))))

    assert outcome.value == asked.given == numbers(range(51))
    assert why(outcome) == ["first", "continue"]
    assert outcome.truncated is True


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"n": 1, "rows": [{"id": n, "value": 0, "unit": "kg", "of": None} for n in range(90)]}),
        json.dumps({"n": 1, "rows": [[n % 7, n % 5, n % 3] for n in range(300)]}, indent=8),
        json.dumps({"n": 1, "rows": [{"id": n, "of": [0] * 20} for n in range(9)]}, indent=8),
        json.dumps({"n": 1, "path": [f"https://example.org/things/{n}" for n in range(90)]}),
    ],
)
async def test_rows_that_are_merely_alike_are_no_repetition(asked: Asked, text: str) -> None:
    middle = len(text) // 2
    script = Script(cut(text[:middle]), ScriptedAnswer(text[middle:]), prefill=True)
    outcome = await asked(script, format="json")

    assert outcome.value == json.loads(text)


@settings(max_examples=60, deadline=None)
@given(
    head=st.text("ab ", max_size=50),
    phrase=st.text("abc ", min_size=1, max_size=500),
    length=st.integers(1, 3000),
)
def test_phrase_of_any_length_is_a_repetition_once_it_came_often_enough(
    head: str, phrase: str, length: int
) -> None:
    """White space counts as one space, wherever it stands."""
    text = "." + head + (phrase * length)[:length]
    outcome = asyncio.run(Asked()(Script(cut(text), ScriptedAnswer("."), prefill=True), format="text"))

    blank = text.endswith(" " * 240)
    text = " ".join(text.split())
    assert (why(outcome) == ["first"]) is (
        blank
        or any(
            text[-least:] == text[-least - period : -period]
            for period in range(1, len(text))
            for least in [max(240, 8 * period) - period, max(1600, 4 * period) - period]
            if least + period <= len(text)
        )
    )


@pytest.mark.parametrize("period", [*range(55, 400, 23), 401, 800, 2000])
@pytest.mark.parametrize("tokens", [6, 50])
async def test_repetition_is_found_however_little_each_call_brings(
    asked: Asked, period: int, tokens: int
) -> None:
    phrase = " ".join(map(str, range(10_000)))[:period]
    text = '{"n": 1, "of": "' + phrase * 60
    size = 4 * tokens
    script = Script(*(cut(text[at : at + size]) for at in range(0, 60 * size, size)), prefill=True)
    outcome = await asked(script, format="json")

    assert len(outcome.calls) <= 2 + max(240, min(8 * period, max(1600, 4 * period))) / size


ROW = st.fixed_dictionaries(
    {
        "name": st.text(max_size=20),
        "zeros": st.lists(st.just(0), max_size=20),
        "of": st.none() | st.dictionaries(st.sampled_from("abc"), st.booleans()),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=5),
    count=st.integers(1, 80),
    equal=st.integers(1, 3),
    layout=st.sampled_from([None, 2, 8]),
    place=st.floats(0, 1),
)
def test_tables_of_real_objects_are_no_repetition(
    rows: list[Any], count: int, equal: int, layout: int | None, place: float
) -> None:
    """Rows which differ in a number at least, each there up to three times, cut anywhere."""
    table = [{"id": n // equal} | rows[n // equal % len(rows)] for n in range(count)]
    text = json.dumps({"n": 1, "rows": table}, indent=layout)
    at = 1 + int(place * (len(text) - 2))

    def model(call: Call) -> ScriptedAnswer:
        begun = call.messages[-1].text if call.messages[-1].role == "assistant" else None
        return cut(text[:at]) if begun is None else ScriptedAnswer(text[len(begun) :])

    outcome = asyncio.run(Asked()(ScriptedProvider(model, prefill=True), format="json"))

    assert outcome.value == json.loads(text)


@pytest.mark.parametrize("format", ["json", "jsonl", "text"])
async def test_model_that_invents_objects_without_end_is_ended(asked: Asked, format: str) -> None:
    def endless(call: Call) -> Any:
        number = int(call.labels["call"])
        begun = '{"n": 1, "of": [' if number == 1 and format == "json" else ""
        return cut(begun + (lines([number]) if format == "jsonl" else f"{number * 7919}, "))

    outcome = await asked(ScriptedProvider(endless, prefill=True), format=format, attempts=3)

    assert len(outcome.calls) == 51
    assert outcome.truncated is True


def endless(text: str, *, before: str = "", thinking: bool = False) -> Endless:
    return Endless(before, text, thinking=thinking)


class Endless(Script):
    """A model that writes the same for 200,000 characters, and counts how many were taken."""

    def __init__(self, before: str, text: str, *, thinking: bool) -> None:
        super().__init__()
        self._before, self._text, self._thinking = before, text, thinking
        self.taken = self.written = 0

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        self.calls.append(call)
        whole = self._before + self._text * (200_000 // len(self._text))
        for start in range(0, len(whole), 50):
            piece = whole[start : start + 50]
            self.taken += len(piece)
            yield Delta(thinking=piece) if self._thinking else Delta(piece)
            self.written += len(piece)
        yield Delta(finish_reason="stop")


LOOPS = [
    ("json", '{"n": "', "and so it went on, "),
    ("json", "", "Here is the object. "),
    ("json", '{"n": "', '\\n\\nWait, the text says \\"Etna\\". '),
    ("json", '{"n": 1}', " \n"),
    ("jsonl", "", '{"n": "one"}\n'),
    ("jsonl", '{"n": 1}\n', "Is there another? There is none. "),
]


@pytest.mark.parametrize(("format", "before", "phrase"), LOOPS)
async def test_call_that_repeats_a_phrase_is_ended_and_not_continued(
    asked: Asked, format: str, before: str, phrase: str
) -> None:
    model = endless(phrase, before=before)
    outcome = await asked(model, format=format, attempts=3, contract={"schema": {}} if not before else {})

    assert len(outcome.calls) == 1
    assert model.taken < 10_000
    assert outcome.usage.completion_tokens == model.written // 4  # estimated
    if before != '{"n": 1}':  # which is complete
        assert outcome.truncated is True
        assert "repeated itself" in outcome.issues[-1].message


async def test_call_that_thinks_in_a_loop_is_ended(asked: Asked) -> None:
    model = endless("But wait, let me check again.\n", thinking=True)
    outcome = await asked(model, attempts=3)

    assert (outcome.reason, outcome.truncated, len(outcome.calls)) == (Reason.EMPTY, True, 1)
    assert model.taken < 10_000


async def test_correction_that_repeats_itself_is_the_last(asked: Asked) -> None:
    class Corrections(Endless):
        async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
            if self.calls:
                async for delta in super().stream(call):
                    yield delta
                return
            self.calls.append(call)
            yield Delta('{"n": 1}\n{"n": "one"}\n', finish_reason="stop")

    model = Corrections("", '{"n": 2}\n', thinking=False)
    outcome = await asked(model, attempts=5)

    assert outcome.value[:2] == numbers([1, 2])
    assert [call.why for call in outcome.calls] == ["first", "invalid"]


async def test_call_whose_last_50_objects_are_known_is_ended(asked: Asked) -> None:
    model = endless("".join(f'{{"n": {n}}}\n' for n in range(400)))
    outcome = await asked(model)

    assert outcome.value[:450] == numbers([*range(400), *range(50)])
    assert (outcome.truncated, len(outcome.calls)) == (True, 1)
    assert model.taken < 450 * len('{"n": 399}\n')


@pytest.mark.parametrize(
    ("row", "end"),
    [
        ("0, ", "0]"),
        ("0.5, -1e3, ", "0]"),
        ("null, true, ", "0]"),
        ('["n/a", "none", 0], ', "0]"),
        ('{"name": "n/a", "height": null},\n', "0]"),
        ('"' + "-" * 300 + '", ', "0]"),
        ('"' + "A" * 300 + '", ', "0]"),
        ('"| none | n/a |\\n| none | n/a |\\n", ', "0]"),
    ],
)
async def test_equal_numbers_and_rows_are_no_loop(asked: Asked, row: str, end: str) -> None:
    text = "[" + row * (20_000 // len(row)) + end
    outcome = await asked(Script(ScriptedAnswer(text)), format="json", contract={"schema": {"type": "array"}})

    assert outcome.ok
    assert outcome.value == json.loads(text)


async def test_table_in_one_string_is_no_loop(asked: Asked) -> None:
    table = "| name | height |\n" * 1_000
    script = Script(ScriptedAnswer(json.dumps(table)))
    outcome = await asked(script, format="json", contract={"schema": {"type": "string"}})

    assert outcome.value == table


async def test_text_is_passed_on_whatever_it_repeats(asked: Asked) -> None:
    model = endless("and on, ")
    outcome = await asked(model, format="text")

    assert outcome.ok
    assert len(outcome.value) == 200_000


async def test_repetition_at_the_end_of_a_whole_answer_is_no_cut(asked: Asked) -> None:
    text = json.dumps("and on, " * 1_200)
    script = Script(ScriptedAnswer(text, chunk=10_000))
    outcome = await asked(script, format="json", contract={"schema": {"type": "string"}})

    assert outcome.truncated is False
