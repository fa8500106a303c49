"""Asking again for what a text still has: what is added, what is not, and when it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.asking import Asked, Clock, Script, cut, lines, numbers, why
from tests.support.caching import Model, definition, keep
from trustgraph_prompt.ask import MemoryCache, ask
from trustgraph_prompt.ask.messages import VALUES_SHOWN
from trustgraph_prompt.cost import Budget, Price, Usage
from trustgraph_prompt.errors import (
    PromptError,
    ProviderError,
    ProviderInvalidRequest,
    ProviderUnavailable,
    Reason,
)
from trustgraph_prompt.llm import ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome
from trustgraph_prompt.worker.telemetry.metrics import Metrics

NAMED = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
WRONG = '{"n": "two"}'


async def passed(asked: Asked, *answers: str | ScriptedAnswer, passes: int = 2, **how: Any) -> Outcome:
    """Ask; there must be as many calls as answers."""
    script = Script(*(ScriptedAnswer(one) if isinstance(one, str) else one for one in answers))
    entry = {"passes": passes, **how.pop("entry", {})}
    outcome = await asked(script, entry=entry, **how)
    assert len(script.calls) == len(answers)
    assert outcome.value == asked.given
    return outcome


async def test_objects_of_a_second_pass_are_added(asked: Asked) -> None:
    outcome = await passed(asked, lines([1, 2]), lines([3]))

    assert outcome.value == numbers([1, 2, 3])
    assert why(outcome) == ["first", "pass"]
    assert [one.value for one in outcome.passes] == [numbers([3])]
    assert (outcome.reason, outcome.truncated, outcome.issues) == (Reason.SUCCESS, False, ())


async def test_one_pass_asks_once(asked: Asked) -> None:
    assert why(await passed(asked, lines([1]), passes=1)) == ["first"]


@pytest.mark.parametrize("nothing", ["[]", lines([2, 1]), "There are no more.", ""])
async def test_pass_that_brings_nothing_new_is_the_last(asked: Asked, nothing: str) -> None:
    outcome = await passed(asked, lines([1, 2]), lines([3]), nothing, passes=5, attempts=3)

    assert outcome.value == numbers([1, 2, 3])
    assert why(outcome) == ["first", "pass", "pass"]
    assert (outcome.reason, outcome.truncated, outcome.issues) == (Reason.SUCCESS, False, ())
    assert outcome.escalated is None


async def test_empty_first_answer_has_no_second_pass(asked: Asked) -> None:
    assert why(await passed(asked, "[]", passes=3)) == ["first"]


async def test_unusable_answer_has_no_passes(asked: Asked) -> None:
    outcome = await passed(asked, "I do not know.", passes=3)
    assert (outcome.reason, outcome.passes) == (Reason.EXTRACTION_FAILED, ())


async def test_truncated_answer_has_no_passes(asked: Asked) -> None:
    outcome = await passed(asked, cut(lines([1])), cut(lines([1])), passes=3)
    assert (outcome.value, outcome.truncated, outcome.passes) == (numbers([1]), True, ())


async def test_escalated_answer_has_no_passes(asked: Asked) -> None:
    escalate = {"escalate": {"op": "contains", "value": '"n": 1'}}
    outcome = await passed(asked, lines([1]), passes=3, entry=escalate)
    assert (outcome.escalated, outcome.passes) == ("condition", ())


async def test_pass_shows_the_model_the_question_and_the_objects_so_far(asked: Asked) -> None:
    script = Script(*(ScriptedAnswer(lines(n)) for n in ([1], [2], [])))
    await asked(script, entry={"passes": 3})

    _, second, third = ([(one.role, one.text) for one in call.messages] for call in script.calls)
    assert second[:3] == [("system", "Be exact."), ("user", "Which numbers?"), ("assistant", '{"n":1}')]
    assert second[3][1].startswith("That makes 1 object so far. Look once more for what is still missing")
    assert third[2] == ("assistant", '{"n":1}\n{"n":2}')
    assert [call.labels["call"] for call in script.calls] == ["1", "2", "3"]


@pytest.mark.parametrize("length", [1000, 2 * VALUES_SHOWN])
async def test_pass_shows_the_last_of_many_objects(asked: Asked, length: int) -> None:
    found = "\n".join(json.dumps({"n": n, "text": "x" * length}) for n in range(30))
    script = Script(ScriptedAnswer(found), ScriptedAnswer("[]"))
    outcome = await asked(script, entry={"passes": 2})

    shown, request = (message.text for message in script.calls[1].messages[-2:])
    count = len(shown.splitlines())
    assert len(outcome.value) == 30
    assert VALUES_SHOWN / 2 < len(shown) <= VALUES_SHOWN + count
    assert '{"n":29,' in shown
    assert '{"n":0,' not in shown
    assert request.startswith(f"That makes 30 objects so far, of which the last {count} stand above.")


class TestDuplicates:
    @pytest.mark.parametrize(
        "again", ["Mount Etna", "mount etna", " MOUNT  ETNA ", "Mount\u00a0Etna", "Mount\nEtna"]
    )
    async def test_object_in_another_spelling_is_a_duplicate(self, asked: Asked, again: str) -> None:
        first, more = json.dumps({"name": "Mount Etna"}), json.dumps({"name": "Stromboli"})
        second = json.dumps({"name": again})
        outcome = await passed(asked, first, f"{second}\n{more}", contract={"schema": NAMED})
        assert [one["name"] for one in outcome.value] == ["Mount Etna", "Stromboli"]

    async def test_two_spellings_within_one_answer_are_both_kept(self, asked: Asked) -> None:
        both = '{"name": "Shh"}\n{"name": "SHH"}'
        outcome = await passed(asked, both, "[]", contract={"schema": NAMED})
        assert [one["name"] for one in outcome.value] == ["Shh", "SHH"]

    async def test_object_with_its_keys_in_another_order_is_a_duplicate(self, asked: Asked) -> None:
        outcome = await passed(asked, '{"n": 1, "a": 2}', '{"a": 2, "n": 1}\n{"a": 3, "n": 1}')
        assert outcome.value == [{"n": 1, "a": 2}, {"a": 3, "n": 1}]

    async def test_pass_is_compared_with_all_passes_before_it(self, asked: Asked) -> None:
        answers = (lines([1]), lines([1, 2]), lines([1, 2, 3]), lines([3, 2]))
        assert (await passed(asked, *answers, passes=5)).value == numbers([1, 2, 3])


class TestWithinAPass:
    async def test_cut_answer_of_a_pass_is_continued(self, asked: Asked) -> None:
        outcome = await passed(asked, lines([1]), cut(lines([2, 1, 3])), lines([4]))

        assert outcome.value == numbers([1, 2, 3, 4])
        assert why(outcome) == ["first", "pass", "continue"]
        assert outcome.truncated is False

    async def test_continuation_of_a_pass_follows_the_question_of_the_pass(self, asked: Asked) -> None:
        script = Script(ScriptedAnswer(lines([1])), cut(lines([2])), ScriptedAnswer("[]"))
        await asked(script, entry={"passes": 2})
        _, second, third = (call.messages for call in script.calls)
        assert third[: len(second)] == second
        assert third[-1].text.startswith("Your answer was cut off after 1 object;")

    async def test_invalid_object_of_a_pass_is_corrected(self, asked: Asked) -> None:
        outcome = await passed(asked, lines([1]), f"{WRONG}\n{lines([3])}", lines([2]), attempts=2)

        assert outcome.value == numbers([1, 3, 2])
        assert why(outcome) == ["first", "pass", "invalid"]
        assert outcome.rejected == ()

    async def test_only_object_of_a_pass_is_corrected_if_invalid(self, asked: Asked) -> None:
        outcome = await passed(asked, lines([1]), WRONG, lines([2]), attempts=2)
        assert (outcome.value, outcome.rejected) == (numbers([1, 2]), ())

    async def test_each_pass_has_attempts_of_its_own(self, asked: Asked) -> None:
        answers = (f"{lines([1])}\n{WRONG}", lines([2]), f"{lines([3])}\n{WRONG}", lines([4]))
        outcome = await passed(asked, *answers, attempts=2)
        assert why(outcome) == ["first", "invalid", "pass", "invalid"]
        assert outcome.value == numbers([1, 2, 3, 4])

    async def test_object_rejected_in_two_passes_is_listed_once(self, asked: Asked) -> None:
        first, second = f"{lines([1])}\n{WRONG}", f'{WRONG}\n{{"n": "three"}}\n{lines([2])}'
        outcome = await passed(asked, first, second)
        assert [one.raw for one in outcome.rejected] == [WRONG, '{"n": "three"}']
        assert len({one.index for one in outcome.rejected}) == 2

    async def test_ungrounded_object_of_a_pass_is_rejected(self) -> None:
        schema = {**NAMED, "properties": {"name": {"type": "string", "x-from": "text"}}}
        entry = {"dialect": "jinja", "prompt": "{{ text }}", "response-type": "jsonl", "schema": schema}
        prompt = PromptDefinition.from_entry("p", {**entry, "passes": 2})
        answers = ['{"name": "Rhine"}', '{"name": "Nile"}\n{"name": "Elbe"}']
        provider = ScriptedProvider([ScriptedAnswer(one) for one in answers])
        outcome = await ask(prompt, prompt.question({"text": "Rhine and Elbe."}), provider)

        assert [one["name"] for one in outcome.value] == ["Rhine", "Elbe"]
        assert [one.issues[0].reason for one in outcome.rejected] == [Reason.UNGROUNDED]
        assert outcome.grounding is not None
        spans = [found["/name"].spans for found in outcome.grounding if found["/name"]]
        assert [one for (one,) in spans] == [(0, 5), (10, 14)]


GONE = ProviderUnavailable("gone")
REFUSED = ScriptedAnswer("", finish_reason="content_filter")


class TestAPassThatFails:
    @pytest.mark.parametrize("error", [ProviderInvalidRequest("too long"), ProviderUnavailable("gone")])
    async def test_error_in_a_pass_loses_no_object(self, asked: Asked, error: ProviderError) -> None:
        tries = 3 if error.transient else 1
        outcome = await passed(asked, lines([1, 2]), *[ScriptedAnswer("", error=error)] * tries, passes=3)

        assert outcome.value == numbers([1, 2])
        assert (outcome.reason, outcome.truncated, outcome.issues) == (Reason.SUCCESS, False, ())
        assert outcome.cause is None
        assert why(outcome) == ["first", "pass", *["transient"] * (tries - 1)]
        assert [one.reason for one in outcome.passes] == [Reason.PROVIDER_ERROR]

    async def test_refusal_in_a_pass_loses_no_object(self, asked: Asked) -> None:
        outcome = await passed(asked, lines([1]), REFUSED, passes=3)
        assert (outcome.value, outcome.reason, outcome.cause) == (numbers([1]), Reason.SUCCESS, None)
        assert [one.reason for one in outcome.passes] == [Reason.REFUSED]

    async def test_objects_given_before_a_pass_broke_off_are_kept(self, asked: Asked) -> None:
        broken = ScriptedAnswer(lines([2]) + "\n", error=ProviderInvalidRequest("gone"))
        outcome = await passed(asked, lines([1]), broken, passes=3)

        assert outcome.value == numbers([1, 2])
        assert (outcome.reason, outcome.truncated, outcome.issues) == (Reason.SUCCESS, False, ())
        assert outcome.passes[0].truncated

    @pytest.mark.parametrize("budget", [Budget(tokens=150), Budget(money=0.0001)])
    async def test_budget_that_ends_between_passes_leaves_the_objects_so_far(
        self, asked: Asked, budget: Budget
    ) -> None:
        first = ScriptedAnswer(lines([1]), usage=Usage(60, 90, 150))
        outcome = await passed(asked, first, passes=3, budget=budget, price=Price(1, 1))

        assert (outcome.value, why(outcome)) == (numbers([1]), ["first"])
        assert (outcome.reason, outcome.issues) == (Reason.SUCCESS, ())
        assert [one.issues[0].reason for one in outcome.passes] == [Reason.BUDGET_SPENT]

    async def test_budget_is_shared_by_all_passes(self, asked: Asked) -> None:
        answers = [ScriptedAnswer(lines([n]), usage=Usage(50, 50, 100)) for n in range(3)]
        outcome = await passed(asked, *answers[:2], passes=5, budget=Budget(tokens=250))
        assert (outcome.value, outcome.usage.tokens) == (numbers([0, 1]), 200)


class TestTheKey:
    @pytest.mark.parametrize("format", ["json", "text"])
    def test_passes_are_refused_for_json_and_text(self, format: str) -> None:
        entry = {"dialect": "jinja", "prompt": "x", "response-type": format, "passes": 2}
        with pytest.raises(PromptError, match=f"`passes` does not apply to an answer of type {format}"):
            PromptDefinition.from_entry("p", entry)

    @pytest.mark.parametrize("passes", [0, 6, 1.5, "2", True])
    def test_number_of_passes_is_a_whole_number_from_1_to_5(self, passes: object) -> None:
        with pytest.raises(PromptError) as raised:
            definition(passes=passes)
        assert raised.value.path == "/passes"

    def test_version_of_a_prompt_changes_with_its_passes(self) -> None:
        assert definition(passes=1).version == definition().version != definition(passes=2).version
        assert definition(passes=2).version != definition(passes=3).version


class TestTheCache:
    async def test_cache_holds_the_objects_of_all_passes(self) -> None:
        cache, model, prompt = MemoryCache(), Model(lambda call: lines([call])), definition(passes=3)
        first, again = [await keep(model, cache, prompt=prompt) for _ in range(2)]

        assert (len(first.value), model.calls, len(first.passes)) == (3, 3, 2)
        assert again.cached
        assert again.value == first.value

    @pytest.mark.parametrize("last", [ScriptedAnswer("", error=GONE), cut('{"n": ')])
    async def test_answer_whose_last_pass_broke_off_is_not_cached(self, last: ScriptedAnswer) -> None:
        cache, prompt = MemoryCache(), definition(passes=2)
        script = Script(ScriptedAnswer(lines([1])), *[last] * (3 if last.error else 1))
        outcome = await keep(script, cache, prompt=prompt, sleep=Clock().sleep)
        assert outcome.value == numbers([1])
        assert not (await keep(Model(lines([1])), cache, prompt=prompt)).cached


async def test_objects_and_cost_are_counted_by_pass(asked: Asked) -> None:
    used = Usage(30, 20, 50)
    answers = [ScriptedAnswer(lines(n), usage=used) for n in ([1, 2], [3, 4], [5])]
    outcome = await passed(asked, *answers, passes=3, price=Price(1, 1))
    metrics = Metrics()
    metrics.asked("f", "p", "v", outcome, 1.0)

    counted = {
        (sample.name.removeprefix("trustgraph_prompt_"), sample.labels.get("pass")): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }
    assert (counted["pass_objects_total", "2"], counted["pass_objects_total", "3"]) == (2, 1)
    assert (counted["pass_tokens_total", "2"], counted["pass_tokens_total", "3"]) == (50, 50)
    assert counted["pass_cost_total", "2"] == pytest.approx(0.00005)
    assert counted["objects_total", None] == 5
