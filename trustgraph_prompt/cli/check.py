"""`check`: validates flow files, prompt files, exports, gold files and recordings before they are used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.cli.options import argument

if TYPE_CHECKING:
    from trustgraph_prompt.cli.checked_files import CheckedFile

EXAMPLE = "check templates/ flows/ export.json"

MAX_ERRORS = 20
"""How many errors of one file are printed."""


def command(
    paths: list[Path] = argument(
        "PATH…",
        "Flow files, prompt files, folders of both, exports of a workspace (.json), and gold files "
        "of `eval` or recordings (.jsonl).",
    ),
    as_json: options.JsonOption = False,
) -> None:
    """Validate flows, prompts, exports, gold files and recordings, and test the examples of prompts.

    Flows, gold files and recordings are compared with the prompts among the files, or with the bundled ones
    if there are none.
    No model is called. Each error names the file, the position or key, what was found and what was expected.
    Exits with 2 if there are errors.
    """
    from trustgraph_prompt.cli.checked_files import checked

    verdicts = checked(paths)
    if as_json:
        output.print_json([_as_json(verdict) for verdict in verdicts])
    else:
        for verdict in verdicts:
            _print(verdict)
    if any(verdict.errors for verdict in verdicts):
        raise typer.Exit(2)


def _print(verdict: CheckedFile) -> None:
    for error in verdict.errors[:MAX_ERRORS]:
        output.note(f"error  {error}")
    if (more := len(verdict.errors) - MAX_ERRORS) > 0:
        output.note(f"error  {verdict.place}: {more:,} more")
    for warning in verdict.warnings:
        output.note(f"warning: {warning}")
    if not verdict.errors:
        what = output.counted(verdict.prompts, "prompt") if verdict.prompts > 1 else verdict.what
        what = output.counted(len(verdict.gold), "gold text") if verdict.gold else what
        examples = f", {output.counted(verdict.examples, 'example')}" if verdict.examples else ""
        output.say(f"OK     {verdict.place} ({what}{examples})")


def _as_json(verdict: CheckedFile) -> dict[str, Any]:
    result: dict[str, Any] = {"place": verdict.place, "what": verdict.what, "ok": not verdict.errors}
    if verdict.prompts:
        result |= {"prompts": verdict.prompts, "examples": verdict.examples}
    if verdict.gold:
        result["texts"] = len(verdict.gold)
    if verdict.warnings:
        result["warnings"] = verdict.warnings
    if verdict.errors:
        fields = ("message", "where", "path", "found", "expected")
        errors = [{name: getattr(error, name) for name in fields} for error in verdict.errors]
        result |= {"error": errors[0], "others": errors[1:]}
    return result
