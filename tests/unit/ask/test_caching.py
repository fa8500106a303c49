"""Asking with a cache: what is kept, who may have it, and what is asked once."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import Clock, lines, numbers
from tests.support.caching import Model, definition, keep
from trustgraph_prompt.ask import Cache, MemoryCache, Piece
from trustgraph_prompt.ask.caching import is_worth_keeping
from trustgraph_prompt.cost import Budget, Usage
from trustgraph_prompt.errors import Issue, PromptError, ProviderInvalidRequest, Reason
from trustgraph_prompt.llm import Identity, ScriptedAnswer
from trustgraph_prompt.llm.limiter import Limiter
from trustgraph_prompt.llm.rate_limits import Limits
from trustgraph_prompt.llm.records import RuntimeConfig
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome, Rejected, Stage, read

JUST_ONE = lines([1])
NO_NUMBER = Issue(Reason.SCHEMA_MISSING_FIELD, 'no "n"')

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


async def settled() -> None:
    """Every task has come as far as it can."""
    for _ in range(50):
        await asyncio.sleep(0)


class Shelf(Cache):
    """A cache that a test may look into, and put things into."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, bytes] = {}
        self.seconds: list[float] = []

    async def get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    async def set(self, key: str, value: bytes, seconds: float) -> None:
        self.kept[key] = value
        self.seconds.append(seconds)


class Broken(Cache):
    """One that was written without care."""

    async def get(self, key: str) -> bytes | None:
        raise RuntimeError("no such table")

    async def set(self, key: str, value: bytes, seconds: float) -> None:
        raise RuntimeError("no such table")


