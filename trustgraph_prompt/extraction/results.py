"""Collects the results of jobs from the objects, answers and dead letters that a flow publishes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from trustgraph_prompt import wire
from trustgraph_prompt.broker import Message
from trustgraph_prompt.contract import Grounding
from trustgraph_prompt.contract.grounding import without_advice
from trustgraph_prompt.errors import ProviderError, excerpt
from trustgraph_prompt.extraction.questions import Q
from trustgraph_prompt.grounding import MatchKind
from trustgraph_prompt.json_text.pointer import follow
from trustgraph_prompt.llm.calls_in_progress import AnswerTookTooLong, RunIsEnding
from trustgraph_prompt.llm.spending import SpendingLimitReached
from trustgraph_prompt.worker.dead_letters.letters import ANSWERED
from trustgraph_prompt.worker.messages.answer_record import UNSERVED, Answer


class Doubt(NamedTuple):
    """A value, by JSON Pointer, of which the text has nothing, or only a part if it `is_weak`."""

    path: str
    value: Any
    is_weak: bool

    @property
    def where(self) -> str:
        return "in the text only in part" if self.is_weak else "not in the text"

    def __str__(self) -> str:
        return f'"{self.path[1:]}" is {self.where}: {excerpt(self.value)}'


class FoundObject(NamedTuple):
    """An object and its grounding, both as JSON; None if its values need not occur in the chunk."""

    text: bytes
    grounding: str | None = None

    @property
    def value(self) -> Any:
        """The object; orjson would refuse its lone surrogates, and round its long integers."""
        return json.loads(self.text)

    @property
    def groundings(self) -> Mapping[str, Grounding | None]:
        """Where its values occur in the chunk, by JSON Pointer; None for those that occur nowhere."""
        found: Mapping[str, Any] = json.loads(self.grounding) if self.grounding else {}
        return {path: where and _grounding(where) for path, where in found.items()}

    @property
    def doubts(self) -> list[Doubt]:
        """The values that were looked up in the chunk and not found, or only in part."""
        found = {path: where for path, where in self.groundings.items() if not where or where.kind.is_weak}
        value = self.value if found else None
        return [Doubt(path, follow(value, path), where is not None) for path, where in found.items()]


def _grounding(recorded: Mapping[str, Any]) -> Grounding:
    spans = tuple(map(tuple, recorded["spans"]))
    return Grounding(recorded["term"], MatchKind(recorded["kind"]), recorded["score"], spans)


@dataclass(frozen=True, slots=True)
class Result(Generic[Q]):
    """The result of a question. `earlier` says that an earlier run made the calls.

    `answer` is None if no call was made; `failure` says why there is nothing usable.
    """

    job: Q
    objects: tuple[FoundObject, ...] = field(default=(), repr=False)
    answer: Answer | None = None
    failure: str | None = None
    earlier: bool = False

    @property
    def is_asked_again(self) -> bool:
        """Whether the next run asks again, although the answer has objects."""
        return self.answer is not None and _was_ended_by(self.answer, AnswerTookTooLong)


def refusal_reason(rejected: Mapping[str, Any]) -> str:
    """Why an object of an answer record was refused, for people."""
    issues = (
        f"{issue['path']}: {issue['message']}" if issue["path"] else issue["message"]
        for issue in rejected["issues"]
    )
    return without_advice("; ".join(issues))


class ResultCollector(Generic[Q]):
    """Calls `listen` with the result of a job as soon as its answer and all objects of the answer arrived.

    Objects that no answer names were published by a run that crashed before its answer; they are dropped.
    """

    def __init__(self, jobs: Sequence[Q], listen: Callable[[Result[Q]], None]) -> None:
        self._open: dict[str, list[Q]] = {}
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

    def to_ask(self) -> list[Q]:
        """Return one job for each request without a result; equal chunks share a request."""
        return [same[0] for same in self._open.values()]

    def take_all(
        self, objects: Mapping[str, Message], answers: Mapping[str, Message], *, earlier: bool
    ) -> None:
        """Take all that a state has."""
        for message in objects.values():
            self.take_object(message)
        for message in answers.values():
            self.take_answer(message, earlier=earlier)

    def take_object(self, message: Message) -> None:
        """Take an object: its key is its id, its property `request` the request."""
        request = message.properties.get("request", "")
        if message.key is not None and request in self._open:
            found = FoundObject(message.data, message.properties.get("grounding"))
            self._objects.setdefault(request, {})[message.key] = found
            if request in self._answers:
                self._close_if_complete(self._answers[request], earlier=False)

    def take_answer(self, message: Message, *, earlier: bool = False) -> None:
        """Take an answer record.

        Failures of earlier runs, and answers that took too long, are ignored, so that their jobs run again.
        What the spending limit or the end of the run kept from being asked, or asked to the end, stays open.
        """
        answer = Answer.decode(message.data)
        failed_earlier = earlier and (answer.reason in UNSERVED or _was_ended_by(answer, AnswerTookTooLong))
        if failed_earlier or _was_ended_by(answer, SpendingLimitReached, RunIsEnding):
            self._ignored.add(message.id)
        elif answer.request in self._open and message.id not in self._ignored:
            self._answers[answer.request] = answer
            self._close_if_complete(answer, earlier=earlier)

    def take_dead_letter(self, message: Message) -> None:
        """Take a dead letter: a request that could not be served, with the reason."""
        if message.properties.get("error") not in ANSWERED:
            self._close(message.properties.get("id", ""), failure=message.properties.get("reason", ""))

    def _close_if_complete(self, answer: Answer, *, earlier: bool) -> None:
        objects = self._objects.get(answer.request, {})
        if all(id in objects for id in answer.objects):
            found = tuple(objects[id] for id in answer.objects)
            failure = answer.why if answer.reason in UNSERVED else None
            self._close(answer.request, objects=found, answer=answer, failure=failure, earlier=earlier)

    def _close(self, request: str, **result: Any) -> None:
        """Give each job of a request its result, of which all but the job is given."""
        self._objects.pop(request, None)
        self._answers.pop(request, None)
        for job in self._open.pop(request, ()):
            self._listen(Result(job, **result))


def _was_ended_by(answer: Answer, *errors: type[ProviderError]) -> bool:
    categories = tuple(error.category for error in errors)
    return any((call.get("error") or "").startswith(categories) for call in answer.calls)


class ObjectsFile:
    """Writes objects as JSON lines, in the order of the jobs whatever the order of the answers.

    A line is `{"prompt", "file", "sha256", "chunk", "start", "page", "heading", "examples", "object",
    "grounding", "remarks"}`, without `page` and `heading` where the format has none, without `examples` if
    none were chosen from a pool, without `grounding` if the object's values need not occur in the chunk, and
    without `remarks` if the object was read as it was written; with `bare`, it is the object only.
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
        self._write_lines(
            self._line(result, found, index)
            for result in results
            for index, found in enumerate(result.objects)
        )

    def _line(self, result: Result, found: FoundObject, index: int) -> bytes:
        job = result.job
        if self._bare:
            return found.text + b"\n"
        document, chunk = job.document, job.chunk
        examples = result.answer.examples if result.answer else ()
        place = document.place(chunk.start + _first_offset(found))
        origin = wire.encode(
            {
                "prompt": job.prompt,
                "file": document.file,
                "sha256": document.sha256,
                "chunk": chunk.number,
                "start": chunk.start,
                **({} if place.page is None else {"page": place.page}),
                **({} if place.heading is None else {"heading": place.heading}),
                **({"examples": examples} if examples else {}),
            }
        )
        grounding = b',"grounding":' + found.grounding.encode() if found.grounding else b""
        remarks = _remarks(result.answer, index)
        return origin[:-1] + b',"object":' + found.text + grounding + remarks + b"}\n"


def _remarks(answer: Answer | None, index: int) -> bytes:
    """The end of a line that says how an object was read, if not as it was written."""
    of_object = [each for each in answer.remarks if each["index"] == index] if answer else []
    remarks = [{key: part for key, part in each.items() if key != "index"} for each in of_object]
    return b',"remarks":' + wire.encode(remarks) if remarks else b""


def _first_offset(found: FoundObject) -> int:
    """Where in the chunk the first value stands that was found in it; 0 without any."""
    spans = (span for where in found.groundings.values() if where for span in where.spans)
    return next((start for start, _ in spans), 0)
