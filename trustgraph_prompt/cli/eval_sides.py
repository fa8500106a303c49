"""What `eval` scores: prompts with a model, and what `--against` names: a version, other files or a model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from trustgraph_prompt import package_data
from trustgraph_prompt.cli import asking_run, broker_options, config_history, output, prompt_options
from trustgraph_prompt.cli.asking_run import LIMIT_REACHED, LimitedProvider, Questions
from trustgraph_prompt.cli.broker_options import ReadWorkspaceOptions
from trustgraph_prompt.cli.model_options import ModelOptions, recording
from trustgraph_prompt.cli.own_command import own_command
from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError
from trustgraph_prompt.evaluation import measured_prompts
from trustgraph_prompt.evaluation.gold import GoldQuestion, check_for, remarks
from trustgraph_prompt.evaluation.scores import is_unanswered
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.graph.ontology_answer import asks_for_facts
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.llm import Provider, ScriptedProvider
from trustgraph_prompt.prompts import PromptDefinition, PromptSet, files
from trustgraph_prompt.prompts.gold_file import GoldText, texts_for
from trustgraph_prompt.prompts.pool import pools_in
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY
from trustgraph_prompt.worker.config.history import bundled_system

_VERSION = re.compile("[0-9a-f]{4,64}")

_SUFFIXES = (".prompt", ".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Side:
    """What is scored: the prompts in `entries`, by config key, that `ids` names, with a model or a recording.

    Without a system message of their own, prompts get the bundled one, as in a worker.
    """

    entries: Mapping[str, str]
    ids: Sequence[str]
    model: ModelOptions

    @classmethod
    def of(cls, templates: Path | None, ids: Sequence[str], model: ModelOptions) -> Side:
        """Read the prompts of a file or folder, or the bundled ones. Raises `ConfigError`."""
        entries = {**bundled_system(), **files.load(templates or package_data.templates())}
        return cls(entries, ids, model)

    @property
    def name(self) -> str:
        """The model, or the recording."""
        return self.model.script or self.model.model or ""

    @cached_property
    def identity(self) -> str:
        """What kept answers depend on, beside the prompts. Raises `ConfigError`."""
        return self.model.identity

    def provider(self) -> Provider:
        """The provider that answers, without limits of time. Raises `ConfigError`."""
        if self.model.script is None:
            return self.model.provider(untimed=True)
        # Not `model.provider()`, which refuses --base-url and so on: these may be for the other side.
        return ScriptedProvider.load(recording(self.model.script))

    @cached_property
    def prompts(self) -> PromptSet:
        """The compiled prompts."""
        return PromptSet.build(self.entries)

    @cached_property
    def asked(self) -> list[PromptDefinition]:
        """The prompts to score. Raises `ConfigError` for one that is unknown, or that gives no objects."""
        found = [prompt_options.prompt(self.prompts, id) for id in self.ids]
        for definition in found:
            if definition.contract.format == "text":
                raise ConfigError("it answers with text, which contains no objects", where=definition.id)
        return list({definition.id: definition for definition in found}.values())

    def against(self, other: str, state: Path, place: ReadWorkspaceOptions) -> tuple[Side, Side]:
        """Return both sides: of the other, prompts of a path or a version, or the model, differ.

        A version is searched for in the state, then in the history on the broker. Raises `ConfigError`,
        `BrokerError`.
        """
        if Path(other).exists():
            system = {SYSTEM_KEY: self.entries[SYSTEM_KEY]}
            return self, replace(self, entries={**system, **files.load(other)})
        if _VERSION.fullmatch(other):
            return self._against_version(other, state, place)
        if other.endswith(_SUFFIXES) or other.startswith((".", os.sep)):
            raise ConfigError("there is no such file or folder", where="--against", found=other)
        for definition in self.asked:
            if definition.config.model is not None:
                raise ConfigError(
                    f"{definition.id} names its own model, which is asked whatever --model is",
                    where="--against",
                    found=other,
                    expected="a prompt that names no model",
                )
        if other.startswith("scripted:"):
            return self, replace(self, model=self.model.but(script=other, model=None))
        return self, replace(self, model=self.model.but(script=None, model=other))

    def _against_version(self, version: str, state: Path, place: ReadWorkspaceOptions) -> tuple[Side, Side]:
        """A measured version keeps its system message; with one of the history both sides get the present."""
        if len(self.asked) > 1:
            raise ConfigError(
                "a version is that of one prompt", where="--against", found=version, expected="one PROMPT"
            )
        id = self.asked[0].id
        if measured := measured_prompts.find(state, id, version):
            return self, replace(self, entries=measured)
        try:
            kept = config_history.look(place)
            text = kept.find(PREFIX + id, version)
        except TrustgraphPromptError as error:
            kind = ConfigError if isinstance(error, ConfigError) else TrustgraphPromptError
            unknown = f"{state} has no answers of the version {version} of {id}, nor is it in the history"
            with broker_options.naming(place.broker):
                raise kind(f"--against: {unknown}: {error}") from error
        new = replace(self, entries={**self.entries, SYSTEM_KEY: kept.system})
        old = {**pools_in(kept.present), SYSTEM_KEY: text.system or kept.system, PREFIX + id: text.entry}
        return new, replace(self, entries=old)


def as_facts(asked: Sequence[PromptDefinition], ontology: OntologyIndex | None) -> Callable[[Any], Any]:
    """What makes facts of objects, if all prompts ask for facts in the terms of an ontology."""
    if ontology is None or not all(asks_for_facts(definition.contract) for definition in asked):
        return lambda value: value
    return ontology.vocabulary.as_fact


def remarks_on(
    asked: Sequence[PromptDefinition],
    texts: Sequence[GoldText],
    gold: Path,
    terms: Mapping[str, object],
    ontology: OntologyIndex | None = None,
) -> dict[str, list[str]]:
    """Print remarks about the texts of each prompt, and return them. Raises `ConfigError` if any is unfit."""
    found: dict[str, list[str]] = {}
    for definition in asked:
        if not (own := texts_for(definition, texts)):
            raise ConfigError(f"no line is for {definition.id}", where=str(gold))
        for text in own:
            prompt_options.ontology_terms(definition, text.terms, ontology, text.where)
        of_ontology = prompt_options.ontology_terms(definition, terms, ontology)
        check_for(definition, own, {**terms, **of_ontology})
        found[definition.id] = [*remarks(definition, own), *_left_out(definition, own, terms)]
        for remark in found[definition.id]:
            output.note(remark)
    return found


def _left_out(
    definition: PromptDefinition, texts: Sequence[GoldText], terms: Mapping[str, object]
) -> Iterator[str]:
    """For how many texts an example is not shown because it has the same text."""
    count = sum(definition.chooser.left_out({**terms, **text.terms}) > 0 for text in texts)
    if count:
        of = f"{count:,} of {output.counted(len(texts), 'text')}"
        yield f"{definition.id} shows no example that has the same text, or part of it: left out for {of}"


@dataclass
class SideProgress:
    """Counts the results of one side."""

    questions: Sequence[GoldQuestion]
    results: list[Result[GoldQuestion]] = field(default_factory=list)
    failed: int = 0

    @property
    def total(self) -> int:
        return len(self.questions)

    @property
    def done(self) -> int:
        return len(self.results)

    @property
    def rest(self) -> str:
        return ""

    def begin(self) -> str:
        questions = output.counted(self.total, "question")
        return f"{questions}; those with an answer from an earlier run are not asked again"

    def line(self) -> str:
        kept = sum(result.earlier for result in self.results)
        answers = f"{self.done - self.failed:,}/{output.counted(self.total, 'answer')}"
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{answers}, {kept:,} kept from earlier runs{failed}"

    def add(self, result: Result[GoldQuestion]) -> None:
        self.results.append(result)
        self.failed += is_unanswered(result)


def ask(
    questions: Questions[GoldQuestion], within: LimitedProvider, owner: Mapping[str, object]
) -> list[Result[GoldQuestion]]:
    """Ask what has no answer yet, and return all results.

    A signal, the limit of cost and a hopeless run end the program.
    """
    counted = SideProgress(questions.jobs)
    ending = asking_run.run(questions, within, counted, counted.add, owner, is_unanswered)
    if ending.interrupted:
        advise("interrupted: run the same command again for the rest")
        raise typer.Exit(130)
    if within.spending is not None and within.spending.reached:
        advise("ended by --max-cost: run the same command again, with a higher limit if need be")
        raise typer.Exit(LIMIT_REACHED)
    if counted.done < counted.total:
        for result in counted.results[-1:]:
            output.note(f"{result.job.place}: {result.failure}")
        output.note(f"{output.counted(counted.total - counted.done, 'question')} not asked")
        raise typer.Exit(1)
    return counted.results


def advise(what: str) -> None:
    """Say what to do, with the command to type."""
    output.note(f"{what}:\n  {own_command()}")
