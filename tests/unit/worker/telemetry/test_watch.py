"""What a worker's watch says of its parts, and which it begins anew."""

from __future__ import annotations

import asyncio

import pytest

from trustgraph_prompt.errors import BrokerClosed, BrokerError, BrokerUnavailable
from trustgraph_prompt.worker.telemetry.health import Health
from trustgraph_prompt.worker.telemetry.metrics import Metrics
from trustgraph_prompt.worker.telemetry.watch import SECONDS_TO_RENEWAL, Watch

PART = "consumer of flow f"


class Part:
    """Fails as it is told to."""

    def __init__(self) -> None:
        self.trouble: BrokerError | None = None
        self.renewals = 0

    async def check(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    async def renew(self) -> None:
        self.renewals += 1


class Watched:
    """A watch, what it says, and a clock that stands."""

    def __init__(self, notes: dict[str, str] | None = None) -> None:
        self.now = 1_700_000_000.0
        self.health, self.metrics = Health(), Metrics()
        del self.health.waiting["worker"]
        self.watch = Watch(self.health, self.metrics, notes=notes, clock=lambda: self.now)

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            await self.watch.look()
            await asyncio.sleep(0)

    def healthy(self, part: str) -> bool:
        return f'trustgraph_prompt_healthy{{part="{part}"}} 1.0' in self.metrics.text().decode()


@pytest.fixture
def watched() -> Watched:
    return Watched()


async def test_part_that_fails_twice_is_waited_for_until_it_answers(watched: Watched) -> None:
    part = Part()
    with watched.watch.over(PART, part.check, part.renew):
        part.trouble = BrokerUnavailable("no answer in 10 s")
        await watched.look(2)
        assert watched.health.waiting == {PART: "no answer in 10 s (since 2023-11-14T22:13:20Z)"}
        assert not watched.healthy(PART)

        part.trouble = None
        await watched.look()
        assert watched.health.ready
        assert watched.healthy(PART)


async def test_part_that_fails_once_is_still_healthy(watched: Watched) -> None:
    part = Part()
    with watched.watch.over(PART, part.check, part.renew):
        for _ in range(3):
            part.trouble = BrokerUnavailable("slow")
            await watched.look()
            assert watched.health.ready
            assert watched.healthy(PART)
            part.trouble = None
            await watched.look()


async def test_outage_is_dated_from_the_first_failure(watched: Watched) -> None:
    part = Part()
    part.trouble = BrokerUnavailable("away")
    with watched.watch.over(PART, part.check):
        await watched.look()
        watched.now += 100
        await watched.look(2)
        assert "since 2023-11-14T22:13:20Z" in watched.health.waiting[PART]


async def test_closed_part_is_renewed_once_and_at_once(watched: Watched) -> None:
    part = Part()
    with watched.watch.over(PART, part.check, part.renew):
        part.trouble = BrokerClosed("no such consumer any more")
        await watched.look()
        assert PART in watched.health.waiting
        await watched.look(3)
        assert part.renewals == 1
    assert watched.health.ready


async def test_part_that_alone_fails_for_long_is_renewed(watched: Watched) -> None:
    silent, other = Part(), Part()
    with (
        watched.watch.over(PART, silent.check, silent.renew),
        watched.watch.over("consumer of flow g", other.check, other.renew),
    ):
        silent.trouble = BrokerUnavailable("no answer")
        await watched.look(3)
        assert not silent.renewals
        watched.now += SECONDS_TO_RENEWAL + 1
        await watched.look()
    assert (silent.renewals, other.renewals) == (1, 0)


async def test_clock_that_is_put_back_does_not_delay_a_renewal(watched: Watched) -> None:
    silent, other = Part(), Part()
    with (
        watched.watch.over(PART, silent.check, silent.renew),
        watched.watch.over("consumer of flow g", other.check, other.renew),
    ):
        silent.trouble = BrokerUnavailable("no answer")
        await watched.look(2)
        watched.now -= 3600
        await watched.look()
        watched.now += SECONDS_TO_RENEWAL + 1
        await watched.look()
    assert silent.renewals == 1


async def test_broker_that_answers_no_part_is_waited_for_however_long(watched: Watched) -> None:
    parts = [Part(), Part()]
    with (
        watched.watch.over(PART, parts[0].check, parts[0].renew),
        watched.watch.over("consumer of flow g", parts[1].check, parts[1].renew),
        watched.watch.over("publishing", Part().check),  # which asks no broker
    ):
        for part in parts:
            part.trouble = BrokerUnavailable("no answer")
        await watched.look(2)
        watched.now += 10 * SECONDS_TO_RENEWAL
        await watched.look(2)
        assert len(watched.health.waiting) == 2
    assert not any(part.renewals for part in parts)


async def test_part_that_alone_is_away_is_only_noted_where_there_are_notes() -> None:
    notes: dict[str, str] = {}
    watched, one, other, publishing = Watched(notes), Part(), Part(), Part()
    with (
        watched.watch.over(PART, one.check, one.renew),
        watched.watch.over("consumer of flow g", other.check, other.renew),
        watched.watch.over("publishing", publishing.check),
    ):
        one.trouble = BrokerUnavailable("no answer")
        await watched.look(2)
        assert (list(notes), list(watched.health.waiting)) == ([PART], [])
        assert not watched.healthy(PART)

        other.trouble = BrokerUnavailable("no answer")
        await watched.look(2)
        assert (list(notes), list(watched.health.waiting)) == ([], [PART, "consumer of flow g"])

        one.trouble = other.trouble = None
        publishing.trouble = BrokerUnavailable("no receipt")
        await watched.look(2)
        assert (list(notes), list(watched.health.waiting)) == ([], ["publishing"])

        one.trouble, publishing.trouble = BrokerUnavailable("no answer"), None
        await watched.look(2)
    assert not notes


async def test_check_with_a_defect_stops_neither_the_watch_nor_the_worker(watched: Watched) -> None:
    async def defect() -> None:
        raise ZeroDivisionError

    part = Part()
    part.trouble = BrokerUnavailable("away")
    with watched.watch.over("broken", defect), watched.watch.over(PART, part.check):
        await watched.look(2)
        assert list(watched.health.waiting) == [PART]


async def test_part_that_is_no_longer_watched_is_unhealthy_and_not_checked(watched: Watched) -> None:
    part = Part()
    with watched.watch.over(PART, part.check):
        await watched.look()
        assert watched.healthy(PART)
    part.trouble = BrokerClosed("gone")

    await watched.look(3)

    assert f'part="{PART}"}} 0.0' in watched.metrics.text().decode()
    assert watched.health.ready


async def test_outage_of_a_part_is_logged_once(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    part = Part()
    with watched.watch.over(PART, part.check):
        part.trouble = BrokerUnavailable("no answer in 10 s")
        await watched.look(5)

    assert caplog.text.count(f"{PART} is unavailable: no answer in 10 s") == 1


async def test_part_that_has_ended_is_forgotten(watched: Watched) -> None:
    with watched.watch.over(PART, Part().check):
        await watched.look()
    watched.watch.forget(PART)
    assert "part=" not in watched.metrics.text().decode()
