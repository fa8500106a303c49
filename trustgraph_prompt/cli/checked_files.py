"""Checks files before they are used: each by itself, then flows and gold files with the prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from trustgraph_prompt import package_data
from trustgraph_prompt.ask import try_examples
from trustgraph_prompt.ask.echoes import examples_like_answers
from trustgraph_prompt.cli import output
from trustgraph_prompt.config_files import read_yaml
from trustgraph_prompt.contract.object_keys import late_quotes, not_looked_up
from trustgraph_prompt.errors import ConfigError, excerpt, suggestion
from trustgraph_prompt.evaluation.gold import check_for, remarks, terms_in_no_text
from trustgraph_prompt.llm import recording_files
from trustgraph_prompt.prompts import PromptDefinition, PromptSet, gold_file
from trustgraph_prompt.prompts import files as prompt_files
from trustgraph_prompt.prompts.entry_schema import SCHEMA
from trustgraph_prompt.prompts.files import SUFFIXES, PromptFiles
from trustgraph_prompt.prompts.gold_file import GoldText, texts_for
from trustgraph_prompt.worker import flow_file
from trustgraph_prompt.worker.flow import Flow

MAX_KEYS = 5
"""How many keys a warning lists."""

MAX_REPEATED = 100
"""How many characters of a text may stand around each passage of an example without a warning."""

MAX_KEYS_COMPARED = 100
MAX_BYTES_COMPARED = 100_000
"""How many keys of a file, and bytes of its lines, decide what it is: a flow or a recording."""

_LINES: Mapping[str, Mapping[str, Any]] = {
    "gold file": gold_file.LINE["properties"],
    "recording": recording_files.LINE["properties"],
    "file of objects": dict.fromkeys(("prompt", "file", "sha256", "chunk", "start", "object")),
}
"""The keys of lines, by what the file is."""

_UNKNOWN = "not compared with the prompt {}, which is not among the files"

_WITHOUT_PROMPTS = ("flow", *_LINES)
"""Files whose errors say nothing about the prompts that others are compared with."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The result for one file, or for one entry of an export. It is valid if there are no errors.

    `entries` are its valid entries, `flow` is its valid flow, or `gold` are its valid texts. `named` are the
    prompts of a recording, and of a gold file with errors.
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
    named: Sequence[str] = ()


def checked(paths: Iterable[Path]) -> list[CheckedFile]:
    """Check files and folders, and compare flows and lines with the prompts if these have no errors."""
    found = [each for path in paths for each in _check(path)]
    if any(each.errors for each in found if each.what not in _WITHOUT_PROMPTS):
        return found
    return _compared_with_prompts(found)


def _check(path: Path) -> Iterable[CheckedFile]:
    if path.suffix == ".json":
        return _check_export(path)
    if path.suffix == ".jsonl":
        return [_check_lines(path)]
    if not path.is_dir():
        return _check_together([path])
    if files := sorted(file for file in path.iterdir() if file.suffix in SUFFIXES):
        return _check_together(files)
    error = ConfigError(
        "nothing to check here",
        where=str(path),
        found="no *.prompt and no *.yaml file",
        expected="prompts or flows",
    )
    return [CheckedFile(str(path), "folder", (error,))]


def _check_together(paths: Iterable[Path]) -> Iterator[CheckedFile]:
    """Check flow files and prompt files, each by itself, then those that are valid for conflicts."""
    read = {file: _read(file) for file in paths}
    prompts = [found for _, found in read.values() if isinstance(found, PromptFiles)]
    systems = [file.entries["system"] for file in prompts if "system" in file.entries]
    flows: dict[str, Path] = {}
    for file, (what, found) in read.items():
        if isinstance(found, PromptFiles):
            yield _check_prompts(file, found, {"system": systems[0]} if systems else {})
        elif isinstance(found, Flow):
            yield CheckedFile(str(file), what, flow=found)
        else:
            yield CheckedFile(str(file), what, _all(found))
    for file, (_, found) in read.items():
        if isinstance(found, Flow) and flows.setdefault(found.name, file) != file:
            error = ConfigError(
                "two flows have the same name",
                where=str(file),
                path="/name",
                found=found.name,
                expected=f"no name of another flow ({flows[found.name]} has it)",
            )
            yield CheckedFile(str(file), "flow", (error,))
    try:
        prompt_files.together(prompts).build()
    except ConfigError as error:
        yield CheckedFile(error.where or "", "prompt", _all(error))


def _read(path: Path) -> tuple[str, Flow | PromptFiles | ConfigError]:
    """The kind of a file, and its content or its errors."""
    what = "file"
    try:
        what = "flow" if _is_flow(path) else "prompt"
        return what, flow_file.load(path)[0] if what == "flow" else prompt_files.read(path)
    except ConfigError as error:
        return what, error


def _check_prompts(path: Path, read: PromptFiles, system: Mapping[str, str]) -> CheckedFile:
    """Check the prompts of one file under the system message of their folder."""
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
    return CheckedFile(str(path), what, errors, count, len(read.examples), warnings, read.entries)


