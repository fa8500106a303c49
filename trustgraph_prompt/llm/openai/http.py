"""An OpenAI-compatible server over HTTP: its address, what it answers, and what goes wrong on the way."""

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
from trustgraph_prompt.llm.openai import connections
from trustgraph_prompt.llm.openai.connections import Connections
from trustgraph_prompt.llm.openai.errors import Refusal
from trustgraph_prompt.llm.openai.secrets import Secrets
from trustgraph_prompt.llm.openai.sse import EventStream, EventTooLarge
from trustgraph_prompt.llm.timeout import CallDeadline, Timeout

#: Bytes of a body that comes in one piece, and of one that explains an error.
MAX_BODY = 64 * 1024 * 1024
_MAX_ERROR_BODY = 64 * 1024

#: Bytes of white space before an answer, of which each is looked at.
_MAX_PADDING = 64 * 1024

#: Seconds an error's explanation may take: what it means is known without.
_EXPLAINING = 3.0

#: Characters of the shortest part of a URL that may be a secret; what is shorter is found in any text.
_SHORTEST_SECRET = 8

#: Seconds a stream has to end after its last event, so that its connection can be used again.
_END_GRACE = 0.1

_COMPLETIONS = "/chat/completions"

#: What may go wrong with a request, for `Server.told`.
TROUBLE = (Refusal, ProviderError, EventTooLarge, aiohttp.ClientError, OSError)


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
        who = f"Bearer {key}" if key else connections.basic(url)
        self._headers = {"Authorization": who} if who else {}
        self._proxy = connections.proxy_for(url)
        self._reads_requests = self._proxy is not None and url.scheme == "http"  # https is a tunnel
        self._secrets = Secrets(_secrets(url, key, self._proxy))
        trust = connections.trust() if url.scheme == "https" else True
        self._connections = Connections(trust, timeout.connect)

    @property
    def address(self) -> str:
        """What stands before the paths of the wire, without secrets."""
        return str(self._url.with_path(self._url.path.removesuffix(_COMPLETIONS)))

    @property
    def account(self) -> int:
        """Tells the credentials apart from others within this process."""
        return hash(self._headers.get("Authorization"))

    @asynccontextmanager
    async def send(
        self, body: bytes | None, deadline: CallDeadline, path: str = _COMPLETIONS
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to a POST, or to a GET where there is no body; its own body is still to be read.

        Raises `TROUBLE`, a `Refusal` where the response is not one of success.
        """
        response = await deadline.wait(lambda: self._request(body, path))
        try:
            if 300 <= response.status < 400:
                target = response.headers.get("Location", "nowhere").partition("?")[0]
                raise ProviderInvalidRequest(
                    f"HTTP {response.status}: redirected to {excerpt(target)}; is it the base URL?"
                )
            if response.status != 200:
                explanation = await _explanation(response, deadline)
                raise Refusal.of_response(response.status, explanation, response.headers.get("Retry-After"))
            yield response
        finally:
            response.release()  # closes the connection where the body has not been read to its end

    def told(self, trouble: Exception, path: str = _COMPLETIONS) -> ProviderError:
        """What went wrong as an error of ours, with the address and without the secrets.

        It is to be raised where `trouble` is no longer at hand: that would show them as its context.
        """
        if isinstance(trouble, aiohttp.ClientHttpProxyError):
            trouble = Refusal.of_response(trouble.status, f"the proxy says: {trouble.message}".encode())
        loggable = ": ".join(filter(None, [f"{self.address}{path}", _loggable(trouble)]))
        if isinstance(trouble, Refusal):
            trouble = trouble.error()
        if isinstance(trouble, EventTooLarge):
            trouble = ProviderInvalidResponse(str(trouble))
        if not isinstance(trouble, ProviderError):
            # what aiohttp raises may hold the request, and that the key
            cause = getattr(trouble, "os_error", None)
            if isinstance(cause, gaierror):  # without a descriptor it says that there is no such name
                cause = file_descriptors.shortage() or cause
            trouble = ProviderUnavailable(_words(trouble))
            trouble.__cause__ = cause
        words = self._secrets.redacted(str(trouble))
        told = type(trouble)(
            f"{self.address}{path}: {words}",
            retry_after=trouble.retry_after,
            loggable=self._secrets.redacted(loggable),
        )
        told.__cause__ = trouble.__cause__
        return told

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._connections.close()

    async def _request(self, body: bytes | None, path: str) -> aiohttp.ClientResponse:
        headers = self._headers if body is None else self._headers | {"Content-Type": "application/json"}
        proxy = self._proxy
        if proxy and self._reads_requests:
            headers = {**headers, **proxy.headers}
        try:
            return await self._connections.request(
                "GET" if body is None else "POST",
                self._url.with_path(self._url.path.removesuffix(_COMPLETIONS) + path, keep_query=True),
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


async def beginning_of(response: aiohttp.ClientResponse, deadline: CallDeadline) -> bytes:
    """The body up to where it says something; white space keeps connections open meanwhile."""
    head, chunk = bytearray(), b""
    while not chunk.strip() and len(head) < _MAX_PADDING:
        chunk = await deadline.wait(response.content.readany)
        head += chunk
        if not chunk:
            break
    return bytes(head)


async def body_of(response: aiohttp.ClientResponse, deadline: CallDeadline, head: bytes = b"") -> bytes:
    """The whole body, of which `head` has been read, or the first `MAX_BODY` bytes of it."""

    async def rest() -> bytes:
        body = bytearray(head)
        while len(body) < MAX_BODY and (chunk := await response.content.readany()):
            body += chunk
        return bytes(body[:MAX_BODY])

    return await deadline.wait(rest)


async def events_of(
    response: aiohttp.ClientResponse, deadline: CallDeadline, head: bytes
) -> AsyncGenerator[list[bytes], None]:
    """The data of each event up to `[DONE]`, as they come, several at a time; `head` has been read.

    A server that never says `[DONE]` ends its body. Raises `ProviderInvalidResponse` where there is none.
    """
    stream = EventStream()
    chunk, done = head, False
    while chunk:
        events = stream.feed(chunk)
        ends = [index for index, event in enumerate(events) if _is_done(event)]
        if done := bool(ends):
            events = events[: ends[0]]
        if events:
            deadline.an_event_came()
            yield events
        if done:
            break
        chunk = await deadline.wait(response.content.readany)
    if done:
        await _reach_end(response)
    rest = [] if done else [event for event in stream.close() if not _is_done(event)]
    if rest:
        if not _is_json(rest[-1]):
            raise ProviderUnavailable("the connection was closed within an event")
        deadline.an_event_came()
        yield rest
    if not deadline.answer_has_begun:
        found = f"{response.content_type}: {excerpt(head)}"
        raise ProviderInvalidResponse(f"HTTP 200, and no answer in {found}")


async def _explanation(response: aiohttp.ClientResponse, deadline: CallDeadline) -> bytes:
    """What the body of an error says, as far as it comes."""
    body = bytearray()
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(min(_EXPLAINING, deadline.seconds)):
            while len(body) < _MAX_ERROR_BODY and (chunk := await response.content.readany()):
                body += chunk
    return bytes(body[:_MAX_ERROR_BODY])


def _is_done(event: bytes) -> bool:
    return event.strip() == b"[DONE]"


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


def _words(error: Exception) -> str:
    """What aiohttp says. Of a response that is no HTTP without the request, which it quotes with its URL."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"Cannot connect to {error.host}:{error.port}: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        who = "the proxy " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
        return f"Cannot connect to {who}{error.host}:{error.port}: {error.os_error}"
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _loggable(trouble: Exception) -> str:
    """What of it the server has not said: its words may quote the question, and broken bytes the answer."""
    match trouble:
        case Refusal():
            return trouble.loggable
        case aiohttp.ClientConnectorError():
            return _words(trouble)
        case ProviderUnavailable():
            return str(trouble)
        case aiohttp.ClientError() | OSError():
            return type(trouble).__name__
    return ""


def _endpoint(base_url: str) -> URL:
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
    return url.with_path(f"{path or '/v1'}{_COMPLETIONS}").with_query(url.query)


def _shown(url: str) -> str:
    """A URL that cannot be read: where a secret ends in it, nobody knows."""
    if "@" not in url and "?" not in url:
        return url
    scheme, mark, _ = url.partition("://")
    return f"{scheme}://…" if mark and scheme.isalnum() else "…"


def _secrets(url: URL, api_key: str | None, proxy: connections.Proxy | None) -> list[str]:
    """What no error may show: the key, passwords, what the query says, as written and as sent."""
    raw_values = (pair.partition("=")[2] for pair in url.raw_query_string.split("&"))
    in_query = [url.raw_query_string, *url.query.values(), *raw_values]
    passwords = [*connections.password_of(url), *(proxy.secrets if proxy else ())]
    return [api_key or "", *(text for text in (*in_query, *passwords) if len(text) >= _SHORTEST_SECRET)]


def _key(api_key: str | None) -> str | None:
    key = (api_key or "").strip()
    if not key.isprintable() or not key.isascii():
        raise ConfigError("the API key has characters that no header can carry")
    return key or None
