"""Shows how good a prompt is: its scores, what its answers took, and the objects that are wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trustgraph_prompt.cli.eval_sides import Side
from trustgraph_prompt.cli.output import counted, json_text
from trustgraph_prompt.cost import Price
from trustgraph_prompt.evaluation.gold import FEWEST, GoldQuestion
from trustgraph_prompt.evaluation.measures import Measure
from trustgraph_prompt.evaluation.scores import Comparison, Evaluation
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.terminal import harmless

MAX_ROWS = 20
"""How many rows a list has; `--json` has everything."""

VERSION_CHARACTERS = 12

_ANY_WIDTH = 10_000
"""Columns of what is not a terminal."""

_TITLES = {"f1": "F1", "f1_of_texts": "F1, mean of texts"}


@dataclass(frozen=True)
class Report:
    """The scores of a prompt, and those of the other side, if there is one."""

    prompt: str
    sides: Sequence[Evaluation]
    price: Price | None
    remarks: Sequence[str] = ()

    @cached_property
    def comparison(self) -> Comparison | None:
        """What the first side does otherwise than the second."""
        return Comparison.of(*self.sides) if len(self.sides) > 1 else None

    def below(self, limits: Mapping[str, float]) -> Iterator[str]:
        """Say which values of the first side are less than they may be."""
        for name, limit in limits.items():
            if (measure := self.sides[0].measures.get(name)) and measure.value < limit:
                yield f"{self.prompt}: {name} is {measure.value:.4f}, less than {limit:g} (--fail-under)"

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        sides = [self._side(side) for side in self.sides]
        compared = self.sides[0].clause.keys
        report = {"prompt": self.prompt, "compared": compared, "remarks": self.remarks, **sides[0]}
        if (found := self.comparison) is not None:
            report["against"] = sides[1]
            report["comparison"] = {
                "texts": found.texts,
                "differences": {name: each._asdict() for name, each in found.differences.items()},
                "verdict": found.verdict,
                "changes": [change._asdict() for change in found.changes],
            }
        return report

    def print(self) -> None:
        """Print the report for people."""
        console = Console(width=None if sys.stdout.isatty() else _ANY_WIDTH, highlight=False)
        scored, failed = len(self.sides[0].scores), len(self.sides[0].failed)
        texts = f"{scored:,} of {counted(scored + failed, 'text')}" if failed else counted(scored, "text")
        expected = counted(int(self.sides[0].counts[:, 1].sum()), "object")
        compared = f"compared: {self.sides[0].clause}"
        for line in (f"{self.prompt}: {texts}, {expected} expected", compared, *self.remarks):
            console.print(Text(harmless(line)))
        console.print(self._scores())
        if (found := self.comparison) is not None:
            console.print(Text(harmless(_SENTENCES[found.verdict].format(self._first))))
            rows = [(change.text, change.what, self._object(change.object)) for change in found.changes]
            _print_rows(console, "what has changed", ("text", "", self._keys), rows)
            return
        columns = "text", "expected", "came", "right", "F1"
        _print_rows(console, "texts with mistakes", columns, list(self._texts()))
        sides = "text", "", f"expected: {self._keys}", "came"
        _print_rows(console, "mistakes", sides, list(self._mistakes()))

    def _scores(self) -> Table:
        table = Table(box=SIMPLE)
        table.add_column("with 95 % intervals")
        for side in self.sides:
            table.add_column(
                Text(harmless(f"{side.version[:VERSION_CHARACTERS]}\n{side.model}")), justify="right"
            )
        found = self.comparison
        if found is not None:
            table.add_column("difference", justify="right")
        for name in self.sides[0].measures:
            cells = [_shown(side.measures.get(name)) for side in self.sides]
            if found is not None:
                cells.append(_shown(found.differences.get(name), "+.3f"))
            table.add_row(_TITLES.get(name, name), *cells)
        spent = [side.spent(self.price) for side in self.sides]
        for name in spent[0]:
            if any(values[name] is not None for values in spent):
                table.add_row(name.replace("_", " "), *(_number(name, values[name]) for values in spent))
        return table

    def _texts(self) -> Iterator[tuple[str, ...]]:
        for score in self.sides[0].scores:
            right, expected, came = score.counts
            if right < max(expected, came):
                yield score.text.name, f"{expected:,}", f"{came:,}", f"{right:,}", f"{score.f1:.3f}"

    def _mistakes(self) -> Iterator[tuple[str, ...]]:
        for score in self.sides[0].scores:
            for what, expected, came, keys in score.mistakes(self.sides[0].clause):
                but = f"right, but for {', '.join(keys)}" if keys else what
                yield score.text.name, but, self._object(expected, keys), self._object(came, keys)

    @property
    def _first(self) -> str:
        """What tells the first side from the other: its version, or else its model."""
        first, other = self.sides
        return first.model if first.version == other.version else first.version[:VERSION_CHARACTERS]

    @property
    def _keys(self) -> str:
        return " | ".join(self.sides[0].clause.keys) or "object"

    def _object(self, value: Any, more: Sequence[str] = ()) -> str:
        """The values of an object by which it is matched, and of `more` keys."""
        keys = self.sides[0].clause.keys
        if value is None or not (keys and isinstance(value, dict)):
            return "" if value is None else json_text(value)
        shown = [value.get(key, "-") for key in (*keys, *more)]
        return " | ".join(each if isinstance(each, str) else json_text(each) for each in shown)

    def _side(self, side: Evaluation) -> dict[str, Any]:
        return {
            "version": side.version,
            "model": side.model,
            **{name: each._asdict() for name, each in side.measures.items()},
            **side.spent(self.price),
            "texts": [
                {
                    "name": score.text.name,
                    "where": score.text.where,
                    **dict(zip(("right", "expected", "came"), score.counts, strict=True)),
                    "f1": score.f1,
                    "mistakes": [each._asdict() for each in score.mistakes(side.clause)],
                }
                for score in side.scores
            ],
            "failed": [{"where": text.where, "why": why} for text, why in side.failed],
        }


def reports(
    sides: Sequence[Side],
    results: Sequence[Sequence[Result[GoldQuestion]]],
    price: Price | None,
    remarks: Mapping[str, Sequence[str]],
    as_asked: Callable[[Any], Any],
) -> Iterator[Report]:
    """The report of each prompt. Both sides are scored by its clause `match` on the first side.

    `as_asked` makes of an object of an answer what is compared with the gold file.
    """
    for definition in sides[0].asked:
        evaluations = [
            Evaluation.of(
                side.prompts.get(definition.id).version,
                side.name,
                definition.match,
                [result for result in of_side if result.job.prompt == definition.id],
                as_asked,
            )
            for side, of_side in zip(sides, results, strict=True)
        ]
        yield Report(definition.id, evaluations, price, remarks[definition.id])


_SENTENCES = {
    "too few texts": f"With fewer than {FEWEST} texts no difference can be told from noise.",
    "noise": "The difference in F1 is not more than noise.",
    "better": "{} is better: the difference in F1 is more than noise.",
    "worse": "{} is worse: the difference in F1 is more than noise.",
}


def _print_rows(console: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = Table(*header, box=SIMPLE, title=f"{title}: {len(rows):,}", title_justify="left")
    for row in rows[:MAX_ROWS]:
        table.add_row(*(Text(harmless(cell), overflow="fold") for cell in row))
    console.print(table)
    if (more := len(rows) - MAX_ROWS) > 0:
        console.print(f"  and {more:,} more; --json has all")


def _shown(measure: Measure | None, form: str = ".3f") -> str:
    if measure is None:
        return "-"
    if measure.low is None:
        return f"{measure.value:{form}}"
    return f"{measure.value:{form}}  {measure.low:{form}} to {measure.high:{form}}"


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.4f}" if name == "money" else f"{value:,.1f}" if name == "seconds" else f"{value:,}"
