"""A provider that asks an OpenAI-compatible server over HTTP: `POST …/chat/completions`, streamed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import aiohttp
import orjson
from yarl import URL

from trustgraph_prompt.errors import (
    ConfigError,
    ProviderError,
    ProviderInvalidRequest,
    ProviderInvalidResponse,
    ProviderUnavailable,
)
from trustgraph_prompt.llm import openai_errors, openai_wire
from trustgraph_prompt.llm.records import Call, Delta
from trustgraph_prompt.llm.sse import EventStream, EventTooLarge

T = TypeVar("T")

#: Characters of an answer, thinking included.
MAX_ANSWER = 16 * 1024 * 1024

#: Bytes of a body that comes in one piece, and of one that explains an error.
MAX_BODY = 64 * 1024 * 1024
_MAX_ERROR_BODY = 64 * 1024

#: Bytes of a body that is no answer which its error shows.
_EXCERPT = 200

#: Seconds a stream has to end after its last event, so that its connection can be used again.
_END_GRACE = 0.1


@dataclass(frozen=True, slots=True)
class Timeout:
    """Seconds a call may take: to connect, until the answer begins, between two pieces of it, in all."""

    connect: float = 10.0
    first: float = 300.0
    idle: float = 120.0
    total: float = 1800.0


class OpenAIProvider:
    """One model of one server. Any number of calls at a time, over connections that are kept.

    `base_url` is what stands before `/chat/completions`; a bare host gets `/v1`. The key goes into the
    header of requests and nowhere else. Tools, and the response schema of a call, do not go onto the wire.
    Raises `ConfigError` for a URL or a key that cannot be one.
    """

    def __init__(
        self, base_url: str, model: str, *, api_key: str | None = None, timeout: Timeout = Timeout()
    ) -> None:
        self.model = model
        self._url = _endpoint(base_url)
        self._api_key = _key(api_key)
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"OpenAIProvider({str(self._place)!r}, {self.model!r})"

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer as it comes over the wire.

        Raises a `ProviderError` with the server's own words, before the first delta or between two. A server
        that ends the stream in order without a finish reason has named none; a connection that breaks is
        `ProviderUnavailable`.
        """
        body = openai_wire.request(call, self.model)
        size, refused = 0, False
        try:
            async with aclosing(self._exchange(body)) as deltas:
                async for delta in deltas:
                    size += len(delta.text) + len(delta.thinking)
                    if size > MAX_ANSWER:
                        raise ProviderInvalidResponse(f"the answer has more than {MAX_ANSWER:,} characters")
                    refused = refused or delta.finish_reason == "content_filter"
                    # a refusal is told with the finish reason "stop"
                    yield replace(delta, finish_reason="content_filter") if refused else delta
        except ProviderError as error:
            raise self._placed(type(error), str(error), error.retry_after) from error.__cause__
        except EventTooLarge as error:
            raise self._placed(ProviderInvalidResponse, str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            # what aiohttp makes of a response that is no HTTP has the request's headers in its repr
            cause = None if isinstance(error, aiohttp.ClientResponseError) else error
            raise self._placed(ProviderUnavailable, text) from cause

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> OpenAIProvider:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _exchange(self, body: bytes) -> AsyncGenerator[Delta, None]:
        patience = _Patience(self._timeout)
        response = await patience.wait(self._post(body))
        try:
            if 300 <= response.status < 400:
                target = response.headers.get("Location", "nowhere")
                raise ProviderInvalidRequest(
                    f"HTTP {response.status}: redirected to {target}; is it the base URL?"
                )
            if response.status != 200:
                explanation = await patience.wait(_read(response, _MAX_ERROR_BODY))
                retry_after = response.headers.get("Retry-After")
                raise openai_errors.from_response(response.status, explanation, retry_after)
            if response.content_type == "application/json":
                yield openai_wire.completion(await patience.wait(_read(response, MAX_BODY)))
                return
            async with aclosing(_events(response, patience)) as events:
                async for event in events:
                    yield openai_wire.delta(event)
        finally:
            response.release()  # closes the connection where the body has not been read to its end

    async def _post(self, body: bytes) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # who may call at a time is the limiter's business
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._timeout.connect),
                # a body is as long as it says: nothing unpacks into gigabytes
                auto_decompress=False,
                headers={"Accept-Encoding": "identity", "Content-Type": "application/json"},
            )
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        return await self._session.post(self._url, data=body, headers=headers, allow_redirects=False)

    @property
    def _place(self) -> URL:
        return self._url.with_user(None).with_query(None)

    def _placed(
        self, kind: type[ProviderError], text: str, retry_after: float | None = None
    ) -> ProviderError:
        """The error with its place; servers like to quote a key they do not accept."""
        if self._api_key:
            text = text.replace(self._api_key, "[the key]")
        return kind(f"{self._place}: {text}", retry_after=retry_after)


class _Patience:
    """How long one call still waits for what comes next."""

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = timeout
        self._now = asyncio.get_running_loop().time
        self._started = self._now()
        self.answer_has_begun = False

    async def wait(self, coming: Awaitable[T]) -> T:
        """What is coming. Raises `ProviderUnavailable` when it takes too long."""
        timeout, gone = self._timeout, self._now() - self._started
        if self.answer_has_begun:
            left, message = timeout.idle, f"nothing came for {timeout.idle:g} seconds"
        else:
            left, message = timeout.first - gone, f"no answer began within {timeout.first:g} seconds"
        if timeout.total - gone < left:
            left, message = timeout.total - gone, f"the answer took more than {timeout.total:g} seconds"
        try:
            async with asyncio.timeout(left) as limit:
                return await coming
        except TimeoutError as error:
            if limit.expired():
                raise ProviderUnavailable(message) from None
            raise ProviderUnavailable(str(error)) from error


async def _events(response: aiohttp.ClientResponse, patience: _Patience) -> AsyncGenerator[bytes, None]:
    """The data of each event up to `[DONE]`, or to the end of the body where a server never says so."""
    stream = EventStream()
    head, done = b"", False
    while not done and (chunk := await patience.wait(response.content.readany())):
        head = head or chunk[:_EXCERPT]
        for event in stream.feed(chunk):
            if done := event.strip() == b"[DONE]":
                await _reach_end(response)
                break
            patience.answer_has_begun = True
            yield event
    for event in () if done else stream.close():
        if event.strip() != b"[DONE]":
            if not _is_json(event):
                raise ProviderUnavailable("the connection was closed within an event")
            patience.answer_has_begun = True
            yield event
    if not patience.answer_has_begun:
        found = f"{response.content_type}: {head.decode(errors='replace')}"
        raise ProviderInvalidResponse(f"HTTP 200, and no answer in {found}")


async def _reach_end(response: aiohttp.ClientResponse) -> None:
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_END_GRACE):
            while await response.content.readany():
                pass


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, at most `limit` bytes of it."""
    body = bytearray()
    while len(body) < limit and (chunk := await response.content.readany()):
        body += chunk
    return bytes(body[:limit])


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def _endpoint(base_url: str) -> URL:
    try:
        url = URL(base_url.strip())
        valid = url.scheme in ("http", "https") and bool(url.host)
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError("no base URL", found=base_url, expected="http://host:port/v1 or the like")
    path = url.path.rstrip("/").removesuffix("/chat/completions")
    return url.with_path(f"{path or '/v1'}/chat/completions").with_query(url.query)


def _key(api_key: str | None) -> str | None:
    key = (api_key or "").strip()
    if not key.isprintable() or not key.isascii():
        raise ConfigError("the API key has characters that no header can carry")
    return key or None
