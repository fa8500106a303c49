"""A provider for OpenAI-compatible servers: `POST …/chat/completions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import orjson
from cachetools import LRUCache

from trustgraph_prompt.errors import (
    ProviderInvalidModel,
    ProviderInvalidResponse,
    ProviderModelNotLoaded,
    excerpt,
)
from trustgraph_prompt.json_text.thinking import Notation, notation
from trustgraph_prompt.llm.api_key import ApiKey
from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.openai import request_body, tokenize
from trustgraph_prompt.llm.openai.adaptation import Adaptation, KnownModel
from trustgraph_prompt.llm.openai.answer_decoder import AnswerDecoder, refused_answer
from trustgraph_prompt.llm.openai.refusal import ServerRefusal
from trustgraph_prompt.llm.openai.request_body import Dialect, Prefill
from trustgraph_prompt.llm.openai.schema_paths import SchemaPaths, Wanted, told_in_words
from trustgraph_prompt.llm.openai.server import REQUEST_ERRORS, Server, beginning_of, body_of, events_of
from trustgraph_prompt.llm.records import Call, Delta, Identity, SchemaPath
from trustgraph_prompt.llm.timeout import DEFAULT_TIMEOUT, CallDeadline, Timeout
from trustgraph_prompt.llm.token_estimates import estimate_question

#: Seconds that a server has to list its models.
_READY = 30.0

#: Models that an error names where the one asked for is missing.
_MODELS_SHOWN = 5

#: Other models than the provider's own of which it is remembered what they accept.
_OTHER_MODELS = 100


class OpenAIProvider(Completer):
    """Calls one model of one server, or another one that a call names in its settings.

    Any number of calls at a time, over keep-alive connections.

    `base_url` is what stands before `/chat/completions`; a bare host gets `/v1`. The key, or what a function
    returns as the key for each request, is only sent in the header. Proxies and certificates are those of the
    environment.

    `native_schema` says how a response schema is sent: None finds out what the server accepts, True is
    `response_format` or an error, False is words in the system message. With `images` False, messages with
    images are rejected before they are sent. `prefill` is how the server is told that the last message is the
    beginning of its answer, None where it does not support that. `thinking` is what opens and what closes the
    model's thinking in its answers, beside the notations that are known. Raises `ConfigError` for an invalid
    URL, key, proxy, certificate or notation.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: ApiKey | None = None,
        native_schema: bool | None = None,
        images: bool | None = None,
        prefill: Prefill | None = None,
        thinking: Notation | None = None,
        timeout: Timeout = DEFAULT_TIMEOUT,
    ) -> None:
        self.model = model
        self.prefill = prefill is not None
        self.thinking = None if thinking is None else notation(*thinking)
        self._server = Server(base_url, api_key, timeout)
        self.identity = Identity("openai", model, self._server.address)
        self._dialect = Dialect(model, prefill, images)
        self._native_schema = native_schema
        self._own_model = self._new_model(model)
        self._other_models: LRUCache[str, KnownModel] = LRUCache(_OTHER_MODELS)
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"OpenAIProvider({self._server.address!r}, {self.model!r})"

    @property
    def schema_path(self) -> SchemaPath | None:
        """The strictest path on which the model has answered a response schema; None before the first."""
        return self._own_model.schema_paths.seen

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """Stream the answer.

        Raises a `ProviderError` with the server's own words, before the first delta or between two. A stream
        that ends in order without a finish reason is accepted; a connection that breaks is
        `ProviderUnavailable`. Tool calls come complete in the last delta, and are not checked against the
        tools. If the server rejects the response schema, the call is sent again without strictness, then with
        the schema in words; the first delta says which was accepted. If it rejects a parameter that it does
        not know, the call is sent again without that.
        """
        try:
            # without streaming, an answer begins when it ends
            timeout = self._timeout if call.stream else replace(self._timeout, first=self._timeout.total)
            deadline = CallDeadline(timeout)
            adaptation, has_begun = self._adaptation(call), False
            while True:
                body = self._body(call, adaptation)
                try:
                    async with aclosing(self._answer(call, body, adaptation.path, deadline)) as deltas:
                        async for delta in deltas:
                            if not has_begun:
                                adaptation.answered()
                            has_begun = True
                            yield delta
                    return
                except ServerRefusal as refusal:
                    if refusal.failed_generation is not None:
                        yield refused_answer(refusal, has_begun=has_begun, path=adaptation.path)
                        return
                    can_change = not has_begun and adaptation.adapts_to(refusal)
                    if not can_change or self._body(call, adaptation) == body:
                        raise
        except REQUEST_ERRORS as error:
            if isinstance(error, ServerRefusal):
                error.tokens = estimate_question(call)
            provider_error = self._server.provider_error(error)
        raise provider_error  # out here without its context, which may hold secrets

    @property
    def account(self) -> int:
        """A number that identifies the key within this process and reveals nothing of it."""
        return self._server.account

    async def ready(self, model: str | None = None) -> None:
        """Check with `GET …/models`, in at most 30 seconds and at no cost, that the server serves a model.

        `model` names another one than the provider's own.

        Raises the `ProviderError` that a call would meet: `ProviderAuthentication`, `ProviderInvalidModel`,
        `ProviderModelNotLoaded`, `ProviderUnavailable` and so on.
        """
        await self._listed(model or self.model)

    async def models(self) -> list[str]:
        """The names of the models that the server lists, at no cost. Raises as `ready`."""
        return list(await self._listed())

    async def _listed(self, expected: str | None = None) -> dict[str, Any]:
        """The server's models by name, among which the `expected` one must be."""
        seconds = min(_READY, self._timeout.first, self._timeout.total)
        deadline = CallDeadline(replace(self._timeout, first=seconds, total=seconds))
        try:
            async with self._server.send(None, deadline, "/models") as response:
                listed = models_in(await body_of(response, deadline))
            if expected is not None:
                check_model(listed, expected)
            return listed
        except REQUEST_ERRORS as error:
            provider_error = self._server.provider_error(error, "/models")
        raise provider_error

    async def count_tokens(self, call: Call) -> int | None:
        """Have the server count the prompt tokens of a call, at no cost; None if it does not offer that.

        llama.cpp and vLLM do. Raises the `ProviderError` that a call would meet if the server cannot be
        reached.
        """
        adaptation = self._adaptation(call)
        try:
            body = self._body(call, adaptation)
            return await tokenize.count_tokens(self._server, body)
        except REQUEST_ERRORS as error:
            provider_error = self._server.provider_error(error, "/tokenize")
        raise provider_error

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._server.close()

    def _adaptation(self, call: Call) -> Adaptation:
        """How a call is sent, by what is known of the model that it names, or of the provider's own."""
        name, known = call.config.model, self._own_model
        if name is not None and name != self.model:
            known = self._other_models.setdefault(name, self._new_model(name))
        wanted: Wanted | None = None
        paths: tuple[SchemaPath | None, ...] = (None,)
        if call.response_schema is None:
            pass
        elif request_body.goes_on(call) and self._dialect.prefill != "assistant":
            # only llama.cpp applies the schema to prefill and answer together; others, to the answer alone
            paths = ("prompt",)
        else:
            wanted = known.schema_paths.wanted(call, call.response_schema)
            paths = known.schema_paths.to_try(wanted)
        return Adaptation(known, wanted, paths)

    def _new_model(self, name: str) -> KnownModel:
        return KnownModel(self._server.address, name, SchemaPaths(self._native_schema))

    async def _answer(
        self, call: Call, body: bytes, path: SchemaPath | None, deadline: CallDeadline
    ) -> AsyncGenerator[Delta, None]:
        """Stream the answer to one request."""
        decoder = AnswerDecoder(path)
        async with self._server.send(body, deadline) as response:
            head = await beginning_of(response, deadline)
            # JSON is a whole answer, whatever its content type, and even if it should have been streamed
            if head.lstrip().startswith((b"{", b"[")):
                prefill = call.messages[-1].text if request_body.goes_on(call) else ""
                for delta in decoder.whole(await body_of(response, deadline, head), prefill):
                    yield delta
                return
            async with aclosing(events_of(response, deadline, head)) as chunks:
                async for events in chunks:
                    for event in events:
                        deadline.check()
                        yield decoder.take(event)
            yield decoder.end()

    def _body(self, call: Call, adaptation: Adaptation) -> bytes:
        messages, schema, response_format = call.messages, call.response_schema, None
        if adaptation.path == "prompt" and schema is not None and call.schema_in_words:
            messages = told_in_words(messages, schema)
        elif adaptation.wanted and schema is not None:
            response_format = adaptation.wanted.response_format(schema, adaptation.path)
        return request_body.body(
            call,
            self._dialect,
            messages=messages,
            response_format=response_format,
            without=adaptation.without,
        )


