"""Maps the error response of an OpenAI-compatible server to a `ProviderError` (OpenArmature, section 7).

Servers agree on little. Names under `code` and `type` decide first, then words, then the status.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
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
from trustgraph_prompt.llm.openai import denials
from trustgraph_prompt.llm.openai.context_limits import too_long

#: Characters of a server's message that an error quotes.
MAX_WORDS = 500

#: Characters of it that are searched for their meaning.
_MAX_READ = 4_000

#: Details of an error that are read, such as what is wrong with each key of the request.
_MOST_DETAILS = 10

#: What servers put under `code` or `type`; takes precedence over the status.
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

#: The same where a content filter refuses the question: OpenAI and Azure, gateways, DashScope.
_CONTENT_FILTERS = frozenset(
    ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "data_inspection_failed")
)

#: What Groq calls a JSON answer that its model did not get right.
_FAILED_GENERATION = "json_validate_failed"

_NO_IMAGES = re.compile(
    r"not support(?:ing)? (?:\w+ ){0,3}image"
    r"|image[ _](?:input|url|content)s?\b.{0,40}\b(?:not|only) supported"
    r"|at most 0 image|not a multimodal model",
    re.IGNORECASE,
)

#: At the beginning of a message: further on, a server may quote the question. Gemini and xAI answer 400.
_BAD_KEY = re.compile(
    r"^.{0,80}(?:"
    r"(?:api[ _-]?key|authorization header) (?:is |was )?(?:not valid|invalid|incorrect|expired|missing)"
    r"|(?:incorrect|expired|missing|invalid) (?:or invalid )?(?:api[ _-]?key|authorization header))",
    re.IGNORECASE,
)

#: Words that distinguish the meanings of one status, where no name does.
_BY_WORDS: Mapping[int, Mapping[re.Pattern[str], type[ProviderError]]] = {
    400: {_NO_IMAGES: ProviderUnsupportedContentBlock, _BAD_KEY: ProviderAuthentication},
    404: {re.compile(r"\bmodel", re.IGNORECASE): ProviderInvalidModel},
    500: {_NO_IMAGES: ProviderUnsupportedContentBlock},  # llama.cpp
    503: {re.compile(r"not loaded|loading", re.IGNORECASE): ProviderModelNotLoaded},
}


class ServerRefusal(Exception):
    """An error response of a server: its status, names and words; `error()` maps it."""

    def __init__(
        self, where: str, status: int, error: Any, raw: bytes, retry_after: float | None = None
    ) -> None:
        self.where = where
        self._status = status
        self._retry_after = retry_after
        self._fields = error if isinstance(error, dict) else {"message": error}
        named = [self._fields.get(key) for key in ("code", "type")]
        # vLLM writes None as a text
        self._names = [str(name) for name in named if isinstance(name, str | int) and name != "None"]
        messages = _sentences(self._fields.get("message") or self._fields.get("detail"))
        # any other message is quoted raw: it may be nested deeper than Python can print
        words = " · ".join(messages + self._names) or " ".join(excerpt(raw, MAX_WORDS).split())
        self.words = excerpt(words, _MAX_READ) or "no explanation"
        self._too_long = too_long(self._names, error, self.words)
        self._is_filtered = not _CONTENT_FILTERS.isdisjoint(self._names)
        self.hint = "; the provider's content filter refused the question" if self._is_filtered else ""
        self.tokens: int | None = None
        """The caller's estimate of the tokens of the question."""
        super().__init__(f"{where}: {excerpt(self.words, MAX_WORDS)}")

    @classmethod
    def of_response(cls, status: int, body: bytes, retry_after: str | None = None) -> ServerRefusal:
        """Parse an HTTP response. `retry_after` is that header: seconds or a date."""
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            found = None
        if isinstance(found, list) and len(found) == 1:  # Gemini
            found = found[0]
        error = (found.get("error") or found) if isinstance(found, dict) else found
        return cls(f"HTTP {status}", status, error, body, seconds(retry_after))

    @classmethod
    def of_event(cls, error: Any, event: bytes) -> ServerRefusal:
        """Parse the `error` of a response with status 200.

        An error that names no status counts as the server's own, unless it says that the request is invalid.
        """
        named = error if isinstance(error, dict) else {}
        statuses = [status for key in ("code", "status") if (status := _status(named.get(key)))]
        is_invalid = "invalid_request_error" in (named.get("code"), named.get("type"))
        status = statuses[0] if statuses else 400 if is_invalid else 500
        return cls("an error in place of an answer", status, error, event)

    def error(self) -> ProviderError:
        """The `ProviderError` that it stands for."""
        kind = self._kind()
        is_address = self._status == 404 and kind is ProviderInvalidRequest
        hint = "; check the base URL" if is_address else self.hint
        error = kind(f"{self}{hint}{self._context_detail()}", retry_after=self._retry_after)
        error.status = self._status
        return error

    @property
    def loggable(self) -> str:
        """The error without the server's own words, which may quote the question."""
        return f"{self.where}{self.hint}{self._context_detail()}"

    def _context_detail(self) -> str:
        if self._too_long is None or self._kind() is not ProviderInvalidRequest:
            return ""
        return f"; {self._too_long.explain(self.tokens)}"

    @property
    def is_of_schema(self) -> bool:
        """Whether the request may be accepted without its response schema, or with a less strict one."""
        if self._status in (400, 422):
            return self.failed_generation is None and denials.OF_SCHEMAS.search(self.words) is not None
        return self._status >= 500 and denials.OF_GRAMMARS.search(self.words) is not None

    @property
    def parameter(self) -> str | None:
        """The parameter of the request that it says the server or the model does not support."""
        if self._status not in (400, 422):
            return None
        if "unsupported_parameter" in self._names or "unknown_parameter" in self._names:
            return denials.parameter_called(str(self._fields.get("param")))
        return denials.denied_parameter(self.words)

    @property
    def failed_generation(self) -> str | None:
        """The model's answer, where the server reports one that is not valid JSON as an error."""
        if _FAILED_GENERATION not in self._names:
            return None
        answer = self._fields.get("failed_generation")
        return answer if isinstance(answer, str) else ""

    def _kind(self) -> type[ProviderError]:
        never_fits = self._too_long is not None and self._too_long.is_of_rate
        if never_fits or self._is_filtered or self._status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return ProviderInvalidRequest
        for name in self._names:
            if name in _BY_NAME:
                return _BY_NAME[name]
        if self._too_long and self._status not in _BY_STATUS:
            return ProviderInvalidRequest
        for pattern, kind in _BY_WORDS.get(self._status, {}).items():
            if pattern.search(self.words):
                return kind
        default = ProviderUnavailable if self._status >= 500 else ProviderInvalidRequest
        return _BY_STATUS.get(self._status, default)


