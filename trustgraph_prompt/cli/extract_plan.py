"""What `extract` asks: which prompts about which chunks of which documents."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustgraph_prompt.cli import options, output, progress, prompt_options
from trustgraph_prompt.documents import Document, listed
from trustgraph_prompt.documents.chunks import parse_overlap, parse_size
from trustgraph_prompt.errors import ConfigError, ContractError
from trustgraph_prompt.extraction import questions
from trustgraph_prompt.extraction.questions import Splitting
from trustgraph_prompt.extraction.unfit_answers import unfit_answers, why_unfit

if TYPE_CHECKING:
    from trustgraph_prompt.cli.extract_options import OutputOptions, QuestionOptions
    from trustgraph_prompt.cli.output_file import OutputFile
    from trustgraph_prompt.extraction.questions import Job
    from trustgraph_prompt.graph.ontology_choice import OntologyIndex
    from trustgraph_prompt.prompts import PromptDefinition, PromptSet

_EXPECTED = "a file, or MODULE:CLASS, such as machines:Machine for the class in machines.py"

DEFAULT_PROMPTS = ["extract-definitions", "extract-relationships"]
DEFAULT_WITH_ONTOLOGY = ["extract-with-ontologies"]


@dataclass(frozen=True)
class Plan:
    """The jobs of a run. `asked` are their prompts, `skipped` tells why which files are no documents.

    `model` is what the answers of an earlier run depend on. With an `ontology`, the prompts keep to it.
    `files` are all that were named or found. `record` is what the state says of how the run asks.
    """

    jobs: Sequence[Job]
    prompts: PromptSet
    asked: Sequence[PromptDefinition]
    terms: Mapping[str, object]
    splitting: Splitting
    model: str
    skipped: Sequence[str]
    ontology: OntologyIndex | None = None
    files: Sequence[Path] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def documents(self) -> list[Document]:
        """The documents, in the order of their first job."""
        return list({job.document.file: job.document for job in self.jobs}.values())

    @property
    def chunks(self) -> int:
        """How many chunks the documents have."""
        return len({(job.document.file, job.chunk.number) for job in self.jobs})

    @property
    def answer_limits(self) -> dict[str, int | None]:
        """The token limit of an answer, by prompt."""
        return {definition.id: definition.config.answer_limit for definition in self.asked}


def chunk_terms(given: list[str] | None) -> dict[str, object]:
    """Return the terms that every question gets beside its chunk. Raises `ConfigError`."""
    terms = prompt_options.terms(given)
    if "text" in terms:
        raise ConfigError("is reserved for the chunk", where="--term text")
    return terms


def check_schema(ids: Sequence[str] | None, given: QuestionOptions, outputs: OutputOptions) -> None:
    """Reject options that do not go with `--schema`. Raises `ConfigError`."""
    if ids or given.templates:
        raise ConfigError("makes a prompt of its own: leave out --prompt and --templates", where="--schema")
    if outputs.has_graph:
        how = "write a prompt file with a clause `graph`, which says what its keys name (--templates FILE)"
        raise ConfigError(f"makes no graph: {how}", where="--schema")


def make_plan(
    files: Sequence[Path],
    ids: Sequence[str] | None,
    schema: tuple[str, str] | None,
    given: QuestionOptions,
    terms: Mapping[str, object],
    model: str,
    file: OutputFile,
    written: Sequence[Path],
) -> Plan:
    """Read and split the files, without those that the run writes, and say which kept answers do not fit.

    Raises `ConfigError`.
    """
    prompts = _prompts_of(*schema) if schema else prompt_options.prompts(given.templates)
    found = _listed(files, prompts)
    default = DEFAULT_WITH_ONTOLOGY if given.ontology else DEFAULT_PROMPTS
    asked = [*prompts.prompts.values()] if schema else _asked(prompts, ids, default, given.templates)
    ontology = prompt_options.ontology(given.ontology, given.ontology_language)
    fingerprint = None if ontology is None else ontology.ontology.fingerprint
    size = parse_size(given.chunk_size, "--chunk-size")
    before = parse_overlap(given.overlap, size, "--overlap")
    splitting = Splitting(size, before)
    if before.length:
        if questions.CONTEXT in terms:
            raise ConfigError(
                "is reserved for what precedes the chunk (--overlap)", where=f"--term {questions.CONTEXT}"
            )
        prompts = questions.showing_context(prompts, asked)
        asked = [prompts.get(definition.id) for definition in asked]
    documents = [each for each in found if not _is_within(each, written)]
    jobs, unusable = questions.jobs(
        progress.reading(documents),
        asked,
        model=model,
        terms=terms,
        splitting=splitting,
        ontology=fingerprint,
    )
    for definition in asked:
        of_ontology = prompt_options.ontology_terms(definition, terms, ontology)
        prompt_options.require_terms(definition, {"text": "the chunk", **terms, **of_ontology})
    if unusable and not jobs:
        raise unusable[0]
    skipped = [str(error) for error in unusable]
    record = {"model": model, "terms": terms, **splitting.as_json()}
    if ontology is not None:
        record["ontology"] = f"{ontology.ontology.id} {fingerprint:.12}"
    record["unfit"] = _say_what_no_longer_fits(file, jobs, asked, record)
    return Plan(jobs, prompts, asked, terms, splitting, model, skipped, ontology, found, record)


def _listed(files: Sequence[Path], prompts: PromptSet) -> list[Path]:
    """The files to read. Raises `ConfigError`."""
    try:
        found, notes = listed([str(file) for file in files])
    except ConfigError as error:
        if error.where and prompts.find(error.where):
            error.add_note(f"the prompt of this name is given as --prompt {error.where}")
        raise
    for note in notes:
        output.note(note)
    return found


def _say_what_no_longer_fits(
    file: OutputFile, jobs: Sequence[Job], asked: Sequence[PromptDefinition], record: Mapping[str, object]
) -> Counter[str]:
    """Count the kept answers that fit no question, and say why those fit no more that fitted until now."""
    unfit, is_open = unfit_answers(file.state, jobs)
    last = file.record.run
    if is_open and (fresh := unfit - Counter(last.get("unfit", {}))):
        why = why_unfit(fresh, last, record, {definition.version for definition in asked})
        fit = "no longer fits" if fresh.total() == 1 else "no longer fit"
        output.note(f"{output.counted(fresh.total(), 'kept answer')} {fit}: {why}")
    return unfit


def _asked(
    prompts: PromptSet, ids: Sequence[str] | None, default: Sequence[str], templates: Path | None
) -> list[PromptDefinition]:
    """Return the prompts with these ids, or the default ones. Raises `ConfigError`."""
    if not ids and not any(map(prompts.find, default)):
        there = ", ".join(sorted(prompts.prompts)) or "none"
        raise ConfigError(
            f"no default prompts ({', '.join(default)}) here; give --prompt ID, one of: {there}",
            where=str(templates),
        )
    found = [prompt_options.prompt(prompts, id) for id in ids or default]
    return list({definition.id: definition for definition in found}.values())


def _is_within(file: Path, paths: Sequence[Path]) -> bool:
    """Whether a file is one of these, or in one of these folders."""
    real = Path(os.path.realpath(file))
    return any(real.is_relative_to(os.path.realpath(path)) for path in paths)


def _prompts_of(schema: str, question: str) -> PromptSet:
    """The prompt that asks for the objects of a JSON Schema in a file, or of a class, as `MODULE:CLASS`.

    The module is imported, from the current folder first. Raises `ConfigError`, `ContractError`.
    """
    from trustgraph_prompt.ask.typed_extraction import extraction_prompt
    from trustgraph_prompt.prompts import PromptSet

    if not question.strip() or question.startswith("-") or os.path.exists(question):
        raise ConfigError(
            "a question follows the schema",
            where=f"--schema {schema}",
            found=question,
            expected='a question, such as "find machines with maker and year"',
        )
    try:
        prompt = extraction_prompt(_wanted(schema), question, many=True)
    except ContractError as error:
        raise error.at(f"--schema {schema}") from None
    return replace(PromptSet.build({}), prompts={prompt.id: prompt})


def _wanted(schema: str) -> Any:
    module, _, name = schema.partition(":")
    if not name and (meant := _class_meant(schema)):
        raise ConfigError(
            f"names no class, did you mean {meant}?", where="--schema", found=schema, expected=_EXPECTED
        )
    if os.path.exists(schema) or not name:
        return options.read_json(Path(schema))
    sys.path.insert(0, "")
    try:
        return attrgetter(name)(import_module(module))
    except Exception as error:  # of the user's code, too
        raise ConfigError(
            f"cannot be imported: {type(error).__name__}: {error}",
            where="--schema",
            found=schema,
            expected=_EXPECTED,
        ) from error
    finally:
        sys.path.remove("")


def _class_meant(name: str) -> str | None:
    """The MODULE:CLASS that a name without a colon may stand for, such as models.py or models.Building."""
    module, _, last = name.rpartition(".")
    if module and last == "py":
        return f"{os.path.relpath(module).replace(os.sep, '.').lstrip('.')}:CLASS"
    is_dotted = module and name.replace(".", "").isidentifier() and not os.path.exists(name)
    return f"{module}:{last}" if is_dotted and last[0].isupper() else None
