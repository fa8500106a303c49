"""What `extract` advises a person to change after a run, and the command to type."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cli.test_extract_summary import JOB, cut, outcome_of, summary
from trustgraph_prompt.cli.asking_run import Ending
from trustgraph_prompt.cli.extract_advice import Settings, advice
from trustgraph_prompt.cli.extract_plan import Plan
from trustgraph_prompt.cli.extract_summary import ExtractSummary
from trustgraph_prompt.cost import Price
from trustgraph_prompt.documents.chunks import Size
from trustgraph_prompt.extraction.questions import Splitting
from trustgraph_prompt.extraction.results import Result
from trustgraph_prompt.llm import ScriptedProvider
from trustgraph_prompt.llm.spending import SpendingLimit
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker.messages.answer_record import Answer
from trustgraph_prompt.worker.messages.request import Request

COMMAND = "trustgraph-prompt extract a.txt --model small -o out.jsonl"
GIVEN = Settings(Path("out.jsonl"), "http://127.0.0.1:1/api", 8, is_recorded=False, has_report=False)
FINISHED = Ending(interrupted=False, is_hopeless=False)


@pytest.fixture(autouse=True)
def _typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", COMMAND.split())
    monkeypatch.setattr("shutil.which", lambda _: None)


def told(
    counted: ExtractSummary, ending: Ending = FINISHED, given: Settings = GIVEN, chunk_size: int = 2000
) -> str:
    plan = Plan([JOB], PromptSet.build({}), [], {}, Splitting(Size(chunk_size)), "small", [])
    return "\n".join(map(str, advice(counted, plan, ending, given)))


def failed(*failures: str) -> ExtractSummary:
    jobs = [replace(JOB, position=position) for position, _ in enumerate(failures)]
    counted = ExtractSummary(jobs)
    for job, failure in zip(jobs, failures, strict=True):
        counted.add(Result(job, failure=failure))
    return counted


TOO_LONG = (
    "provider_invalid_request: HTTP 400: the question does not fit the model's context: it has 700 tokens"
)

RATE = (
    "provider_invalid_request: HTTP 413: the question does not fit the server's limit of tokens per minute: "
    "with its answer it has 7,015 tokens; the server allows 6,000"
)
FILTERED = "provider_invalid_request: HTTP 400: no; the provider's content filter refused the question"


@pytest.mark.parametrize(
    ("url", "suggested"),
    [
        ("http://a:1", "http://a:1/v1"),
        ("http://a:1/v2", "http://a:1/v1"),
        ("http://a:1/api/v2/", "http://a:1/api/v1"),
        ("http://a:1/v1/models", "http://a:1/v1"),
        ("http://a:1/openai", "http://a:1/openai/v1"),
        ("http://a:1/v1", None),
        ("http://a:1/v1/chat/completions", None),
    ],
)
def test_advice_on_a_wrong_base_url_is_the_url_with_v1(url: str, suggested: str | None) -> None:
    text = told(failed("provider_invalid_request: HTTP 404"), given=GIVEN._replace(base_url=url))
    assert re.findall(r"--base-url (http\S+)", text) == ([] if suggested is None else [suggested])


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (
            "provider_authentication: HTTP 401",
            ["no key was sent: set OPENAI_API_KEY or", "then run the same command again", f"  {COMMAND}"],
        ),
        ("provider_authentication: HTTP 402: pay", ["the account of this key has no credit left"]),
        (
            "provider_invalid_model: HTTP 404",
            [
                "set --model",
                "http://127.0.0.1:1/api/models",
                COMMAND.replace(" --model small", ""),
                "--model NAME",
            ],
        ),
        ("provider_invalid_request: HTTP 404", [f"  {COMMAND} --base-url http://127.0.0.1:1/api/v1"]),
        (TOO_LONG, ["too large for the context", "all are then asked again", f"{COMMAND} --chunk-size 1000"]),
        ("provider_rate_limit: HTTP 429", [f"  {COMMAND} --concurrency 4"]),
        (
            "provider_unavailable: http://127.0.0.1:1/api/chat/completions: Cannot connect to 127.0.0.1",
            ["no server answers at http://127.0.0.1:1/api"],
        ),
        (RATE, ["the tokens per minute: use smaller ones", f"{COMMAND} --chunk-size 1000"]),
        (FILTERED, ["another model or provider may answer them", "--model NAME"]),
        (
            "provider_invalid_request: HTTP 400: no",
            ["refuse the same questions again: change", f"  {COMMAND}"],
        ),
        ("provider_unavailable: HTTP 503", ["run the same command again", f"  {COMMAND}"]),
    ],
)
def test_advice_on_a_failure_names_the_setting_and_the_command(
    failure: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY_FILE", raising=False)
    text = told(failed(failure))
    for part in expected:
        assert part in text


@pytest.mark.parametrize(
    "failure",
    [
        "provider_unavailable: http://a/v1: an error in place of an answer: Cannot connect to the back end",
        "provider_unavailable: http://a/v1: HTTP 502: Cannot connect to the back end",
        "provider_unavailable: http://a/v1: no answer began within 300 seconds",
        "provider_unavailable: http://a/v1: ServerDisconnectedError: Server disconnected",
    ],
)
def test_server_that_sent_an_error_is_not_said_to_be_down(failure: str) -> None:
    assert "no server answers" not in told(failed(failure))


@pytest.mark.parametrize(
    "failure", [FILTERED, "the model or a content filter refused to answer: I will not."]
)
def test_refused_question_is_not_asked_again(failure: str) -> None:
    assert "run the same command again" not in told(failed(failure))


def test_same_advice_of_two_failures_is_given_once() -> None:
    text = told(failed("provider_authentication: HTTP 401: a", "provider_authentication: HTTP 401: b"))
    assert text.count("OPENAI_API_KEY_FILE") == 1
    assert text.count(COMMAND) == 1


def test_advice_on_a_cut_answer_is_a_larger_limit_or_smaller_chunks() -> None:
    counted = cut('{"n": 1}\n{"n"', completion_tokens=100)
    text = told(counted)
    assert "set a larger `model: max-tokens` in the prompt file, or use smaller chunks" in text
    assert f"  {COMMAND} --chunk-size 1000" in text
    assert "--chunk-size" not in told(counted, chunk_size=150), "the half would be refused"


def test_advice_on_useless_answers_is_another_model_and_a_report() -> None:
    text = told(summary("I am sorry.", "jsonl"))
    assert "trustgraph-prompt extract a.txt -o out.jsonl --model NAME" in text
    assert f"{COMMAND} --report out-report.html" in text
    assert "--report" not in told(summary("I am sorry.", "jsonl"), given=GIVEN._replace(has_report=True))


def test_prompts_that_find_nothing_are_named() -> None:
    jobs = [replace(JOB, position=n, prompt=prompt) for n, prompt in enumerate(("define", "relate", "link"))]
    answer = Answer.of(Request("r", "relate", {}), "extract", "relate", "v", outcome_of("[]", "stop"), ())
    counted = ExtractSummary(jobs)
    for job in jobs:
        counted.add(Result(job, answer=answer if job.position else None))
    plan = Plan(jobs, PromptSet.build({}), [], {}, Splitting(Size(2000)), "small", [])
    told = "\n".join(map(str, advice(counted, plan, FINISHED, GIVEN)))
    assert "relate and link gave no objects: `trustgraph-prompt render` shows the question\n" in told


def test_interrupted_run_and_reached_limit_say_how_to_go_on() -> None:
    assert f"for the rest:\n  {COMMAND}" in told(ExtractSummary([JOB]), FINISHED._replace(interrupted=True))
    counted = ExtractSummary([JOB], spending=SpendingLimit(ScriptedProvider([]), Price(1, 1), 1))
    assert counted.spending
    counted.spending.reached = True
    assert "ended by --max-cost, with 1 question left" in told(counted)


def test_run_without_trouble_gets_no_advice() -> None:
    assert told(summary('{"n": 1}', "jsonl")) == ""


def test_recorded_provider_gets_no_advice_to_change_settings() -> None:
    recorded = GIVEN._replace(is_recorded=True)
    assert told(cut('{"n": 1}\n{"n"', completion_tokens=100), given=recorded).count("\n") == 1


def test_command_of_a_thousand_files_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["trustgraph-prompt", "extract", *(f"{n}.txt" for n in range(1000))])
    assert "\n  (the same command) --chunk-size 1000" in told(failed(TOO_LONG))