def _sentences(said: Any, depth: int = 4) -> list[str]:
    """The texts of a message or detail; FastAPI and Mistral send one for each key of the request."""
    if isinstance(said, str):
        return [said]
    if not depth or not isinstance(said, list | dict):
        return []
    if isinstance(said, list):
        return [text for item in said[:_MOST_DETAILS] for text in _sentences(item, depth - 1)]
    if isinstance(said.get("msg"), str):
        place = said["loc"] if isinstance(said.get("loc"), list) else []
        where = ".".join(str(key) for key in place if isinstance(key, str | int))
        kind = f"({said['type']})" if isinstance(said.get("type"), str) else ""
        return [" ".join(filter(None, (where, said["msg"], kind)))]
    if "detail" in said:
        return _sentences(said["detail"], depth - 1)
    items = list(said.items())[:_MOST_DETAILS]
    return [f"{key} {text}" for key, value in items for text in _sentences(value, depth - 1)]


def _status(value: Any) -> int | None:
    """The HTTP status in a field of an error, as a number or in digits."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else None


def seconds(retry_after: str | None) -> float | None:
    """The seconds of a `Retry-After` header (RFC 9110, 10.2.3), which may be a date; None where unusable."""
    try:
        value = float(retry_after or "nan")
    except ValueError:
        try:
            when = parsedate_to_datetime(retry_after or "").astimezone(UTC)
        except (ValueError, OverflowError):
            return None
        value = (when - datetime.now(UTC)).total_seconds()
    return max(value, 0.0) if math.isfinite(value) else None
