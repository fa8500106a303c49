"""Collects the results of jobs from the objects, answers and dead letters that a flow publishes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Message
from trustgraph_prompt.worker.messages.answer_record import UNSERVED, Answer

_HAS_AN_ANSWER = "llm-error"
"""The error of dead letters whose request also has an answer record, which says more."""


@dataclass(frozen=True, slots=True)
class Job:
    """One prompt to run on one chunk.

    `id` is the request's: a hash of the prompt's version, the model, the terms and the chunk. `position`
    counts from 0 over all jobs of a run, `chunk` from 1 in its file.
    """

    position: int
    id: str
    prompt: str
    file: str
    chunk: int
    text: str = field(repr=False)


class FoundObject(NamedTuple):
    """An object and its grounding, both as JSON; None if its values need not occur in the chunk."""

    text: bytes
    grounding: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a job. `earlier` says that an earlier run made the calls.

    `answer` is None if no call was made; `failure` says why there is nothing usable.
    """

    job: Job
    objects: tuple[FoundObject, ...] = field(default=(), repr=False)
    answer: Answer | None = None
    failure: str | None = None
    earlier: bool = False


class ResultCollector:
    """Calls `listen` with the result of a job as soon as its answer and all objects of the answer arrived.

    Objects that no answer names were published by a run that crashed before its answer; they are dropped.
    """

    def __init__(self, jobs: Sequence[Job], listen: Callable[[Result], None]) -> None:
        self._open: dict[str, list[Job]] = {}
        for job in jobs:
            self._open.setdefault(job.id, []).append(job)
        self._listen = listen
        self._objects: dict[str, dict[str, FoundObject]] = {}
        self._answers: dict[str, Answer] = {}
        self._ignored: set[str] = set()

    @property
    def open(self) -> int:
        """How many requests have no result."""
        return len(self._open)

    def to_ask(self) -> list[Job]:
        """Return one job for each request without a result; equal chunks share a request."""
        return [same[0] for same in self._open.values()]

    def take_object(self, message: Message) -> None:
        """Take an object: its key is its id, its property `request` the request."""
        request = message.properties.get("request", "")
        if message.key is not None and request in self._open:
            found = FoundObject(message.data, message.properties.get("grounding"))
            self._objects.setdefault(request, {})[message.key] = found
            if request in self._answers:
                self._close_if_complete(self._answers[request], earlier=False)

    def take_answer(self, message: Message, *, earlier: bool = False) -> None:
        """Take an answer record. Failures of earlier runs are ignored, so that their jobs run again."""
        answer = Answer.decode(message.data)
        if earlier and answer.reason in UNSERVED:
            self._ignored.add(message.id)
        elif answer.request in self._open and message.id not in self._ignored:
            self._answers[answer.request] = answer
            self._close_if_complete(answer, earlier=earlier)

    def take_dead_letter(self, message: Message) -> None:
        """Take a dead letter: a request that could not be served, with the reason."""
        if message.properties.get("error") != _HAS_AN_ANSWER:
            self._close(message.properties.get("id", ""), failure=message.properties.get("reason", ""))

    def _close_if_complete(self, answer: Answer, *, earlier: bool) -> None:
        objects = self._objects.get(answer.request, {})
        if all(id in objects for id in answer.objects):
            found = tuple(objects[id] for id in answer.objects)
            failure = answer.why if answer.reason in UNSERVED else None
            self._close(answer.request, found, answer, failure, earlier=earlier)

    def _close(
        self,
        request: str,
        objects: tuple[FoundObject, ...] = (),
        answer: Answer | None = None,
        failure: str | None = None,
        *,
        earlier: bool = False,
    ) -> None:
        self._objects.pop(request, None)
        self._answers.pop(request, None)
        for job in self._open.pop(request, ()):
            self._listen(Result(job, objects, answer, failure, earlier))


class ObjectsFile:
    """Writes objects as JSON lines, in the order of the jobs whatever the order of the answers.

    A line is `{"prompt", "file", "chunk", "object", "grounding"}`, without `grounding` if the object's values
    need not occur in the chunk; with `bare`, it is the object only.
    """

    def __init__(self, write: Callable[[Iterable[bytes]], None], *, bare: bool = False) -> None:
        self._write_lines = write
        self._bare = bare
        self._next = 0
        self._waiting: dict[int, Result] = {}

    def add(self, result: Result) -> None:
        """Write the result as soon as all results before it are written."""
        self._waiting[result.job.position] = result
        ready = []
        while self._next in self._waiting:
            ready.append(self._waiting.pop(self._next))
            self._next += 1
        self._write(ready)

    def finish(self) -> None:
        """Write the remaining results, if some jobs have none."""
        self._write([self._waiting.pop(position) for position in sorted(self._waiting)])

    def _write(self, results: Iterable[Result]) -> None:
        self._write_lines(self._line(result.job, found) for result in results for found in result.objects)

    def _line(self, job: Job, found: FoundObject) -> bytes:
        if self._bare:
            return found.text + b"\n"
        origin = wire.encode({"prompt": job.prompt, "file": job.file, "chunk": job.chunk})
        grounding = b',"grounding":' + found.grounding.encode() if found.grounding else b""
        return origin[:-1] + b',"object":' + found.text + grounding + b"}\n"
