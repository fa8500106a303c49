"""What a refusal of an OpenAI-compatible server means: one of the provider errors (seed 2, section 7)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from trustgraph_prompt.errors import (
    ProviderAuthentication,
    ProviderError,
    ProviderInvalidModel,
    ProviderInvalidRequest,
    ProviderModelNotLoaded,
    ProviderRateLimit,
    ProviderUnavailable,
    ProviderUnsupportedContentBlock,
)

#: Characters of a server's own words that go into an error.
MAX_WORDS = 500

_LOADING = re.compile(r"not[_ ]loaded|loading", re.IGNORECASE)
_NO_SUCH_MODEL = re.compile(r"\bmodel", re.IGNORECASE)
_NO_IMAGES = re.compile(r"image_content_not_supported|not support image", re.IGNORECASE)
_NO_MONEY = re.compile(r"insufficient_quota|billing", re.IGNORECASE)

_BY_STATUS: Mapping[int, type[ProviderError]] = {
    401: ProviderAuthentication,
    402: ProviderAuthentication,
    403: ProviderAuthentication,
    408: ProviderUnavailable,
    429: ProviderRateLimit,
}


def from_response(status: int, body: bytes, retry_after: str | None = None) -> ProviderError:
    """The error that an HTTP response stands for. `retry_after` is that header, seconds or a date."""
    try:
        words = _words(orjson.loads(body))
    except orjson.JSONDecodeError:
        words = " ".join(body.decode(errors="replace").split())
    return classify(status, words, retry_after=seconds(retry_after))


def from_event(error: Any) -> ProviderError:
    """The error that a server reports in place of an answer, under the key `error` of a 200 response.

    Where it names no status, it is the server's own trouble.
    """
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return classify(status, _words({"error": error}))


def classify(status: int, words: str, *, retry_after: float | None = None) -> ProviderError:
    """Status and the server's words, as one of ours."""
    text = words if len(words) <= MAX_WORDS else words[: MAX_WORDS - 1] + "…"
    return _kind(status, words)(f"HTTP {status}: {text or 'no explanation'}", retry_after=retry_after)


def seconds(retry_after: str | None) -> float | None:
    """How long `Retry-After` (RFC 9110, 10.2.3) says to wait; None where it says nothing of use."""
    try:
        value = float(retry_after or "nan")
    except ValueError:
        try:
            when = parsedate_to_datetime(retry_after or "")
        except ValueError:
            return None
        value = (when.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    return max(value, 0.0) if math.isfinite(value) else None


def _kind(status: int, words: str) -> type[ProviderError]:
    if status == 404 and _NO_SUCH_MODEL.search(words):
        return ProviderInvalidModel
    if status == 503 and _LOADING.search(words):
        return ProviderModelNotLoaded
    if status == 400 and _NO_IMAGES.search(words):
        return ProviderUnsupportedContentBlock
    if status == 429 and _NO_MONEY.search(words):
        return ProviderAuthentication
    return _BY_STATUS.get(status, ProviderUnavailable if status >= 500 else ProviderInvalidRequest)


def _words(body: Any) -> str:
    """What a body says, in any of the forms servers have for it: code, type and message."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return str(error)
    words = [error.get(key) for key in ("message", "detail", "type", "code")]
    return " · ".join(str(word) for word in words if word not in (None, "")) or str(error)
