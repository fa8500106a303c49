"""Counts the results of an extraction, and summarises them for people and for programs."""

from __future__ import annotations

import time
from dataclasses import replace

import orjson
import pytest

from trustgraph_prompt import wire
from trustgraph_prompt.cli.extract_summary import ExtractSummary
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.cost import Price, Usage
from trustgraph_prompt.documents import Document, DocumentChunk
from trustgraph_prompt.extraction.questions import Job
from trustgraph_prompt.extraction.results import FoundObject, Result
from trustgraph_prompt.llm import ScriptedProvider
from trustgraph_prompt.llm.spending import SpendingLimit
from trustgraph_prompt.reader import CallReport, Outcome, read
from trustgraph_prompt.worker.messages.answer_record import Answer, bounded_grounding
from trustgraph_prompt.worker.messages.request import Request

JOB = Job(0, "r", "define", Document("a.txt", "text"), DocumentChunk(1, 0, "text"))


ANSWER = (Request("r", "define", {}), "extract", "define", "v1")


def outcome_of(text: str, finish_reason: str) -> Outcome:
    return read(text, Contract.from_schema({"required": ["n"]}, format="jsonl"), finish_reason=finish_reason)


def summary(text: str, format: Format, failure: str | None = None) -> ExtractSummary:
    outcome = read(text, Contract.from_schema({"required": ["n"]}, format=format))
    answer = Answer.of(*ANSWER, outcome, ())
    counted = ExtractSummary([JOB])
    counted.add(Result(JOB, (FoundObject(b"{}"),) * len(outcome.objects), answer, failure))
    return counted


def cut(text: str, **usage: int) -> ExtractSummary:
    """What a prompt with max-tokens 100 has brought, where the model had not finished."""
    outcome = outcome_of(text, "length")
    outcome = replace(outcome, calls=(CallReport("first", text, "length", Usage(**usage)),))
    answer = Answer.of(*ANSWER, outcome, ())
    counted = ExtractSummary([JOB], {"define": 100})
    counted.add(Result(JOB, (FoundObject(b"{}"),) * len(outcome.objects), answer))
    return counted


def test_refused_objects_are_counted_and_listed_with_their_place() -> None:
    counted = summary('{"n": 1}\n{"m": 1}\n{"m": 2}', "jsonl")
    assert counted.counts["refused"] == 2
    assert [str(remark) for remark in counted.remarks["refused"]] == [
        'a.txt chunk 1, define, object 2: "n" is missing',
        'a.txt chunk 1, define, object 3: "n" is missing',
    ]


def test_accepted_values_that_are_not_in_the_text_are_listed() -> None:
    there = {"term": "text", "kind": "exact", "score": 1, "spans": []}
    grounding = orjson.dumps({"/of/n": None, "/m": there}).decode()
    found = FoundObject(b'{"of": {"n": "Napoleon"}, "m": "text"}', grounding)
    counted = ExtractSummary([JOB])
    counted.add(Result(JOB, (found, FoundObject(b"{}")), Answer.of(*ANSWER, outcome_of("[]", "stop"), ())))
    line = 'a.txt chunk 1, define: "of/n" is not in the text: Napoleon'
    assert counted.as_json()["ungrounded"] == [line]
    assert f"ungrounded: 1 value\n  {line}\n" in f"{counted.text()}\n"


def test_values_found_only_in_part_are_counted_and_listed() -> None:
    passage = DocumentChunk(1, 0, "Tamm called the Spring Festival off.")
    schema = {"properties": {"n": {"type": "string", "x-from": "text"}}}
    contract = Contract.from_schema(schema, format="jsonl").with_terms({"text": passage.text})
    outcome = read('{"n": "herb tamm"}\n{"n": "spring festival"}', contract)
    answer = Answer.of(*ANSWER, outcome, ("1", "2"))
    objects = [
        FoundObject(orjson.dumps(value), wire.encode(bounded_grounding(grounding)).decode())
        for value, grounding in zip(outcome.objects, outcome.grounding or (), strict=True)
    ]
    counted = ExtractSummary([JOB])
    counted.add(Result(replace(JOB, chunk=passage), tuple(objects), answer))
    line = 'a.txt chunk 1, define: "n" is in the text only in part: herb tamm'
    assert (counted.as_json()["weak"], counted.as_json()["looked_up"]) == ([line], 2)
    assert f"weak matches, of 2 values looked up in the text: 1 value\n  {line}\n" in f"{counted.text()}\n"


def test_refused_single_value_is_listed_once_as_failed() -> None:
    counted = summary('{"m": 1}', "json", '"n" is missing')
    assert (counted.counts["refused"], counted.remarks["refused"]) == (0, [])
    assert [str(remark) for remark in counted.remarks["failed"]] == ['a.txt chunk 1, define: "n" is missing']


@pytest.mark.parametrize(
    ("completion_tokens", "where"),
    [
        (100, "at the prompt's max-tokens of 100"),
        (40, "after 40 tokens by the server's own limit or its context size"),
    ],
)
def test_truncated_answer_says_at_which_limit(completion_tokens: int, where: str) -> None:
    told = cut('{"n": 1}\n{"n"', completion_tokens=completion_tokens).text().splitlines()
    at = told.index("truncated: 1 answer")
    assert told[at + 1] == f"  a.txt chunk 1, define: {where}"


def test_answer_cut_before_its_first_object_is_without_use() -> None:
    counted = cut("Let me think about", completion_tokens=100)
    assert "without use: 1 answer\n  a.txt chunk 1, define: the answer ends" in counted.text()
    assert counted.came_to_nothing