def models_in(body: bytes) -> dict[str, Any]:
    """The models of a list (`GET …/models`), by name. Raises `ProviderInvalidResponse` if it is none."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    models = found.get("data") if isinstance(found, dict) else None
    if not isinstance(models, list):
        raise ProviderInvalidResponse(f"not a list of models: {excerpt(body)}")
    items = [item for item in models if isinstance(item, dict)]
    named = {item["id"]: item for item in items if isinstance(item.get("id"), str)}
    if models and not named:
        raise ProviderInvalidResponse(f"not a list of models, no item has an id: {excerpt(body)}")
    return named


def check_model(named: Mapping[str, Any], model: str) -> None:
    """Check that a server has the model, and that it is loaded.

    Raises `ProviderInvalidModel` where it is not listed, and `ProviderModelNotLoaded` where its `status` says
    so.
    """
    if model not in named:
        names = ", ".join(excerpt(name, 80) for name in list(named)[:_MODELS_SHOWN]) or "none"
        more = f" and {len(named) - _MODELS_SHOWN} more" if len(named) > _MODELS_SHOWN else ""
        raise ProviderInvalidModel(f"no model {model!r}; the server has {names}{more}")
    if named[model].get("status") == "not_loaded":
        raise ProviderModelNotLoaded(f"the model {model!r} is not loaded")
