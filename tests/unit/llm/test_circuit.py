"""Models that are away, in virtual time: when a circuit opens, who probes, and what becomes of requests."""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from tests.support.deltas import CALL
from tests.support.virtual_time import now, run
from trustgraph_prompt.ask import ask
from trustgraph_prompt.errors import (
    BrokerUnavailable,
    CallTimeout,
    ProviderAuthentication,
    ProviderError,
    ProviderInvalidModel,
    ProviderInvalidRequest,
    ProviderRateLimit,
    ProviderUnavailable,
)
from trustgraph_prompt.llm import Call, Completer, Delta, Identity, Limiter, Limits, Provider, topic_messages
from trustgraph_prompt.llm.circuit import Circuit, ProviderAway
from trustgraph_prompt.llm.circuit_breaker import CircuitBreaker
from trustgraph_prompt.prompts import PromptDefinition, Question
from trustgraph_prompt.worker.decide import AwaitProvider, Retry, SendOut, Situation, decide

PROMPT = PromptDefinition.from_entry("say", {"prompt": "unused"})
MINUTES = 60.0

Fails = Callable[[str], ProviderError | None]


class Server(Completer):
    """Answers in a second, unless it `fails` at the request; knows who asked, and when."""

    prefill = False

    def __init__(self, fails: Fails, *, system: str = "test", seconds: float = 1.0) -> None:
        self.identity = Identity(system, "small", "here")
        self.fails = fails
        self.calls: list[tuple[float, str]] = []
        self.asked_for_models = 0
        self._seconds = seconds

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        request = call.request
        self.calls.append((now(), request))
        if (error := self.fails(request)) is not None:
            await asyncio.sleep(0.01)
            raise error
        await asyncio.sleep(self._seconds)
        yield Delta("Here it is.", finish_reason="stop")

    async def ready(self, model: str | None = None) -> None:
        self.asked_for_models += 1
        if (error := self.fails("")) is not None:
            raise error

    async def close(self) -> None: ...


def refused() -> ProviderError:
    error = ProviderUnavailable("Cannot connect", loggable="http://here: Connection refused")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    return error


def broken() -> ProviderError:
    return ProviderUnavailable("HTTP 500: out of memory", loggable="HTTP 500")


def until(end: float, error: Callable[[], ProviderError], begin: float = 3.0) -> Fails:
    """An outage for all."""
    return lambda request: error() if begin <= now() < end else None


def breaker(server: Server, ready: Callable[[str | None], Awaitable[None]] | None = None) -> CircuitBreaker:
    circuit = Circuit("here", "small", clock=now, uniform=random.Random(1).uniform)
    return CircuitBreaker(server, lambda model: circuit, ready=ready or server.ready)


def circuit_of(model: CircuitBreaker) -> Circuit:
    circuit = model.circuit_of(None)
    assert circuit is not None
    return circuit


