"""Shows the rows of workers, flows and prompts as tables on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from trustgraph_prompt.cli.output import counted
from trustgraph_prompt.cli.top_rows import Order, Row, failed
from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.terminal import harmless

KEYS: Final = dict(zip("nrwtfxslbd", Order, strict=True))
"""The order for each key."""


def _text(value: object, style: str = "", limit: int = 60) -> Text:
    """A text from outside, harmless and in one line."""
    return Text(harmless(excerpt(str(value), limit)).replace("\n", " "), style=style)


def _count(value: float | None, style: str = "") -> Text:
    return Text("-" if value is None else f"{value:,.0f}", style=style if value else "")


def _rate(value: float) -> Text:
    return Text(f"{value:,.1f}")


def _money(value: float | None) -> Text:
    return Text("-" if value is None else f"{value:,.2f}" if value >= 100 else f"{value:.4f}")


def _seconds(value: float | None) -> Text:
    return Text("-" if value is None else f"{value:.2f}" if value < 100 else f"{value:,.0f}")


class Column(NamedTuple):
    """A column. Where there is no room for all, the highest rank goes first; `order` sorts by its values."""

    title: str
    value: Callable[[Row], Any]
    show: Callable[[Any], Text] = _count
    rank: int = 0
    order: Order | None = None
    justify: JustifyMethod = "right"


def _words(title: str, value: Callable[[Row], Any], rank: int = 0, style: str = "") -> Column:
    return Column(title, value, partial(_text, style=style), rank, justify="left")


def _refused(row: Row) -> int:
    rejected = row["rejected"]
    return sum(rejected.values()) if isinstance(rejected, dict) else rejected


def _reasons(row: Row) -> str:
    """Why requests failed, most frequent first."""
    reasons = sorted(row["outcomes"].items(), key=lambda item: -item[1])
    return ", ".join(f"{reason} {count:,}" for reason, count in reasons[:4] if reason != "success")


def ordered(rows: Iterable[Row], columns: Iterable[Column], order: Order) -> list[Row]:
    """Sort rows: from the largest value if a column has this order, else by name."""
    by_name = sorted(rows, key=lambda row: str(row["name"]))
    for column in columns:
        if column.order is order:
            return sorted(by_name, key=lambda row: -(column.value(row) or 0))
    return by_name


_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def _age(row: Row, time: str) -> str:
    """How long ago a time was, by the clock of the worker."""
    try:
        past = datetime.fromisoformat(row["at"]) - datetime.fromisoformat(time)
    except ValueError:  # such as a leap second
        return "?"
    count = max(1, int(past.total_seconds()))
    length, unit = next(each for each in _UNITS if count >= each[0])
    return f"{count // length}{unit}"


def _state(ready_and_notes: tuple[bool, object]) -> Text:
    ready, notes = ready_and_notes
    if ready:
        return Text("ready, notes", "yellow") if notes else Text("ready", "green")
    return Text("not ready", "red")


def _canary(row: Row) -> str:
    if (canary := row["canary"]) is None:
        return ""
    judged = (f"{name} {_share_refused(canary['judged'][name])}" for name in ("served", "canary"))
    return f"{canary['share']:.0%} {canary['version'][:12]}: refused {', '.join(judged)}"


def _share_refused(verdicts: dict[str, int]) -> str:
    total = sum(verdicts.values())
    return f"{1 - verdicts.get('accepted', 0) / total:.1%}" if total else "-"


_RED, _YELLOW = partial(_count, style="red"), partial(_count, style="yellow")

_REQUESTS: Final = (
    Column("REQUESTS", lambda row: row["requests"], order=Order.requests),
    Column("FAILED", failed, _RED, order=Order.failed),
    Column("OBJECTS", lambda row: row["objects"], rank=1),
    Column("REFUSED", _refused, _YELLOW, order=Order.refused),
)
_RATES: Final = (
    Column("IN WORK", lambda row: row["in_work"], order=Order.in_work),
    Column("REQ/S", lambda row: row["per_second"]["10s"], _rate, order=Order.rate),
    Column("/S 1M", lambda row: row["per_second"]["60s"], _rate, 5),
)
_SPEND: Final = Column("SPEND", lambda row: row["cost"], _money, 3, Order.spend)
_DEAD: Final = Column("DIED", lambda row: sum(row["dead_letters"].values()), _RED, order=Order.dead)

TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "workers": (
        _words("WORKER", lambda row: row["name"], style="bold"),
        _words("ID", lambda row: row["worker"]["id"], 4),
        Column("STATE", lambda row: (row["ready"], row["notes"]), _state, justify="left"),
        Column("SINCE", lambda row: _age(row, row["since"]), Text, 1),
        Column("UP", lambda row: _age(row, row["worker"]["started"]), Text, 2),
        *_RATES,
        *_REQUESTS,
        _DEAD,
        _SPEND,
    ),
    "flows": (
        _words("FLOW", lambda row: row["name"], style="bold"),
        Column("WORKERS", lambda row: row["workers"], rank=1),
        *_RATES,
        *_REQUESTS,
        Column("P50 S", lambda row: row["seconds"]["p50"], _seconds, 5),
        Column("P99 S", lambda row: row["seconds"]["p99"], _seconds, 2, Order.slow),
        Column("BACKLOG", lambda row: row["backlog"], order=Order.backlog),
        _DEAD,
        _SPEND,
        Column("/HOUR", lambda row: row["cost_per_hour"], _money, 6),
        _words("REASONS", _reasons, 7, "red"),
    ),
    "prompts": (
        _words("PROMPT", lambda row: row["name"], style="bold"),
        _words("VERSION", lambda row: (row["version"] or "-")[:12], 1),
        *_REQUESTS,
        Column("TRUNC", lambda row: row["truncated"], _YELLOW, 2),
        _SPEND,
        _words("CANARY", _canary, style="magenta"),
        _words("REASONS", _reasons, 6, "red"),
    ),
}


_REMARKS: Final = 5
"""How many fit on a terminal; `--once` prints all."""


def view(rows: Row, order: Order, width: int, height: int | None = None) -> RenderableType:
    """All tables for a terminal of this size; None for a `height` without an end."""
    remarks = list(_remarks(rows))
    if height is not None:
        remarks = remarks[:_REMARKS]
        for remark in remarks:
            remark.truncate(width, overflow="ellipsis")
    room = None if height is None else max(3, height - 13 - len(remarks))
    shown: list[RenderableType] = []
    for left, (name, columns) in zip((3, 2, 1), TABLES.items(), strict=True):
        asked = [row for row in rows[name] if name != "prompts" or row["requests"] or row["canary"]]
        most = len(asked) if room is None else max(1, room // left)
        shown += [Text(), _table(ordered(asked, columns, order)[:most], columns, width)]
        if len(asked) > most:
            shown.append(Text(f"  and {len(asked) - most:,} more {name}", "dim"))
        if idle := len(rows[name]) - len(asked):
            shown.append(Text(f"  and {idle:,} {name} without requests", "dim"))
        room = room and room - min(len(asked), most)
    return Group(*shown, Text(), *remarks)


def _table(rows: Sequence[Row], columns: Sequence[Column], width: int) -> Table:
    cells = {column: [column.show(column.value(row)) for row in rows] for column in columns}
    needed = {
        column: max(len(column.title), *(cell.cell_len for cell in cells[column]), 0) for column in columns
    }
    while sum(needed.values()) + _GAP * len(needed) > width + _GAP:
        last = max(needed, key=lambda column: column.rank)
        if not last.rank:
            break
        del needed[last]
    table = Table(box=None, header_style="reverse", pad_edge=False, padding=(0, _GAP, 0, 0))
    for column in needed:
        least = None if column.justify == "left" else len(column.title)
        table.add_column(
            column.title, justify=column.justify, min_width=least, no_wrap=True, overflow="ellipsis"
        )
    for row in zip(*(cells[column] for column in needed), strict=True):
        table.add_row(*row)
    return table


_GAP: Final = 2
"""Columns of the terminal between two columns."""


def _remarks(rows: Row) -> Iterator[Text]:
    """What is wrong, and what is not shown."""

    def remark(where: str, why: str, style: str = "bold yellow") -> Text:
        return Text.assemble(_text(where, style), ": ", _text(why, limit=200))

    for address, why in rows["missing"].items():
        yield remark(address, why, "bold red")
    if rows["no_backlogs"] is not None:
        yield remark("backlog", rows["no_backlogs"], "bold red")
    for worker in rows["workers"]:
        for part, why in (*worker["waiting"].items(), *worker["notes"].items()):
            yield remark(worker["name"], f"{part}: {why}")
    for flow in rows["flows"]:
        for why in flow["waiting"]:
            yield remark(f"flow {flow['name']}", why)
    if dead := rows["dead_letters"]:
        by_count = sorted(dead.items(), key=lambda each: -each[1])
        errors = ", ".join(f"{error} {count:,}" for error, count in by_count)
        yield remark("dead letters since the start", errors, "red")
    if any(rows["omitted"].values()):
        flows = counted(rows["omitted"]["flows"], "flow")
        prompts = counted(rows["omitted"]["prompts"], "prompt")
        yield _text(f"left out by the workers: {flows} and {prompts} with few requests")
