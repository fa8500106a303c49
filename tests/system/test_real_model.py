"""A real server with a real model: what holds whatever the model says.

The model is small and tells nonsense; where a test needs an answer of a certain form, llama.cpp's own
`grammar` makes the model give it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import command
from tests.support.deltas import heard, last, text, text_of
from tests.support.llama_server import CONTEXT, MODEL, LlamaServer, missing
from tests.support.requirements import unavailable
from trustgraph_prompt import errors, package_data
from trustgraph_prompt.ask import ask
from trustgraph_prompt.cost import Budget, Usage
from trustgraph_prompt.llm import Call, Delta, ImageBlock, Message, OpenAIProvider, RetryPolicy, RuntimeConfig
from trustgraph_prompt.prompts import PromptDefinition, PromptSet, Question, files
from trustgraph_prompt.reader import Outcome, read

pytestmark = [pytest.mark.real_model, pytest.mark.xdist_group("model")]

PASSAGES = Path(__file__).parents[2] / "benchmarks" / "passages"

QUESTION = [Message("user", "List some numbers.")]

#: Text whose characters are up to four bytes each, and several tokens.
CHARACTERS = "é🙂日本𠮷"

NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.fixture
def server(llama_server: LlamaServer) -> LlamaServer:
    return llama_server


@pytest.fixture
async def provider(server: LlamaServer) -> AsyncIterator[OpenAIProvider]:
    async with OpenAIProvider(server.url, MODEL) as provider:
        yield provider


def config(max_tokens: int, *, grammar: str | None = None, **extras: Any) -> RuntimeConfig:
    """The likeliest answer of so many tokens at most, in the words of a grammar."""
    if grammar is not None:
        extras["grammar"] = grammar
    return RuntimeConfig(temperature=0.0, seed=1, max_tokens=max_tokens, extras=extras)


def saying(text: str, max_tokens: int = 32) -> RuntimeConfig:
    """The model says this, or as much of it as it may."""
    return config(max_tokens, grammar=f"root ::= {json.dumps(text, ensure_ascii=False)}")


def choice(*colours: str) -> dict[str, Any]:
    """The schema of an object with one of these."""
    return {
        "type": "object",
        "properties": {"colour": {"enum": list(colours)}},
        "required": ["colour"],
        "additionalProperties": False,
    }


def lines(count: str, number: str = "[1-9] [0-9]") -> str:
    """A grammar of so many lines, `{4}` or `+`, each with an object that holds such a number."""
    return rf'root ::= ("{{\"n\": " {number} "}}\n"){count}'


def usage(deltas: list[Delta]) -> Usage:
    return next(delta.usage for delta in reversed(deltas) if delta.usage is not None)


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.05)


@pytest.fixture(params=[True, False], ids=["streamed", "in one piece"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class TestAnswers:
    async def test_an_answer_comes_with_its_end_its_cost_and_its_model(
        self, provider: OpenAIProvider, stream: bool
    ) -> None:
        deltas = await heard(provider, Call(QUESTION, config(8), stream=stream))

        assert text_of(deltas)
        assert last(deltas, "finish_reason") == "length"
        cost = usage(deltas)
        assert cost.completion_tokens == 8
        assert cost.prompt_tokens is not None
        assert cost.prompt_tokens > 0
        assert cost.total_tokens == cost.prompt_tokens + 8
        assert {delta.model for delta in deltas} <= {MODEL, None}

    async def test_a_streamed_answer_comes_in_pieces_and_the_other_one_at_once(
        self, provider: OpenAIProvider, stream: bool
    ) -> None:
        deltas = await heard(provider, Call(QUESTION, config(8), stream=stream))

        pieces = [delta for delta in deltas if delta.text]
        assert (len(pieces) > 1) is stream

    async def test_an_answer_that_ends_by_itself_is_whole(
        self, provider: OpenAIProvider, stream: bool
    ) -> None:
        deltas = await heard(provider, Call(QUESTION, saying(CHARACTERS), stream=stream))

        assert (text_of(deltas), last(deltas, "finish_reason")) == (CHARACTERS, "stop")

    async def test_truncated_answer_has_whole_characters_only(
        self, provider: OpenAIProvider, stream: bool
    ) -> None:
        for tokens in range(2, 7):
            deltas = await heard(provider, Call(QUESTION, saying(CHARACTERS, tokens), stream=stream))

            assert CHARACTERS.startswith(text_of(deltas))
            assert last(deltas, "finish_reason") == "length"

    async def test_stop_sequence_ends_the_answer(self, provider: OpenAIProvider) -> None:
        settings = replace(saying("one two three"), stop_sequences=("two",))
        deltas = await heard(provider, Call(QUESTION, settings))

        assert (text_of(deltas), last(deltas, "finish_reason")) == ("one ", "stop")

    async def test_cached_tokens_of_the_server_are_reported(self, provider: OpenAIProvider) -> None:
        call = Call([Message("user", "Which words does a cache remember of a question? " * 4)], config(1))
        await heard(provider, call)
        again = usage(await heard(provider, call))

        assert again.cached_tokens is not None
        assert again.prompt_tokens is not None
        assert 0 < again.cached_tokens <= again.prompt_tokens

    async def test_calls_at_the_same_time_each_get_their_own_answer(self, provider: OpenAIProvider) -> None:
        texts = [f"answer {letter}" for letter in "abcdef"]
        answers = await asyncio.gather(*(heard(provider, Call(QUESTION, saying(text))) for text in texts))

        assert [text_of(deltas) for deltas in answers] == texts

    async def test_calls_one_after_the_other_need_no_retry(self, provider: OpenAIProvider) -> None:
        # the server closes the connection after each stream, though it promised to keep it
        for _ in range(12):
            assert await text(provider, Call(QUESTION, config(1)))


class TestSchemas:
    async def test_the_server_holds_the_model_to_the_schema(
        self, provider: OpenAIProvider, stream: bool
    ) -> None:
        response = await provider.complete(
            QUESTION, config=config(48), response_schema=choice("red", "green"), stream=stream
        )

        assert response.parsed in ({"colour": "red"}, {"colour": "green"})
        assert json.loads(response.message.text) == response.parsed
        assert (response.schema_path, response.finish_reason) == ("strict", "stop")

    @pytest.mark.parametrize(
        "refused",
        [
            {"$ref": "#"},
            True,
            {"type": "array", "items": {"type": "integer"}, "minItems": 3000},
        ],
        ids=["recursive", "boolean", "grammar too large"],
    )
    async def test_schema_that_the_server_refuses_goes_into_the_prompt(
        self, provider: OpenAIProvider, refused: Any
    ) -> None:
        schema = {"type": "object", "properties": {"like": refused}}
        deltas = await heard(provider, Call(QUESTION, config(2), response_schema=schema))

        assert next(delta.schema_path for delta in deltas if delta.schema_path) == "prompt"
        assert provider.schema_path == "prompt"

    async def test_refusal_of_one_schema_does_not_change_the_path_of_the_next(
        self, provider: OpenAIProvider, stream: bool
    ) -> None:
        refused = {"type": "object", "properties": {"like": {"$ref": "#"}}}
        for schema, path in ((refused, "prompt"), (choice("red"), "strict"), (refused, "prompt")):
            deltas = await heard(provider, Call(QUESTION, config(2), response_schema=schema, stream=stream))

            assert next(delta.schema_path for delta in deltas if delta.schema_path) == path

    async def test_native_schema_true_raises_where_the_server_refuses_it(self, server: LlamaServer) -> None:
        schema = {"type": "object", "properties": {"like": {"$ref": "#"}}}
        async with OpenAIProvider(server.url, MODEL, native_schema=True) as provider:
            with pytest.raises(errors.ProviderInvalidRequest, match=r"JSON schema error at #/properties"):
                await provider.complete(QUESTION, config=config(4), response_schema=schema)

    async def test_schema_rule_that_the_server_ignores_is_checked_in_the_answer(
        self, provider: OpenAIProvider
    ) -> None:
        schema = {**choice("red"), "not": {"required": ["colour"]}}  # nothing fits, and no grammar says so
        with pytest.raises(errors.StructuredOutputInvalid) as invalid:
            await provider.complete(QUESTION, config=config(48), response_schema=schema)

        assert json.loads(invalid.value.output_content) == {"colour": "red"}
        assert invalid.value.finish_reason == "stop"

    async def test_truncated_answer_is_an_invalid_structured_output(
        self, provider: OpenAIProvider, stream: bool
    ) -> None:
        with pytest.raises(errors.StructuredOutputInvalid) as invalid:
            await provider.complete(QUESTION, config=config(5), response_schema=choice("red"), stream=stream)

        assert invalid.value.finish_reason == "length"
        assert invalid.value.output_content
        assert invalid.value.usage is not None
        assert invalid.value.usage.completion_tokens == 5

    async def test_without_a_schema_the_answer_is_what_the_model_says(
        self, provider: OpenAIProvider, stream: bool
    ) -> None:
        response = await provider.complete(QUESTION, config=saying(CHARACTERS), stream=stream)

        assert (response.message.content, response.parsed, response.schema_path) == (CHARACTERS, None, None)
        assert response.raw["choices"][0]["message"]["content"] == CHARACTERS
        assert response.raw["usage"]["total_tokens"] == response.usage.total_tokens


class TestGoingOn:
    async def test_answer_does_not_repeat_the_beginning_that_was_given(
        self, server: LlamaServer, stream: bool
    ) -> None:
        beginning = '{"colour": "red", "shade'
        conversation = [*QUESTION, Message("assistant", beginning)]
        async with OpenAIProvider(server.url, MODEL, prefill="assistant") as provider:
            deltas = await heard(provider, Call(conversation, config(4), stream=stream))

        # the server itself repeats the beginning where it does not stream
        assert text_of(deltas)
        assert beginning not in text_of(deltas)
        assert usage(deltas).completion_tokens == 4

    async def test_beginning_and_answer_together_fit_the_schema(
        self, server: LlamaServer, stream: bool
    ) -> None:
        beginning = '{"colour": "r'
        conversation = [*QUESTION, Message("assistant", beginning)]
        async with OpenAIProvider(server.url, MODEL, prefill="assistant") as provider:
            call = Call(conversation, config(24), response_schema=choice("red", "green"), stream=stream)
            deltas = await heard(provider, call)

        assert json.loads(beginning + text_of(deltas)) == {"colour": "red"}
        assert last(deltas, "finish_reason") == "stop"

    async def test_beginning_that_cannot_fit_the_schema_is_continued_without_it(
        self, server: LlamaServer
    ) -> None:
        begun = Call([*QUESTION, Message("assistant", "Sure! [1")], config(24), response_schema=choice("red"))
        async with OpenAIProvider(server.url, MODEL, prefill="assistant") as provider:
            deltas = await heard(provider, begun)
            later = await provider.complete(QUESTION, config=config(24), response_schema=choice("red"))

        assert next(delta.schema_path for delta in deltas if delta.schema_path) == "prompt"
        assert later.schema_path == "strict"

    async def test_the_switches_of_vllm_are_understood(self, server: LlamaServer) -> None:
        conversation = [*QUESTION, Message("assistant", '{"colour": "r')]
        async with OpenAIProvider(server.url, MODEL, prefill="vllm") as provider:
            deltas = await heard(provider, Call(conversation, config(2)))

        assert last(deltas, "finish_reason") == "length"


class TestReadiness:
    async def test_a_server_that_has_the_model_is_ready(self, provider: OpenAIProvider) -> None:
        await provider.ready()

    async def test_a_server_that_has_another_model_says_which(self, server: LlamaServer) -> None:
        async with OpenAIProvider(server.url, "another") as provider:
            with pytest.raises(errors.ProviderInvalidModel, match=MODEL):
                await provider.ready()


class TestRefusals:
    async def test_unknown_path_is_an_invalid_request(self, server: LlamaServer) -> None:
        async with OpenAIProvider(f"{server.url}/nowhere", MODEL) as provider:
            with pytest.raises(errors.ProviderInvalidRequest, match="File Not Found"):
                await heard(provider, Call(QUESTION))

    async def test_invalid_setting_is_an_invalid_request(
        self, provider: OpenAIProvider, stream: bool
    ) -> None:
        with pytest.raises(errors.ProviderInvalidRequest, match="top_k"):
            await heard(provider, Call(QUESTION, config(1, top_k="many"), stream=stream))

    async def test_question_beyond_the_context_is_an_invalid_request(self, provider: OpenAIProvider) -> None:
        with pytest.raises(errors.ProviderInvalidRequest) as caught:
            await heard(provider, Call([Message("user", "word " * 2 * CONTEXT)], config(1)))
        told = (
            r"the question does not fit the model's context: it has 4,1\d\d tokens; the server allows 2,048$"
        )
        assert re.search(told, str(caught.value))
        assert re.search(told, caught.value.loggable)

    async def test_image_for_a_model_without_images_is_an_unsupported_block(
        self, provider: OpenAIProvider
    ) -> None:
        image = ImageBlock(base64_data="iVBORw0KGgo=", media_type="image/png")
        with pytest.raises(errors.ProviderUnsupportedContentBlock):
            await heard(provider, Call([Message("user", (image,))], config(1)))

    async def test_a_server_that_is_not_there_is_unavailable(self) -> None:
        async with OpenAIProvider("http://127.0.0.1:9", MODEL) as provider:
            with pytest.raises(errors.ProviderUnavailable):
                await heard(provider, Call(QUESTION))


class TestLoading:
    async def test_request_during_loading_is_answered_later_and_needs_the_key(self) -> None:
        if reason := missing():
            unavailable(reason)
        server = LlamaServer(api_key="sk-right-0123456789")
        try:
            async with OpenAIProvider(server.url, MODEL, api_key="sk-right-0123456789") as provider:
                outcome = await asked(
                    provider,
                    config(16, grammar=lines("{1}")),
                    retry=RetryPolicy(max_attempts=10_000),
                    sleep=lambda seconds: asyncio.sleep(0.02),
                )
                await provider.ready()
            async with OpenAIProvider(server.url, MODEL, api_key="sk-wrong-0123456789") as provider:
                with pytest.raises(errors.ProviderAuthentication) as refused:
                    await heard(provider, Call(QUESTION, config(1)))
                with pytest.raises(errors.ProviderAuthentication):
                    await provider.ready()
        finally:
            server.end()

        categories = [call.error.partition(":")[0] for call in outcome.calls if call.error]
        assert outcome.ok
        assert "provider_model_not_loaded" in categories
        # not there yet, then loading, and never again the one after the other
        assert categories == sorted(categories, reverse=True)
        assert "sk-wrong" not in str(refused.value)


class TestLeaving:
    async def test_leaving_a_stream_ends_the_work_of_the_server(
        self, server: LlamaServer, provider: OpenAIProvider
    ) -> None:
        endless = config(CONTEXT - 100, grammar=lines("+"))
        async with aclosing(provider.stream(Call(QUESTION, endless))) as deltas:
            async for delta in deltas:
                if delta.text:
                    break
            assert server.busy() == 1

        await until(lambda: server.busy() == 0)

    async def test_a_call_that_is_cancelled_ends_the_work_of_the_server(
        self, server: LlamaServer, provider: OpenAIProvider
    ) -> None:
        endless = config(CONTEXT - 100, grammar=lines("+"))
        task = asyncio.create_task(heard(provider, Call(QUESTION, endless)))
        await until(lambda: server.busy() == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        await until(lambda: server.busy() == 0)


class TestAsking:
    async def test_objects_that_come_whole_are_an_answer(self, provider: OpenAIProvider) -> None:
        outcome = await asked(provider, config(48, grammar=lines("{3}")))

        assert outcome.ok
        assert len(outcome.value) == 3
        assert outcome.truncated is False
        assert [call.finish_reason for call in outcome.calls] == ["stop"]

    async def test_a_cut_answer_is_continued_and_no_object_comes_twice(
        self, provider: OpenAIProvider
    ) -> None:
        settings = replace(config(20, grammar=lines("+", "[1-9] [0-9]{5}")), temperature=2.0)
        outcome = await asked(provider, settings, budget=Budget(tokens=400))

        values = [value["n"] for value in outcome.value]
        assert len(outcome.calls) > 1
        assert len(values) == len(set(values))
        assert outcome.truncated is True
        assert outcome.issues
        assert outcome.usage.tokens <= 400 + 20

    async def test_a_model_that_repeats_itself_without_end_is_seen(self, provider: OpenAIProvider) -> None:
        outcome = await asked(provider, config(48, grammar=lines("+", "[1]")))

        assert {value["n"] for value in outcome.value} == {1}
        assert outcome.truncated is True
        assert len(outcome.calls) <= 2
        assert re.search("repeated itself|nothing new", " ".join(str(issue) for issue in outcome.issues))

    async def test_a_json_answer_is_held_to_its_schema_by_the_server(self, provider: OpenAIProvider) -> None:
        outcome = await asked(provider, config(48), format="json", schema=choice("red", "green"))

        assert outcome.value in ({"colour": "red"}, {"colour": "green"})
        assert [(call.finish_reason, call.schema_path) for call in outcome.calls] == [("stop", "strict")]

    async def test_a_cut_json_answer_is_asked_for_with_more_room(self, provider: OpenAIProvider) -> None:
        outcome = await asked(provider, config(6), format="json", schema=choice("red"))

        assert outcome.value == {"colour": "red"}
        assert outcome.truncated is False
        assert {call.why for call in outcome.calls[1:]} == {"room"}
        assert outcome.usage.completion_tokens == sum(
            call.usage.completion_tokens or 0 for call in outcome.calls
        )

    async def test_a_cut_json_answer_goes_on_where_it_was_cut(self, server: LlamaServer) -> None:
        async with OpenAIProvider(server.url, MODEL, prefill="assistant") as provider:
            outcome = await asked(provider, config(6), format="json", schema=choice("red"))

        assert outcome.value == {"colour": "red"}
        assert {call.why for call in outcome.calls[1:]} == {"continue"}
        assert {call.schema_path for call in outcome.calls} == {"strict"}
        assert json.loads("".join(call.text for call in outcome.calls)) == outcome.value

    async def test_free_answer_of_the_model_gets_a_verdict(self, provider: OpenAIProvider) -> None:
        outcome = await asked(provider, config(8), attempts=2)

        assert all(isinstance(value["n"], int) for value in outcome.value)
        assert 1 <= len(outcome.calls) <= 4
        assert outcome.ok or outcome.explain()


class TestCommand:
    def test_a_prompt_is_asked_by_hand(self, server: LlamaServer, tmp_path: Path) -> None:
        prompt = {
            "dialect": "jinja",
            "prompt": "Which colour has {{ thing }}?",
            "response-type": "json",
            "schema": choice("red", "green"),
            "model": {"temperature": 0, "max-tokens": 48},
        }
        (tmp_path / "colour.yaml").write_text(json.dumps(prompt))
        done = command.run(
            *("ask", "colour", "--templates", tmp_path, "--term", "thing=grass"),
            *("--base-url", server.url, "--model", MODEL),
        )

        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["colour"] in ("red", "green")

    def test_question_beyond_the_context_is_an_error_with_its_tokens(
        self, server: LlamaServer, tmp_path: Path
    ) -> None:
        (tmp_path / "say.prompt").write_text('prompt say: "{{ text }}"')
        done = command.run(
            *("ask", "say", "--templates", tmp_path, "--term", f"text={'word ' * 2 * CONTEXT}"),
            *("--base-url", server.url, "--model", MODEL),
        )
        assert done.returncode == 1
        assert "does not fit the model's context: it has 4,1" in " ".join(done.stderr.split())
        assert "the server allows 2,048" in " ".join(done.stderr.split())

    def test_a_document_gives_objects(self, server: LlamaServer, tmp_path: Path) -> None:
        prompt = {
            "dialect": "jinja",
            "prompt": "List numbers of {{ text }}",
            "response-type": "jsonl",
            "schema": NUMBER,
            "model": {"max-tokens": 8},
        }
        for name in ("extract-definitions", "extract-relationships"):
            (tmp_path / f"{name}.yaml").write_text(json.dumps(prompt))
        (tmp_path / "notes.txt").write_text("Chalk is white. Basalt is black.")
        done = command.run(
            *("extract", tmp_path / "notes.txt", "--templates", tmp_path, "--output", tmp_path / "out.jsonl"),
            *("--base-url", server.url, "--model", MODEL),
        )

        found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        # cut after 8 tokens, the model may not have come to an object
        assert done.returncode == 0 or (done.returncode == 1 and not found), done.stderr
        assert all(isinstance(one["object"]["n"], int) for one in found)
        assert f"{len(found)} objects from 1 chunk of 1 file" in done.stderr + done.stdout


async def test_shown_examples_that_a_model_repeats_give_no_objects(provider: OpenAIProvider) -> None:
    prompts = PromptSet.build(files.load(package_data.templates()))
    said = 0
    for name in ("biography", "news-report"):
        passage = (PASSAGES / f"{name}.txt").read_text(encoding="utf-8")
        prompt, question = prompts.question("extract-definitions", {"text": passage})
        shown = [value for example in question.examples for value in example.answer]
        assert shown
        outcome = await ask(
            replace(prompt, config=config(100), attempts=1, native_items=True), question, provider
        )

        said += len(outcome.objects) + len(outcome.rejected)
        repeated = [each for each in outcome.rejected if read(each.raw, "json").value in shown]
        assert all(errors.Reason.ECHOED in {issue.reason for issue in each.issues} for each in repeated)
        assert not [each for each in outcome.objects if each in shown]
        assert all(" ".join(each["quote"].split()) in " ".join(passage.split()) for each in outcome.objects)
    assert said


async def asked(
    provider: OpenAIProvider,
    config: RuntimeConfig,
    *,
    format: str = "jsonl",
    schema: dict[str, Any] = NUMBER,
    attempts: int = 1,
    **options: Any,
) -> Outcome:
    entry = {
        "prompt": "unused",
        "dialect": "jinja",
        "response-type": format,
        "schema": schema,
        "attempts": attempts,
    }
    prompt = replace(PromptDefinition.from_entry("numbers", entry), config=config)
    question = Question("", "List some numbers, one JSON object a line.")
    return await ask(prompt, question, provider, **options)
