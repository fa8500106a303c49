"""`check`: what authors wrote, judged before a worker sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.errors import ConfigError, excerpt

if TYPE_CHECKING:
    from trustgraph_prompt.prompts import PromptDefinition
    from trustgraph_prompt.prompts.files import PromptFiles
    from trustgraph_prompt.worker.flow import Flow

EXAMPLE = "Example:  trustgraph-prompt check templates/ flows/ export.json"

MAX_ERRORS = 20
"""How many errors of one file are told."""

MAX_KEYS = 5
"""How many keys a warning names."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """About one file, or one entry of an export; good where there are no errors.

    `warnings` say what somebody should look at all the same.
    """

    place: str
    what: str
    errors: tuple[ConfigError, ...] = ()
    prompts: int = 0
    examples: int = 0
    warnings: tuple[str, ...] = ()


def command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", help="Flow files, prompt files, folders of them, exports (.json)."),
    ],
    as_json: options.JsonOption = False,
) -> None:
    """Check flows, prompts and workspace exports, and try the examples of prompts. No model is asked.

    Each error says file and place, what was found and what was expected.
    """
    verdicts = [verdict for path in paths for verdict in _judge(path)]
    if as_json:
        output.print_json([_as_json(verdict) for verdict in verdicts])
    else:
        for verdict in verdicts:
            _print(verdict)
    if any(verdict.errors for verdict in verdicts):
        raise typer.Exit(2)


def _print(verdict: Verdict) -> None:
    for error in verdict.errors[:MAX_ERRORS]:
        output.note(f"error  {error}")
    if (more := len(verdict.errors) - MAX_ERRORS) > 0:
        output.note(f"error  {verdict.place}: {more:,} more")
    for warning in verdict.warnings:
        output.note(f"warning: {warning}")
    if not verdict.errors:
        what = output.counted(verdict.prompts, "prompt") if verdict.prompts > 1 else verdict.what
        examples = f", {output.counted(verdict.examples, 'example')}" if verdict.examples else ""
        typer.echo(f"OK     {verdict.place} ({what}{examples})")


def _judge(path: Path) -> Iterator[Verdict]:
    from trustgraph_prompt.prompts.files import SUFFIXES, PromptFiles
    from trustgraph_prompt.worker.flow import Flow

    if path.suffix == ".json":
        yield from _judge_export(path)
        return
    paths = [path]
    if path.is_dir():
        paths = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not paths:
        nothing = "no *.prompt and no *.yaml file"
        error = ConfigError(
            "nothing to check here", where=str(path), found=nothing, expected="prompts or flows"
        )
        yield Verdict(str(path), "folder", (error,))
    read = {file: _read(file) for file in paths}
    prompts = [found for _, found in read.values() if isinstance(found, PromptFiles)]
    systems = [one.entries["system"] for one in prompts if "system" in one.entries]
    for file, (what, found) in read.items():
        if isinstance(found, PromptFiles):
            yield _judge_prompts(file, found, {"system": systems[0]} if systems else {})
        else:
            errors = (found, *found.others) if isinstance(found, ConfigError) else ()
            yield Verdict(str(file), what, errors)
    yield from _judge_flows_together(
        {file: found for file, (_, found) in read.items() if isinstance(found, Flow)}
    )
    yield from _judge_prompts_together(prompts)


def _read(path: Path) -> tuple[str, Flow | PromptFiles | ConfigError]:
    """What a file is, and what it says, or what is wrong with it."""
    from trustgraph_prompt.prompts import files
    from trustgraph_prompt.worker import flow_file

    what = "file"
    try:
        what = "flow" if _is_flow(path) else "prompt"
        return what, flow_file.load(path)[0] if what == "flow" else files.read(path)
    except ConfigError as error:
        return what, error


def _judge_prompts(path: Path, read: PromptFiles, system: Mapping[str, str]) -> Verdict:
    """The prompts of one file, under the system message of their folder."""
    from trustgraph_prompt.ask import try_examples
    from trustgraph_prompt.prompts import PromptSet

    prompts = PromptSet.build({**system, **read.entries})
    wrong = try_examples(prompts, read.examples)
    errors = tuple(one for error in wrong for one in (error, *error.others))
    count = sum(key.startswith("template.") for key in read.entries)
    what = "prompt" if count else "system message" if read.entries else "no prompts"
    warnings = tuple(
        warning
        for id, prompt in prompts.prompts.items()
        for warning in _warnings(read.places[f"template.{id}"].of("/text") or str(path), prompt)
    )
    return Verdict(str(path), what, errors, count, len(read.examples), warnings)


def _warnings(place: str, prompt: PromptDefinition) -> Iterator[str]:
    from trustgraph_prompt.ask.grounding import examples_like_answers

    if keys := prompt.unnamed_keys:
        yield (
            f"{place}: {prompt.id} never names {_quoted(keys)}, so its question ends with what the answer "
            "must be; write {{ answer_format }} where that is to stand"
        )
    if answers := examples_like_answers(prompt):
        first = excerpt(json.dumps(answers[0], ensure_ascii=False))
        yield (
            f"{place}: {prompt.id} has an example that could be taken for an answer: {first}; "
            "small models give it back, which is refused where no term speaks of it"
        )


def _quoted(keys: list[str]) -> str:
    more = ", …" if len(keys) > MAX_KEYS else ""
    named = ", ".join(excerpt(f"`{key}`") for key in keys[:MAX_KEYS])
    return f"{'its key' if len(keys) == 1 else 'its keys'} {named}{more}"


def _judge_flows_together(flows: Mapping[Path, Flow]) -> Iterator[Verdict]:
    """What is wrong with good flows only because they are in one folder."""
    names: dict[str, Path] = {}
    for path, found in flows.items():
        if found.name in names:
            other = f"no name of another flow ({names[found.name]} has it)"
            error = ConfigError(
                "two flows have the same name",
                where=str(path),
                path="/name",
                found=found.name,
                expected=other,
            )
            yield Verdict(str(path), "flow", (error,))
        names.setdefault(found.name, path)


def _judge_prompts_together(prompts: list[PromptFiles]) -> Iterator[Verdict]:
    """What is wrong with good prompts only because they are of one workspace."""
    from trustgraph_prompt.prompts import files

    try:
        files.together(prompts).build()
    except ConfigError as error:
        yield Verdict(error.where or "", "prompt", (error, *error.others))


def _judge_export(path: Path) -> Iterator[Verdict]:
    from trustgraph_prompt.prompts import PromptSet, files

    try:
        entries = files.load(path)
    except ConfigError as error:
        yield Verdict(str(path), "export", (error,))
        return
    built = PromptSet.build(entries)
    for key in entries:
        refusal, prompt = built.refused.get(key), built.prompts.get(key.removeprefix("template."))
        errors = () if refusal is None else (_in_file(refusal, str(path)),)
        warnings = () if prompt is None else tuple(_warnings(f"{path} {key}", prompt))
        yield Verdict(f"{path} {key}", "entry", errors, warnings=warnings)


def _in_file(error: ConfigError, path: str) -> ConfigError:
    where = f"{path} {error.where or ''}".rstrip()
    return type(error)(
        error.message, where=where, path=error.path, found=error.found, expected=error.expected
    )


def _is_flow(path: Path) -> bool:
    from trustgraph_prompt.config_files import read_yaml

    if path.suffix == ".prompt":
        return False
    document = read_yaml(path)
    return isinstance(document, dict) and ("input" in document or "outputs" in document)


def _as_json(verdict: Verdict) -> dict[str, Any]:
    result: dict[str, Any] = {"place": verdict.place, "what": verdict.what, "ok": not verdict.errors}
    if verdict.prompts:
        result |= {"prompts": verdict.prompts, "examples": verdict.examples}
    if verdict.warnings:
        result["warnings"] = verdict.warnings
    if verdict.errors:
        errors = [_error_as_json(error) for error in verdict.errors]
        result |= {"error": errors[0], "others": errors[1:]}
    return result


def _error_as_json(error: ConfigError) -> dict[str, Any]:
    return {
        "message": error.message,
        "where": error.where,
        "path": error.path,
        "found": error.found,
        "expected": error.expected,
    }
