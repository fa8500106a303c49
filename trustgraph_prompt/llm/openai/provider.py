"""A provider that asks an OpenAI-compatible server over HTTP: `POST …/chat/completions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import orjson
from cachetools import LRUCache

from trustgraph_prompt.errors import (
    ProviderInvalidModel,
    ProviderInvalidResponse,
    ProviderModelNotLoaded,
    excerpt,
)
from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.openai import request
from trustgraph_prompt.llm.openai.answer import AnswerDecoder
from trustgraph_prompt.llm.openai.errors import Refusal
from trustgraph_prompt.llm.openai.http import TROUBLE, Server, beginning_of, body_of, events_of
from trustgraph_prompt.llm.openai.request import Dialect, Prefill
from trustgraph_prompt.llm.openai.schema import SchemaPaths, Wanted, told_in_words
from trustgraph_prompt.llm.records import Call, Delta, Identity, SchemaPath
from trustgraph_prompt.llm.timeout import DEFAULT_TIMEOUT, CallDeadline, Timeout
from trustgraph_prompt.llm.token_estimates import estimate_question

_SHOWN = 5


def check_models(body: bytes, model: str) -> None:
    """Nothing where the model is there and serves.

    Raises `ProviderInvalidModel` where it is not listed, `ProviderModelNotLoaded` where its `status` says so,
    and `ProviderInvalidResponse` where the body is no list of models.
    """
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    models = found.get("data") if isinstance(found, dict) else None
    if not isinstance(models, list):
        raise ProviderInvalidResponse(f"no list of models: {excerpt(body)}")
    named = {one["id"]: one for one in models if isinstance(one, dict) and isinstance(one.get("id"), str)}
    if models and not named:
        raise ProviderInvalidResponse(f"a list of what is no model: {excerpt(body)}")
    if model not in named:
        raise ProviderInvalidModel(f"no model {model!r}; the server has {_some(list(named))}")
    if named[model].get("status") == "not_loaded":
        raise ProviderModelNotLoaded(f"the model {model!r} is not loaded")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(excerpt(name, 80) for name in names[:_SHOWN]) or "none") + more


#: Seconds within which a server has to say what models it has.
_READY = 30.0

#: Models beside the provider's own of which it is remembered what schemas they take.
_OTHER_MODELS = 100


class OpenAIProvider(Completer):
    """One model of one server, or the other one that a call names in its settings.

    Any number of calls at a time, over connections that are kept.

    `base_url` is what stands before `/chat/completions`; a bare host gets `/v1`. The key goes into the
    header of requests and nowhere else. Proxies and certificates are those of the environment.

    `native_schema` says how a response schema is asked for: None finds out what the server takes, True is
    `response_format` or an error, False is words only. `images` False refuses them before they are sent.
    `prefill` is how the server is told that the last message is the beginning of its answer, None that it
    cannot be. Raises `ConfigError` for a URL, a key, a proxy or certificates that cannot be one.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        native_schema: bool | None = None,
        images: bool | None = None,
        prefill: Prefill | None = None,
        timeout: Timeout = DEFAULT_TIMEOUT,
    ) -> None:
        self.model = model
        self.prefill = prefill is not None
        self._server = Server(base_url, api_key, timeout)
        self._dialect = Dialect(model, prefill, images)
        self._schema_paths = SchemaPaths(native_schema)
        self._native_schema = native_schema
        self._of_others: LRUCache[str, SchemaPaths] = LRUCache(_OTHER_MODELS)
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"OpenAIProvider({self._server.address!r}, {self.model!r})"

    @property
    def identity(self) -> Identity:
        return Identity("openai", self.model, self._server.address)

    @property
    def schema_path(self) -> SchemaPath | None:
        """How the model was seen to take a response schema, at best; None before it has answered one."""
        return self._schema_paths.seen

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer as it comes over the wire.

        Raises a `ProviderError` with the server's own words, before the first delta or between two. A server
        that ends the stream in order without a finish reason has named none; a connection that breaks is
        `ProviderUnavailable`. Tool calls come whole in the last delta; whether a tool takes them, nobody
        judges here. A server that refuses the response schema is asked again without strictness, then in
        words, before the first delta, which says which it was.
        """
        refusals: list[tuple[SchemaPath, Refusal]] = []
        try:
            deadline = self._deadline(call)
            schema_paths = self._schema_paths_of(call.config.model)
            wanted, paths = self._ways(call, schema_paths)
            for path in paths:
                has_begun = False
                try:
                    async with aclosing(self._answer(call, wanted, path, deadline)) as deltas:
                        async for delta in deltas:
                            if wanted and path and not has_begun:
                                schema_paths.answered(wanted, path, refusals)
                            has_begun = True
                            yield delta
                    return
                except Refusal as refusal:
                    if has_begun or path is None or path == paths[-1] or not refusal.is_of_schema:
                        raise
                    refusals.append((path, refusal))
        except TROUBLE as error:
            if isinstance(error, Refusal):
                error.tokens = estimate_question(call)
            trouble = self._server.told(error)
        raise trouble  # without what led to it, which may hold secrets

    @property
    def account(self) -> int:
        """Tells the key apart from others within this process, and nothing of it."""
        return self._server.account

    async def ready(self, model: str | None = None) -> None:
        """Whether the model is there and serves, as `GET …/models` tells; in 30 seconds at most.

        `model` is another one than the provider's own.

        Raises the `ProviderError` that a call would meet: `ProviderAuthentication`, `ProviderInvalidModel`,
        `ProviderModelNotLoaded`, `ProviderUnavailable` and so on. Calls nothing that costs.
        """
        seconds = min(_READY, self._timeout.first, self._timeout.total)
        deadline = CallDeadline(replace(self._timeout, first=seconds, total=seconds))
        try:
            async with self._server.send(None, deadline, "/models") as response:
                return check_models(await body_of(response, deadline), model or self.model)
        except TROUBLE as error:
            trouble = self._server.told(error, "/models")
        raise trouble

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._server.close()

    async def __aenter__(self) -> OpenAIProvider:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _deadline(self, call: Call) -> CallDeadline:
        # what does not stream begins when it ends
        timeout = self._timeout if call.stream else replace(self._timeout, first=self._timeout.total)
        return CallDeadline(timeout)

    def _schema_paths_of(self, model: str | None) -> SchemaPaths:
        """What is known of the model: the provider's own, or the other one that a call names."""
        if model is None or model == self.model:
            return self._schema_paths
        return self._of_others.setdefault(model, SchemaPaths(self._native_schema))

    def _ways(self, call: Call, known: SchemaPaths) -> tuple[Wanted | None, tuple[SchemaPath | None, ...]]:
        """What is known of the schema of a call, and the paths it may go, in turn."""
        if call.response_schema is None:
            return None, (None,)
        if request.goes_on(call) and self._dialect.prefill != "assistant":
            # only llama.cpp holds the beginning and the rest together to it; for others the rest begins anew
            return None, ("prompt",)
        wanted = known.wanted(call, call.response_schema)
        return wanted, known.to_try(wanted)

    async def _answer(
        self, call: Call, wanted: Wanted | None, path: SchemaPath | None, deadline: CallDeadline
    ) -> AsyncGenerator[Delta, None]:
        """The answer on one path."""
        decoder = AnswerDecoder(path)
        async with self._server.send(self._body(call, wanted, path), deadline) as response:
            head = await beginning_of(response, deadline)
            if head.lstrip().startswith((b"{", b"[")):  # whatever it is called, and whatever was asked for
                begun = call.messages[-1].text if request.goes_on(call) else ""
                for delta in decoder.whole(await body_of(response, deadline, head), begun):
                    yield delta
                return
            async with aclosing(events_of(response, deadline, head)) as chunks:
                async for events in chunks:
                    for event in events:
                        deadline.check()
                        yield decoder.take(event)
            yield decoder.end()

    def _body(self, call: Call, wanted: Wanted | None, path: SchemaPath | None) -> bytes:
        messages, schema, response_format = call.messages, call.response_schema, None
        if path == "prompt" and schema is not None and call.schema_in_words:
            messages = told_in_words(messages, schema)
        elif wanted and schema is not None:
            response_format = wanted.response_format(schema, path)
        return request.body(call, self._dialect, messages=messages, response_format=response_format)
