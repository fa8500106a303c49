"""Messages that may have crashed a worker: in which groups they run, and what runs beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from math import inf
from typing import Any

import pytest

from tests.support import virtual_time
from trustgraph_prompt.worker.around.isolation import Isolation


class Ward:
    """Messages of a second each; `groups` has what has run together, in order."""

    def __init__(self) -> None:
        self.isolation = Isolation()
        self.groups: list[set[str]] = []
        self._running: set[str] = set()

    async def suspect(self, name: str, largest: float = inf) -> None:
        async with self.isolation.suspect(largest) as size:
            await self._run(name)
            assert len(self.groups[-1]) == size

    async def other(self, name: str) -> None:
        await self.isolation.until_over()
        with self.isolation.other():
            await self._run(name)

    async def _run(self, name: str) -> None:
        if not self._running:
            self.groups.append(set())
        self._running.add(name)
        self.groups[-1].add(name)
        await asyncio.sleep(1)
        self._running.remove(name)


def groups_of(ward: Ward, *messages: Coroutine[Any, Any, None]) -> list[set[str]]:
    async def run() -> list[set[str]]:
        await asyncio.gather(*messages)
        assert ward.isolation.why is None
        return ward.groups

    return virtual_time.run(run())


def test_suspects_run_in_one_group_between_the_running_and_the_coming_messages() -> None:
    ward = Ward()

    async def late() -> None:
        await asyncio.sleep(0.5)
        await asyncio.gather(ward.suspect("s1"), ward.other("late"), ward.suspect("s2"))

    assert groups_of(ward, ward.other("o1"), ward.other("o2"), late()) == [
        {"o1", "o2"},
        {"s1", "s2"},
        {"late"},
    ]


@pytest.mark.parametrize(
    ("largest", "sizes"),
    [
        ([inf] * 5, [5]),
        ([2] * 5, [2, 2, 1]),
        ([1, 1, 1], [1, 1, 1]),
        ([inf, inf, 4, 4, 4], [4, 1]),
        ([1, 2, inf, 1], [2, 1, 1]),
        ([2, inf, inf, inf], [3, 1]),
    ],
)
def test_group_is_no_larger_than_any_of_its_suspects_allows(
    largest: Sequence[float], sizes: list[int]
) -> None:
    ward = Ward()
    groups = groups_of(ward, *(ward.suspect(str(n), most) for n, most in enumerate(largest)))
    assert [len(group) for group in groups] == sizes


def test_group_waits_for_a_message_that_may_be_a_suspect_while_others_run() -> None:
    ward = Ward()

    async def undecided() -> None:
        with ward.isolation.other():
            await asyncio.sleep(3)
        await ward.suspect("s2")

    async def claimed_earlier() -> None:
        await asyncio.sleep(2)
        await ward.suspect("s1")

    assert groups_of(ward, undecided(), ward.other("o"), claimed_earlier()) == [{"o"}, {"s1", "s2"}]


def test_cancelled_suspect_holds_up_no_other_message() -> None:
    ward = Ward()

    async def cancelled() -> None:
        suspect = asyncio.create_task(ward.suspect("s1"))
        await asyncio.sleep(0.5)
        suspect.cancel()
        await asyncio.wait([suspect])

    async def later() -> None:
        await asyncio.sleep(0.2)
        await ward.other("o2")

    assert groups_of(ward, ward.other("o1"), cancelled(), later()) == [{"o1", "o2"}]
