"""`graph resolve`: joins the things of a store that have one name in several spellings."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.cli.options import option
from trustgraph_prompt.errors import ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.graph_store.resolve import Resolved

EXAMPLE = "graph resolve --store graph --open pairs.csv"

_EXAMPLES, _MOST_LISTED, _LONGEST = 3, 10, 150  # pairs of each reason, open pairs, characters of a text


def command(
    store: options.StoreOption,
    open: Path | None = option(  # noqa: A002 - the name of the option
        "--open FILE.csv", "Write the pairs to this file, to decide what is open.", None
    ),
    decided: Path | None = option("--decided FILE.csv", "First apply the decisions in this file.", None),
    dry_run: bool = option("--dry-run", "Show what would be merged; write nothing.", False),
    undo: bool = option("--undo", "Take everything apart again that was merged.", False),
) -> None:
    """Merge things whose names are one name in several spellings, and list what a person must decide.

    A pair that was decided to be different is neither merged nor listed again.
    """
    from trustgraph_prompt.graph_store import resolve as resolving

    if (undo and (dry_run or decided or open)) or (dry_run and decided):
        raise ConfigError("cannot be combined", where="--undo" if undo else "--dry-run")
    if open is not None and open != decided and open.exists():
        message = "exists, and may have decisions: apply them with --decided, or give another name"
        raise ConfigError(message, where=str(open))
    with options.graph_store(store, read_only=dry_run) as opened:
        if undo:
            typer.echo(f"pairs taken apart: {resolving.undo(opened):,}")
            return
        if decided is not None:
            same, different = resolving.apply_decisions(opened, decided, then_replaced=open == decided)
            typer.echo(f"decided by a person: {same:,} merged, {different:,} kept apart")
        resolved = resolving.resolve(opened, dry_run=dry_run)
        _print_merged(resolved, "that would be merged" if dry_run else "merged")
        _print_open(resolved)
        if open is not None:
            resolving.write_pairs(open, resolved)
            output.say(f"-> {open}; fill the column `decision`, then give --decided {open}")


def _print_merged(resolved: Resolved, merged: str) -> None:
    found, things = resolved.found, resolved.view.things
    typer.echo(f"things: {len(things):,}")
    typer.echo(f"pairs {merged}: {len(found.same):,}, left open: {len(found.open):,}")
    for reason, count in Counter(pair.verdict.reason for pair in found.same).most_common():
        typer.echo(f"{count:>9,} {reason}")
        pairs = (pair for pair in found.same if pair.verdict.reason is reason)
        for one, other, _ in islice(pairs, _EXAMPLES):
            output.say(f"{'':10}{things[one].name!r} = {things[other].name!r}")


def _print_open(resolved: Resolved) -> None:
    found = resolved.found
    for one, other, verdict in resolved.described(found.open[:_MOST_LISTED]):
        typer.echo(f"\n{verdict.reason} ({verdict.score:.2f}):")
        for each in (one, other):
            texts = (each.name, f"({each.types})" if each.types else "", each.definition, each.passage)
            output.say("  " + " | ".join(text[:_LONGEST] for text in texts if text))
    if len(found.open) > _MOST_LISTED:
        typer.echo(f"\n{len(found.open) - _MOST_LISTED:,} more are open; --open FILE.csv writes all of them")
