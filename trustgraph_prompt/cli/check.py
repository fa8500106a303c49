"""`check`: validates flow files, prompt files, exports, gold files and recordings before they are used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trustgraph_prompt.cli import options, output
from trustgraph_prompt.cli.options import argument
from trustgraph_prompt.errors import ConfigError, excerpt, suggestion

if TYPE_CHECKING:
    from trustgraph_prompt.evaluation.gold import GoldText
    from trustgraph_prompt.prompts import PromptDefinition, PromptSet
    from trustgraph_prompt.prompts.files import PromptFiles
    from trustgraph_prompt.worker.flow import Flow

EXAMPLE = "check templates/ flows/ export.json"

MAX_ERRORS = 20
"""How many errors of one file are printed."""

MAX_KEYS = 5
"""How many keys a warning lists."""

MAX_KEYS_COMPARED = 100
MAX_BYTES_COMPARED = 100_000
"""How many keys of a file, and bytes of its lines, decide what it is: a flow or a recording."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one file, or for one entry of an export. It is valid if there are no errors.

    `entries` are its valid entries, `flow` is its valid flow, or `gold` are its valid texts.
    """

    place: str
    what: str
    errors: tuple[ConfigError, ...] = ()
    prompts: int = 0
    examples: int = 0
    warnings: tuple[str, ...] = ()
    entries: Mapping[str, str] = field(default_factory=dict)
    flow: Flow | None = None
    gold: Sequence[GoldText] = ()


def command(
    paths: list[Path] = argument(
        "PATH…",
        "Flow files, prompt files, folders of both, exports of a workspace (.json), and gold files "
        "of `eval` or recordings (.jsonl).",
    ),
    as_json: options.JsonOption = False,
) -> None:
    """Validate flows, prompts, exports, gold files and recordings, and test the examples of prompts.

    Flows and gold files are compared with the prompts among the files, or with the bundled ones if there are
    none.
    No model is called. Each error names the file, the position or key, what was found and what was expected.
    Exits with 2 if there are errors.
    """
    verdicts = [verdict for path in paths for verdict in _check(path)]
    if not any(verdict.errors for verdict in verdicts):
        verdicts = _compared_with_prompts(verdicts)
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
        what = output.counted(len(verdict.gold), "gold text") if verdict.gold else what
        examples = f", {output.counted(verdict.examples, 'example')}" if verdict.examples else ""
        output.say(f"OK     {verdict.place} ({what}{examples})")


def _check(path: Path) -> Iterator[Verdict]:
    from trustgraph_prompt.prompts.files import SUFFIXES, PromptFiles
    from trustgraph_prompt.worker.flow import Flow

    if path.suffix == ".json":
        yield from _check_export(path)
        return
    if path.suffix == ".jsonl":
        yield _check_lines(path)
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
    systems = [file.entries["system"] for file in prompts if "system" in file.entries]
    for file, (what, found) in read.items():
        if isinstance(found, PromptFiles):
            yield _check_prompts(file, found, {"system": systems[0]} if systems else {})
        else:
            errors = _all(found) if isinstance(found, ConfigError) else ()
            yield Verdict(str(file), what, errors, flow=found if isinstance(found, Flow) else None)
    yield from _check_flows_together(
        {file: found for file, (_, found) in read.items() if isinstance(found, Flow)}
    )
    yield from _check_prompts_together(prompts)


def _read(path: Path) -> tuple[str, Flow | PromptFiles | ConfigError]:
    """The kind of a file, and its content or its errors."""
    from trustgraph_prompt.prompts import files
    from trustgraph_prompt.worker import flow_file

    what = "file"
    try:
        what = "flow" if _is_flow(path) else "prompt"
        return what, flow_file.load(path)[0] if what == "flow" else files.read(path)
    except ConfigError as error:
        return what, error


def _check_prompts(path: Path, read: PromptFiles, system: Mapping[str, str]) -> Verdict:
    """Check the prompts of one file under the system message of their folder."""
    from trustgraph_prompt.ask import try_examples
    from trustgraph_prompt.prompts import PromptSet

    prompts = PromptSet.build({**system, **read.entries})
    wrong = try_examples(prompts, read.examples)
    errors = tuple(one for error in wrong for one in _all(error))
    count = sum(key.startswith("template.") for key in read.entries)
    what = "prompt" if count else "system message" if read.entries else "no prompts"
    warnings = tuple(
        warning
        for id, prompt in prompts.prompts.items()
        for warning in _warnings(read.places[f"template.{id}"].of("/text") or str(path), prompt)
    )
    return Verdict(str(path), what, errors, count, len(read.examples), warnings, read.entries)


def _warnings(place: str, prompt: PromptDefinition) -> Iterator[str]:
    from trustgraph_prompt.ask.echoes import examples_like_answers
    from trustgraph_prompt.contract.object_keys import not_looked_up

    if keys := prompt.unnamed_keys:
        yield (
            f"{place}: the text of {prompt.id} does not say that the answer has {_quoted(keys)}, so a "
            "description of the answer is added at its end; write {{ answer_format }} where it should be"
        )
    if keys := not_looked_up(prompt.contract):
        yield (
            f"{place}: {prompt.id} does not look up {_quoted(keys)} in the text, and models make up numbers "
            "and dates that the text does not give; mark what it should give with `@from`, or `x-from`"
        )
    if prompt.graph and (keys := not_looked_up(prompt.contract, dict.fromkeys(prompt.graph.names))):
        yield (
            f"{place}: {prompt.id} makes things of {_quoted(keys)} in the graph, and does not look up their "
            "names in the text; mark what the text names with `@from`, or `x-from`"
        )
    if answers := examples_like_answers(prompt):
        first = excerpt(json.dumps(answers[0], ensure_ascii=False))
        yield (
            f"{place}: {prompt.id} contains an example that looks like an answer: {first}; "
            "small models repeat it, and it is rejected unless a term mentions it"
        )


def _quoted(keys: list[str]) -> str:
    more = ", …" if len(keys) > MAX_KEYS else ""
    named = ", ".join(excerpt(f"`{key}`") for key in keys[:MAX_KEYS])
    return f"{'the key' if len(keys) == 1 else 'the keys'} {named}{more}"


def _check_flows_together(flows: Mapping[Path, Flow]) -> Iterator[Verdict]:
    """Find valid flows that conflict with others of their folder."""
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


def _check_prompts_together(prompts: list[PromptFiles]) -> Iterator[Verdict]:
    """Find valid prompts that conflict with others of their folder."""
    from trustgraph_prompt.prompts import files

    try:
        files.together(prompts).build()
    except ConfigError as error:
        yield Verdict(error.where or "", "prompt", _all(error))


def _check_export(path: Path) -> Iterator[Verdict]:
    from trustgraph_prompt.prompts import PromptSet, files

    try:
        entries = files.load(path)
    except ConfigError as error:
        yield Verdict(str(path), "export", _all(error))
        return
    built = PromptSet.build(entries)
    for key in entries:
        refusal, prompt = built.refused.get(key), built.prompts.get(key.removeprefix("template."))
        errors = () if refusal is None else tuple(_in_file(error, str(path)) for error in _all(refusal))
        warnings = () if prompt is None else tuple(_warnings(f"{path} {key}", prompt))
        yield Verdict(f"{path} {key}", "entry", errors, warnings=warnings, entries={key: entries[key]})


def _check_lines(path: Path) -> Verdict:
    """Check a recording if its lines have more keys of one than of a gold file, as any may be misspelt."""
    from trustgraph_prompt.evaluation import gold
    from trustgraph_prompt.llm import recordings

    keys = _keys_of_lines(path)
    is_gold = _known(keys, gold.LINE["properties"]) >= _known(keys, recordings.LINE["properties"])
    try:
        if is_gold:
            return Verdict(str(path), "gold file", gold=gold.read(path))
        return Verdict(str(path), f"recording, {output.counted(len(list(recordings.read(path))), 'answer')}")
    except ConfigError as error:
        return Verdict(str(path), "gold file" if is_gold else "recording", _all(error))


def _keys_of_lines(path: Path) -> list[str]:
    """The keys of the objects in the first lines."""
    keys: dict[str, None] = {}
    if not path.is_file():  # opening a named pipe would wait for somebody to write into it
        return []
    with suppress(OSError), path.open("rb") as file:
        for line in file.readlines(MAX_BYTES_COMPARED):
            with suppress(ValueError):
                value = json.loads(line)
                keys.update(dict.fromkeys(value if isinstance(value, dict) else ()))
    return list(keys)[:MAX_KEYS_COMPARED]


def _compared_with_prompts(verdicts: list[Verdict]) -> list[Verdict]:
    """The verdicts, with what flows lack as warnings, and with the errors of gold files for their prompts."""
    from trustgraph_prompt import package_data
    from trustgraph_prompt.prompts import PromptSet, files

    if not any(verdict.flow or verdict.gold for verdict in verdicts):
        return verdicts
    given = {key: entry for verdict in verdicts for key, entry in verdict.entries.items()}
    prompts = PromptSet.build(given or files.load(package_data.templates()))
    scored = [prompt.id for prompt in prompts.prompts.values() if prompt.contract.format != "text"]
    only = scored[0] if given and len(scored) == 1 else None
    return [_compared(verdict, prompts, only) for verdict in verdicts]


def _compared(verdict: Verdict, prompts: PromptSet, only: str | None) -> Verdict:
    """Compare a flow, or a gold file: lines that name no prompt are for the only one, if there is one."""
    if verdict.flow and (lack := verdict.flow.what_it_lacks({verdict.flow.workspace: prompts})):
        return replace(verdict, warnings=(f"{verdict.place}: {lack}",))
    for id in dict.fromkeys(id for text in verdict.gold if (id := text.prompt or only)):
        warnings, errors = _gold_compared(verdict, id, prompts.find(id))
        placed = (f"{verdict.place}: {warning}" for warning in warnings)
        verdict = replace(verdict, warnings=(*verdict.warnings, *placed), errors=(*verdict.errors, *errors))
    return verdict


def _gold_compared(
    verdict: Verdict, id: str, prompt: PromptDefinition | None
) -> tuple[list[str], tuple[ConfigError, ...]]:
    """Warnings and errors about the gold texts that are for a prompt."""
    from trustgraph_prompt.evaluation.gold import check_for, remarks, terms_in_no_text, texts_for

    if prompt is None:
        return [f"not compared with the prompt {id}, which is not among the files"], ()
    texts = texts_for(prompt, verdict.gold)
    warnings, missing = remarks(prompt, texts), ", ".join(terms_in_no_text(prompt, texts))
    if missing and not any(text.prompt for text in texts):
        why = f"as no line has its terms {missing}: give them to `eval` as --term"
        return [*warnings, f"not compared with {id}, {why}"], ()
    try:
        check_for(prompt, texts, {})
    except ConfigError as error:
        return warnings, _all(error)
    return warnings, ()


def _all(error: ConfigError) -> tuple[ConfigError, ...]:
    return (error, *error.others)


def _in_file(error: ConfigError, path: str) -> ConfigError:
    where = f"{path} {error.where or ''}".rstrip()
    return type(error)(
        error.message, where=where, path=error.path, found=error.found, expected=error.expected
    )


def _is_flow(path: Path) -> bool:
    """Whether a file has more keys of a flow than of a prompt, as any of them may be misspelt."""
    from trustgraph_prompt.config_files import read_yaml
    from trustgraph_prompt.prompts.entry_schema import SCHEMA
    from trustgraph_prompt.worker import flow_file

    if path.suffix == ".prompt":
        return False
    document = read_yaml(path)
    if not isinstance(document, dict):
        expected = (
            "a flow or a prompt in YAML, *.prompt, an export (*.json), a gold file or a recording (*.jsonl)"
        )
        raise ConfigError("cannot be checked", where=str(path), found=document, expected=expected)
    keys = list(islice(document, MAX_KEYS_COMPARED))
    return _known(keys, flow_file.schema()["properties"]) > _known(keys, SCHEMA["properties"])


def _known(keys: list[str], declared: Mapping[str, Any]) -> tuple[int, int]:
    """How many keys are declared, and how many are similar to a declared one."""
    return sum(key in declared for key in keys), sum(bool(suggestion(key, declared)) for key in keys)


def _as_json(verdict: Verdict) -> dict[str, Any]:
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