class Slow(Shelf):
    """One that takes as long as a test wants, and counts how often it is looked into."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_up = 0
        self.go = asyncio.Event()
        self.go.set()

    async def get(self, key: str) -> bytes | None:
        self.looked_up += 1
        await self.go.wait()
        return await super().get(key)

    async def set(self, key: str, value: bytes, seconds: float) -> None:
        await self.go.wait()
        await super().set(key, value, seconds)


class TestAHit:
    async def test_cached_answer_costs_nothing_and_says_that_it_is_cached(self) -> None:
        cache, model = MemoryCache(), Model(lambda _: ScriptedAnswer(lines([1, 2]), model="large"))

        first, again = await keep(model, cache), await keep(model, cache)

        assert (first.cached, again.cached) == (False, True)
        assert (again.value, again.reason, again.stage) == (first.value, first.reason, first.stage)
        assert (again.calls, again.usage, again.truncated) == ((), Usage(), False)
        assert (again.model, first.calls[0].model) == ("large", "large")
        assert model.calls == 1
        assert "from the cache" in repr(again)

    @pytest.mark.parametrize(
        ("format", "answer"), [("text", "as it is\r\n"), ("json", '{"n": 1}'), ("jsonl", lines([1, 2, 3]))]
    )
    async def test_cached_answer_is_heard_in_the_same_pieces(self, format: str, answer: str) -> None:
        cache, model, prompt = MemoryCache(), Model(answer), definition(format)
        came: list[Piece] = []
        again: list[Piece] = []

        first = await keep(model, cache, prompt=prompt, pieces=came)
        second = await keep(model, cache, prompt=prompt, pieces=again)

        assert second.cached
        assert second.value == first.value
        assert "".join(piece.text for piece in again) == "".join(piece.text for piece in came)
        heard = [[value for piece in pieces for value in piece.objects] for pieces in (came, again)]
        assert heard[0] == heard[1]

    async def test_long_text_is_heard_in_pieces_that_fit_into_messages(self) -> None:
        cache, prompt, again = MemoryCache(), definition("text"), list[Piece]()
        model = Model(lambda _: ScriptedAnswer("x" * 900_000, chunk=300_000))

        await keep(model, cache, prompt=prompt)
        await keep(model, cache, prompt=prompt, pieces=again)

        assert max(len(piece.text) for piece in again) <= 100_000
        assert sum(len(piece.text) for piece in again) == 900_000

    async def test_changing_a_cached_value_leaves_the_cache_alone(self) -> None:
        cache, model = MemoryCache(), Model(lines([1, 2]))

        for _ in range(3):
            outcome = await keep(model, cache)
            assert outcome.value == numbers([1, 2])
            outcome.value[0]["n"] = "spoilt"
            outcome.value.clear()

    async def test_cached_numbers_keep_their_digits_and_strings_their_lone_surrogates(self) -> None:
        prompt = definition("json", schema=True)
        answer = '{"big": 123456789012345678901234567890, "half": "\\ud800", "small": 1e-7}'
        cache, model = MemoryCache(), Model(answer)

        first, again = await keep(model, cache, prompt=prompt), await keep(model, cache, prompt=prompt)

        assert again.cached
        assert again.value == first.value == json.loads(answer)

    @given(JSON)
    def test_any_value_is_cached_unchanged(self, value: object) -> None:
        prompt = definition("json", schema=True)

        async def play() -> None:
            cache, model = MemoryCache(), Model(json.dumps(value))
            first, again = [await keep(model, cache, prompt=prompt) for _ in range(2)]
            assert repr(again.value) == repr(first.value)  # 1, 1.0 and True are equal, and not the same

        asyncio.run(play())

    async def test_expired_entry_is_asked_for_anew(self) -> None:
        clock = Clock()
        cache, model, prompt = MemoryCache(clock=clock), Model(JUST_ONE), definition(cache={"seconds": 10})

        for now, calls in ((0, 1), (9, 1), (10.1, 2), (19, 2), (21, 3)):
            clock.now = now
            await keep(model, cache, prompt=prompt, clock=clock)
            await settled()
            assert model.calls == calls

    async def test_entry_too_old_for_one_prompt_serves_a_more_patient_one(self) -> None:
        cache, model, clock = MemoryCache(), Model(JUST_ONE), Clock()
        await keep(model, cache, prompt=definition(cache={"seconds": 86_400}), clock=clock)

        clock.now += 80_000
        patient = await keep(model, cache, prompt=definition(cache={"seconds": 86_400}), clock=clock)
        strict = await keep(model, cache, prompt=definition(cache={"seconds": 1}), clock=clock)

        assert (patient.cached, strict.cached) == (True, False)
        assert model.calls == 2

    async def test_waiter_is_not_given_an_entry_too_old_for_it(self) -> None:
        cache, model, clock = Slow(), Model(JUST_ONE), Clock()
        await keep(model, cache, clock=clock)
        await cache.close()
        clock.now += 1000
        cache.go.clear()

        patient = asyncio.create_task(keep(model, cache, clock=clock))
        await settled()
        strict = asyncio.create_task(keep(model, cache, prompt=definition(cache={"seconds": 1}), clock=clock))
        await settled()
        cache.go.set()

        assert ((await patient).cached, (await strict).cached) == (True, False)

    async def test_expired_request_is_refused_though_its_answer_is_cached(self) -> None:
        cache, model, clock = MemoryCache(), Model(JUST_ONE), Clock()
        await keep(model, cache)

        late = await keep(model, cache, budget=Budget(seconds=5), published=clock.now - 6, clock=clock)

        assert (late.reason, late.cached) == (Reason.BUDGET_SPENT, False)
        assert model.calls == 1


class TestWhoMayHaveIt:
    @pytest.mark.parametrize(("cache", "calls"), [(False, 2), (True, 1), ({"seconds": 2.5}, 1)])
    async def test_answers_are_cached_only_where_the_prompt_says_so(self, cache: object, calls: int) -> None:
        kept, model = MemoryCache(), Model(JUST_ONE)

        for _ in range(2):
            await keep(model, kept, prompt=definition(cache=cache))

        assert model.calls == calls

    async def test_prompt_with_cache_asks_each_time_where_there_is_no_cache(self) -> None:
        model = Model(JUST_ONE)

        for _ in range(2):
            await keep(model, None)

        assert model.calls == 2

    @pytest.mark.parametrize(
        "other",
        [
            definition(attempts=2),
            definition(schema={**definition().contract.schema, "title": "another"}),  # type: ignore[dict-item]
            replace(definition(), config=RuntimeConfig(temperature=0.5)),
            replace(definition(), config=RuntimeConfig(extras={"reasoning_effort": "low"})),
        ],
        ids=["attempts", "schema", "setting", "extra setting"],
    )
    async def test_another_prompt_has_entries_of_its_own(self, other: PromptDefinition) -> None:
        cache, model = MemoryCache(), Model(JUST_ONE)

        await keep(model, cache)
        await keep(model, cache, prompt=other)

        assert model.calls == 2

    async def test_another_text_model_or_place_has_entries_of_its_own(self) -> None:
        cache, model, larger, elsewhere = MemoryCache(), *(Model(JUST_ONE) for _ in range(3))
        larger.identity = replace(model.identity, model="large")
        elsewhere.identity = replace(model.identity, place="https://elsewhere.test/v1")

        await keep(model, cache)
        await keep(model, cache, text="Which numbers, then?")
        await keep(model, cache, system="Be quick.")
        await keep(larger, cache)
        await keep(elsewhere, cache)

        assert (model.calls, larger.calls, elsewhere.calls) == (3, 1, 1)

    async def test_other_seconds_to_keep_share_the_entry(self) -> None:
        cache, model = MemoryCache(), Model(JUST_ONE)

        await keep(model, cache)
        await keep(model, cache, prompt=definition(cache={"seconds": 5}))

        assert model.calls == 1

    async def test_other_provider_address_has_entries_of_its_own(self) -> None:
        cache, here, there = MemoryCache(), Model(JUST_ONE), Model(JUST_ONE)
        here.identity = Identity("topic", "small", "pulsar://one:6650 persistent://tg/request/q")
        there.identity = Identity("topic", "small", "pulsar://other:6650 persistent://tg/request/q")

        for model in (here, there, here, there):
            await keep(model, cache)

        assert (here.calls, there.calls) == (1, 1)

    async def test_topic_provider_without_a_model_name_is_not_cached(self) -> None:
        cache, named, nameless = MemoryCache(), Model(JUST_ONE), Model(JUST_ONE)
        nameless.identity, named.identity = Identity("topic", "", "q"), Identity("topic", "small", "q")

        for _ in range(2):
            await keep(named, cache)
            await keep(nameless, cache)

        assert (named.calls, nameless.calls) == (1, 2)

    async def test_wrapper_around_a_provider_shares_its_entries(self) -> None:
        cache, model = MemoryCache(), Model(JUST_ONE)

        await keep(model, cache)
        await keep(Limiter(model, Limits(in_flight=1)), cache)

        assert model.calls == 1


class TestTheKeyOfAPrompt:
    @pytest.mark.parametrize(
        ("said", "seconds"),
        [(True, 3600), (False, None), ({"seconds": 1}, 1), ({"seconds": 86400.5}, 86400.5)],
    )
    def test_cache_key_sets_seconds_and_leaves_the_version(self, said: object, seconds: float | None) -> None:
        prompt = definition(cache=said)

        assert prompt.cache == seconds
        assert prompt.version == definition(cache=False).version

    @pytest.mark.parametrize("said", [3600, "yes", None, {}, {"seconds": 0}, {"seconds": -5}, {"minutes": 5}])
    def test_cache_key_without_a_positive_time_is_refused(self, said: object) -> None:
        with pytest.raises(PromptError, match="/cache"):
            definition(cache=said)


class TestWhatIsKept:
    @pytest.mark.parametrize(
        ("format", "answer"),
        [
            ("jsonl", ScriptedAnswer(lines([1, 2]), cut_after=12)),
            ("jsonl", ScriptedAnswer(lines([1, 2]), finish_reason=None)),
            ("jsonl", ScriptedAnswer(lines([1]) + '\n{"n": "two"}')),
            ("jsonl", ScriptedAnswer("[]")),
            ("jsonl", ScriptedAnswer("")),
            ("jsonl", ScriptedAnswer("I cannot say.")),
            ("json", ScriptedAnswer("1")),
            ("json", ScriptedAnswer('{"n": 1')),
            ("json", ScriptedAnswer("null")),
            ("json", ScriptedAnswer("{}")),
            ("text", ScriptedAnswer("half of it", finish_reason="length")),
            ("text", ScriptedAnswer("  \n")),
            ("text", ScriptedAnswer("I would rather not", finish_reason="content_filter")),
            ("text", ScriptedAnswer("", error=ProviderInvalidRequest("no"))),
            ("text", ScriptedAnswer("half of", error=ProviderInvalidRequest("no"))),
        ],
    )
    async def test_cut_empty_refused_or_invalid_answer_is_not_cached(
        self, format: str, answer: ScriptedAnswer
    ) -> None:
        cache, prompt = Shelf(), definition(format)

        await keep(Model(lambda _: answer), cache, prompt=prompt)
        await cache.close()

        assert cache.kept == {}

    @pytest.mark.parametrize(
        "flaw",
        [
            {"truncated": True},
            {"truncated": None},
            {"value": []},
            {"stage": Stage.SALVAGED},
            {"rejected": (Rejected(1, "{}", (NO_NUMBER,), 0),)},
            {"retracted": ({"n": 9},)},
            {"issues": (NO_NUMBER,)},
            {"cause": ProviderInvalidRequest("no")},
        ],
        ids=lambda flaw: next(iter(flaw)),
    )
    def test_outcome_with_any_flaw_is_not_worth_keeping(self, flaw: dict[str, Any]) -> None:
        sound = read(lines([1]), definition().contract, finish_reason="stop")

        assert is_worth_keeping(sound)
        assert not is_worth_keeping(replace(sound, **flaw))

    async def test_salvaged_answer_is_not_cached(self) -> None:
        cache, prompt = Shelf(), definition("json", repair=True)

        outcome = await keep(Model('{"n": 1, "m": [1, 2'), cache, prompt=prompt)
        await cache.close()

        assert outcome.stage is Stage.SALVAGED
        assert cache.kept == {}

    async def test_answer_that_became_valid_after_attempts_is_cached(self) -> None:
        cache, prompt = Shelf(), definition(cache={"seconds": 7}, attempts=2)

        outcome = await keep(Model(lambda call: "Well." if call == 1 else JUST_ONE), cache, prompt=prompt)
        await cache.close()

        assert len(outcome.calls) == 2
        assert (len(cache.kept), cache.seconds) == (1, [7])

    @pytest.mark.parametrize(
        "found",
        [
            b"",
            b"{",
            b"\xff\xfe",
            b"null",
            b"[" * 100_000,
            b'{"value": [{"n": 1}], "stage": 1}',
            b'{"value": [{"n": 1}], "stage": 1, "model": null}',
            b'{"value": [{"n": 1}], "stage": 1, "model": null, "made": "today"}',
            b'{"value": [{"n": 1}], "stage": 1, "model": null, "made": -3000}',
            b'{"value": [{"n": 1}], "stage": 1, "model": null, "made": 1e300}',
            b'{"value": [{"n": 1}], "stage": 1, "model": null, "made": 1' + b"0" * 400 + b"}",
            b'{"value": [{"n": 1}], "stage": 9, "model": null, "made": 1000}',
            b'{"value": [{"n": 1}], "stage": "1", "model": null, "made": 1000}',
            b'{"value": [{"n": "one"}], "stage": 1, "model": null, "made": 1000}',
            b'{"value": [], "stage": 1, "model": null, "made": 1000}',
            b'{"value": {"n": 1}, "stage": 1, "model": null, "made": 1000}',
            b'{"value": [' + b"[" * 900 + b"]" * 900 + b'], "stage": 1, "model": null, "made": 1000}',
        ],
    )
    async def test_entry_that_is_broken_or_no_longer_accepted_is_replaced(self, found: bytes) -> None:
        cache, model, clock = Shelf(), Model(JUST_ONE), Clock()
        await keep(model, cache, clock=clock)
        await cache.close()
        [key] = cache.kept
        good = cache.kept[key]
        cache.kept[key] = found

        outcome = await keep(model, cache, clock=clock)
        await cache.close()

        assert (outcome.value, outcome.cached) == (numbers([1]), False)
        assert cache.kept == {key: good}


class TestACacheInTrouble:
    async def test_cache_that_raises_costs_no_answer(self, caplog: pytest.LogCaptureFixture) -> None:
        cache, model = Broken(), Model(JUST_ONE)

        with caplog.at_level(logging.WARNING):
            outcome = await keep(model, cache)
            await cache.close()
            again = await keep(model, cache)
            await cache.close()

        assert (outcome.ok, again.ok, again.cached) == (True, True, False)
        assert model.calls == 2
        assert caplog.text.count("goes to the model") == caplog.text.count("not stored") == 2

    async def test_answer_is_shared_while_the_cache_still_stores_it(self) -> None:
        cache, model = Slow(), Model(JUST_ONE)
        model.go.clear()
        asking = asyncio.create_task(keep(model, cache))
        await settled()
        cache.go.clear()
        model.go.set()

        first, again = await asking, await keep(model, cache)

        assert (first.cached, again.cached, cache.kept) == (False, True, {})
        closing = asyncio.create_task(cache.close())
        await settled()
        assert not closing.done()
        cache.go.set()
        await closing
        assert (len(cache.kept), cache.in_flight) == (1, {})


class TestInFlight:
    async def test_equal_requests_in_flight_are_asked_once_and_all_hear_the_answer(self) -> None:
        cache, model = MemoryCache(), Model(lines([1, 2]))
        model.go.clear()
        heard: list[list[Piece]] = [[] for _ in range(20)]

        asking = [asyncio.create_task(keep(model, cache, pieces=pieces)) for pieces in heard]
        await settled()
        model.go.set()
        outcomes = await asyncio.gather(*asking)

        assert model.calls == 1
        assert [outcome.cached for outcome in outcomes] == [False] + [True] * 19
        assert len({id(outcome.value) for outcome in outcomes}) == 20
        for pieces in heard:
            assert [value for piece in pieces for value in piece.objects] == numbers([1, 2])
        assert cache.in_flight == {}

    async def test_waiters_share_one_lookup_of_the_cache(self) -> None:
        cache, model = Slow(), Model(JUST_ONE)
        await keep(model, cache)
        await cache.close()
        cache.go.clear()

        asking = [asyncio.create_task(keep(model, cache)) for _ in range(20)]
        await settled()
        cache.go.set()
        outcomes = await asyncio.gather(*asking)

        assert all(outcome.cached for outcome in outcomes)
        assert cache.looked_up == 2

    async def test_cache_that_keeps_nothing_still_shares_requests_in_flight(self) -> None:
        cache, model = MemoryCache(max_bytes=1), Model(JUST_ONE)
        model.go.clear()

        asking = [asyncio.create_task(keep(model, cache)) for _ in range(3)]
        await settled()
        model.go.set()
        await asyncio.gather(*asking)

        assert model.calls == 1

    async def test_next_waiter_asks_when_the_first_has_nothing_to_keep(self) -> None:
        cache, model = MemoryCache(), Model(lambda call: "Well." if call == 1 else JUST_ONE)
        model.go.clear()

        asking = [asyncio.create_task(keep(model, cache)) for _ in range(4)]
        await settled()
        model.go.set()
        outcomes = await asyncio.gather(*asking)

        assert model.calls == 2
        assert [outcome.ok for outcome in outcomes] == [False, True, True, True]

    async def test_answers_that_are_never_kept_are_not_asked_for_one_by_one(self) -> None:
        cache, model = MemoryCache(), Model("Well.")
        model.go.clear()
        asking = [asyncio.create_task(keep(model, cache)) for _ in range(20)]

        for calls in (1, 2, 20):
            await settled()
            assert model.calls == calls
            model.let_go()
        outcomes = await asyncio.gather(*asking)

        assert not any(outcome.cached for outcome in outcomes)

    async def test_cancelling_the_first_leaves_its_waiters_an_answer(self) -> None:
        cache, model = MemoryCache(), Model(JUST_ONE)
        model.go.clear()
        first, second, third = (asyncio.create_task(keep(model, cache)) for _ in range(3))
        await settled()

        first.cancel()
        second.cancel()
        await settled()
        model.go.set()

        assert (await third).value == numbers([1])
        assert (first.cancelled(), second.cancelled()) == (True, True)
        assert model.calls == 2

    async def test_cancelling_a_waiter_leaves_the_first_alone(self) -> None:
        cache, model = MemoryCache(), Model(JUST_ONE)
        model.go.clear()
        first, waiter = (asyncio.create_task(keep(model, cache)) for _ in range(2))
        await settled()

        waiter.cancel()
        await settled()
        model.go.set()

        assert (await first).ok
        assert model.calls == 1

    async def test_waiter_ends_with_the_seconds_of_its_own_budget(self) -> None:
        cache, model, clock = MemoryCache(), Model(JUST_ONE), Clock()
        model.go.clear()
        first = asyncio.create_task(keep(model, cache))
        await settled()

        late = await keep(
            model, cache, budget=Budget(seconds=5), published=clock.now - 4.99, clock=clock, sleep=clock.sleep
        )
        model.go.set()

        assert (late.reason, late.value, late.calls) == (Reason.BUDGET_SPENT, [], ())
        assert (await first).ok
        assert model.calls == 1

    async def test_listener_that_fails_affects_no_other_request(self) -> None:
        cache, model = MemoryCache(), Model(JUST_ONE)
        model.go.clear()

        class Deaf(list[Piece]):
            def append(self, piece: Piece) -> None:
                raise ConnectionError

        first = asyncio.create_task(keep(model, cache, pieces=Deaf()))
        await settled()
        second = asyncio.create_task(keep(model, cache))
        await settled()
        model.go.set()

        with pytest.raises(ConnectionError):
            await first
        assert (await second).ok

    @given(
        st.lists(st.booleans(), min_size=1, max_size=8),
        st.sets(st.integers(0, 7)),
        st.lists(st.integers(0, 7), max_size=8),
    )
    def test_every_waiter_is_answered_whichever_request_fails_or_is_cancelled(
        self, good: list[bool], given_up: set[int], order: list[int]
    ) -> None:
        def answer(call: int) -> str:
            return JUST_ONE if good[(call - 1) % len(good)] else "Well."

        async def play() -> None:
            cache, model = MemoryCache(), Model(answer)
            model.go.clear()
            asking = [asyncio.create_task(keep(model, cache)) for _ in range(8)]
            await settled()
            for one in order:
                if one in given_up:
                    asking[one].cancel()
                model.go.set()
                await asyncio.sleep(0)
                model.go.clear()
            model.go.set()
            outcomes = await asyncio.gather(*asking, return_exceptions=True)

            for outcome in outcomes:
                if isinstance(outcome, asyncio.CancelledError):
                    continue
                assert isinstance(outcome, Outcome)
                assert outcome.value == (numbers([1]) if outcome.ok else [])
                assert outcome.ok or not outcome.cached
            assert cache.in_flight == {}

        asyncio.run(play())


class TestMemory:
    @given(
        st.integers(0, 8000),
        st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3000), st.integers(1, 20)), max_size=30),
    )
    def test_memory_cache_stays_within_its_bytes_and_gives_nothing_expired(
        self, room: int, sets: list[tuple[str, int, int]]
    ) -> None:
        clock = Clock()
        cache, told = MemoryCache(room, clock=clock), dict[str, tuple[bytes, float]]()

        async def play() -> None:
            for key, size, seconds in sets:
                await cache.set(key, bytes(size), seconds)
                told[key] = bytes(size), clock.now + seconds
                clock.now += 1
                found = {key: await cache.get(key) for key in "abcdef"}
                there = {key: value for key, value in found.items() if value is not None}
                assert sum(map(len, there.values())) <= room
                for key, value in there.items():
                    assert clock.now < told[key][1]
                    assert value == told[key][0]

        asyncio.run(play())

    async def test_memory_cache_drops_the_least_recently_used_entry_first(self) -> None:
        cache = MemoryCache(3 * 11_024)
        for key in "abc":
            await cache.set(key, bytes(10_000), 60)

        await cache.get("a")
        await cache.set("d", bytes(10_000), 60)

        assert [await cache.get(key) is not None for key in "abcd"] == [True, False, True, True]

    async def test_memory_cache_ignores_an_entry_larger_than_itself(self) -> None:
        cache = MemoryCache(20_000)
        await cache.set("a", b"small", 60)

        await cache.set("b", bytes(20_001), 60)

        assert (await cache.get("a"), await cache.get("b")) == (b"small", None)
