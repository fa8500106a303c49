"""An OpenAI-compatible server over HTTP: its address, the connections to it, and who asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace

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
from trustgraph_prompt.llm.openai import network
from trustgraph_prompt.llm.openai.errors import Refusal
from trustgraph_prompt.llm.openai.sse import EventStream, EventTooLarge
from trustgraph_prompt.llm.timeout import Patience, Timeout

#: Bytes of a body that comes in one piece, and of one that explains an error.
MAX_BODY = 64 * 1024 * 1024
_MAX_ERROR_BODY = 64 * 1024

#: Characters of the shortest part of a URL that may be a secret; what is shorter is found in any text.
_SHORTEST_SECRET = 8

#: Seconds a stream has to end after its last event, so that its connection can be used again.
_END_GRACE = 0.1

_COMPLETIONS = "/chat/completions"


class Server:
    """Sends requests to one server and hands out its responses, over connections that are kept.

    Proxy and certificates are those of the environment when it is made; no credentials are sent but those
    given. Raises `ConfigError` for a URL, a key, a proxy or certificates that cannot be one.
    """

    def __init__(self, base_url: str, api_key: str | None, timeout: Timeout) -> None:
        url, key = _endpoint(base_url), _key(api_key)
        if key and url.user:
            raise ConfigError("a base URL that names a user leaves no place for an API key")
        self._url = url.with_user(None)
        who = f"Bearer {key}" if key else network.basic(url)
        self._headers = {"Authorization": who} if who else {}
        self._proxy = network.proxy_for(url)
        self._ssl = network.trust() if url.scheme == "https" else True
        self._secrets = _secrets(url, key, self._proxy)
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    @property
    def address(self) -> str:
        """What stands before the paths of the wire, without secrets."""
        return str(self._url.with_path(self._url.path.removesuffix(_COMPLETIONS)))

    @asynccontextmanager
    async def send(
        self, body: bytes | None, patience: Patience, path: str = _COMPLETIONS
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to a POST, or to a GET where there is no body; its own body is still to be read.

        Raises `Refusal` where it is not one of success, and what `told` understands.
        """
        response = await patience.wait(self._request(body, path))
        try:
            if 300 <= response.status < 400:
                target = response.headers.get("Location", "nowhere").partition("?")[0]
                raise ProviderInvalidRequest(
                    f"HTTP {response.status}: redirected to {excerpt(target)}; is it the base URL?"
                )
            if response.status != 200:
                explanation = await patience.wait(_read(response, _MAX_ERROR_BODY))
                retry_after = response.headers.get("Retry-After")
                raise Refusal.of_response(response.status, explanation, retry_after)
            yield response
        finally:
            response.release()  # closes the connection where the body has not been read to its end

    @contextmanager
    def told(self, path: str = _COMPLETIONS) -> Iterator[None]:
        """What goes wrong within is raised as a `ProviderError`, with the address and without the secrets."""
        try:
            yield
        except Refusal as refusal:
            error = refusal.error()
            raise self._redacted(path, type(error), str(error), error.retry_after) from None
        except ProviderError as error:
            raise self._redacted(path, type(error), str(error), error.retry_after) from error.__cause__
        except EventTooLarge as error:
            raise self._redacted(path, ProviderInvalidResponse, str(error)) from error
        except aiohttp.ClientHttpProxyError as error:
            no = Refusal.of_response(error.status, f"the proxy says: {error.message}".encode()).error()
            raise self._redacted(path, type(no), str(no)) from None
        except (aiohttp.ClientError, OSError) as error:
            # what aiohttp raises may hold the request, and that the key
            cause = getattr(error, "os_error", None)
            raise self._redacted(path, ProviderUnavailable, _words(error)) from cause

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _request(self, body: bytes | None, path: str) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = self._new_session()
        headers = self._headers if body is None else self._headers | {"Content-Type": "application/json"}
        proxy = self._proxy
        if proxy and self._ssl is True:  # there is no tunnel, and the proxy reads the request itself
            headers = {**headers, **proxy.headers}
        while True:
            way = _Way()
            try:
                return await self._session.request(
                    "GET" if body is None else "POST",
                    self._url.with_path(self._url.path.removesuffix(_COMPLETIONS) + path, keep_query=True),
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy=proxy.url if proxy else None,
                    proxy_headers=proxy.headers if proxy else None,
                    trace_request_ctx=way,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # a kept connection that the server had closed; llama.cpp closes each after one stream
                if not way.was_kept:
                    raise
            except aiohttp.ClientError:
                raise
            except ValueError as error:
                raise ProviderInvalidRequest(f"the request cannot be sent: {error}") from None

    def _new_session(self) -> aiohttp.ClientSession:
        ways = aiohttp.TraceConfig()
        ways.on_connection_reuseconn.append(_mark_as_kept)
        return aiohttp.ClientSession(
            # who may call at a time is the limiter's business
            connector=aiohttp.TCPConnector(limit=0, ssl=self._ssl),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._timeout.connect),
            # a body is as long as it says: nothing unpacks into gigabytes
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[ways],
        )

    def _redacted(
        self, path: str, kind: type[ProviderError], text: str, retry_after: float | None = None
    ) -> ProviderError:
        """Servers like to quote what they are sent."""
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return kind(f"{self.address}{path}: {text}", retry_after=retry_after)


