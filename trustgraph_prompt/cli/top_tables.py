"""Shows the rows of workers, flows and prompts as tables on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from trustgraph_prompt.cli.top_rows import Order, Row, failed, seconds
from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.terminal import harmless

KEYS: Final = dict(zip("nrwtfxslbd", Order, strict=True))
"""The order for each key; pressed again, it turns the order round."""


class Column(NamedTuple):
    """A column: its title and what is in it. Where there is no room for all, the highest rank goes first."""

    title: str
    cell: Callable[[Row], Text]
    rank: int = 0
    is_text: bool = False


def _words(title: str, cell: Callable[[Row], Text], rank: int = 0) -> Column:
    return Column(title, cell, rank, is_text=True)


def _text(value: object, style: str = "", limit: int = 60) -> Text:
    """A text from outside, harmless and in one line."""
    return Text(harmless(excerpt(str(value), limit)).replace("\n", " "), style=style)


def _count(value: float | None, style: str = "") -> Text:
    return Text("-" if value is None else f"{value:,.0f}", style=style if value else "")


def _money(value: float | None) -> Text:
    return Text("-" if value is None else f"{value:,.2f}" if value >= 100 else f"{value:.4f}")


def _seconds(value: float | None) -> Text:
    return Text("-" if value is None else f"{value:.2f}" if value < 100 else f"{value:,.0f}")


def _refused(row: Row) -> int:
    rejected = row["rejected"]
    return sum(rejected.values()) if isinstance(rejected, dict) else rejected


def _reasons(row: Row) -> Text:
    """Why requests failed, most frequent first."""
    reasons = sorted(row["outcomes"].items(), key=lambda item: -item[1])
    listed = (f"{reason} {count:,}" for reason, count in reasons[:4] if reason != "success")
    return _text(", ".join(listed), "red")


_VALUES: Final[dict[Order, Callable[[Row], float]]] = {
    Order.rate: lambda row: row.get("per_second", {}).get("10s", 0),
    Order.in_work: lambda row: row.get("in_work", 0),
    Order.requests: lambda row: row["requests"],
    Order.failed: failed,
    Order.refused: _refused,
    Order.spend: lambda row: row["cost"] or 0,
    Order.slow: lambda row: row.get("seconds", {}).get("p99") or 0,
    Order.backlog: lambda row: row.get("backlog") or 0,
    Order.dead: lambda row: sum(row.get("dead_letters", {}).values()),
}


def ordered(rows: Iterable[Row], order: Order, *, reverse: bool) -> list[Row]:
    """Sort rows: by name from A, by anything else from the largest; `reverse` turns that round."""
    by_name = sorted(rows, key=lambda row: str(row["name"]))
    if order is Order.name:
        return by_name[::-1] if reverse else by_name
    return sorted(by_name, key=_VALUES[order], reverse=not reverse)


_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def _age(row: Row, time: str) -> Text:
    """How long ago a time was, by the clock of the worker."""
    now, then = seconds(row["at"]), seconds(time)
    if now is None or then is None:
        return Text("?")
    past = max(1, int(now - then))
    length, unit = next(each for each in _UNITS if past >= each[0])
    return Text(f"{past // length}{unit}")


def _state(row: Row) -> Text:
    if row["ready"]:
        return Text("ready", "green") if not row["notes"] else Text("ready, notes", "yellow")
    return Text("not ready", "red")


def _canary(row: Row) -> Text:
    if (canary := row["canary"]) is None:
        return Text("")
    judged = (f"{name} {_share_refused(canary['judged'][name])}" for name in ("served", "canary"))
    return _text(f"{canary['share']:.0%} {canary['version'][:12]}: refused {', '.join(judged)}", "magenta")


def _share_refused(verdicts: dict[str, int]) -> str:
    total = sum(verdicts.values())
    return f"{1 - verdicts.get('accepted', 0) / total:.1%}" if total else "-"


_REQUESTS: Final = (
    Column("REQUESTS", lambda row: _count(row["requests"])),
    Column("FAILED", lambda row: _count(failed(row), "red")),
    Column("OBJECTS", lambda row: _count(row["objects"]), 1),
    Column("REFUSED", lambda row: _count(_refused(row), "yellow")),
)
_RATES: Final = (
    Column("IN WORK", lambda row: _count(row["in_work"])),
    Column("REQ/S", lambda row: Text(f"{row['per_second']['10s']:,.1f}")),
    Column("/S 1M", lambda row: Text(f"{row['per_second']['60s']:,.1f}"), 5),
)
_SPEND: Final = Column("SPEND", lambda row: _money(row["cost"]), 3)
_DEAD: Final = Column("DEAD", lambda row: _count(sum(row["dead_letters"].values()), "red"))

TABLES: Final = {
    "workers": (
        _words("WORKER", lambda row: _text(row["name"], "bold")),
        _words("ID", lambda row: _text(row["worker"]["id"], limit=20), 4),
        _words("STATE", _state),
        Column("SINCE", lambda row: _age(row, row["since"]), 1),
        Column("UP", lambda row: _age(row, row["worker"]["started"]), 2),
        *_RATES,
        *_REQUESTS,
        _DEAD,
        _SPEND,
    ),
    "flows": (
        _words("FLOW", lambda row: _text(row["name"], "bold")),
        Column("WORKERS", lambda row: _count(row["workers"]), 1),
        *_RATES,
        *_REQUESTS,
        Column("P50 S", lambda row: _seconds(row["seconds"]["p50"]), 5),
        Column("P99 S", lambda row: _seconds(row["seconds"]["p99"]), 2),
        Column("BACKLOG", lambda row: _count(row["backlog"])),
        _DEAD,
        _SPEND,
        Column("/HOUR", lambda row: _money(row["cost_per_hour"]), 6),
        _words("REASONS", _reasons, 7),
    ),
    "prompts": (
        _words("PROMPT", lambda row: _text(row["name"], "bold")),
        _words("VERSION", lambda row: _text((row["version"] or "-")[:12]), 1),
        *_REQUESTS,
        Column("CUT", lambda row: _count(row["truncated"], "yellow"), 2),
        _SPEND,
        _words("CANARY", _canary),
        _words("REASONS", _reasons, 6),
    ),
}


_REMARKS: Final = 5
"""How many fit on a terminal; `--once` prints all."""


def view(
    rows: Row, order: Order, width: int, *, reverse: bool = False, height: int | None = None
) -> RenderableType:
    """All tables for a terminal of this size; None for a `height` without an end."""
    remarks = list(_remarks(rows))
    if height is not None:
        remarks = remarks[:_REMARKS]
        for remark in remarks:
            remark.truncate(width, overflow="ellipsis")
    room = None if height is None else max(3, height - 13 - len(remarks))
    shown: list[RenderableType] = []
    for left, (name, columns) in zip((3, 2, 1), TABLES.items(), strict=True):
        kept = ordered(
            (row for row in rows[name] if name != "prompts" or _is_asked(row)), order, reverse=reverse
        )
        most = len(kept) if room is None else max(1, room // left)
        shown.append(Text())
        shown.append(_table(kept[:most], columns, width))
        if len(kept) > most:
            shown.append(Text(f"  and {len(kept) - most:,} more {name}", "dim"))
        if idle := len(rows[name]) - len(kept):
            shown.append(Text(f"  and {idle:,} {name} without requests", "dim"))
        room = room and room - min(len(kept), most)
    return Group(*shown, Text(), *remarks)


def _is_asked(prompt: Row) -> bool:
    return bool(prompt["requests"] or prompt["canary"])


def _table(rows: Sequence[Row], columns: Sequence[Column], width: int) -> Table:
    cells = {column: [column.cell(row) for row in rows] for column in columns}
    needed = {
        column: max(len(column.title), *(cell.cell_len for cell in cells[column]), 0) for column in columns
    }
    while sum(needed.values()) + _GAP * len(needed) > width + _GAP and (last := max(needed, key=_rank)).rank:
        del needed[last]
    table = Table(box=None, header_style="reverse", pad_edge=False, padding=(0, _GAP, 0, 0))
    for column in needed:
        justify: JustifyMethod = "left" if column.is_text else "right"
        least = None if column.is_text else len(column.title)
        table.add_column(column.title, justify=justify, min_width=least, no_wrap=True, overflow="ellipsis")
    for row in zip(*(cells[column] for column in needed), strict=True):
        table.add_row(*row)
    return table


def _rank(column: Column) -> int:
    return column.rank


_GAP: Final = 2
"""Columns of the terminal between two columns."""


def _remarks(rows: Row) -> Iterable[Text]:
    """What is wrong, and what is not shown."""
    for address, why in rows["missing"].items():
        yield Text.assemble(_text(address, "bold red"), ": ", _text(why, limit=200))
    if rows["no_backlogs"] is not None:
        yield Text.assemble(_text("backlog", "bold red"), ": ", _text(rows["no_backlogs"], limit=200))
    for worker in rows["workers"]:
        for part, why in (*worker["waiting"].items(), *worker["notes"].items()):
            yield Text.assemble(
                _text(worker["name"], "bold yellow"), ": ", _text(f"{part}: {why}", limit=200)
            )
    for flow in rows["flows"]:
        for why in flow["waiting"]:
            yield Text.assemble("flow ", _text(flow["name"], "bold yellow"), ": ", _text(why, limit=200))
    if dead := rows["dead_letters"]:
        listed = ", ".join(
            f"{error} {count:,}" for error, count in sorted(dead.items(), key=lambda each: -each[1])
        )
        yield Text.assemble("dead letters: ", _text(listed, "red", limit=200))
    if any(rows["omitted"].values()):
        flows, prompts = rows["omitted"]["flows"], rows["omitted"]["prompts"]
        yield _text(f"left out by the workers: {flows:,} flows and {prompts:,} prompts with few requests")
