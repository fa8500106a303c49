"""Which series of a metric there are: how many, from which value on, and how long."""

from __future__ import annotations

from collections.abc import Iterable

from trustgraph_prompt.worker.telemetry.series import MAX_SERIES, SECONDS_TO_KEEP, SeriesRegistry

FULL = [f"p{n}" for n in range(MAX_SERIES)]
"""Prompts that fill a metric."""


class Counted:
    """A counter by flow, prompt and reason, and a clock that stands."""

    def __init__(self) -> None:
        self.now = 0.0
        self.registry = SeriesRegistry(lambda: self.now)
        self.series = self.registry.counter("asked", "", "flow", "prompt", "reason")

    def ask(self, prompts: Iterable[str], flow: str = "f", reason: str = "success") -> None:
        for prompt in prompts:
            self.series[flow, prompt, reason].inc()

    def gone(self, prompts: Iterable[str]) -> None:
        """Delete prompts, and wait until their series have been read."""
        for prompt in prompts:
            self.registry.leave(prompt=prompt)
        self.now += SECONDS_TO_KEEP
        self.registry.remove_left()

    def value(self, prompt: str, flow: str = "f", reason: str = "success") -> float | None:
        labels = {"flow": flow, "prompt": prompt, "reason": reason}
        return self.registry.get_sample_value("asked_total", labels)


def test_prompts_above_the_limit_count_as_other() -> None:
    counted = Counted()
    counted.ask([*FULL, "late", "later", "late"])

    assert counted.value("p0") == 1
    assert counted.value("late") is None
    assert counted.value("other") == 3
    assert len(counted.series) == MAX_SERIES + 1


def test_series_other_is_shown_with_0_before_it_counts() -> None:
    counted = Counted()
    counted.ask(FULL[1:])
    assert counted.value("other") is None

    counted.ask(FULL)

    assert counted.value("other") == 0


def test_series_other_takes_over_no_count_of_a_series_that_ends() -> None:
    counted = Counted()
    counted.ask([*FULL, "late"])

    counted.gone(FULL)

    assert counted.value("p0") is None
    assert counted.value("other") == 1


def test_deleted_prompt_that_is_called_other_ends_no_count_of_the_rest() -> None:
    counted = Counted()
    counted.ask([*FULL, "late", "other"])

    counted.gone(["other"])

    assert counted.value("other") == 2


def test_prompt_gets_a_series_of_its_own_from_0_when_there_is_room() -> None:
    counted = Counted()
    counted.ask([*FULL, "late"])
    counted.gone(FULL[:2])

    counted.ask(["late"])

    assert counted.value("late") == 1
    assert counted.value("other") == 1


def test_failure_of_a_prompt_counts_beside_its_successes() -> None:
    counted = Counted()
    counted.ask(FULL)

    counted.ask(["p0", "late"], reason="truncated")

    assert counted.value("p0", reason="truncated") == 1
    assert counted.value("other", reason="truncated") == 1


def test_series_other_is_apart_for_each_flow() -> None:
    counted = Counted()
    counted.ask(FULL)

    counted.ask(["late"], flow="f")
    counted.ask(["late"], flow="g")

    assert counted.value("other", flow="f") == 1
    assert counted.value("other", flow="g") == 1


def test_flows_above_the_limit_count_as_other() -> None:
    counted = Counted()
    for n in range(3 * MAX_SERIES):
        counted.ask(["p"], flow=f"f{n}")

    assert counted.value("p", flow="f0") == 1
    assert counted.value("p", flow=f"f{MAX_SERIES}") is None
    assert counted.value("p", flow="other") == 2 * MAX_SERIES
    assert len(counted.series) == MAX_SERIES + 1


def test_other_prompts_of_other_flows_share_one_series() -> None:
    counted = Counted()
    for n in range(3 * MAX_SERIES):
        counted.ask([f"p{n}"], flow=f"f{n}")

    assert counted.value("other", flow="other") == 2 * MAX_SERIES
    assert len(counted.series) == MAX_SERIES + 1


def test_flow_other_is_shown_with_0_in_all_metrics() -> None:
    counted = Counted()
    dead_letters = counted.registry.counter("dead_letters", "", "flow", "error")
    for flow in ("f0", "f1"):
        dead_letters[flow, "llm-error"].inc()
    for n in range(MAX_SERIES):
        counted.ask(["p"], flow=f"f{n}")

    labels = {"flow": "other", "error": "llm-error"}
    assert counted.registry.get_sample_value("dead_letters_total", labels) == 0


def test_flow_that_ended_makes_room_for_another() -> None:
    counted = Counted()
    received = counted.registry.gauge("received", "", "flow")
    for n in range(MAX_SERIES):
        received[(f"f{n}",)].set(1)
    counted.registry.leave(flow="f0")
    counted.now += SECONDS_TO_KEEP
    counted.registry.remove_left()

    received[("late",)].set(1)

    assert counted.registry.get_sample_value("received", {"flow": "late"}) == 1
    assert counted.registry.get_sample_value("received", {"flow": "f0"}) is None


def test_series_that_stays_until_it_left_again_ends_two_hours_later() -> None:
    counted = Counted()
    counted.ask(["p"])
    counted.registry.leave(prompt="p")
    counted.now += SECONDS_TO_KEEP - 1
    counted.registry.leave(prompt="p")  # whoever says it twice does not put it off
    counted.registry.stay(prompt="p")
    counted.registry.leave(prompt="p")
    counted.now += SECONDS_TO_KEEP - 1
    counted.registry.remove_left()
    assert counted.value("p") == 1

    counted.now += 1
    counted.registry.remove_left()

    assert counted.value("p") is None
