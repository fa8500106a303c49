"""`extract_document`: instances of a type from the chunks of files, in the way of the command `extract`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar, overload

from trustgraph_prompt.ask.typed_extraction import check_arguments, extraction_prompt, run_and_close
from trustgraph_prompt.contract import Contract, Grounding
from trustgraph_prompt.documents import listed
from trustgraph_prompt.documents.chunks import parse_overlap, parse_size
from trustgraph_prompt.errors import ConfigError, Reason
from trustgraph_prompt.extraction import questions
from trustgraph_prompt.extraction.questions import Job, Splitting
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.extraction.run import Extraction
from trustgraph_prompt.extraction.run_record import RunRecord
from trustgraph_prompt.graph import ontology_files
from trustgraph_prompt.graph.ontology_choice import OntologyIndex
from trustgraph_prompt.llm import Provider
from trustgraph_prompt.prompts import PromptDefinition, PromptSet
from trustgraph_prompt.prompts.within_ontology import why_not_within
from trustgraph_prompt.reader import Rejected

T = TypeVar("T")
log = logging.getLogger("trustgraph_prompt.extraction")
# else each unusable answer is told on stderr, without its place; its outcome says more
logging.getLogger("trustgraph_prompt.worker").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class ChunkOutcome(Generic[T]):
    """What came of asking about one chunk, and where the chunk is from.

    `file` is the document, `sha256` the hash of its text, `number` that of the chunk from 1, `start` where
    its `text` begins in the text of the document, `page` and `heading` where it begins in the file.
    `grounding` has the positions in `text` of the values of each instance. `reason` is that of the answer,
    and None where there is none, as for a file that cannot be read (a chunk 0); `problem` says why. `earlier`
    says that the answer was kept from an earlier run.
    """

    file: str
    sha256: str = ""
    number: int = 0
    start: int = 0
    text: str = field(default="", repr=False)
    page: int | None = None
    heading: str | None = None
    instances: list[T] = field(default_factory=list)
    grounding: list[Mapping[str, Grounding | None]] = field(default_factory=list, repr=False)
    rejected: list[Rejected] = field(default_factory=list, repr=False)
    truncated: bool = False
    reason: Reason | None = None
    problem: str = ""
    earlier: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is a usable answer."""
        return self.reason is Reason.SUCCESS


async def aextract_document(
    path: str | PathLike[str],
    wanted: Any,
    provider: Provider,
    *,
    instruction: str = "",
    ontology: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    state: str | PathLike[str] | None = None,
    chunk_size: int | str = 2000,
    overlap: int | str = 0,
    concurrency: int = 8,
) -> list[ChunkOutcome[Any]]:
    """Ask about each chunk of a file, or of all files in a folder; returns their outcomes in order.

    `wanted` is a type, a schema or a contract as for `aextract`, with its `instruction`, or a prompt that
    needs no term but `text` and those of an `ontology`: a file, or several, which are merged. `chunk_size`
    and `overlap` are those of the command: characters, or tokens as in "800t"; an overlap also "10%". Answers
    are kept in the file `state`. Another run with it only asks what has no answer yet, or has changed:
    prompt, model, ontology or text.

    The logger `trustgraph_prompt.extraction` warns of what is skipped in a folder, or not read of a document,
    and of what is odd in an ontology.

    The provider stays open. Raises `ConfigError` if no file can be read, if the prompt cannot keep to the
    ontology, or if `state` belongs to something else, `ContractError` as `aextract`, and `BrokerError` if
    another run uses the state. Unusable answers and errors of the provider are not raised: see
    `ChunkOutcome`.
    """
    check_arguments(provider, instruction=instruction)
    if concurrency < 1:
        raise ValueError(f"concurrency: expected at least 1, found {concurrency}")
    prompt = wanted if isinstance(wanted, PromptDefinition) else extraction_prompt(wanted, instruction)
    size = parse_size(str(chunk_size), "chunk_size")
    splitting = Splitting(size, parse_overlap(str(overlap), size, "overlap"))
    prompts = replace(PromptSet.build({}), prompts={prompt.id: prompt})
    if splitting.overlap.length:
        prompts = questions.showing_context(prompts, [prompt])
    model = provider.identity.model or provider.identity.place
    index = await asyncio.to_thread(_index, ontology, prompt)
    jobs, skipped = await asyncio.to_thread(_jobs, path, prompts.get(prompt.id), model, splitting, index)
    with TemporaryDirectory() as folder:
        kept = Path(state or Path(folder, "state"))
        record = await asyncio.to_thread(RunRecord, kept, "extract", "state")  # has a loop of its own
        results: list[Result] = []
        await Extraction(
            jobs,
            prompts,
            provider,
            state=kept,
            terms={},
            concurrency=concurrency,
            listen=results.append,
            owner=record.owner(kept, model=model, terms={}, **splitting.as_json()),
            ontology=index,
        ).run()
    found = {result.job.position: result for result in results}
    return [_outcome(found.get(job.position) or Result(job), prompt.contract) for job in jobs] + skipped