@dataclass(slots=True)
class _Way:
    """The connection that one request went over."""

    was_kept: bool = False


async def _mark_as_kept(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.was_kept = True


async def body_of(response: aiohttp.ClientResponse, patience: Patience) -> bytes:
    """The whole body, or the first `MAX_BODY` bytes of it."""
    return await patience.wait(_read(response, MAX_BODY))


async def events_of(
    response: aiohttp.ClientResponse, patience: Patience
) -> AsyncGenerator[list[bytes], None]:
    """The data of each event up to `[DONE]`, as they come, several at a time.

    A server that never says `[DONE]` ends its body. Raises `ProviderInvalidResponse` where there is none.
    """
    stream = EventStream()
    head, done = b"", False
    while not done and (chunk := await patience.wait(response.content.readany())):
        head = head or chunk
        events = stream.feed(chunk)
        ends = [index for index, event in enumerate(events) if _is_done(event)]
        if done := bool(ends):
            events = events[: ends[0]]
        if events:
            patience.an_event_came()
            yield events
    if done:
        await _reach_end(response)
    rest = [] if done else [event for event in stream.close() if not _is_done(event)]
    if rest:
        if not _is_json(rest[-1]):
            raise ProviderUnavailable("the connection was closed within an event")
        patience.an_event_came()
        yield rest
    if not patience.answer_has_begun:
        found = f"{response.content_type}: {excerpt(head)}"
        raise ProviderInvalidResponse(f"HTTP 200, and no answer in {found}")


def _is_done(event: bytes) -> bool:
    return event.strip() == b"[DONE]"


async def _reach_end(response: aiohttp.ClientResponse) -> None:
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_END_GRACE):
            while await response.content.readany():
                pass


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
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
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"Cannot connect to {error.host}:{error.port}: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        who = "the proxy " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
        return f"Cannot connect to {who}{error.host}:{error.port}: {error.os_error}"
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
    path = url.path.rstrip("/").removesuffix(_COMPLETIONS)
    return url.with_path(f"{path or '/v1'}{_COMPLETIONS}").with_query(url.query)


def _secrets(url: URL, api_key: str | None, proxy: network.Proxy | None) -> list[str]:
    """What no error may show: the key, passwords, what the query says, as written and as sent."""
    raw_values = (pair.partition("=")[2] for pair in url.raw_query_string.split("&"))
    in_query = [url.raw_query_string, *url.query.values(), *raw_values]
    passwords = [*network.password_of(url), *(proxy.secrets if proxy else ())]
    long = {text for text in (*in_query, *passwords) if len(text) >= _SHORTEST_SECRET}
    return sorted(long | ({api_key} if api_key else set()), key=len, reverse=True)


def _key(api_key: str | None) -> str | None:
    key = (api_key or "").strip()
    if not key.isprintable() or not key.isascii():
        raise ConfigError("the API key has characters that no header can carry")
    return key or None
