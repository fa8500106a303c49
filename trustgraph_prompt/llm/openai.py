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
    excerpt,
)
from trustgraph_prompt.llm import openai_errors, openai_wire
from trustgraph_prompt.llm.complete import Completer
from trustgraph_prompt.llm.records import Call, Delta, Identity
from trustgraph_prompt.llm.sse import EventStream, EventTooLarge

T = TypeVar("T")

#: Characters of an answer, thinking included.
MAX_ANSWER = 16 * 1024 * 1024

#: Bytes of a body that comes in one piece, and of one that explains an error.
MAX_BODY = 64 * 1024 * 1024
_MAX_ERROR_BODY = 64 * 1024

#: Characters of the shortest part of a URL that may be a secret; what is shorter is found in any text.
_SHORTEST_SECRET = 8

#: Seconds a stream has to end after its last event, so that its connection can be used again.
_END_GRACE = 0.1


@dataclass(frozen=True, slots=True)
class Timeout:
    """Seconds a call may take: to connect, until the answer begins, between two pieces of it, in all."""

    connect: float = 10.0
    first: float = 300.0
    idle: float = 120.0
    total: float = 1800.0


class OpenAIProvider(Completer):
    """One model of one server. Any number of calls at a time, over connections that are kept.

    `base_url` is what stands before `/chat/completions`; a bare host gets `/v1`. The key goes into the
    header of requests and nowhere else. Tools, and the response schema of a call, do not go onto the wire.
    Raises `ConfigError` for a URL or a key that cannot be one.
    """

    def __init__(
        self, base_url: str, model: str, *, api_key: str | None = None, timeout: Timeout = Timeout()
    ) -> None:
        self.model = model
        self.prefill = False
        self._url = _endpoint(base_url)
        self._api_key = _key(api_key)
        if self._api_key and self._url.user:
            raise ConfigError("a base URL that names a user leaves no place for an API key")
        self._secrets = _secrets(self._url, self._api_key)
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"OpenAIProvider({str(self._address)!r}, {self.model!r})"

    async def stream(self, call: Call) -> AsyncGenerator[Delta, None]:
        """The answer as it comes over the wire.

        Raises a `ProviderError` with the server's own words, before the first delta or between two. A server
        that ends the stream in order without a finish reason has named none; a connection that breaks is
        `ProviderUnavailable`.
        """
        body = openai_wire.request(call, self.model)
        text, thinking = openai_wire.WholeText(), openai_wire.WholeText()
        size, refused = 0, False
        try:
            async with aclosing(self._exchange(body)) as deltas:
                async for delta in deltas:
                    size += len(delta.text) + len(delta.thinking)
                    if size > MAX_ANSWER:
                        raise ProviderInvalidResponse(f"the answer has more than {MAX_ANSWER:,} characters")
                    refused = refused or delta.finish_reason == "content_filter"
                    # a refusal is told with the finish reason "stop"
                    yield replace(
                        delta,
                        text=text.take(delta.text),
                        thinking=thinking.take(delta.thinking),
                        finish_reason="content_filter" if refused else delta.finish_reason,
                    )
        except ProviderError as error:
            raise self._redacted(type(error), str(error), error.retry_after) from error.__cause__
        except EventTooLarge as error:
            raise self._redacted(ProviderInvalidResponse, str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            # not as the cause: what aiohttp raises holds the request, and that the key
            raise self._redacted(ProviderUnavailable, _words(error)) from None

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
                target = response.headers.get("Location", "nowhere").partition("?")[0]
                raise ProviderInvalidRequest(
                    f"HTTP {response.status}: redirected to {excerpt(target)}; is it the base URL?"
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
        try:
            return await self._session.post(self._url, data=body, headers=headers, allow_redirects=False)
        except aiohttp.ClientError:
            raise
        except ValueError as error:
            raise ProviderInvalidRequest(f"the request cannot be sent: {error}") from None

    @property
    def identity(self) -> Identity:
        return Identity("openai", self.model, str(self._address).removesuffix("/chat/completions"))

    @property
    def _address(self) -> URL:
        return self._url.with_user(None).with_query(None)

    def _redacted(
        self, kind: type[ProviderError], text: str, retry_after: float | None = None
    ) -> ProviderError:
        """The error with the address, and without the secrets: servers like to quote what they are sent."""
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return kind(f"{self._address}: {text}", retry_after=retry_after)


class _Patience:
    """How long one call still waits for what comes next; what a listener takes is not waiting."""

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = timeout
        self._now = asyncio.get_running_loop().time
        self._started = self._now()
        self._waited = 0.0  # since the last event
        self.answer_has_begun = False

    def an_event_came(self) -> None:
        """The answer has begun, or goes on."""
        self.answer_has_begun = True
        self._waited = 0.0

    async def wait(self, coming: Awaitable[T]) -> T:
        """What is coming. Raises `ProviderUnavailable` when it takes too long."""
        timeout, began = self._timeout, self._now()
        gone = began - self._started
        if self.answer_has_begun:
            left, message = timeout.idle - self._waited, f"nothing came for {timeout.idle:g} seconds"
        else:
            left, message = timeout.first - gone, f"no answer began within {timeout.first:g} seconds"
        if timeout.total - gone < left:
            left, message = timeout.total - gone, f"the answer took more than {timeout.total:g} seconds"
        try:
            async with asyncio.timeout(left) as limit:
                return await coming
        except TimeoutError as error:
            raise ProviderUnavailable(message if limit.expired() else str(error)) from None
        finally:
            self._waited += self._now() - began


async def _events(response: aiohttp.ClientResponse, patience: _Patience) -> AsyncGenerator[bytes, None]:
    """The data of each event up to `[DONE]`, or to the end of the body where a server never says so."""
    stream = EventStream()
    head, done = b"", False
    while not done and (chunk := await patience.wait(response.content.readany())):
        head = head or chunk
        for event in stream.feed(chunk):
            if done := event.strip() == b"[DONE]":
                await _reach_end(response)
                break
            patience.an_event_came()
            yield event
    for event in () if done else stream.close():
        if event.strip() != b"[DONE]":
            if not _is_json(event):
                raise ProviderUnavailable("the connection was closed within an event")
            patience.an_event_came()
            yield event
    if not patience.answer_has_begun:
        found = f"{response.content_type}: {excerpt(head)}"
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


def _words(error: Exception) -> str:
    """What aiohttp says. Of a response that is no HTTP without the request, which it quotes with its URL."""
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _endpoint(base_url: str) -> URL:
    try:
        url = URL(base_url.strip())
        valid = url.scheme in ("http", "https") and bool(url.raw_host and url.raw_host.encode("idna"))
    except ValueError:  # UnicodeError, too
        valid = False
    if not valid:
        shown = base_url.partition("?")[0].rpartition("@")[2]
        raise ConfigError("no base URL", found=shown, expected="http://host:port/v1 or the like")
    path = url.path.rstrip("/").removesuffix("/chat/completions")
    return url.with_path(f"{path or '/v1'}/chat/completions").with_query(url.query)


def _secrets(url: URL, api_key: str | None) -> list[str]:
    """What no error may show: the key, the password, what the query says, as written and as sent."""
    raw_values = (pair.partition("=")[2] for pair in url.raw_query_string.split("&"))
    in_url = [url.password, url.raw_password, url.raw_query_string, *url.query.values(), *raw_values]
    long = {text for text in in_url if text and len(text) >= _SHORTEST_SECRET}
    return sorted(long | ({api_key} if api_key else set()), key=len, reverse=True)


def _key(api_key: str | None) -> str | None:
    key = (api_key or "").strip()
    if not key.isprintable() or not key.isascii():
        raise ConfigError("the API key has characters that no header can carry")
    return key or None
