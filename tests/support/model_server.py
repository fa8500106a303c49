"""An OpenAI-compatible server on loopback whose every byte is scripted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Self

import orjson
from aiohttp import web


class Then(Enum):
    """What may happen between the bytes of a body."""

    DROP = auto()  # the connection is gone
    HANG = auto()  # nothing more ever comes


@dataclass(frozen=True)
class Reply:
    """One response; each part of its body is written and flushed on its own.

    Between them a number is seconds to wait, an event is waited for.
    """

    parts: Iterable[bytes | Then | float | asyncio.Event] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"


#: Turns of the loop after which a caller of the same loop is seen to have left, before it calls again.
_TO_NOTICE_WHO_LEFT = 10


class ModelServer:
    """Answers `POST /v1/chat/completions`; `reply` says how, of the body that was sent."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, port: int = 0) -> None:
        self.reply: Callable[[dict[str, Any]], Reply] = lambda body: Reply(streamed("Hello."))
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.lines: list[str] = []  # method and path of each request
        self.peers: set[object] = set()
        self.left = asyncio.Event()  # a caller has left before the end
        self.on_the_wire: set[object] = set()  # answers that have not ended
        self.most_on_the_wire = 0
        self.url = ""
        self._tls = tls
        self._port = port
        self._closing = asyncio.Event()

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls).start()
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        self._closing.set()
        await self._runner.cleanup()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._runner.addresses[0][1]
        return port

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read() or b"{}")
        for _ in range(_TO_NOTICE_WHO_LEFT):
            await asyncio.sleep(0)
        self.on_the_wire.add(answer := object())
        self.most_on_the_wire = max(self.most_on_the_wire, len(self.on_the_wire))
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.paths.append(request.path_qs)
        self.lines.append(f"{request.method} {request.path}")
        self.peers.add(request.transport.get_extra_info("peername") if request.transport else None)
        reply = self.reply(body)
        response = web.StreamResponse(
            status=reply.status, headers={"Content-Type": reply.content_type, **reply.headers}
        )
        await response.prepare(request)
        try:
            for part in reply.parts:
                if isinstance(part, bytes):
                    await response.write(part)
                elif isinstance(part, float):
                    await asyncio.sleep(part)
                elif isinstance(part, asyncio.Event):
                    await part.wait()
                elif part is Then.HANG:
                    await self._closing.wait()
                elif request.transport is not None:
                    self.on_the_wire.discard(answer)
                    request.transport.abort()
                await asyncio.sleep(0)
            self.on_the_wire.discard(answer)
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            self.left.set()
            raise
        finally:
            self.on_the_wire.discard(answer)
        return response


def event(payload: Any) -> bytes:
    """One event of a stream."""
    return b"data: " + orjson.dumps(payload) + b"\n\n"


def said(text: str = "", finish_reason: str | None = None, *, index: int = 0, **delta: Any) -> bytes:
    """The event with a piece of an answer, or with its end."""
    choice = {"index": index, "delta": {"content": text, **delta}, "finish_reason": finish_reason}
    return event({"id": "1", "model": "small", "choices": [choice]})


def used(prompt: int, completion: int) -> bytes:
    """The event with the usage."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return event({"model": "small", "choices": [], "usage": counts})


DONE = b"data: [DONE]\n\n"


def streamed(
    text: str, finish_reason: str | None = "stop", *, piece: int = 7, chunk: int = 13
) -> list[bytes]:
    """A whole answer, `piece` characters an event, in chunks of `chunk` bytes that respect nothing."""
    events = b"".join(said(text[start : start + piece]) for start in range(0, len(text), piece))
    return in_chunks(events + said(finish_reason=finish_reason) + used(11, 22) + DONE, chunk)


def in_chunks(body: bytes, size: int) -> list[bytes]:
    """The same bytes, cut anywhere."""
    return [body[start : start + size] for start in range(0, len(body), size)]


def whole(
    content: str | None = None, finish_reason: str | None = "stop", *, usage: Any = None, **message: Any
) -> Reply:
    """An answer that comes in one piece."""
    said = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish_reason}
    body = {"id": "1", "object": "chat.completion", "model": "small", "choices": [choice], "usage": usage}
    return Reply([orjson.dumps(body)], content_type="application/json")
