"""What came of each job, whatever the order in which objects, answers and dead letters come by."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import Any

import pytest

from trustgraph_prompt.broker import Message
from trustgraph_prompt.documents import Document, DocumentChunk, Place
from trustgraph_prompt.extraction.questions import Job
from trustgraph_prompt.extraction.results import FoundObject, ObjectsFile, Result, ResultCollector
from trustgraph_prompt.llm.calls_in_progress import AnswerTookTooLong, RunIsEnding
from trustgraph_prompt.worker.messages.answer_record import Answer


def job(position: int, id: str = "", file: str = "a.txt") -> Job:
    document = Document(file, "Some text.")
    return Job(position, id or f"r{position}", "define", document, DocumentChunk(position + 1, 5, "text"))


def published(id: str, request: str, value: object) -> Message:
    return Message(json.dumps(value).encode(), "objects", id, {"request": request}, key=id)


def answered(request: str, *objects: str, reason: str = "success", id: str = "1", **more: Any) -> Message:
    answer = Answer(request, "extract", "define", "v1", reason, "direct", False, objects, **more)
    return Message(answer.encode(), "answers", id, key=request)


def buried(request: str, error: str, reason: str) -> Message:
    return Message(b"", "dead", "1", {"id": request, "error": error, "reason": reason})


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_result_is_complete_with_the_answer_and_all_its_objects(order: tuple[int, ...]) -> None:
    results: list[Result] = []
    gatherer = ResultCollector([job(0)], results.append)
    steps = [
        lambda: gatherer.take_object(published("o1", "r0", {"n": 1})),
        lambda: gatherer.take_object(published("o2", "r0", {"n": 2})),
        lambda: gatherer.take_answer(answered("r0", "o2", "o1")),
    ]
    for step in order:
        assert results == []
        steps[step]()
    assert results[0].objects == (FoundObject(b'{"n": 2}'), FoundObject(b'{"n": 1}'))
    assert gatherer.open == 0


def test_object_that_no_answer_names_is_dropped() -> None:
    results: list[Result] = []
    gatherer = ResultCollector([job(0)], results.append)
    gatherer.take_object(published("o1", "r0", {"n": 1}))
    gatherer.take_object(published("o2", "r0", {"n": 2}))
    gatherer.take_answer(answered("r0", "o1"))
    assert results[0].objects == (FoundObject(b'{"n": 1}'),)


def test_jobs_with_one_request_share_its_answer() -> None:
    results: list[Result] = []
    gatherer = ResultCollector([job(0, "r"), job(1, "r", "b.txt")], results.append)
    assert [asked.position for asked in gatherer.to_ask()] == [0]
    gatherer.take_answer(answered("r"))
    assert [result.job.document.file for result in results] == ["a.txt", "b.txt"]


def test_failure_of_an_earlier_run_is_asked_again() -> None:
    results: list[Result] = []
    gatherer = ResultCollector([job(0)], results.append)
    failure = answered("r0", reason="provider_error", id="7")
    gatherer.take_answer(failure, earlier=True)
    gatherer.take_answer(failure)
    assert results == []
    assert gatherer.open == 1
    gatherer.take_answer(answered("r0", id="8"))
    assert results[0].failure is None


def test_answer_that_took_too_long_counts_in_its_run_and_is_asked_again_later() -> None:
    truncated = answered("r0", calls=({"error": f"{AnswerTookTooLong.category}: more than 600 seconds"},))
    results: list[Result] = []
    ResultCollector([job(0)], results.append).take_answer(truncated)
    assert len(results) == 1
    next_run = ResultCollector([job(0)], results.append)
    next_run.take_answer(truncated, earlier=True)
    assert next_run.open == 1


def test_question_that_the_end_of_a_run_left_unasked_stays_open() -> None:
    collector = ResultCollector([job(0)], lambda result: None)
    calls = ({"error": f"{RunIsEnding.category}: the question was not asked"},)
    collector.take_answer(answered("r0", reason="provider_error", calls=calls))
    assert collector.open == 1


def test_failed_result_says_why() -> None:
    results: list[Result] = []
    gatherer = ResultCollector([job(0)], results.append)
    call = {"why": "first", "error": "nobody there", "usage": {}}
    gatherer.take_answer(answered("r0", reason="provider_error", calls=(call,)))
    assert results[0].failure == "nobody there"


def test_unaskable_request_fails_with_the_reason_of_its_dead_letter() -> None:
    results: list[Result] = []
    gatherer = ResultCollector([job(0)], results.append)
    gatherer.take_dead_letter(buried("r0", "template-error", "the output is too long"))
    assert results[0].failure == "the output is too long"
    assert results[0].answer is None


def test_dead_letter_does_not_replace_the_answer_that_comes_with_it() -> None:
    results: list[Result] = []
    gatherer = ResultCollector([job(0)], results.append)
    gatherer.take_dead_letter(buried("r0", "llm-error", "provider_error: nobody there"))
    assert results == []
    gatherer.take_answer(answered("r0", reason="provider_error"))
    assert results[0].answer is not None


def test_messages_of_unknown_requests_are_ignored() -> None:
    results: list[Result] = []
    gatherer = ResultCollector([job(0)], results.append)
    gatherer.take_object(published("o1", "other", {}))
    gatherer.take_answer(answered("other"))
    gatherer.take_dead_letter(buried("other", "template-error", ""))
    assert results == []
    assert gatherer.open == 1


def line(chunk: int, rest: bytes) -> bytes:
    sha256 = hashlib.sha256(b"Some text.").hexdigest()
    origin = f'{{"prompt":"define","file":"a.txt","sha256":"{sha256}","chunk":{chunk},"start":5,'
    return origin.encode() + rest + b"}\n"


class TestLines:
    def test_lines_stand_in_the_order_of_the_jobs(self) -> None:
        written: list[bytes] = []
        lines = ObjectsFile(written.extend)
        lines.add(Result(job(1), (FoundObject(b'{"n":2}'),)))
        assert written == []
        lines.add(Result(job(0), (FoundObject(b'{"n":0}'), FoundObject(b'{"n":1}', '{"/n":null}'))))
        assert written == [
            line(1, b'"object":{"n":0}'),
            line(1, b'"object":{"n":1},"grounding":{"/n":null}'),
            line(2, b'"object":{"n":2}'),
        ]

    def test_line_says_how_its_object_was_read(self) -> None:
        written: list[bytes] = []
        remark = {"index": 1, "about": "class", "path": "/object_type", "message": "unknown"}
        answer = Answer("r", "f", "define", "v", "success", "direct", False, ("a", "b"), remarks=(remark,))
        found = (FoundObject(b'{"n":0}'), FoundObject(b'{"n":1}'))
        ObjectsFile(written.extend).add(Result(job(0), found, answer))
        said = b'"remarks":[{"about":"class","path":"/object_type","message":"unknown"}]'
        assert written == [line(1, b'"object":{"n":0}'), line(1, b'"object":{"n":1},' + said)]

    def test_lines_have_the_page_and_the_heading_of_their_place(self) -> None:
        places = (Place(0, 1, "One"), Place(8, 2, None))
        document = Document("a.pdf", "One. Two. Three.", "pdf", places)
        written: list[bytes] = []
        lines = ObjectsFile(written.extend)
        in_chunk = [
            None,
            '{"/n":null}',
            '{"/n":null,"/m":{"term":"text","kind":"exact","score":1,"spans":[[4,5]]}}',
            '{"/n":{"term":"text","kind":"exact","score":1,"spans":[[2,3],[7,8]]}}',
        ]
        found = tuple(FoundObject(b"{}", grounding) for grounding in in_chunk)
        lines.add(Result(Job(0, "r", "define", document, DocumentChunk(1, 5, "Two. Three.")), found))
        origins = [json.loads(each) for each in written]
        assert [(origin["page"], origin.get("heading")) for origin in origins] == [
            (1, "One"),
            (1, "One"),
            (2, None),
            (1, "One"),
        ]

    def test_lines_after_a_job_without_a_result_are_written_at_the_end(self) -> None:
        written: list[bytes] = []
        lines = ObjectsFile(written.extend, bare=True)
        lines.add(Result(job(2), (FoundObject(b"{}"),)))
        lines.finish()
        assert written == [b"{}\n"]
