"""What `ask` prints while an answer comes, and what it says of it in the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import Script
from trustgraph_prompt.ask import Piece, ask
from trustgraph_prompt.cli.answer_printer import AnswerPrinter
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import (
    ProviderAuthentication,
    ProviderError,
    ProviderInvalidModel,
    ProviderInvalidRequest,
)
from trustgraph_prompt.llm import ScriptedAnswer
from trustgraph_prompt.prompts import PromptDefinition, Question


def prompt(format: str, **more: Any) -> PromptDefinition:
    rules = {} if format == "text" else {"schema": {"type": "object", "required": ["n"]}}
    entry = {"prompt": "unused", "dialect": "jinja", "response-type": format, **rules, **more}
    return PromptDefinition.from_entry("numbers", entry)


async def show(prompt: PromptDefinition, *answers: ScriptedAnswer, prefill: bool = False) -> None:
    """Ask and print, as the command does."""
    printer = AnswerPrinter(prompt, begin=lambda: None)
    provider = Script(*answers, prefill=prefill)
    outcome = await ask(prompt, Question("", "Which numbers?"), provider, listen=printer.listen)
    printer.finish(outcome)


async def test_text_is_printed_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    printer = AnswerPrinter(prompt("text"), begin=lambda: None)
    await printer.listen(Piece(text="one "))
    assert capsys.readouterr().out == "one "
    await printer.listen(Piece(text="two"))
    assert capsys.readouterr().out == "two"


@pytest.mark.parametrize(("said", "printed"), [("one two", "one two\n"), ("one\n", "one\n"), ("", "\n")])
async def test_text_ends_with_one_end_of_line(
    said: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await show(prompt("text"), ScriptedAnswer(said, chunk=2))
    assert capsys.readouterr() == (printed, "")


async def test_escalated_answer_is_printed_and_called_escalated(capsys: pytest.CaptureFixture[str]) -> None:
    await show(prompt("text", escalate={"op": "~", "value": "I CANNOT"}), ScriptedAnswer("I cannot."))
    printed, noted = capsys.readouterr()
    assert printed == "I cannot.\n"
    assert noted.startswith("escalated: ")


async def test_text_that_is_continued_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    answers = ScriptedAnswer("one two ", finish_reason="length"), ScriptedAnswer("three")
    await show(prompt("text"), *answers, prefill=True)
    assert capsys.readouterr() == ("one two three\n", "")


async def test_object_is_printed_as_soon_as_it_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    printer = AnswerPrinter(prompt("jsonl"), begin=lambda: None)
    await printer.listen(Piece(objects=({"n": 1},)))
    assert capsys.readouterr().out == '{"n": 1}\n'


async def test_objects_of_an_answer_that_was_continued_are_printed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cut = ScriptedAnswer('{"n": 1}\n{"n": 2}\n{"n', finish_reason="length")
    await show(prompt("jsonl"), cut, ScriptedAnswer('{"n": 2}\n{"n": 3}\n'))
    assert capsys.readouterr() == ('{"n": 1}\n{"n": 2}\n{"n": 3}\n', "")


async def test_object_that_occurs_twice_is_printed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    await show(prompt("jsonl"), ScriptedAnswer('{"n": 1}\n{"n": 1}\n{"n": 2}\n'))
    assert sorted(capsys.readouterr().out.splitlines()) == ['{"n": 1}', '{"n": 1}', '{"n": 2}']


async def test_draft_that_the_answer_repeats_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    await show(prompt("jsonl"), ScriptedAnswer('{"n": 1}\n</think>{"n": 1}\n{"n": 2}\n'))
    assert capsys.readouterr() == ('{"n": 1}\n{"n": 2}\n', "")


async def test_printed_draft_that_is_retracted_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await show(prompt("jsonl"), ScriptedAnswer('{"n": 1}\n</think>{"n": 2}\n'))
    assert capsys.readouterr() == ('{"n": 1}\n{"n": 2}\n', 'taken back: {"n": 1}\n')


async def test_json_value_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    await show(prompt("json"), ScriptedAnswer('Here: {"n": 1}'))
    assert capsys.readouterr() == ('{\n  "n": 1\n}\n', "")


async def test_refused_object_prints_its_reason_once(capsys: pytest.CaptureFixture[str]) -> None:
    await show(prompt("jsonl"), ScriptedAnswer('{"m": 1}'))
    assert capsys.readouterr().err == 'refused object 1: "n" is missing\nerror: schema_missing_field\n'


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "no key was sent: set OPENAI_API_KEY or OPENAI_API_KEY_FILE"),
        ({"OPENAI_API_KEY": "k"}, "the key of OPENAI_API_KEY was rejected: set it to a valid key"),
        (
            {"OPENAI_API_KEY": "k", "OPENAI_API_KEY_FILE": "f"},
            "the key of OPENAI_API_KEY_FILE was rejected: set it to a valid key",
        ),
    ],
)
async def test_authentication_error_says_which_key_was_sent(
    variables: dict[str, str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    await show(prompt("jsonl"), ScriptedAnswer("", error=ProviderAuthentication("HTTP 401")))
    assert capsys.readouterr().err == f"error: HTTP 401\n{told}\n"


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        (ProviderInvalidModel("HTTP 404"), "set --model or TRUSTGRAPH_PROMPT_MODEL"),
        (ProviderInvalidRequest("HTTP 404"), "set --base-url or TRUSTGRAPH_PROMPT_BASE_URL"),
    ],
)
async def test_unknown_model_or_address_names_the_setting(
    error: ProviderError, setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await show(prompt("jsonl"), ScriptedAnswer("", error=error))
    assert capsys.readouterr().err.startswith(f"error: HTTP 404\n{setting}")


async def test_provider_error_does_not_hide_what_was_wrong_with_the_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = ScriptedAnswer('{"m": 1}'), ScriptedAnswer("", error=ProviderInvalidRequest("HTTP 400"))
    await show(prompt("json", attempts=2), *answers)
    told = capsys.readouterr().err
    assert "error: HTTP 400" in told
    assert "schema_missing_field" in told


async def test_issue_of_a_single_value_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    await show(prompt("json"), ScriptedAnswer('Here: {"m": 1}'))
    assert capsys.readouterr() == ("", 'error: schema_missing_field: "n" is missing\n')


async def test_reason_without_a_refused_object_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    await show(prompt("jsonl"), ScriptedAnswer("no idea"))
    assert capsys.readouterr().err == "error: extraction_failed: no object in the answer\n"


class TestTruncated:
    async def test_truncated_at_the_limit_of_the_prompt_advises_a_larger_one(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        limited = prompt("text", model={"max-tokens": 3})
        full = ScriptedAnswer("one two", finish_reason="length", usage=Usage(9, 3, 12))
        await show(limited, full)
        assert capsys.readouterr() == (
            "one two\n",
            "truncated: at the prompt's max-tokens of 3\n"
            "to allow longer answers, set a larger `model: max-tokens` in the prompt file, "
            "or use shorter terms\n",
        )

    async def test_truncated_after_doubling_names_the_doubled_limit(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        limited = prompt("json", model={"max-tokens": 3})
        halves = [
            ScriptedAnswer('{"n": ', finish_reason="length", usage=Usage(9, tokens, 9 + tokens))
            for tokens in (3, 6, 12)
        ]
        await show(limited, *halves)
        assert "truncated: at the prompt's max-tokens of 12\n" in capsys.readouterr().err

    @pytest.mark.parametrize("model", [{}, {"max-tokens": 1000}])
    async def test_truncated_by_the_server_names_the_tokens_it_took(
        self, model: dict[str, int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        full = ScriptedAnswer("one two", finish_reason="length", usage=Usage(9, 3, 12))
        await show(prompt("text", model=model), full)
        assert capsys.readouterr().err == (
            "truncated: after 3 tokens by the server's own limit or its context size\n"
            "to allow longer answers, set a larger `model: max-tokens` in the prompt file, "
            "or use shorter terms\n"
        )

    async def test_truncated_by_repetition_says_so(self, capsys: pytest.CaptureFixture[str]) -> None:
        await show(prompt("text"), ScriptedAnswer("again and again, " * 200, finish_reason="length"))
        told = capsys.readouterr().err
        assert "; the answer was truncated, and only repeated itself\n" in told
        assert "max-tokens" not in told

    async def test_truncated_without_a_known_limit_says_that_it_repeated_itself(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        cut = ScriptedAnswer('{"n": 1}\n{"n"', finish_reason=None)
        await show(prompt("jsonl"), cut, cut)
        assert "truncated: the answer was truncated, and only repeated itself\n" in capsys.readouterr().err
