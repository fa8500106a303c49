"""HTTP to an OpenAI-compatible server: addresses, headers, reading of responses, mapping of errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from socket import gaierror

import aiohttp
import orjson
from yarl import URL

from trustgraph_prompt import file_descriptors, http_urls
from trustgraph_prompt.errors import (
    ConfigError,
    ProviderError,
    ProviderInvalidRequest,
    ProviderInvalidResponse,
    ProviderUnavailable,
    excerpt,
)
from trustgraph_prompt.llm.api_key import ApiKey
from trustgraph_prompt.llm.openai import connections
from trustgraph_prompt.llm.openai.connections import Connections
from trustgraph_prompt.llm.openai.redaction import Secrets
from trustgraph_prompt.llm.openai.refusal import ServerRefusal
from trustgraph_prompt.llm.openai.sse import EventStream, EventTooLarge
from trustgraph_prompt.llm.timeout import CallDeadline, Timeout

#: Bytes of a body that is not streamed, and of one that explains an error.
MAX_BODY = 64 * 1024 * 1024
_MAX_ERROR_BODY = 64 * 1024

#: Bytes of white space before an answer, which servers send to keep the connection open.
_MAX_PADDING = 64 * 1024

#: Seconds that the body of an error response may take; its status is enough.
_EXPLAINING = 3.0

#: Characters of the shortest part of a URL that is treated as a secret; shorter ones occur in any text.
_SHORTEST_SECRET = 8

#: Seconds that a stream has to end after its last event, so that its connection can be reused.
_END_GRACE = 0.1

_COMPLETIONS = "/chat/completions"

#: What stands in place of an event after the last one.
_DONE = b"[DONE]"

#: What a request may raise, for `Server.provider_error`.
REQUEST_ERRORS = (ServerRefusal, ProviderError, EventTooLarge, aiohttp.ClientError, OSError)


class Server:
    """Sends requests to one server, over keep-alive connections.

    Proxy and certificates are taken from the environment when the object is made; no credentials are sent
    but those given. Raises `ConfigError` for an invalid URL, key, proxy or certificate.
    """

    def __init__(self, base_url: str, api_key: ApiKey | None, timeout: Timeout) -> None:
        url, key = _base(base_url), _key(api_key)
        if key and url.user:
            raise ConfigError(
                "the base URL contains a user, and an API key is set: only one of them can be sent"
            )
        self._base = url.with_user(None)
        #: The base URL, without secrets.
        self.address = str(self._base.with_path(url.path))
        self._basic = connections.basic(url)
        self._api_key, self._key = api_key, key
        self.account = hash(api_key if key else self._basic)
        self._proxy = connections.proxy_for(url)
        self._proxy_reads_requests = url.scheme == "http"  # https goes through a tunnel
        self._other_secrets = _secrets(url, self._proxy)
        trust = connections.trust() if url.scheme == "https" else True
        self._connections = Connections(trust, timeout.connect)

    @asynccontextmanager
    async def send(
        self, body: bytes | None, deadline: CallDeadline, path: str = _COMPLETIONS
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a POST, or a GET without a body, and yield the response, its body still unread.

        Raises `REQUEST_ERRORS`: a `ServerRefusal` for any status but 200.
        """
        response = await deadline.wait(lambda: self._request(body, path))
        try:
            if 300 <= response.status < 400:
                target = response.headers.get("Location", "nowhere").partition("?")[0]
                raise ProviderInvalidRequest(
                    f"HTTP {response.status}: redirected to {excerpt(target)}; check the base URL"
                )
            if response.status != 200:
                explanation = await _explanation(response, deadline)
                retry_after = response.headers.get("Retry-After")
                raise ServerRefusal.of_response(response.status, explanation, retry_after)
            yield response
        finally:
            response.release()  # closes the connection, unless the body was read to its end

    def provider_error(self, error: Exception, path: str = _COMPLETIONS) -> ProviderError:
        """Map an error of a request to a `ProviderError`, with the address and without secrets.

        Raise it outside the `except` block: the context of an exception would show the secrets.
        """
        if isinstance(error, aiohttp.ClientHttpProxyError):
            error = ServerRefusal.of_response(error.status, f"the proxy says: {error.message}".encode())
        loggable = ": ".join(filter(None, [f"{self.address}{path}", _loggable(error)]))
        if isinstance(error, ServerRefusal):
            error = error.error()
        if isinstance(error, EventTooLarge):
            error = ProviderInvalidResponse(str(error))
        if not isinstance(error, ProviderError):
            # the original is not chained: aiohttp's errors may hold the request, and that the key
            cause = getattr(error, "os_error", None)
            if isinstance(cause, gaierror):  # which is also how a lack of file descriptors shows
                cause = file_descriptors.shortage() or cause
            error = ProviderUnavailable(_message(error))
            error.__cause__ = cause
        secrets = Secrets([self._key or "", *self._other_secrets])
        redacted = type(error)(
            f"{self.address}{path}: {secrets.redacted(str(error))}",
            retry_after=error.retry_after,
            loggable=secrets.redacted(loggable),
        )
        redacted.status, redacted.__cause__ = error.status, error.__cause__
        return redacted

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._connections.close()

    async def _request(self, body: bytes | None, path: str) -> aiohttp.ClientResponse:
        headers = self._authorization()
        if body is not None:
            headers["Content-Type"] = "application/json"
        proxy = self._proxy
        if proxy and self._proxy_reads_requests:
            headers = {**headers, **proxy.headers}
        try:
            return await self._connections.request(
                "GET" if body is None else "POST",
                self._base.with_path(self._base.path + path, keep_query=True),
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=proxy.url if proxy else None,
                proxy_headers=proxy.headers if proxy else None,
            )
        except aiohttp.ClientError:
            raise
        except ValueError as error:
            raise ProviderInvalidRequest(f"the request cannot be sent: {error}") from None

    def _authorization(self) -> dict[str, str]:
        """The header with the current key. A new key that no header can hold is ignored."""
        if callable(self._api_key):
            with suppress(ConfigError):
                before, self._key = self._key, _key(self._api_key)
                if before and before != self._key:
                    self._other_secrets.append(before)  # answers to earlier requests may quote it
        credentials = f"Bearer {self._key}" if self._key else self._basic
        return {"Authorization": credentials} if credentials else {}


