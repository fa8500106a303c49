"""HTTP connections to a server: proxies, trusted certificates, and the retry after a stale connection."""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import weakref
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from types import SimpleNamespace
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from trustgraph_prompt import http_urls
from trustgraph_prompt.errors import ConfigError, ProviderInvalidRequest

_CERTIFICATES = {"SSL_CERT_FILE": "cafile", "SSL_CERT_DIR": "capath"}


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """A proxy and the headers with its credentials. It has no `repr`, which would show the password."""

    url: URL
    headers: Mapping[str, str]
    secrets: Sequence[str]


def proxy_for(url: URL) -> Proxy | None:
    """The proxy for `url` from `HTTP_PROXY` or `HTTPS_PROXY` (upper or lower case).

    None without one, and where `NO_PROXY` names the host. Raises `ConfigError` for an invalid proxy URL.
    aiohttp's `trust_env` is not used: it would take credentials from `~/.netrc` as well.
    """
    found = getproxies().get(url.scheme)
    if not found or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    written = found if "://" in found else f"http://{found}"
    try:
        proxy = URL(written)
        valid = proxy.scheme in ("http", "https") and bool(proxy.host and proxy.port)
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(
            f"the URL of the proxy is not valid: {http_urls.why_invalid(written)}",
            where=f"{url.scheme.upper()}_PROXY",
            found=found.rpartition("@")[2],  # without the password
            expected="http://host:port or the like",
        )
    credentials = basic(proxy)
    headers = {"Proxy-Authorization": credentials} if credentials else {}
    return Proxy(proxy.with_user(None), headers, password_of(proxy))


def basic(url: URL) -> str:
    """The `Authorization` header for the user and password of a URL (RFC 7617), "" without a user."""
    return f"Basic {_encoded(url)}" if url.user else ""


def password_of(url: URL) -> list[str]:
    """The password of a URL: decoded, percent-encoded, and as a header has it."""
    return [url.password or "", url.raw_password or "", _encoded(url)] if url.user else []


def _encoded(url: URL) -> str:
    return b64encode(f"{url.user or ''}:{url.password or ''}".encode()).decode()


def trust() -> ssl.SSLContext:
    """The trusted certificates: the system's, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.

    Raises `ConfigError` where one of them cannot be read: OpenSSL would continue without any.
    """
    context = ssl.create_default_context()
    for name, kind in _CERTIFICATES.items():
        if path := os.environ.get(name):
            try:
                os.stat(path)
                context.load_verify_locations(**{kind: path})
            except OSError as error:  # ssl.SSLError, too
                raise ConfigError(f"cannot be read: {error}", where=name) from None
    return context


#: Seconds that an idle connection is kept; many servers close it after 5 (uvicorn, node, llama.cpp).
_KEEP_ALIVE = 4.0

#: Seconds after a request within which a server that closes the connection cannot have acted on it.
_AT_ONCE = 0.1


class Connections:
    """Sends requests over keep-alive connections, of one event loop at a time.

    A server may close an idle connection just when a request is on its way; llama.cpp does after each stream,
    whatever its headers promise. Such a request, which fails at once and without a byte of a response, is
    sent once more, over a new connection (RFC 9112, 9.3.1, allows it where the request was not acted on).
    """

    def __init__(self, trust: SSLContext | bool, connect_timeout: float) -> None:
        self._trust = trust
        self._connect_timeout = connect_timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[str, aiohttp.ClientSession] = {}  # by what its connections are: kept or new
        weakref.finalize(self, _abandon, self._open)

    async def request(self, method: str, url: URL, **options: Any) -> aiohttp.ClientResponse:
        """Return the response, its body still unread.

        Raises `ProviderInvalidRequest` where another event loop still uses the connections.
        """
        await self._enter_loop()
        trace, kept = _Trace(), self._session("kept", keepalive_timeout=_KEEP_ALIVE)
        try:
            return await kept.request(method, url, trace_request_ctx=trace, **options)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if not trace.was_closed_before(error):
                raise
        new = self._session("new", force_close=True)
        return await new.request(method, url, trace_request_ctx=_Trace(), **options)

    async def close(self) -> None:
        """Close all connections, unless another event loop uses them. Idempotent."""
        if self._loop not in (None, asyncio.get_running_loop()) and self._loop.is_running():
            return
        sessions, self._loop = [*self._open.values()], None
        self._open.clear()
        for session in sessions:
            await session.close()

    async def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise ProviderInvalidRequest(
                "the provider is in use by another event loop; each loop needs a provider of its own"
            )
        await self.close()
        self._loop = loop

    def _session(self, kind: str, **pool: Any) -> aiohttp.ClientSession:
        if kind in self._open:
            return self._open[kind]
        traces = aiohttp.TraceConfig()
        traces.on_connection_reuseconn.append(_on_reuse)
        traces.on_request_chunk_sent.append(_on_sent)
        self._open[kind] = aiohttp.ClientSession(
            # the limiter bounds how many calls are made at a time
            connector=aiohttp.TCPConnector(limit=0, ssl=self._trust, **pool),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_timeout),
            # a compressed body could expand to gigabytes
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[traces],
        )
        return self._open[kind]


def _abandon(sessions: Mapping[str, aiohttp.ClientSession]) -> None:
    """Close the sessions of a provider that nobody closed, such as in a notebook that ends.

    aiohttp would print of each that it is unclosed. Its public way to close one needs a running loop.
    """
    for session in sessions.values():
        connector = session.connector
        session.detach()
        if connector is not None:
            connector._close()


@dataclass(slots=True)
class _Trace:
    """What aiohttp reports of one request."""

    over_kept: bool = False
    sent_at: float = math.inf  # by the loop's clock

    def was_closed_before(self, error: aiohttp.ClientError) -> bool:
        """Whether the server closed the connection before it received the request."""
        seconds = asyncio.get_running_loop().time() - self.sent_at
        # where a response has begun, `message` is what came of it
        has_begun = isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str)
        return self.over_kept and seconds < _AT_ONCE and not has_begun


async def _on_reuse(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.over_kept = True


async def _on_sent(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.sent_at = asyncio.get_running_loop().time()
