"""The report of a run: what it counts, what it shows of it, and where it ends."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from jinja2 import UndefinedError

from tests.unit.cli.test_extract_summary import JOB, outcome_of
from trustgraph_prompt.cli.extract_advice import Advice
from trustgraph_prompt.cost import Price
from trustgraph_prompt.documents import Document, DocumentChunk
from trustgraph_prompt.documents.named_files import is_page_of_ours
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.extraction.output_checks import check_page
from trustgraph_prompt.extraction.questions import Job
from trustgraph_prompt.extraction.report import (
    MAX_CHARACTERS,
    MAX_REMARKS,
    ReportedRun,
    RunReport,
    shown_values,
    write_report,
)
from trustgraph_prompt.extraction.results import FoundObject, Result
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.worker.messages.answer_record import Answer
from trustgraph_prompt.worker.messages.request import Request

TOKENS = {"prompt_tokens": 100, "completion_tokens": 10}


def job(position: int, file: str = "a.txt", chunk: int = 1, text: str = "text", id: str | None = None) -> Job:
    return Job(position, id or str(position), "define", Document(file, text), DocumentChunk(chunk, 0, text))


def result(job: Job, text: str, *objects: bytes, finish_reason: str = "stop") -> Result:
    answer = Answer.of(
        Request("r", "define", {}), "extract", "define", "v1", outcome_of(text, finish_reason), ()
    )
    return Result(job, tuple(map(FoundObject, objects)), replace(answer, usage=TOKENS))


def report_of(*results: Result, unanswered: tuple[Job, ...] = ()) -> RunReport:
    report = RunReport({"define": None}, Price(1_000_000, 2_000_000))
    for each in results:
        report.add(each)
    report.count([*(each.job for each in results), *unanswered])
    return report


def page_of(report: RunReport, folder: Path, *advice: Advice, skipped: tuple[str, ...] = ()) -> str:
    file = folder / "report.html"
    origin = ReportedRun(folder / "out.jsonl", "small", {"define": "v1"}, folder / "a graph.html", skipped)
    write_report(report, file, origin, advice)
    return file.read_text("utf-8")


def test_each_question_is_counted_under_its_prompt_and_its_document() -> None:
    report = report_of(
        result(job(0), '{"n": 1}\n{"m": 1}', b'{"n": 1}'),
        result(job(1, chunk=2), '{"n": 1}\n{"n"', b'{"n": 1}', finish_reason="length"),
        result(job(2, file="b.txt"), "[]"),
        result(job(3, file="b.txt", chunk=2), "I am sorry."),
        Result(job(4, file="b.txt", chunk=3), failure="HTTP 500"),
        unanswered=(job(5, file="b.txt", chunk=4),),
    )
    a = Counter(
        questions=2,
        answers=2,
        objects=2,
        not_looked_up=2,
        refused=1,
        truncated=1,
        tokens_in=200,
        tokens_out=20,
    )
    b = Counter(questions=4, answers=2, nothing=1, without_use=1, failed=1, not_asked=1)
    b.update(tokens_in=200, tokens_out=20)
    for counts in (a, b):
        counts["money"] = 240
    assert [part.counts for part in report.documents.values()] == [a, b]
    assert report.total == report.prompts["define"] == a + b


def test_question_shared_by_two_chunks_is_paid_once() -> None:
    shared = [result(job(n, chunk=n + 1, id="same"), '{"n": 1}', b'{"n": 1}') for n in range(2)]
    total = report_of(*shared).total
    assert [total[name] for name in ("answers", "objects", "tokens_in", "money")] == [2, 2, 100, 120]


def test_marks_are_where_values_stand_and_each_passage_is_shown_once() -> None:
    found = {"term": "text", "kind": "exact", "score": 1.0, "spans": [[4, 9], [6, 12]]}
    grounding = orjson.dumps({"/n": found, "/m": None}).decode()
    each = Result(job(0, text="The white chalk of 🌋."), (FoundObject(b'{"n": 1, "m": [2]}', grounding),))
    report = report_of(each)
    pieces = report.passage([each.job])
    assert "".join(text for text, _ in pieces) == "The white chalk of 🌋."
    assert [text for text, is_marked in pieces if is_marked] == ["white", " ch"]
    assert shown_values(each.objects[0]) == [("n", "1", ""), ("m", "[2]", "not in the text")]


def test_problems_are_shown_with_their_text_and_the_advice(tmp_path: Path) -> None:
    advice = Advice("make it better", ("trustgraph-prompt extract --better",))
    one = result(job(0, text="A strange text."), '{"m": "refused & counted"}\n{"n"', finish_reason="length")
    page = page_of(report_of(one), tmp_path, advice, skipped=("empty.txt: is empty",))
    for told in (
        "&#34;n&#34; is missing",
        "refused &amp; counted",
        "A strange text.",
        "make it better",
        "trustgraph-prompt extract --better",
        "empty.txt: is empty",
        'href="a%20graph.html"',
        'href="out.jsonl"',
    ):
        assert told in page


def text_of(page: str, id: str) -> str:
    """The text of an element, without its markup."""
    body = page.partition(f'id="{id}"')[2].partition("</p>")[0]
    return " ".join(re.sub("<[^>]*>", "", body.partition(">")[2]).split())


def test_question_without_an_answer_is_not_shown_as_one_with_no_object(tmp_path: Path) -> None:
    done, unasked = result(job(0), '{"n": 1}', b'{"n": 1}'), job(2, chunk=3)
    page = page_of(
        report_of(done, Result(job(1, chunk=2), failure="HTTP 500"), unanswered=(unasked,)), tmp_path
    )
    assert "incomplete 2 of 3 questions have no answer." in text_of(page, "incomplete")
    heads = [
        " ".join(re.sub("<[^>]*>", "", each).split())
        for each in re.findall("<h3>define(.*?)</h3>", page, re.S)
    ]
    assert heads == ["1", "failed", "not asked"]
    one = text_of(page_of(report_of(done, unanswered=(unasked,)), tmp_path), "incomplete")
    assert one.startswith("incomplete 1 of 2 questions has no answer. Run the same command again")
    refused = Result(job(2, chunk=3), failure="provider_invalid_request: HTTP 400: no")
    assert "Run the same command again" not in page_of(report_of(done, refused), tmp_path)
    assert "1 object from 3 chunks, 2 questions not answered" in re.sub("<[^>]*>", "", page)
    assert "incomplete" not in page_of(report_of(done), tmp_path).partition("<body>")[2]


def test_values_not_looked_up_are_counted_apart_from_those_without_doubt(tmp_path: Path) -> None:
    found = {"term": "text", "kind": "exact", "score": 1.0, "spans": [[0, 4]]}
    certain = FoundObject(b'{"n": "text"}', orjson.dumps({"/n": found}).decode())
    said = [
        text_of(page_of(report_of(replace(result(job(0), "{}"), objects=(each,))), tmp_path), "looked-up")
        for each in (certain, FoundObject(b'{"n": "text"}'))
    ]
    assert "Looked up in the text: 1 value of keys that the schemas mark." in said[0]
    assert "No value of" not in said[0]
    assert "No value of 1 object was looked up, as its schema marks no key." in said[1]
    assert all("a predicate or a definition may be wrong." in each for each in said)


def test_link_is_a_relative_path_whatever_the_name(tmp_path: Path) -> None:
    origin = ReportedRun(tmp_path / "javascript:alert(1).jsonl", "m", {"define": "v1"}, None, ())
    write_report(report_of(Result(JOB)), tmp_path / "report.html", origin, ())
    assert 'href="javascript%3Aalert%281%29.jsonl"' in (tmp_path / "report.html").read_text()


def test_link_to_a_name_that_is_not_utf_8_has_its_bytes(tmp_path: Path) -> None:
    origin = ReportedRun(tmp_path / os.fsdecode(b"caf\xe9.jsonl"), "m", {"define": "v1"}, None, ())
    write_report(report_of(Result(JOB)), tmp_path / "report.html", origin, ())
    assert 'href="caf%E9.jsonl"' in (tmp_path / "report.html").read_text()


def test_page_that_no_run_wrote_is_refused(tmp_path: Path) -> None:
    page_of(report_of(Result(JOB)), tmp_path)
    check_page("--report", tmp_path / "report.html", [], is_page_of_ours)
    document = tmp_path / "intro.html"
    document.write_text("<html><body><p>Chalk is a rock.</p></body></html>")
    with pytest.raises(ConfigError, match=r"--report .*intro\.html: exists, and no run with this"):
        check_page("--report", document, [], is_page_of_ours)


def test_report_that_cannot_be_made_leaves_no_file(tmp_path: Path) -> None:
    report = report_of(Result(JOB))
    with pytest.raises(UndefinedError):  # the prompt has no version
        write_report(report, tmp_path / "report.html", ReportedRun(tmp_path / "o", "m", {}, None, ()), ())
    assert [*tmp_path.iterdir()] == []


def test_text_that_utf_8_cannot_hold_is_escaped(tmp_path: Path) -> None:
    page = page_of(report_of(result(job(0, text="\ud800 and \0"), '{"m": 1}')), tmp_path)
    assert "\\ud800 and \\u0000" in page


def test_values_of_an_object_are_shown_exactly() -> None:
    found = FoundObject(encode({"note": "a \ud800", "grains": 2**80, "list": [2**80]}))
    assert shown_values(found) == [
        ("note", "a \ud800", ""),
        ("grains", "1208925819614629174706176", ""),
        ("list", "[1208925819614629174706176]", ""),
    ]


def test_long_keys_count_for_the_size_of_the_page() -> None:
    text = orjson.dumps({f"{n}{'k' * 900}": "v" for n in range(100)})
    jobs = [job(n, chunk=n + 1) for n in range(200)]
    report = report_of(*(Result(each, (FoundObject(text),)) for each in jobs))
    assert len(report.shown_chunks()) * len(text) < MAX_CHARACTERS


def test_value_with_a_part_that_was_not_found_is_marked_whatever_its_key() -> None:
    found = {"term": "text", "kind": "exact", "score": 1.0, "spans": [[0, 1]]}
    grounding = orjson.dumps(
        {
            "/names/0": found,
            "/names/1": None,
            "/names/2": {**found, "kind": "part"},
            "/km~1h": None,
            "/good": found,
            "/half": {**found, "kind": "part"},
        }
    ).decode()
    text = b'{"names": ["a", "b", "a c"], "km/h": "9", "good": "a", "half": "a b"}'
    assert [(key, doubt) for key, _, doubt in shown_values(FoundObject(text, grounding))] == [
        ("names", "not in the text"),
        ("km/h", "not in the text"),
        ("good", ""),
        ("half", "in the text only in part"),
    ]
    assert shown_values(FoundObject(b'"chalk"', '{"": null}')) == [("", "chalk", "not in the text")]
    assert shown_values(FoundObject(b'["chalk"]', '{"/0": null}')) == [("", '["chalk"]', "not in the text")]


def test_weak_matches_and_ungrounded_values_are_counted_and_listed(tmp_path: Path) -> None:
    found = {"term": "text", "kind": "part", "score": 0.5, "spans": [[0, 4]]}
    text = b'{"n": "herb tamm", "m": "Nile"}'
    doubtful = FoundObject(text, orjson.dumps({"/n": found, "/m": None}).decode())
    report = report_of(Result(job(0, text="Tamm"), (doubtful,)))
    assert (report.total["weak"], report.total["ungrounded"]) == (1, 1)
    assert [each.why for each in report.parts["doubtful"]] == [
        '"n" is in the text only in part: herb tamm',
        '"m" is not in the text: Nile',
    ]
    page = page_of(report, tmp_path)
    assert 'In doubt: <data value="2" data-of="doubtful">' in page
    assert "herb tamm <span" in page


def test_truncated_answer_that_failed_counts_as_failed_only() -> None:
    failed = replace(result(job(0), '{"n": 1}\n{"n"', finish_reason="length"), failure="HTTP 500")
    total = report_of(failed).total
    assert [total[name] for name in ("questions", "failed", "answers", "truncated")] == [1, 1, 0, 0]


def test_large_run_is_shown_as_far_as_it_fits(tmp_path: Path) -> None:
    text, number = "word " * 1_600, 2_000
    document = Document("a.txt", text)
    jobs = [Job(n, str(n), "define", document, DocumentChunk(n + 1, 0, text)) for n in range(number)]
    report = report_of(*(Result(each, failure="HTTP 500") for each in jobs))
    shown = len(report.shown_chunks())
    assert 1_000 < shown < number
    page = page_of(report, tmp_path)
    assert page.count("<article") == shown
    assert f'<data value="{number - shown}" data-of="left-out">' in page
    assert f'and <data value="{number - MAX_REMARKS}">' in page
    assert len(page) < 2 * MAX_CHARACTERS


def test_many_refused_objects_are_counted_and_the_first_are_shown(tmp_path: Path) -> None:
    lines = "\n".join(f'{{"m": {n}}}' for n in range(150))
    page = page_of(report_of(*(result(job(n, chunk=n + 1), lines) for n in range(10))), tmp_path)
    assert '<data value="1500" data-of="refused">' in page
    assert page.count('<pre dir="auto">') == MAX_REMARKS


def test_refused_objects_with_more_reasons_than_are_shown_are_counted(tmp_path: Path) -> None:
    answer = result(job(0), '{"m": 1}').answer
    assert answer
    reasons = [
        {"index": n, "raw": "{}", "issues": [{"reason": "invalid", "path": "", "message": f"no. {n}"}]}
        for n in range(MAX_REMARKS + 7)
    ]
    refused = replace(answer, rejected=tuple(reasons), rejected_count=len(reasons) + 100)
    page = page_of(report_of(Result(job(0), (), refused)), tmp_path)
    assert page.count('class="card group"') == MAX_REMARKS
    assert 'and <data value="107" data-of="refused-else">107</data> more' in page


@pytest.mark.parametrize("text", ["", "[]", "prose"])
def test_run_without_objects_has_a_report(text: str, tmp_path: Path) -> None:
    assert "Without objects" in page_of(report_of(result(job(0), text)), tmp_path)
