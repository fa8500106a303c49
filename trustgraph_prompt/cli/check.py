"""`check`: what authors wrote, judged before a worker sees it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.errors import ConfigError

EXAMPLE = "Example:  trustgraph-prompt check templates/ flows/ export.json"

MAX_ERRORS = 5
"""How many errors of one file are told."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """About one file, or one entry of an export; good where there is no error."""

    place: str
    what: str
    error: ConfigError | None = None


def command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", help="Flow files, prompt files, folders of them, exports (.json)."),
    ],
    as_json: options.JsonOption = False,
) -> None:
    """Check flows, prompts and workspace exports: each error says file, key, what was found and expected."""
    verdicts = [verdict for path in paths for verdict in _judge(path)]
    if as_json:
        output.print_json([_as_json(verdict) for verdict in verdicts])
    else:
        for verdict in verdicts:
            if verdict.error is None:
                typer.echo(f"OK     {verdict.place} ({verdict.what})")
            else:
                for error in (verdict.error, *verdict.error.others)[:MAX_ERRORS]:
                    output.note(f"error  {error}")
    if any(verdict.error for verdict in verdicts):
        raise typer.Exit(2)


def _judge(path: Path) -> Iterator[Verdict]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
        if not files:
            error = ConfigError(
                "nothing to check here", where=str(path), found="no *.yaml file", expected="prompts or flows"
            )
            yield Verdict(str(path), "folder", error)
        for file in files:
            yield _judge_file(file)
        yield from _judge_together(files)
    elif path.suffix == ".json":
        yield from _judge_export(path)
    else:
        yield _judge_file(path)


def _judge_file(path: Path) -> Verdict:
    from trustgraph_prompt.prompts import files
    from trustgraph_prompt.worker import flow

    what = "file"
    try:
        what = "flow" if _is_flow(path) else "prompt"
        if what == "flow":
            flow.load(path)
        else:
            files.load(path)
    except ConfigError as error:
        return Verdict(str(path), what, error)
    return Verdict(str(path), what)


def _judge_together(paths: list[Path]) -> Iterator[Verdict]:
    """What is wrong with good files only because they are in one folder."""
    from trustgraph_prompt.prompts import PromptSet, files
    from trustgraph_prompt.worker import flow

    good = [path for path in paths if _judge_file(path).error is None]
    names: dict[str, Path] = {}
    for path in filter(_is_flow, good):
        (found,) = flow.load(path)
        if found.name in names:
            other = f"no name of another flow ({names[found.name]} has it)"
            error = ConfigError(
                "two flows of one name", where=str(path), path="/name", found=found.name, expected=other
            )
            yield Verdict(str(path), "flow", error)
        names.setdefault(found.name, path)
    entries = {key: text for path in good if not _is_flow(path) for key, text in files.load(path).items()}
    for key, error in PromptSet.build(entries).refused.items():
        yield Verdict(key, "prompt", error)


def _judge_export(path: Path) -> Iterator[Verdict]:
    from trustgraph_prompt.prompts import PromptSet, files

    try:
        entries = files.load(path)
    except ConfigError as error:
        yield Verdict(str(path), "export", error)
        return
    refused = PromptSet.build(entries).refused
    for key in entries:
        refusal = refused.get(key)
        yield Verdict(f"{path} {key}", "entry", None if refusal is None else _in_file(refusal, str(path)))


def _in_file(error: ConfigError, path: str) -> ConfigError:
    where = f"{path} {error.where or ''}".rstrip()
    return type(error)(
        error.message, where=where, path=error.path, found=error.found, expected=error.expected
    )


def _is_flow(path: Path) -> bool:
    from trustgraph_prompt.authored import read_yaml

    document = read_yaml(path)
    return isinstance(document, dict) and ("input" in document or "outputs" in document)


def _as_json(verdict: Verdict) -> dict[str, Any]:
    result: dict[str, Any] = {"place": verdict.place, "what": verdict.what, "ok": verdict.error is None}
    if error := verdict.error:
        result["error"] = {
            "message": error.message,
            "where": error.where,
            "path": error.path,
            "found": error.found,
            "expected": error.expected,
        }
    return result
