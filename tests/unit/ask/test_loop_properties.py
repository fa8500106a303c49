"""Whatever a model does, in whatever order: nothing valid is lost or doubled, and the bill has an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import Clock
from trustgraph_prompt import errors
from trustgraph_prompt.ask import Piece, ask
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.errors import ProviderError, Reason
from trustgraph_prompt.llm import Call, FinishReason, ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.reader import Outcome, Stage

TOTAL = 12
MORE = 100  # the least id of what only a later pass finds
VALUE = {"id": 0, "text": 'żółć {"id": 1}\n' * 5, "of": [[n, None, {"deep": n}] for n in range(20)]}
SCHEMA = {
    "type": "object",
    "required": ["id", "text"],
    "properties": {"id": {"type": "integer"}, "text": {"type": "string"}},
}

#: What a call does: how many tokens it writes at most, how it fails, how far it goes back at a seam, what it
#: makes of each object that it is asked to put right.
MOOD = st.fixed_dictionaries(
    {
        "tokens": st.one_of(st.none(), st.integers(0, 150)),
        "error": st.sampled_from([None] * 8 + [errors.ProviderUnavailable, errors.ProviderInvalidResponse]),
        "overlap": st.integers(0, 3),
        "silent": st.booleans(),
        "rights": st.lists(st.sampled_from(["right", "wrong", "wrong in a new way", "left out"]), max_size=9),
        "loops": st.sampled_from([False] * 9 + [True]),
    }
)


@dataclass
class Model:
    """Knows the truth, writes some of its objects wrongly at first, and has a mood for each call."""

    truth: str
    wrong: frozenset[int]
    moods: list[dict[str, Any]]
    valid: set[int] = field(default_factory=set)
    calls: int = 0
    failed: list[ProviderError] = field(default_factory=list)

    def __call__(self, call: Call) -> ScriptedAnswer:
        mood = self.moods[self.calls] if self.calls < len(self.moods) else {}
        self.calls += 1
        whole = self.text(call, mood) + ("and on, " * 500 if mood.get("loops") else "")
        limits = [limit for limit in (mood.get("tokens"), call.config.answer_limit) if limit is not None]
        text = whole.encode()[: 4 * min(limits)].decode(errors="ignore") if limits else whole
        self.valid |= {value["id"] for value in complete(text)}
        cut = len(text) < len(whole)
        error = mood["error"]("as it goes") if mood.get("error") else None
        finish: FinishReason | None = None if mood.get("silent") else "length" if cut else "stop"
        return ScriptedAnswer(text, finish_reason=finish, error=error, chunk=30)

    def text(self, call: Call, mood: dict[str, Any]) -> str:
        *before, last = call.messages
        if last.role == "user":
            return self.answer(call.messages, mood)
        answers = (self.answer(before, {"overlap": overlap}) for overlap in range(4))
        return next(whole.removeprefix(last.text) for whole in answers if whole.startswith(last.text))

    def answer(self, messages: Any, mood: dict[str, Any]) -> str:
        demand = messages[-1].text
        if "cannot be used; the others are fine" in demand:
            return "\n".join(self.put_right(messages[-2].text, mood.get("rights", [])))
        if "Write that answer again" in demand:
            shown = demand.partition("<answer>\n")[2].partition("\n</answer>")[0]
            if all(line.startswith('{"number"') for line in shown.splitlines()):
                return "\n".join(self.put_right(shown, mood.get("rights", [])))
        if demand.startswith("That makes"):
            more = MORE + int(demand.split()[2])
            return f"{self.lines(TOTAL - mood.get('overlap', 0) * 4)}\n{said(more)}\n{said(more + 1)}"
        if "was cut off after" in demand:
            shown = json.loads(messages[-2].text.splitlines()[-1])["id"]
            return self.lines(max(shown + 1 - mood.get("overlap", 0), 0))
        return self.truth

    def put_right(self, shown: str, rights: list[str]) -> Iterator[str]:
        for index, line in enumerate(shown.splitlines()):
            number = json.loads(line)["number"]
            match rights[index] if index < len(rights) else "right":
                case "right":
                    yield said(number)
                case "wrong":
                    yield line
                case "wrong in a new way":
                    yield json.dumps({"number": number, "id": str(number), "text": len(line)})

    def lines(self, start: int) -> str:
        return "\n".join(said(n, wrong=n in self.wrong) for n in range(start, TOTAL))


def said(number: int, *, wrong: bool = False) -> str:
    text = None if wrong else f"żółć [{number}] {{"
    return json.dumps({"number": number, "id": number, "text": text}, ensure_ascii=False)


def complete(text: str) -> list[dict[str, Any]]:
    """The valid objects of a text of one a line."""
    found = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and type(value.get("id")) is int and isinstance(value["text"], str):
            found.append(value)
    return found


def asking(model: Model, format: str, **how: Any) -> tuple[Outcome, list[Any]]:
    prefill, limit, attempts = how.pop("prefill"), how.pop("limit"), how.pop("attempts")
    passes = {"passes": how.pop("passes")} if "passes" in how else {}
    by_model = how.pop("by_model") and attempts > 1
    entry = {"prompt": "unused", "dialect": "jinja", "response-type": format, "schema": SCHEMA}
    entry |= {"attempts": attempts, "repair": how.pop("repair", False), "repair-by-model": by_model, **passes}
    entry |= {"model": {"max-tokens": limit}} if limit else {}
    given: list[Any] = []
    clock = Clock()

    async def listen(piece: Piece) -> None:
        given.extend(piece.objects)

    outcome = asyncio.run(
        ask(
            PromptDefinition.from_entry("things", entry),
            Question("", "Which things?"),
            ScriptedProvider(model, prefill=prefill),
            listen=listen,
            clock=clock,
            sleep=clock.sleep,
            price=Price(1, 3),
            **how,
        )
    )
    return outcome, given


HOW = {
    "moods": st.lists(MOOD, max_size=8),
    "prefill": st.booleans(),
    "limit": st.one_of(st.none(), st.integers(20, 300)),
    "attempts": st.integers(1, 4),
    "by_model": st.booleans(),
    "tokens": st.one_of(st.none(), st.integers(1, 2000)),
}


@given(wrong=st.frozensets(st.integers(0, TOTAL - 1), max_size=5), passes=st.integers(1, 3), **HOW)
def test_objects_of_any_model_are_neither_lost_nor_doubled(
    wrong: frozenset[int],
    passes: int,
    moods: list[Any],
    prefill: bool,
    limit: int | None,
    attempts: int,
    by_model: bool,
    tokens: int | None,
) -> None:
    model = Model("", wrong, moods)
    model.truth = model.lines(0)
    outcome, given = asking(
        model,
        "jsonl",
        passes=passes,
        prefill=prefill,
        limit=limit,
        attempts=attempts,
        by_model=by_model,
        budget=Budget(tokens=tokens),
    )

    numbers = [value["id"] for value in outcome.value]
    assert outcome.value == given
    assert len(set(numbers)) == len(numbers)
    first = {number for number in numbers if number < MORE}
    assert model.valid <= set(numbers)
    assert first <= set(range(TOTAL))
    assert first == set(numbers) or len(outcome.passes) in range(1, passes)
    assert outcome.ok is bool(numbers) or outcome.reason is Reason.SUCCESS
    if outcome.ok and outcome.truncated is False:
        told = {json.loads(rejected.raw)["number"] for rejected in outcome.rejected}
        assert set(range(TOTAL)) == first | told
    assert len({rejected.index for rejected in outcome.rejected}) == len(outcome.rejected)
    check_the_bill(outcome, attempts, tokens, passes)


@given(repair=st.booleans(), indent=st.sampled_from([None, 2]), **HOW)
def test_single_value_of_any_model_is_given_once_or_not_at_all(
    repair: bool,
    indent: int | None,
    moods: list[Any],
    prefill: bool,
    limit: int | None,
    attempts: int,
    by_model: bool,
    tokens: int | None,
) -> None:
    model = Model(json.dumps(VALUE, indent=indent, ensure_ascii=False), frozenset(), moods)
    outcome, given = asking(
        model,
        "json",
        prefill=prefill,
        limit=limit,
        attempts=attempts,
        by_model=by_model,
        repair=repair,
        budget=Budget(tokens=tokens),
    )

    assert given == ([outcome.value] if outcome.ok else [])
    if outcome.ok and outcome.stage is not Stage.SALVAGED:
        assert outcome.value == VALUE
    else:
        assert outcome.truncated is not False or not outcome.ok
    assert outcome.stage is not Stage.SALVAGED or (repair and outcome.truncated is True)
    check_the_bill(outcome, attempts, tokens)


def check_the_bill(outcome: Outcome, attempts: int, tokens: int | None, passes: int = 1) -> None:
    answered = [call for call in outcome.calls if call.text or call.finish_reason]
    assert len(answered) <= passes * (attempts + 50 + 2)
    assert len(outcome.calls) <= 3 * passes * (attempts + 50 + 2)
    assert sum(call.why == "room" for call in outcome.calls) <= 2 * passes
    assert sum(call.why in ("invalid", "repair") for call in outcome.calls) <= passes * (attempts - 1)
    if tokens is not None:
        assert outcome.usage.tokens <= tokens
    assert (outcome.cost is None) is (outcome.calls == ())
    assert outcome.escalated is None or (attempts > 1 and not outcome.ok)