async def beginning_of(response: aiohttp.ClientResponse, deadline: CallDeadline) -> bytes:
    """Read the body up to the first chunk that is not white space."""
    head, chunk = bytearray(), b""
    while not chunk.strip() and len(head) < _MAX_PADDING:
        chunk = await deadline.wait(response.content.readany)
        head += chunk
        if not chunk:
            break
    return bytes(head)


async def body_of(response: aiohttp.ClientResponse, deadline: CallDeadline, head: bytes = b"") -> bytes:
    """Read the rest of the body after `head`, and return both; at most `MAX_BODY` bytes."""
    body = bytearray(head)
    await deadline.wait(lambda: _read_into(body, response, MAX_BODY))
    return bytes(body[:MAX_BODY])


async def _read_into(body: bytearray, response: aiohttp.ClientResponse, most: int) -> None:
    while len(body) < most and (chunk := await response.content.readany()):
        body += chunk


async def events_of(
    response: aiohttp.ClientResponse, deadline: CallDeadline, head: bytes
) -> AsyncGenerator[list[bytes], None]:
    """Yield the data of the events of `head` and the rest of the body, several at a time, up to `[DONE]`.

    Servers that do not send `[DONE]` end the body. Raises `ProviderInvalidResponse` where there is no event.
    """
    stream = EventStream()
    chunk, is_done = head, False
    while not is_done:
        found = stream.feed(chunk) if chunk else stream.close()
        data = [event.strip() for event in found]
        events = found[: data.index(_DONE)] if _DONE in data else found
        if events and not chunk and not _is_json(events[-1]):
            raise ProviderUnavailable("the connection was closed in the middle of an event")
        if events:
            deadline.an_event_came()
            yield events
        is_done = not chunk or len(events) < len(found)
        if not is_done:
            chunk = await deadline.wait(response.content.readany)
    if chunk and not response.content.at_eof():
        await _reach_end(response)
    if not deadline.answer_has_begun:
        raise ProviderInvalidResponse(
            f"HTTP 200 without an answer, found {response.content_type}: {excerpt(head)}"
        )


async def _explanation(response: aiohttp.ClientResponse, deadline: CallDeadline) -> bytes:
    """Read the body of an error response, as far as it comes in time."""
    body = bytearray()
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(min(_EXPLAINING, deadline.seconds)):
            await _read_into(body, response, _MAX_ERROR_BODY)
    return bytes(body[:_MAX_ERROR_BODY])


async def _reach_end(response: aiohttp.ClientResponse) -> None:
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(_END_GRACE):
            while await response.content.readany():
                pass


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def _message(error: Exception) -> str:
    """The message of an aiohttp error, without the URL, which it quotes for a malformed response."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"Cannot connect to {error.host}:{error.port}: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        proxy = "the proxy " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
        return f"Cannot connect to {proxy}{error.host}:{error.port}: {error.os_error}"
    message = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _loggable(error: Exception) -> str:
    """The error without what the server sent: its words may quote the question, its bytes the answer."""
    match error:
        case ServerRefusal():
            return error.loggable
        case aiohttp.ClientConnectorError():
            return _message(error)
        case ProviderUnavailable():
            return str(error)
        case aiohttp.ClientError() | OSError():
            return type(error).__name__
    return ""


def _base(base_url: str) -> URL:
    """The URL that the paths of requests are appended to, with user and query."""
    try:
        url = URL(base_url.strip())
        valid = url.scheme in ("http", "https") and bool(url.raw_host and url.raw_host.encode("idna"))
    except ValueError:  # UnicodeError, too
        valid = False
    if not valid:
        raise ConfigError(
            f"the base URL is not valid: {http_urls.why_invalid(base_url)}",
            found=_shown(base_url),
            expected="http://host:port/v1 or the like",
        )
    path = url.path.rstrip("/").removesuffix(_COMPLETIONS)
    return url.with_path(path or "/v1").with_query(url.query)


def _shown(url: str) -> str:
    """As much of an invalid URL as is safe to show: where a secret ends in it is unknown."""
    if "@" not in url and "?" not in url:
        return url
    scheme, mark, _ = url.partition("://")
    return f"{scheme}://…" if mark and scheme.isalnum() else "…"


def _secrets(url: URL, proxy: connections.Proxy | None) -> list[str]:
    """What no error may show besides the key: passwords and the values of the query, decoded and encoded."""
    raw_values = (pair.partition("=")[2] for pair in url.raw_query_string.split("&"))
    in_query = [url.raw_query_string, *url.query.values(), *raw_values]
    passwords = [*connections.password_of(url), *(proxy.secrets if proxy else ())]
    return [text for text in (*in_query, *passwords) if len(text) >= _SHORTEST_SECRET]


def _key(api_key: ApiKey | None) -> str | None:
    key = ((api_key() if callable(api_key) else api_key) or "").strip()
    if not key.isprintable() or not key.isascii():
        raise ConfigError("the API key contains characters that are not allowed in an HTTP header")
    return key or None
