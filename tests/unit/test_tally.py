"""What an extraction adds up to."""

from __future__ import annotations

from trustgraph_prompt.cli.tally import Tally
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.reader import read
from trustgraph_prompt.worker.answer import Answer
from trustgraph_prompt.worker.gather import Job, Result
from trustgraph_prompt.worker.request import Request

JOB = Job(0, "r", "define", "a.txt", 1, "text")


def tally(text: str, format: Format, failure: str | None = None) -> Tally:
    outcome = read(text, Contract.from_schema({"required": ["n"]}, format=format))
    answer = Answer.of(Request("r", "define", {}), "extract", "define", "v1", outcome, ())
    counted = Tally([JOB])
    counted.add(Result(JOB, (), answer, failure))
    return counted


def test_refused_objects_are_counted_and_told() -> None:
    counted = tally('{"n": 1}\n{"m": 1}\n{"m": 2}', "jsonl")
    assert counted.refused_count == 2
    assert [str(remark) for remark in counted.refused] == [
        'a.txt chunk 1, define, object 2: "n" is missing',
        'a.txt chunk 1, define, object 3: "n" is missing',
    ]


def test_a_refused_value_is_a_failure_and_told_once() -> None:
    counted = tally('{"m": 1}', "json", '"n" is missing')
    assert (counted.refused_count, counted.refused) == (0, [])
    assert [str(remark) for remark in counted.failed] == ['a.txt chunk 1, define: "n" is missing']
