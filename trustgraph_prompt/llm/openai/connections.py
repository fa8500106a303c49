"""The connections to a server, and the one case in which a request is sent again."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from ssl import SSLContext
from types import SimpleNamespace
from typing import Any

import aiohttp
from yarl import URL

from trustgraph_prompt.errors import ProviderInvalidRequest

#: Seconds a connection is kept without a request; many servers close it after 5 (uvicorn, node, llama.cpp).
_KEPT = 4.0

#: Seconds after a request within which a server that closes the connection cannot have worked on it.
_AT_ONCE = 0.1


class Connections:
    """Sends requests over connections that are kept, of one event loop at a time.

    A server may close a kept connection just when a request is on its way; llama.cpp does after each stream,
    whatever it has promised. A request that ends so, at once and without a byte of a response, is sent once
    more, over a new connection (RFC 9112, 9.3.1, allows it where the request was not acted on).
    """

    def __init__(self, trust: SSLContext | bool, connect_timeout: float) -> None:
        self._trust = trust
        self._connect_timeout = connect_timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: aiohttp.ClientSession | None = None
        self._new: aiohttp.ClientSession | None = None

    async def request(self, method: str, url: URL, **options: Any) -> aiohttp.ClientResponse:
        """The response, its body still to be read.

        Raises `ProviderInvalidRequest` where another event loop is still at work with the connections.
        """
        await self._enter_loop()
        if self._kept is None:
            self._kept = self._session(keepalive_timeout=_KEPT)
        way = _Way()
        try:
            return await self._kept.request(method, url, trace_request_ctx=way, **options)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if not way.was_closed_before(error):
                raise
        if self._new is None:
            self._new = self._session(force_close=True)
        return await self._new.request(method, url, trace_request_ctx=_Way(), **options)

    async def close(self) -> None:
        """Close them all, unless another event loop is at work with them. Idempotent."""
        if self._loop not in (None, asyncio.get_running_loop()) and self._loop.is_running():
            return
        sessions = self._kept, self._new
        self._loop = self._kept = self._new = None
        for session in sessions:
            if session is not None:
                await session.close()

    async def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise ProviderInvalidRequest(
                "the provider is in use by another event loop; every loop needs its own"
            )
        await self.close()
        self._loop = loop

    def _session(self, **pool: Any) -> aiohttp.ClientSession:
        ways = aiohttp.TraceConfig()
        ways.on_connection_reuseconn.append(_kept)
        ways.on_request_chunk_sent.append(_sent)
        return aiohttp.ClientSession(
            # who may call at a time is the limiter's business
            connector=aiohttp.TCPConnector(limit=0, ssl=self._trust, **pool),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._connect_timeout),
            # a body is as long as it says: nothing unpacks into gigabytes
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[ways],
        )


@dataclass(slots=True)
class _Way:
    """What is seen of one request on its way."""

    over_kept: bool = False
    sent_at: float = math.inf  # by the loop's clock

    def was_closed_before(self, error: aiohttp.ClientError) -> bool:
        """Whether the connection was being closed before the request came to its other end."""
        seconds = asyncio.get_running_loop().time() - self.sent_at
        # of a response that has begun, aiohttp says what it has
        has_begun = isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str)
        return self.over_kept and seconds < _AT_ONCE and not has_begun


async def _kept(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.over_kept = True


async def _sent(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.sent_at = asyncio.get_running_loop().time()