@overload
def extract_document(
    path: str | PathLike[str], wanted: type[list[T]], provider: Provider, **options: Any
) -> list[ChunkOutcome[T]]: ...


@overload
def extract_document(
    path: str | PathLike[str], wanted: object, provider: Provider, **options: Any
) -> list[ChunkOutcome[Any]]: ...


def extract_document(
    path: str | PathLike[str], wanted: Any, provider: Provider, **options: Any
) -> list[ChunkOutcome[Any]]:
    """Run `aextract_document`, with its options, in an event loop of its own.

    The provider is closed, and opens new connections when it is used again. Raises `RuntimeError` where a
    loop is running, and what `aextract_document` raises.
    """
    return run_and_close(
        extract_document, lambda: aextract_document(path, wanted, provider, **options), provider
    )


def _index(
    files: str | PathLike[str] | Sequence[str | PathLike[str]], prompt: PromptDefinition
) -> OntologyIndex | None:
    """The ontology of some files, which the prompt keeps to; None without any."""
    paths = [Path(file) for file in ([files] if isinstance(files, str | PathLike) else files)]
    if not paths:
        return None
    ontology = ontology_files.load(paths)
    if why := why_not_within(prompt, ontology):
        raise ConfigError(why, where="ontology")
    return ontology_files.index_of(ontology, partial(log.warning, "%s"))


def _jobs(
    path: str | PathLike[str],
    prompt: PromptDefinition,
    model: str,
    splitting: Splitting,
    ontology: OntologyIndex | None,
) -> tuple[list[Job], list[ChunkOutcome[Any]]]:
    """The questions about the chunks of files, and an outcome for each file that cannot be read."""
    files, notes = listed([str(path)])
    jobs, unusable = questions.jobs(
        files,
        [prompt],
        model=model,
        terms={},
        splitting=splitting,
        ontology=None if ontology is None else ontology.ontology.fingerprint,
    )
    documents = {job.document.file: job.document for job in jobs}.values()
    for note in (*notes, *(f"{each.file}: {note}" for each in documents for note in each.notes)):
        log.warning("%s", note)
    if unusable and not jobs:
        raise unusable[0]
    return jobs, [ChunkOutcome(error.where or "", problem=str(error)) for error in unusable]


def _outcome(result: Result, contract: Contract) -> ChunkOutcome[Any]:
    document, chunk, answer = result.job.document, result.job.chunk, result.answer
    place = document.place(chunk.start)
    origin: ChunkOutcome[Any] = ChunkOutcome(
        document.file, document.sha256, chunk.number, chunk.start, chunk.text, place.page, place.heading
    )
    if answer is None:
        return replace(origin, problem=result.failure or "was not asked: calls before it failed")
    objects = [found.value for found in result.objects]
    if contract.many and contract.format == "json":
        objects = answer.value or []  # which is one value, and not published object by object
    return replace(
        origin,
        instances=contract.build(objects) if contract.many else [contract.build(one) for one in objects],
        grounding=[found.groundings for found in result.objects],
        rejected=answer.rejected_objects(),
        truncated=bool(answer.truncated),
        reason=Reason(answer.reason),
        problem=answer.why,
        earlier=result.earlier,
    )