@dataclass
class Queue:
    """A persistent topic with chunks, and a flow that works on some at a time as the worker does."""

    model: CircuitBreaker
    ids: Iterable[str]
    deliveries: Counter[str] = field(default_factory=Counter)
    answered: dict[str, float] = field(default_factory=dict)
    dead: dict[str, float] = field(default_factory=dict)

    async def work(self, concurrency: int = 8) -> None:
        self._messages = deque(self.ids)
        self._left = len(self._messages)
        async with asyncio.TaskGroup() as self._tasks:
            for _ in range(concurrency):
                self._tasks.create_task(self._serve())
        circuit_of(self.model).close()

    async def _serve(self) -> None:
        while self._left:
            await circuit_of(self.model).room.wait()
            if self._messages:
                await self._deliver(self._messages.popleft())
            else:
                await asyncio.sleep(0.5)

    async def _deliver(self, id: str) -> None:
        self.deliveries[id] += 1
        while True:
            outcome = await ask(PROMPT, Question("", id), self.model, clock=now, request=id)
            known = Situation(
                result=outcome, deliveries=self.deliveries[id], deliveries_allowed=5, persistent=True
            )
            match decide(known):
                case AwaitProvider(circuit, seconds):
                    await circuit.turn(id, seconds)
                case Retry(seconds, counted=counted):
                    self.deliveries[id] -= not counted
                    self._tasks.create_task(self._put_back(id, seconds))
                    return
                case SendOut():
                    self._left -= 1
                    if outcome.ok:
                        self.answered[id] = now()
                    else:
                        self.dead[id] = now()
                    return

    async def _put_back(self, id: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._messages.append(id)


def ids(count: int) -> list[str]:
    return [str(n) for n in range(count)]


@pytest.mark.parametrize("error", [refused, lambda: ProviderAuthentication("no"), broken])
def test_outage_of_20_minutes_makes_no_dead_letter(error: Callable[[], ProviderError]) -> None:
    server = Server(until(20 * MINUTES, error))
    queue = Queue(breaker(server), ids(100))

    run(queue.work())

    assert len(queue.answered) == 100
    assert not queue.dead
    first_failures = 24 if error is broken else 0  # 8 requests in work, each tried three times
    assert sum(queue.deliveries.values()) - 100 <= first_failures
    assert max(queue.deliveries.values()) <= 2
    assert max(queue.answered.values()) < 20 * MINUTES + 60 + 20
    in_outage = [when for when, _ in server.calls if 10 < when < 20 * MINUTES]
    assert len(in_outage) < 100
    assert all(1 <= later - earlier <= 61 for earlier, later in pairwise(in_outage))


def test_each_probe_is_another_request() -> None:
    server = Server(until(20 * MINUTES, refused))

    run(Queue(breaker(server), ids(20)).work())

    probes = [request for when, request in server.calls if 10 < when < 20 * MINUTES]
    assert all(len(set(probes[n : n + 8])) == 8 for n in range(len(probes) - 8))


def test_unknown_model_and_the_requests_that_wait_for_it_are_named() -> None:
    async def main() -> None:
        unknown = ProviderInvalidModel("no model", loggable="HTTP 404")
        server = Server(lambda request: unknown if now() < 50 else None)
        model = breaker(server)
        circuit = circuit_of(model)
        working = asyncio.create_task(Queue(model, ids(3)).work())
        await asyncio.sleep(1)
        assert circuit.is_open
        assert (circuit.why, circuit.since) == ("provider_invalid_model: HTTP 404", 0.01)
        await working
        assert (circuit.why, circuit.since, circuit.openings) == ("", 0.0, 1)

    run(main())


def test_one_poisoned_request_opens_no_circuit_and_is_the_only_dead_letter() -> None:
    server = Server(lambda request: broken() if request == "7" else None)
    queue = Queue(breaker(server), ids(200))

    run(queue.work())

    assert set(queue.dead) == {"7"}
    assert circuit_of(queue.model).openings == 0
    assert queue.deliveries == Counter({id: 5 if id == "7" else 1 for id in ids(200)})


@pytest.mark.parametrize("error", [broken, lambda: ProviderAuthentication("HTTP 403: not this")])
def test_poisoned_requests_in_all_slots_do_not_hold_up_the_others(error: Callable[[], ProviderError]) -> None:
    poisoned = set(ids(8))
    server = Server(lambda request: error() if request in poisoned else None)
    queue = Queue(breaker(server), ids(50))

    run(queue.work(concurrency=4))

    assert set(queue.dead) == poisoned
    assert len(queue.answered) == 42


async def has_the_model(model: str | None) -> None: ...


@pytest.mark.parametrize("order", ["3210456789", "9876543210", "4051627389"])
@pytest.mark.parametrize("concurrency", [4, 8, 10])
def test_four_poisoned_requests_delay_the_others_by_seconds_only(order: str, concurrency: int) -> None:
    server = Server(lambda request: broken() if request in "0123" else None)
    queue = Queue(breaker(server, has_the_model), order)

    run(queue.work(concurrency))

    assert set(queue.dead) == set("0123")
    assert max(queue.dead.values()) < 3 * MINUTES
    assert set(queue.answered) == set("456789")
    assert max(queue.answered.values()) <= 2 + 10


@pytest.mark.parametrize("begin", [0.5, 3.3, 30.3])
@pytest.mark.parametrize("waiting", [3, 100])
def test_outage_of_63_seconds_makes_no_dead_letter(begin: float, waiting: int) -> None:
    queue = Queue(breaker(Server(until(begin + 63, broken, begin)), has_the_model), ids(waiting))

    run(queue.work())

    assert len(queue.answered) == waiting
    assert max(queue.deliveries.values()) <= 2


def opened_by_five_failures() -> Circuit:
    circuit = Circuit(clock=now, uniform=lambda a, b: b)
    for id in "abcde":
        circuit.failed(id, broken(), has_recovered)
    assert circuit.is_open
    return circuit


async def has_recovered() -> bool:
    return True


def test_answer_that_begins_after_the_failures_closes_the_circuit() -> None:
    async def main() -> None:
        circuit = opened_by_five_failures()
        circuit.succeeded("f", began=0.0, probe=False)
        assert not circuit.is_open

    run(main())


def test_answer_to_a_call_from_before_the_last_answer_leaves_the_circuit_open() -> None:
    async def main() -> None:
        circuit = Circuit(clock=now)
        await asyncio.sleep(5)
        circuit.succeeded("before", began=0.0, probe=False)
        for id in "abcde":
            circuit.failed(id, broken(), has_recovered)
        await asyncio.sleep(5)
        circuit.succeeded("in progress", began=4.9, probe=False)
        assert circuit.is_open
        circuit.succeeded("in progress, too", began=9.9, probe=False)  # before the answer that came just now
        assert circuit.is_open
        circuit.succeeded("new", began=10.0, probe=False)
        assert not circuit.is_open

    run(main())


def test_answer_in_progress_closes_no_circuit_of_a_server_that_is_down() -> None:
    async def main() -> None:
        circuit = Circuit(clock=now)
        circuit.open(refused())
        circuit.succeeded("in progress", began=0.0, probe=False)
        assert circuit.is_open
        circuit.close()

    run(main())


def test_next_probe_is_the_least_suspected_of_those_that_wait() -> None:
    async def main() -> None:
        circuit = opened_by_five_failures()
        waiting = {id: asyncio.create_task(circuit.turn(id)) for id in "abxy"}
        await asyncio.sleep(1.5)
        assert [id for id, task in waiting.items() if task.done()] == ["x"]
        circuit.close()

    run(main())


def test_suspect_is_the_probe_if_nobody_else_comes_within_a_second() -> None:
    async def main() -> None:
        circuit = opened_by_five_failures()
        suspect = asyncio.create_task(circuit.turn("a"))
        await circuit.room.wait()
        assert not circuit.admits("b")  # redelivered, and as suspect
        await asyncio.sleep(0.9)
        assert not suspect.done()
        await asyncio.sleep(0.2)
        assert suspect.done()
        circuit.close()

    run(main())


def test_newcomer_is_the_probe_in_the_place_of_a_suspect() -> None:
    async def main() -> None:
        circuit = opened_by_five_failures()
        suspect = asyncio.create_task(circuit.turn("a"))
        await circuit.room.wait()
        assert circuit.admits("new")
        await asyncio.sleep(1.5)
        assert not suspect.done()
        circuit.close()

    run(main())


def test_poisoned_request_within_an_outage_becomes_a_dead_letter_after_it() -> None:
    outage = until(10 * MINUTES, refused)
    server = Server(lambda request: outage(request) or (broken() if request == "0" else None))
    queue = Queue(breaker(server), ids(30))

    run(queue.work())

    assert set(queue.dead) == {"0"}
    assert len(queue.answered) == 29


def test_request_that_crashes_the_server_becomes_the_only_dead_letter() -> None:
    back = 0.0

    def fails(request: str) -> ProviderError | None:
        nonlocal back
        if now() < back:
            return refused()
        if request == "3":
            back = now() + 20
            return broken()
        return None

    queue = Queue(breaker(Server(fails)), ids(1_000))

    run(queue.work())

    assert "3" in queue.dead
    assert len(queue.answered) == 1_000 - len(queue.dead)
    assert len(queue.dead) == 1


def test_rate_limit_never_opens_the_circuit() -> None:
    async def main() -> None:
        server = Server(lambda request: ProviderRateLimit("slow down"))
        model = breaker(server)
        for id in ids(50):
            with pytest.raises(ProviderRateLimit):
                await take(model, id)
        assert not circuit_of(model).is_open

    run(main())


async def take(model: Provider, request: str = "") -> str:
    return "".join([delta.text async for delta in model.stream(replace(CALL, request=request))])


@pytest.mark.parametrize(
    ("error", "is_ready", "opens"),
    [
        (refused(), refused(), True),
        (refused(), None, False),
        (ProviderAuthentication("401"), ProviderAuthentication("401"), True),
        (ProviderAuthentication("403"), None, False),
        (ProviderAuthentication("401"), ProviderInvalidRequest("404"), False),
        (ProviderInvalidModel("404"), ProviderInvalidModel("404"), True),
        (ProviderInvalidModel("404"), refused(), True),
        (broken(), broken(), False),
        (ProviderInvalidRequest("400"), broken(), False),
    ],
)
def test_first_failure_opens_the_circuit_if_the_server_confirms_it(
    error: ProviderError, is_ready: ProviderError | None, opens: bool
) -> None:
    async def ready(model: str | None) -> None:
        if is_ready is not None:
            raise is_ready

    async def main() -> None:
        model = breaker(Server(lambda request: error), ready)
        with pytest.raises(ProviderAway if opens else type(error)) as raised:
            await take(model)
        assert isinstance(raised.value, ProviderAway) is opens
        assert circuit_of(model).is_open is opens
        circuit_of(model).close()

    run(main())


def test_calls_that_fail_at_the_same_time_check_the_server_once() -> None:
    async def main() -> None:
        server = Server(lambda request: refused())
        model = breaker(server)
        raised = await asyncio.gather(*(take(model) for _ in range(200)), return_exceptions=True)
        assert all(isinstance(one, ProviderAway) for one in raised)
        assert server.asked_for_models == 1
        circuit_of(model).close()

    run(main())


def failures(requests: str, *, success_after: int | None = None, system: str = "test") -> bool:
    """Whether 5xx of these requests open a circuit."""

    async def main() -> bool:
        server = Server(lambda request: None if request == "ok" else broken(), system=system)
        model = breaker(server)
        for n, id in enumerate(requests):
            if n == success_after:
                await take(model, "ok")
            with pytest.raises(ProviderUnavailable):
                await take(model, id)
        was_open = circuit_of(model).is_open
        circuit_of(model).close()
        return was_open

    return run(main())


def test_five_failures_of_three_requests_open_the_circuit() -> None:
    assert failures("aabbc")
    assert failures("abcde")
    assert not failures("abcd")
    assert not failures("aabbabab")
    assert not failures("aabbc", success_after=4)
    assert failures("aaaabc")


def test_worker_over_topics_is_away_only_if_it_does_not_answer() -> None:
    assert not failures("abcdefgh", system="topic")

    async def main() -> None:
        late = ProviderUnavailable("no response in 600 s")
        late.__cause__ = CallTimeout("no response in 600 s")
        model = breaker(Server(lambda request: late, system="topic"))
        for id in "abcde":
            with pytest.raises(ProviderUnavailable):
                await take(model, id)
        assert circuit_of(model).is_open
        circuit_of(model).close()

    run(main())


def test_server_that_stays_silent_until_the_work_ends_is_away() -> None:
    async def main() -> None:
        circuit = Circuit(clock=now)
        server = Server(lambda request: None, seconds=1e9)
        model = CircuitBreaker(server, lambda model: circuit, ready=server.ready, seconds=120)

        async def asked(id: str, seconds: float) -> None:
            with pytest.raises((TimeoutError, ProviderUnavailable)):
                await asyncio.wait_for(take(model, id), seconds)

        await asyncio.gather(*(asked(id, 60) for id in "abcdef"))
        assert not circuit_of(model).is_open  # whoever asked was in a hurry
        await asyncio.gather(*(asked(id, 120) for id in "abcdef"))
        assert circuit_of(model).is_open
        circuit_of(model).close()

    run(main())


def test_hanging_probe_does_not_keep_others_from_finding_the_server_back() -> None:
    async def main() -> None:
        server = Server(until(100, refused, begin=0))
        queue = Queue(breaker(server), ids(8))
        working = asyncio.create_task(queue.work())
        await asyncio.sleep(99)
        server._seconds = 1e6  # the next call
        while server.calls[-1][0] < 100:
            await asyncio.sleep(0.1)
        server._seconds = 1.0
        await asyncio.sleep(130)
        assert len(queue.answered) == 7
        working.cancel()
        circuit_of(queue.model).close()

    run(main())


def test_request_without_time_left_stops_waiting_for_the_circuit() -> None:
    async def main() -> None:
        circuit = Circuit(clock=now)
        circuit.open(refused())
        waiting = asyncio.create_task(circuit.turn("a", 0.5))
        assert not await waiting
        assert now() == 0.5
        assert await circuit.turn("b")  # nobody else is there to be the probe
        circuit.close()
        assert await circuit.turn("a")

    run(main())


def test_circuit_admits_one_request_where_nobody_waits_to_be_the_probe() -> None:
    async def main() -> None:
        circuit = Circuit(clock=now, uniform=lambda a, b: b)
        circuit.open(refused())
        assert not circuit.room.is_set()
        await asyncio.sleep(0.9)
        assert not circuit.admits("a")
        await circuit.room.wait()
        assert now() == 1.0
        assert circuit.admits("a")
        assert not circuit.admits("b")
        assert not circuit.room.is_set()
        circuit.close()
        assert circuit.admits("b")

    run(main())


@pytest.mark.parametrize("over_topics", [False, True])
def test_three_requests_survive_an_outage_of_20_minutes(over_topics: bool) -> None:
    def late() -> ProviderError:
        error = ProviderUnavailable("no response")
        error.__cause__ = CallTimeout("no response")
        return error

    outage = until(20 * MINUTES, late if over_topics else broken, begin=0)
    server = Server(outage, system="topic" if over_topics else "test")
    circuit = Circuit("here", "small", clock=now, uniform=random.Random(1).uniform)
    model = CircuitBreaker(server, lambda model: circuit, ready=None if over_topics else has_the_model)
    queue = Queue(model, ids(3))

    run(queue.work())

    assert circuit.openings == 1
    assert len(queue.answered) == 3
    assert max(queue.deliveries.values()) <= 2


async def probed(model: CircuitBreaker, id: str) -> None:
    """A call as a probe, when one is due."""
    await circuit_of(model).room.wait()
    await take(model, id)


@pytest.mark.parametrize(
    ("cause", "system"), [(BrokerUnavailable("gone"), "topic"), (OSError(errno.EMFILE, "full"), "test")]
)
def test_only_an_answer_of_the_server_closes_the_circuit(cause: Exception, system: str) -> None:
    async def main() -> None:
        here = ProviderUnavailable("nobody was asked")
        here.__cause__ = cause
        said = ProviderInvalidRequest("no")
        model = breaker(Server(lambda request: here if request == "a" else said, system=system))
        circuit_of(model).open(refused())
        with pytest.raises(ProviderUnavailable):
            await probed(model, "a")
        assert circuit_of(model).is_open
        with pytest.raises(ProviderInvalidRequest):
            await probed(model, "b")
        assert not circuit_of(model).is_open

    run(main())


def test_server_is_checked_where_no_request_comes_as_a_probe() -> None:
    async def main() -> None:
        server = Server(until(600, refused, begin=0))
        model = breaker(server)
        with pytest.raises(ProviderAway):
            await take(model)
        await asyncio.sleep(599)
        assert circuit_of(model).is_open
        await asyncio.sleep(120)
        assert not circuit_of(model).is_open
        assert len(server.calls) == 1
        assert server.asked_for_models < 15

    run(main())


def test_probe_of_an_earlier_opening_does_not_close_a_later_one() -> None:
    async def main() -> None:
        server = Server(lambda request: None, seconds=500.0)
        model = breaker(server)
        circuit = circuit_of(model)
        circuit.open(refused())
        slow = asyncio.create_task(probed(model, "slow"))
        await asyncio.sleep(100)
        circuit.close()
        circuit.open(refused())
        await slow
        assert circuit.is_open
        circuit.close()

    run(main())


@pytest.mark.parametrize("others", [True, False])
def test_turn_of_a_probe_without_time_left_goes_to_the_next(others: bool) -> None:
    async def main() -> None:
        circuit = Circuit(clock=now, uniform=lambda a, b: 1.0)
        circuit.open(refused())
        hurried = asyncio.create_task(circuit.turn("hurried", 1.0))  # just when it is chosen
        await asyncio.sleep(0)
        patient = asyncio.create_task(circuit.turn("patient") if others else asyncio.sleep(1.0))
        assert not await hurried
        await patient
        assert now() == 1.0
        assert circuit.room.is_set() is not others
        assert circuit.admits("patient" if others else "anybody")
        assert not circuit.admits("hurried")
        circuit.close()

    run(main())


def test_calls_turned_away_by_the_circuit_use_up_no_rate_limit() -> None:
    async def main() -> None:
        shared = Limits(requests_per_minute=2, clock=now)
        gone, well = breaker(Server(lambda request: None)), breaker(Server(lambda request: None))
        circuit_of(gone).open(refused())
        for _ in range(100):
            with pytest.raises(ProviderAway):
                await take(Limiter(gone, shared))
        for _ in range(2):
            await take(Limiter(well, shared))
        assert now() == 2.0  # and no wait
        circuit_of(gone).close()

    run(main())


def test_worker_over_topics_that_waits_for_its_model_is_waited_for() -> None:
    circuit = Circuit(clock=now, uniform=random.Random(1).uniform)
    waits = topic_messages.cause(topic_messages.error(ProviderAway(circuit)))
    outage = until(20 * MINUTES, lambda: waits, begin=0)
    server = Server(outage, system="topic")
    model = CircuitBreaker(server, lambda model: circuit)
    queue = Queue(model, ids(20))

    run(queue.work())

    assert circuit.openings == 1
    assert len(queue.answered) == 20
