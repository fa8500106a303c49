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
from trustgraph_prompt.llm.openai import schema_words
from trustgraph_prompt.llm.openai.context import too_long

#: Characters of a server's own words that go into an error.
MAX_WORDS = 500

#: And of those that are looked through for what they mean.
_MAX_READ = 4_000

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
    407: ProviderAuthentication,
    408: ProviderUnavailable,
    429: ProviderRateLimit,
}

_NO_IMAGES = re.compile(
    r"not support(?:ing)? (?:\w+ ){0,3}image"
    r"|image[ _](?:input|url|content)s?\b.{0,40}\b(?:not|only) supported"
    r"|at most 0 image|not a multimodal model",
    re.IGNORECASE,
)

#: Words that tell two meanings of one status apart, where no name does.
_BY_WORDS: Mapping[int, tuple[re.Pattern[str], type[ProviderError]]] = {
    400: (_NO_IMAGES, ProviderUnsupportedContentBlock),
    404: (re.compile(r"\bmodel", re.IGNORECASE), ProviderInvalidModel),
    500: (_NO_IMAGES, ProviderUnsupportedContentBlock),  # llama.cpp
    503: (re.compile(r"not loaded|loading", re.IGNORECASE), ProviderModelNotLoaded),
}


class Refusal(Exception):
    """What a server said in place of an answer: a status, names, words; `error()` is what it stands for."""

    def __init__(
        self, where: str, status: int, error: Any, raw: bytes, retry_after: float | None = None
    ) -> None:
        self.where = where
        self._status = status
        self._retry_after = retry_after
        self._names, message = [], error
        if isinstance(error, dict):
            named = [error[key] for key in ("code", "type") if isinstance(error.get(key), str | int)]
            self._names = [str(name) for name in named if name != "None"]  # vLLM
            message = error.get("message") or error.get("detail")
        # anything deeper is shown as it came: an error may be nested beyond what Python can print
        said = [message] if isinstance(message, str) else []
        words = " · ".join(said + self._names) or " ".join(excerpt(raw, MAX_WORDS).split())
        self.words = excerpt(words, _MAX_READ) or "no explanation"
        self._too_long = too_long(self._names, error, self.words)
        self.tokens: int | None = None
        """How many the question has, by an estimate of who asked it."""
        super().__init__(f"{where}: {excerpt(self.words, MAX_WORDS)}")

    @classmethod
    def of_response(cls, status: int, body: bytes, retry_after: str | None = None) -> Refusal:
        """What an HTTP response says. `retry_after` is that header, seconds or a date."""
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            found = None
        error = found.get("error", found) if isinstance(found, dict) else found
        return cls(f"HTTP {status}", status, error, body, seconds(retry_after))

    @classmethod
    def of_event(cls, error: Any, event: bytes) -> Refusal:
        """What a server reports in place of an answer, under the key `error` of a 200 response.

        Where it names no status, it is the server's own trouble unless it says that it is the request's.
        """
        named = error if isinstance(error, dict) else {}
        statuses = [status for key in ("code", "status") if (status := _status(named.get(key)))]
        is_ours = "invalid_request_error" in (named.get("code"), named.get("type"))
        status = statuses[0] if statuses else 400 if is_ours else 500
        return cls("an error in place of an answer", status, error, event)

    def error(self) -> ProviderError:
        """The error of ours."""
        kind = self._kind()
        hint = "; is it the base URL?" if self._status == 404 and kind is ProviderInvalidRequest else ""
        return kind(f"{self}{hint}{self._of_context()}", retry_after=self._retry_after)

    @property
    def loggable(self) -> str:
        """What of it is not in the server's own words, which may quote the question."""
        return f"{self.where}{self._of_context()}"

    def _of_context(self) -> str:
        if self._too_long is None or self._kind() is not ProviderInvalidRequest:
            return ""
        return f"; {self._too_long.in_words(self.tokens)}"

    @property
    def is_of_schema(self) -> bool:
        """Whether the request may be taken without its response schema, or with less of it."""
        return self._status in (400, 422) and schema_words.are_of_schemas(self.words)

    @property
    def is_of_feature(self) -> bool:
        """Whether its words clearly say that no schema is taken so, whatever it says."""
        return schema_words.are_of_the_feature(self.words)

    def _kind(self) -> type[ProviderError]:
        for name in self._names:
            if name in _BY_NAME:
                return _BY_NAME[name]
        if self._too_long and self._status not in _BY_STATUS:
            return ProviderInvalidRequest
        pattern, kind = _BY_WORDS.get(self._status, (None, ProviderError))
        if pattern is not None and pattern.search(self.words):
            return kind
        default = ProviderUnavailable if self._status >= 500 else ProviderInvalidRequest
        return _BY_STATUS.get(self._status, default)


def _status(value: Any) -> int | None:
    """The status of an error that a field names, as a number or in digits."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) == 3:
        value = int(value)
    is_one = isinstance(value, int) and 400 <= value < 600
    return value if is_one else None


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
