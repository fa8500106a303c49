"""Log lines as JSON or as plain text, with the flow, request and prompt they belong to."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar, Token
from datetime import UTC, datetime

import orjson

from trustgraph_prompt.errors import excerpt
from trustgraph_prompt.terminal import harmless

MAX_FIELD, MAX_MESSAGE, MAX_EXCEPTION = 500, 4_000, 30_000
"""Characters per line of each: ids, keys and errors from outside may have a megabyte."""

_about: ContextVar[dict[str, str]] = ContextVar("about")

_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class about:  # noqa: N801 - a context manager, as a class because that is faster
    """Adds fields to every line that is logged within the block, besides those of outer blocks."""

    def __init__(self, **names: str) -> None:
        self._names = names
        self._token: Token[dict[str, str]]

    def __enter__(self) -> None:
        self._token = _about.set({**_about.get({}), **self._names})

    def __exit__(self, *exc: object) -> None:
        _about.reset(self._token)


def configure(level: str = "info") -> None:
    """Log to standard error: plain text on a terminal, else JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_add_context)
    handler.setFormatter(_ForPeople() if sys.stderr.isatty() else _AsJson())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.server").addFilter(_is_no_client_error)
    # No line contains the source line, thread or process: not collecting them makes logging faster.
    logging._srcfile = None  # as the standard library's logging how-to recommends
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def _is_no_client_error(record: logging.LogRecord) -> bool:
    """Drops tracebacks of invalid HTTP requests, which are answered with 400."""
    from aiohttp.http_exceptions import HttpProcessingError

    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _add_context(record: logging.LogRecord) -> bool:
    for name, value in _about.get({}).items():
        setattr(record, name, value)
    return True


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {
        name: excerpt(value, MAX_FIELD) if isinstance(value, str) else value
        for name, value in vars(record).items()
        if name not in _OWN_FIELDS and value is not None
    }


class _AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": excerpt(record.getMessage(), MAX_MESSAGE),
            **_extras(record),
        }
        if record.exc_info:
            line["exception"] = excerpt(self.formatException(record.exc_info), MAX_EXCEPTION)
        try:
            return harmless(orjson.dumps(line, default=str).decode())
        except orjson.JSONEncodeError:  # a lone surrogate, an integer of more than 64 bits
            return harmless(json.dumps(line, ensure_ascii=False, default=str))


class _ForPeople(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        extras = " ".join(f"{name}={value}" for name, value in _extras(record).items())
        message = excerpt(record.getMessage(), MAX_MESSAGE)
        line = f"{time} {record.levelname.lower():7} {message}  {extras}".rstrip()
        line = line.replace("\n", "\\n")  # an id or name from outside must not look like another log line
        if record.exc_info:
            line += "\n" + excerpt(self.formatException(record.exc_info), MAX_EXCEPTION)
        return harmless(line)