def _warnings(place: str, prompt: PromptDefinition) -> Iterator[str]:
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
    if (keys := [*prompt.contract.quote_keys]) and not prompt.contract.roles:
        yield (
            f"{place}: {prompt.id} quotes the text in {_quoted(keys)}, and does not say what the quote is to "
            "support, so that is not checked; add a clause `graph`, or mark the key that says something with "
            "`@supported(of: KEY)`, or `x-supported`"
        )
    if prompt.shown and (repeated := len(prompt.template.needs.fixed.strip())) > MAX_REPEATED:
        yield (
            f"{place}: {prompt.id} repeats {repeated:,} characters of its text with each example that it "
            "shows; write instructions into `system`"
        )
    if keys := late_quotes(prompt.contract):
        yield (
            f"{place}: {prompt.id} asks for a quote after what it is to support, in {_quoted(keys)}; a "
            "model that quotes first makes up less"
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


def _check_export(path: Path) -> Iterator[CheckedFile]:
    try:
        entries = prompt_files.load(path)
    except ConfigError as error:
        yield CheckedFile(str(path), "export", _all(error))
        return
    built = PromptSet.build(entries)
    for key in entries:
        refusal, prompt = built.refused.get(key), built.prompts.get(key.removeprefix("template."))
        errors = () if refusal is None else tuple(_in_file(error, str(path)) for error in _all(refusal))
        warnings = () if prompt is None else tuple(_warnings(f"{path} {key}", prompt))
        yield CheckedFile(f"{path} {key}", "entry", errors, warnings=warnings, entries={key: entries[key]})


def _check_lines(path: Path) -> CheckedFile:
    """Check a file as that of which its lines have the most keys, as any of them may be misspelt."""
    first = _objects_in(path, MAX_BYTES_COMPARED)
    keys = list(dict.fromkeys(key for line in first for key in line))[:MAX_KEYS_COMPARED]
    what = max(_LINES, key=lambda kind: _known(keys, _LINES[kind]))
    try:
        if what == "gold file":
            return CheckedFile(str(path), what, gold=gold_file.read(path))
        if what == "recording":
            answers = output.counted(len(list(recording_files.read(path))), "answer")
            return CheckedFile(str(path), f"{what}, {answers}", named=_prompts_in(path))
        raise ConfigError(
            "cannot be checked",
            where=str(path),
            found="a file of objects, written by `extract`",
            expected="a recording, or a gold file, which `eval --from` makes of it",
        )
    except ConfigError as error:
        named = () if what == "file of objects" else _prompts_in(path)
        return CheckedFile(str(path), what, _all(error), named=named)


def _prompts_in(path: Path) -> list[str]:
    """The prompts that the lines of a file name."""
    ids = (line.get("prompt") for line in _objects_in(path))
    return list(dict.fromkeys(id for id in ids if isinstance(id, str)))


def _objects_in(path: Path, most: int = -1) -> Iterator[Mapping[str, Any]]:
    """The objects in the lines of a file, or in the first lines with so many bytes."""
    if not path.is_file():  # opening a named pipe would wait for somebody to write into it
        return
    with suppress(OSError), path.open("rb") as file:
        for line in file.readlines(most):
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value


def _compared_with_prompts(files: list[CheckedFile]) -> list[CheckedFile]:
    """The files, with what flows lack as warnings, and with the errors of gold files for their prompts."""
    if not any(file.flow or file.gold or file.named for file in files):
        return files
    given = {key: entry for file in files for key, entry in file.entries.items()}
    prompts = PromptSet.build(given or prompt_files.load(package_data.templates()))
    scored = [prompt.id for prompt in prompts.prompts.values() if prompt.contract.format != "text"]
    only = scored[0] if given and len(scored) == 1 else None
    return [_compared(file, prompts, only) for file in files]


def _compared(file: CheckedFile, prompts: PromptSet, only: str | None) -> CheckedFile:
    """Compare a flow, or a file of lines: gold texts that name no prompt are for the only one, if any."""
    if file.flow and (lack := file.flow.what_it_lacks({file.flow.workspace: prompts})):
        return replace(file, warnings=(f"{file.place}: {lack}",))
    unknown = [_UNKNOWN.format(excerpt(id)) for id in file.named if prompts.find(id) is None]
    file = replace(file, warnings=(*file.warnings, *(f"{file.place}: {warning}" for warning in unknown)))
    for id in dict.fromkeys(id for text in file.gold if (id := text.prompt or only)):
        warnings, errors = _gold_compared(file, id, prompts.find(id))
        placed = (f"{file.place}: {warning}" for warning in warnings)
        file = replace(file, warnings=(*file.warnings, *placed), errors=(*file.errors, *errors))
    return file


def _gold_compared(
    file: CheckedFile, id: str, prompt: PromptDefinition | None
) -> tuple[list[str], tuple[ConfigError, ...]]:
    """Warnings and errors about the gold texts that are for a prompt."""
    if prompt is None:
        return [_UNKNOWN.format(id)], ()
    texts = texts_for(prompt, file.gold)
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
