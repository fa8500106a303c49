"""What `top` makes of the statuses of workers."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tests.support.statuses import canary, flow, prompt, status
from trustgraph_prompt.cli.top_rows import Order, Row, everything, failed, summed
from trustgraph_prompt.cli.top_tables import KEYS, TABLES, ordered, view


def printed(rows: Row, width: int = 200, height: int | None = None, order: Order = Order.name) -> str:
    output = StringIO()
    Console(width=width, file=output).print(view(rows, order, width, height=height))
    return output.getvalue()


def rows_of(*statuses: dict[str, Any], missing: dict[str, str] | None = None) -> Row:
    return everything({f"10.0.0.{n}": each for n, each in enumerate(statuses, 1)}, missing or {}, {})


def test_the_same_flow_and_prompt_of_several_workers_are_one_row_with_the_sums() -> None:
    idle = flow(requests=0, outcomes={}, cost=None, seconds={"p50": None, "p99": None, "of": 0})
    slow = flow(seconds={"p50": 3.0, "p99": 9.0, "of": 5}, outcomes={"success": 7, "truncated": 3})
    rows = rows_of(status("a"), status("b", flows=[slow]), status("c", flows=[idle]))

    [row] = rows["flows"]
    assert (row["name"], row["workers"], row["requests"], row["objects"]) == ("f", 3, 20, 60)
    assert row["outcomes"] == {"success": 15, "empty": 2, "truncated": 3}
    assert (row["cost"], row["tokens"], row["in_work"]) == (1.0, {"in": 300, "out": 150}, 3)
    assert row["seconds"] == {"p50": 3.0, "p99": 9.0}
    assert failed(row) == 5
    [row] = rows["prompts"]
    assert (row["workers"], row["rejected"], row["truncated"]) == (3, {"schema_type_error": 9}, 3)
    assert rows["dead_letters"] == {"llm-error": 6}


def test_versions_of_a_prompt_and_flows_on_other_topics_are_rows_of_their_own() -> None:
    rows = rows_of(
        status("a"),
        status("b", prompts=[prompt(version=None)], flows=[flow(topic="persistent://tg/flow/other")]),
    )
    assert [row["version"] for row in rows["prompts"]] == ["3f2a9c81" * 8, None]
    assert [row["topic"] for row in rows["flows"]] == ["persistent://tg/flow/f", "persistent://tg/flow/other"]


def test_worker_that_serves_nothing_yet_counts_nothing() -> None:
    waiting = {"broker": "cannot connect"}
    rows = rows_of(status(flows=[], prompts=[], dead_letters={}, ready=False, waiting=waiting))
    [worker] = rows["workers"]
    assert (worker["requests"], worker["cost"], failed(worker)) == (0, None, 0)
    shown = printed(rows)
    assert "not ready" in shown
    assert "10.0.0.1: broker: cannot connect" in shown
    assert printed(everything({}, {"worker": "unknown name"}, {})).endswith("worker: unknown name\n")


def test_canary_is_summed_over_the_workers_that_have_it() -> None:
    other = canary(id="d", version="0" * 64)
    rows = rows_of(
        *(
            status(name, prompts=[prompt(canary=each)])
            for name, each in (("a", canary()), ("b", canary()), ("c", other), ("d", None))
        )
    )
    [row] = rows["prompts"]
    assert row["canary"]["judged"] == {
        "served": {"accepted": 180, "rejected": 20},
        "canary": {"accepted": 6, "rejected": 2},
    }
    assert "10% 9e21bb079e21: refused served 10.0%, canary 25.0%" in printed(rows)


def test_backlog_stands_in_the_row_of_its_flow() -> None:
    waiting = {("persistent://tg/flow/f", "prompt--default--f--request"): 12_345}
    rows = everything({"a": status()}, {}, waiting)
    assert rows["flows"][0]["backlog"] == 12_345
    assert "12,345" in printed(rows)


def test_reason_for_missing_backlogs_is_kept_apart_from_an_unknown_address() -> None:
    rows = everything({"a": status()}, {"backlog": "unknown name"}, {}, "HTTP 403")
    assert (rows["missing"], rows["no_backlogs"]) == ({"backlog": "unknown name"}, "HTTP 403")
    assert "backlog: HTTP 403" in printed(rows)


@pytest.mark.parametrize("order", [order for order in Order if order is not Order.name])
def test_rows_are_sorted_from_the_largest(order: Order) -> None:
    busy = flow(
        "b",
        per_second={"10s": 9, "60s": 9},
        in_work=4,
        requests=99,
        rejected=9,
        cost=9,
        seconds={"p50": 9, "p99": 99, "of": 9},
        dead_letters={"too-large": 9},
    )
    waiting = {("persistent://tg/flow/b", "prompt--default--b--request"): 5}
    rows = everything({"a": status(flows=[flow("a"), busy, flow("c")])}, {}, waiting)

    assert [row["name"] for row in ordered(rows["flows"], TABLES["flows"], order)] == ["b", "a", "c"]
    for part in ("workers", "prompts"):
        ordered(rows[part], TABLES[part], order)


def test_rows_ordered_by_name_begin_with_a() -> None:
    rows = rows_of(status(flows=[flow("b"), flow("a"), flow("c")]))
    assert [row["name"] for row in ordered(rows["flows"], TABLES["flows"], Order.name)] == ["a", "b", "c"]


def test_each_order_has_a_key_of_its_own() -> None:
    assert sorted(KEYS.values()) == sorted(Order)
    assert "q" not in KEYS


def test_strings_of_a_worker_are_shown_without_control_characters() -> None:
    hostile = "\x1b]0;owned\x07[bold red]x[/]\n\u202eevil" + "y" * 500
    rows = rows_of(
        status(
            worker={**status()["worker"], "id": hostile, "host": hostile},
            notes={hostile: hostile},
            flows=[flow(hostile, waiting=hostile, outcomes={hostile: 10**30})],
            prompts=[prompt(hostile, version=hostile, canary=canary(version=hostile, share=1e300))],
            dead_letters={hostile: 1},
            since="0001-01-01T00:00:00+23:59",
        ),
        missing={hostile: hostile},
    )
    shown = printed(rows)
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "[bold red]x[/]" in shown
    assert len(printed(rows, height=40).splitlines()) == 14


def test_tables_fit_the_terminal() -> None:
    flows = [flow(f"flow-{n:03}") for n in range(100)]
    prompts = [prompt(f"prompt-{n:03}") for n in range(100)]
    rows = rows_of(*(status(str(n), flows=flows, prompts=prompts) for n in range(30)))
    for width, height in ((80, 24), (120, 40), (200, 60), (20, 5)):
        lines = printed(rows, width, height).splitlines()
        assert max(map(len, lines)) <= width
        if height > 5:
            assert len(lines) <= height - 2  # the two lines at the top
            assert any("more flows" in line for line in lines)


def test_sum_with_unknown_values_ignores_them_and_is_unknown_without_others() -> None:
    assert summed([]) is None
    assert summed([None, None]) is None
    assert summed([None, 1, 2.5]) == 3.5
    assert summed([{"a": 1}, {"b": None}, {"a": 2, "b": 3}]) == {"a": 3, "b": 3}