def test_answer_cut_after_an_object_is_of_use() -> None:
    counted = cut('{"n": 1}\n{"n"', completion_tokens=100)
    assert "without" not in counted.text()
    assert not counted.came_to_nothing


def test_empty_list_is_listed_as_without_objects_and_is_no_failure() -> None:
    counted = summary("[]", "jsonl")
    assert "without any object: 1 answer\n  a.txt chunk 1, define" in counted.text()
    assert counted.as_json()["without_objects"] == ["a.txt chunk 1, define"]
    assert counted.as_json()["without_use"] == []
    assert not counted.came_to_nothing
    assert "without" not in counted.line()


@pytest.mark.parametrize(
    ("text", "format", "told"),
    [
        ("", "jsonl", "the answer is empty"),
        ("There is nothing.", "jsonl", "no object in the answer"),
        ('{"m": 1}\n{}', "jsonl", '2 refused, the first: "n" is missing'),
        ('{"n": 1', "jsonl", "the answer ends before an object is complete"),
        ('{"m": 1}', "json", '"n" is missing'),
    ],
)
def test_answer_without_objects_is_listed_as_without_use_with_its_reason(
    text: str, format: Format, told: str
) -> None:
    counted = summary(text, format)
    assert f"without use: 1 answer\n  a.txt chunk 1, define: {told}" in counted.text()
    assert counted.as_json()["without_use"] == [f"a.txt chunk 1, define: {told}"]
    assert counted.as_json()["without_objects"] == []
    assert counted.line().endswith(", 1 answer without use")
    assert counted.came_to_nothing


def test_failures_with_the_same_cause_share_a_line() -> None:
    jobs = [
        replace(JOB, position=position, chunk=DocumentChunk(position + 1, 0, "text")) for position in range(3)
    ]
    counted = ExtractSummary(jobs)
    for job, why in zip(jobs, ["HTTP 500: request 17", "no route", "HTTP 500: request 18"], strict=True):
        counted.add(Result(job, failure=why))
    assert counted.text().splitlines()[-3:] == [
        "failed: 3 questions",
        "  2 × HTTP 500: request 17 (first: a.txt chunk 1, define)",
        "  a.txt chunk 2, define: no route",
    ]


def test_rest_of_time_and_money_is_shown_once_it_can_be_estimated() -> None:
    jobs = [replace(JOB, position=position, id=str(position)) for position in range(40)]
    spending = SpendingLimit(ScriptedProvider([]), Price(1, 2))
    counted = ExtractSummary(jobs, spending=spending, started=time.monotonic() - 60)
    for job in jobs[:4]:
        counted.add(Result(job))
    spending.spent = 0.05
    assert counted.line().endswith(", 0.0500 paid")
    assert counted.rest == ""
    counted.add(Result(jobs[4]))
    assert counted.rest == "about 7 min and 0.3500 to go"


def test_kept_answers_count_neither_in_the_rest_nor_in_the_rate() -> None:
    jobs = [replace(JOB, position=position, id=str(position)) for position in range(40)]
    counted = ExtractSummary(jobs)
    for job in jobs[:20]:
        counted.add(Result(job, (FoundObject(b"{}"),), earlier=True))
    assert counted.rest == ""
    assert "20 objects, 0 tokens, 0.0 objects/s" in counted.line()


def test_advice_to_the_model_is_left_out_of_refusals() -> None:
    schema = {"properties": {"n": {"type": "string", "x-from": "text"}}}
    contract = Contract.from_schema(schema, format="jsonl")
    outcome = read('{"n": "Nile"}', contract.with_terms({"text": "Chalk is soft."}))
    answer = Answer.of(*ANSWER, outcome, ())
    counted = ExtractSummary([JOB])
    counted.add(Result(JOB, (), answer))
    assert counted.as_json()["refusals"] == [
        'a.txt chunk 1, define, object 1: /n: "Nile" is not in the passage'
    ]
    assert "leave" not in counted.text()


def test_prompts_whose_objects_are_not_looked_up_are_listed_as_their_first_objects_came() -> None:
    other = replace(JOB, position=1, id="s", prompt="relate")
    counted = ExtractSummary([JOB, other, replace(JOB, position=2)])
    answer = Answer.of(*ANSWER, outcome_of("[]", "stop"), ())
    for job, objects in (JOB, ()), (other, (FoundObject(b"{}"),)), (JOB, (FoundObject(b"{}"),)):
        counted.add(Result(job, objects, answer))
    assert list(counted.as_json()["not_looked_up"]) == ["relate", "define"]


def test_objects_not_looked_up_are_counted_apart_from_those_without_doubt() -> None:
    found = {"term": "text", "kind": "exact", "score": 1.0, "spans": [[0, 4]]}
    certain = FoundObject(b'{"n": "text"}', orjson.dumps({"/n": found}).decode())
    answer = Answer.of(*ANSWER, outcome_of('{"n": "text"}', "stop"), ())
    said = []
    for each in (certain, FoundObject(b'{"n": "text"}')):
        counted = ExtractSummary([JOB])
        counted.add(Result(JOB, (each,), answer))
        said.append(("looked up" in counted.text(), counted.as_json()["not_looked_up"]))
    assert said == [(False, {}), (True, {"define": 1})]
    assert "not looked up in the text: 1 object of define, whose schema marks no key" in counted.text()
