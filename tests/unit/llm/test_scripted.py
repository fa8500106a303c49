"""The scripted provider and its recordings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.deltas import heard, text
from trustgraph_prompt.cost import Usage
from trustgraph_prompt.errors import ConfigError, ProviderInvalidRequest, ProviderRateLimit
from trustgraph_prompt.llm import Call, Delta, Message, ScriptedAnswer, ScriptedProvider


def question(text: str = "What is it?", **labels: str) -> Call:
    return Call([Message("system", "Be brief."), Message("user", text)], labels=labels)


@pytest.fixture
def recording(tmp_path: Path) -> Any:
    """Writes a recording: lines as they are, or entries as JSON."""
    path = tmp_path / "answers.jsonl"

    def write(*lines: str | dict[str, Any]) -> Path:
        path.write_text(
            "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8"
        )
        return path

    return write


class TestQuestions:
    @pytest.mark.parametrize(
        ("for_", "call", "fits"),
        [
            ({}, question(), True),
            ({"prompt": "define"}, question(prompt="define"), True),
            ({"prompt": "define"}, question(prompt="relate"), False),
            ({"prompt": "define"}, question(), False),
            ({"contains": "is it"}, question(), True),
            ({"contains": "Be brief"}, question(), False),
            ({"match": r"^What\b.*\?$"}, question(), True),
            ({"match": r"^it"}, question(), False),
            ({"prompt": "define", "contains": "who"}, question(prompt="define"), False),
        ],
    )
    async def test_answer_is_given_to_calls_that_fit_its_prompt_and_match(
        self, for_: dict[str, Any], call: Call, fits: bool
    ) -> None:
        provider = ScriptedProvider([ScriptedAnswer("That.", **for_), ScriptedAnswer("Else.", match="")])

        assert await text(provider, call) == ("That." if fits else "Else.")

    async def test_passage_of_an_example_is_no_part_of_the_question(self) -> None:
        example = [Message("user", "Etna?", is_example=True), Message("assistant", "x", is_example=True)]
        call = question()
        shown = replace(call, messages=[*example, *call.messages])
        provider = ScriptedProvider([ScriptedAnswer("Etna.", contains="Etna"), ScriptedAnswer("That.")])

        assert await text(provider, shown) == "That."

    async def test_first_answer_that_fits_is_given(self) -> None:
        provider = ScriptedProvider(
            [ScriptedAnswer("general", contains="What"), ScriptedAnswer("special", contains="What is")]
        )

        assert await text(provider, question()) == "general"

    async def test_call_without_an_answer_is_refused_with_the_known_prompts(self) -> None:
        provider = ScriptedProvider(
            [ScriptedAnswer("x", prompt="define"), ScriptedAnswer("x", prompt="relate")]
        )

        with pytest.raises(ProviderInvalidRequest, match=r"summarize.*What is it\?.*define, relate"):
            await heard(provider, question(prompt="summarize"))

    async def test_nth_call_of_a_request_gets_the_nth_answer(self) -> None:
        provider = ScriptedProvider([ScriptedAnswer(text) for text in ("one", "two")])

        asked = [await text(provider, question(call=number)) for number in ("1", "1", "2", "3", "1")]

        assert asked == ["one", "one", "two", "two", "one"]

    async def test_calls_without_a_number_are_counted(self) -> None:
        provider = ScriptedProvider(
            [ScriptedAnswer("one"), ScriptedAnswer("other", prompt="define"), ScriptedAnswer("two")]
        )

        assert [await text(provider, question()) for _ in range(3)] == ["one", "two", "two"]

    async def test_function_may_answer_with_a_text(self) -> None:
        provider = ScriptedProvider(lambda call: call.messages[-1].text.upper())

        assert await text(provider, question()) == "WHAT IS IT?"

    async def test_function_may_answer_with_deltas(self) -> None:
        deltas = [Delta("a"), Delta("b", finish_reason="length")]

        assert await heard(ScriptedProvider(lambda call: deltas), question()) == deltas


class TestAnswers:
    async def test_pieces_are_as_long_as_requested(self) -> None:
        deltas = await heard(ScriptedProvider([ScriptedAnswer("abcde", chunk=2)]), question())

        assert [delta.text for delta in deltas] == ["ab", "cd", "e", ""]

    async def test_usage_is_estimated_where_it_is_not_given(self) -> None:
        deltas = await heard(ScriptedProvider([ScriptedAnswer("12345678")]), question("1234"))

        assert deltas[-1].usage == Usage(4, 2, 6)  # four bytes a token: "Be brief." has three


class TestRecordings:
    async def test_line_of_a_recording_can_have_every_property(self, recording: Any) -> None:
        provider = ScriptedProvider.load(
            recording(
                {
                    "prompt": "define",
                    "answer": ["one", "two"],
                    "thinking": "hm",
                    "finish_reason": None,
                    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
                    "model": "small",
                    "delay": 0,
                    "chunk": 100,
                },
                "",
                {
                    "contains": "limit",
                    "error": {"category": "provider_rate_limit", "message": "slow", "retry_after": 3},
                },
                {"match": "cut", "answer": "Hello, world", "cut_after": 5},
            )
        )

        deltas = await heard(provider, question(prompt="define"))
        assert deltas == [
            Delta(thinking="hm", model="small"),
            Delta("one\ntwo", model="small"),
            Delta(usage=Usage(1, 2, 3), model="small"),
        ]
        with pytest.raises(ProviderRateLimit, match="slow") as caught:
            await heard(provider, question("the limit"))
        assert caught.value.retry_after == 3
        cut = await heard(provider, question("cut it"))
        assert (cut[0].text, cut[-1].finish_reason) == ("Hello", "length")

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("{", r"answers.jsonl:2: not JSON"),
            ("[]", r"answers.jsonl:2: .*expected a mapping"),
            ('{"prompt": "define"}', r"answers.jsonl:2: .*answer"),
            (
                '{"answer": 1}',
                r"answers.jsonl:2 /answer: .*found 1, expected a string; or a list of its lines",
            ),
            ('{"anwser": "x"}', r"answers.jsonl:2 /anwser: unknown key, did you mean 'answer'"),
            ('{"answer": "", "match": "("}', r"answers.jsonl:2 /match: not a regular .* \(found '\('\)"),
            ('{"answer": "", "chunk": 0}', r"answers.jsonl:2 /chunk"),
            ('{"answer": "", "delay": -1}', r"answers.jsonl:2 /delay"),
            ('{"answer": "", "finish_reason": "tired"}', r"answers.jsonl:2 /finish_reason"),
            ('{"error": {"category": "nonsense"}}', r"answers.jsonl:2 /error/category"),
            ('{"answer": "", "usage": {"tokens": 1}}', r"answers.jsonl:2 /usage/tokens"),
        ],
    )
    def test_malformed_line_of_a_recording_is_named(self, recording: Any, line: str, complaint: str) -> None:
        with pytest.raises(ConfigError, match=complaint):
            ScriptedProvider.load(recording({"answer": "fine"}, line))

    def test_missing_recording_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"nowhere\.jsonl: No such file"):
            ScriptedProvider.load(tmp_path / "nowhere.jsonl")
