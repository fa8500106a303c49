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
    excerpt,
)

#: Characters of a server's own words that go into an error.
MAX_WORDS = 500

#: What servers put under `code` or `type`, which says more than a status does.
_BY_NAME: Mapping[str, type[ProviderError]] = {
    "authentication_error": ProviderAuthentication,
    "context_length_exceeded": ProviderInvalidRequest,
    "image_content_not_supported": ProviderUnsupportedContentBlock,
    "insufficient_quota": ProviderAuthentication,
    "invalid_api_key": ProviderAuthentication,
    "model_not_found": ProviderInvalidModel,
    "model_not_loaded": ProviderModelNotLoaded,
    "rate_limit_error": ProviderRateLimit,
    "rate_limit_exceeded": ProviderRateLimit,
}

_BY_STATUS: Mapping[int, type[ProviderError]] = {
    401: ProviderAuthentication,
    402: ProviderAuthentication,
    403: ProviderAuthentication,
    408: ProviderUnavailable,
    429: ProviderRateLimit,
}

#: Words that tell two meanings of one status apart, where no name does.
_BY_WORDS: Mapping[int, tuple[re.Pattern[str], type[ProviderError]]] = {
    400: (re.compile(r"not support image", re.IGNORECASE), ProviderUnsupportedContentBlock),
    404: (re.compile(r"\bmodel", re.IGNORECASE), ProviderInvalidModel),
    503: (re.compile(r"not loaded|loading", re.IGNORECASE), ProviderModelNotLoaded),
}


def from_response(status: int, body: bytes, retry_after: str | None = None) -> ProviderError:
    """The error that an HTTP response stands for. `retry_after` is that header, seconds or a date."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    error = found.get("error", found) if isinstance(found, dict) else found
    return _error(status, error, body, seconds(retry_after))


def from_event(error: Any, event: bytes) -> ProviderError:
    """The error that a server reports in place of an answer, under the key `error` of a 200 response.

    Where it names no status, it is the server's own trouble unless it says that it is the request's.
    """
    code, names = (error.get("code"), _names(error)) if isinstance(error, dict) else (None, [])
    if isinstance(code, int) and 400 <= code < 600:
        status = code
    else:
        status = 400 if "invalid_request_error" in names else 500
    return _error(status, error, event, None)


def seconds(retry_after: str | None) -> float | None:
    """How long `Retry-After` (RFC 9110, 10.2.3) says to wait; None where it says nothing of use."""
    try:
        value = float(retry_after or "nan")
    except ValueError:
        try:
            when = parsedate_to_datetime(retry_after or "").astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        value = (when - datetime.now(UTC)).total_seconds()
    return max(value, 0.0) if math.isfinite(value) else None


def _error(status: int, error: Any, raw: bytes, retry_after: float | None) -> ProviderError:
    names, message = [], error
    if isinstance(error, dict):
        names, message = _names(error), error.get("message") or error.get("detail")
    # anything deeper is shown as it came: an error may be nested beyond what Python can print
    said = [message] if isinstance(message, str) else []
    words = " · ".join(said + names) or " ".join(excerpt(raw, MAX_WORDS).split()) or "no explanation"
    return _kind(status, names, words)(f"HTTP {status}: {excerpt(words, MAX_WORDS)}", retry_after=retry_after)


def _names(error: Mapping[str, Any]) -> list[str]:
    return [str(error[key]) for key in ("code", "type") if isinstance(error.get(key), str | int)]


def _kind(status: int, names: list[str], words: str) -> type[ProviderError]:
    for name in names:
        if name in _BY_NAME:
            return _BY_NAME[name]
    pattern, kind = _BY_WORDS.get(status, (None, ProviderError))
    if pattern is not None and pattern.search(words):
        return kind
    return _BY_STATUS.get(status, ProviderUnavailable if status >= 500 else ProviderInvalidRequest)
