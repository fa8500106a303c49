"""Maps the error response of an OpenAI-compatible server to a `ProviderError` (OpenArmature, section 7).

Servers agree on little. Names under `code` and `type` decide first, then words, then the status.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

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

#: Characters of a server's message that an error quotes.
MAX_WORDS = 500

#: Characters of it that are searched for their meaning.
_MAX_READ = 4_000

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

_NO_IMAGES = re.compile(
    r"not support(?:ing)? (?:\w+ ){0,3}image"
    r"|image[ _](?:input|url|content)s?\b.{0,40}\b(?:not|only) supported"
    r"|at most 0 image|not a multimodal model",
    re.IGNORECASE,
)

#: Words that distinguish two meanings of one status, where no name does.
_BY_WORDS: Mapping[int, tuple[re.Pattern[str], type[ProviderError]]] = {
    400: (_NO_IMAGES, ProviderUnsupportedContentBlock),
    404: (re.compile(r"\bmodel", re.IGNORECASE), ProviderInvalidModel),
    500: (_NO_IMAGES, ProviderUnsupportedContentBlock),  # llama.cpp
    503: (re.compile(r"not loaded|loading", re.IGNORECASE), ProviderModelNotLoaded),
}


class Refusal(Exception):
    """An error response of a server: its status, names and words; `error()` maps it."""

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
        # any other message is quoted raw: it may be nested deeper than Python can print
        messages = [message] if isinstance(message, str) else []
        words = " · ".join(messages + self._names) or " ".join(excerpt(raw, MAX_WORDS).split())
        self.words = excerpt(words, _MAX_READ) or "no explanation"
        self._too_long = too_long(self._names, error, self.words)
        self.tokens: int | None = None
        """The caller's estimate of the tokens of the question."""
        super().__init__(f"{where}: {excerpt(self.words, MAX_WORDS)}")

    @classmethod
    def of_response(cls, status: int, body: bytes, retry_after: str | None = None) -> Refusal:
        """Parse an HTTP response. `retry_after` is that header: seconds or a date."""
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            found = None
        error = found.get("error", found) if isinstance(found, dict) else found
        return cls(f"HTTP {status}", status, error, body, seconds(retry_after))

    @classmethod
    def of_event(cls, error: Any, event: bytes) -> Refusal:
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
        hint = "; check the base URL" if self._status == 404 and kind is ProviderInvalidRequest else ""
        error = kind(f"{self}{hint}{self._context_detail()}", retry_after=self._retry_after)
        error.status = self._status
        return error

    @property
    def loggable(self) -> str:
        """The error without the server's own words, which may quote the question."""
        return f"{self.where}{self._context_detail()}"

    def _context_detail(self) -> str:
        if self._too_long is None or self._kind() is not ProviderInvalidRequest:
            return ""
        return f"; {self._too_long.explain(self.tokens)}"

    @property
    def is_of_schema(self) -> bool:
        """Whether the request may be accepted without its response schema, or with a less strict one."""
        return self._status in (400, 422) and _OF_SCHEMAS.search(self.words) is not None

    @property
    def is_of_feature(self) -> bool:
        """Whether it clearly says that the server or the model supports no schema on this path."""
        return not _BESIDE_OTHERS.search(self.words) and _OF_THE_FEATURE.search(self.words) is not None

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


#: What servers put under `code` or `type` for a request that exceeds the context of the model.
_CONTEXT_NAMES = frozenset(("context_length_exceeded", "exceed_context_size_error"))

_ABOUT = re.compile(
    r"context (?:length|size|window|limit)|maximum model length|max_model_len"
    r"|prompt is too long|input token count|input tokens exceed|tokens in the prompt",
    re.IGNORECASE,
)
_TOO_MUCH = re.compile(r"exceed|too (?:long|large|many)|longer than|maximum \w+ length is", re.IGNORECASE)

_NUMBER = r"(\d[\d,]{0,15})"
_QUESTION = (  # the first that is found
    rf"{_NUMBER} (?:tokens )?(?:in|from) (?:the|your) (?:input |chat )?(?:messages|prompt|input)\b",
    rf"(?:has|least) {_NUMBER} input tokens",
    rf"(?:request|input|prompt) \((?:length )?{_NUMBER}\b",
    rf"(?:messages resulted in|prompt contains|prompt is too long:|context limit:) {_NUMBER}\b",
    rf"input token count \({_NUMBER}\b",
    rf"\breceived {_NUMBER}\b",
    rf"\brequested {_NUMBER} tokens",
)
_ANSWER = (
    rf"{_NUMBER} (?:tokens )?(?:in|for) the completion",
    rf"(?:max_tokens|max_completion_tokens)\W+is too large: {_NUMBER}\b",
    rf"context limit: \S+ \+ {_NUMBER}\b",
)
_ALLOWED = (
    rf"(?:maximum|model'?s) (?:context|model) length (?:is|of)(?: only)? {_NUMBER}\b",
    rf"context (?:size|length|window) \(?(?:is |of )?(?:only )?{_NUMBER}\b",
    rf"> ?{_NUMBER}(?: maximum|,| |$)",
    rf"{_NUMBER} maximum context length",
    rf"tokens allowed \({_NUMBER}\b",
    rf"limit of {_NUMBER} tokens",
    rf"cannot exceed {_NUMBER}\b",
)


class TooLong(NamedTuple):
    """Tokens of the question and of the requested answer, and what the server allows; None where unknown."""

    question: int | None = None
    answer: int | None = None
    allowed: int | None = None

    def explain(self, estimate: int | None) -> str:
        """Say what does not fit; the `estimate` is used where the server does not count the question."""
        question = "more than the server takes"
        if known := self.question or estimate:
            question = f"{known:,} tokens" if self.question else f"about {known:,} tokens (estimated)"
        allowed = "the server does not say how many it allows"
        if self.allowed:
            allowed = f"the server allows {self.allowed:,}"
        if not self._question_fits:
            return f"the question does not fit the model's context: it has {question}; {allowed}"
        answer = f"up to {self.answer:,}" if self.answer else "the rest of what was asked for"
        return (
            "question and answer together do not fit the model's context: "
            f"the question has {question}, the answer may have {answer}; {allowed}"
        )

    @property
    def _question_fits(self) -> bool:
        """Whether the question alone would fit, as far as that is known."""
        if self.question and self.allowed:
            return self.question < self.allowed
        return self.answer is not None


def too_long(names: Iterable[str], error: Any, words: str) -> TooLong | None:
    """Parse a refusal because of the model's context; None where it is about something else."""
    if not _CONTEXT_NAMES.intersection(names) and not (_ABOUT.search(words) and _TOO_MUCH.search(words)):
        return None
    fields = error if isinstance(error, Mapping) else {}
    return TooLong(
        _count(fields.get("n_prompt_tokens")) or _first(_QUESTION, words),  # llama.cpp
        _first(_ANSWER, words),
        _count(fields.get("n_ctx")) or _first(_ALLOWED, words),
    )


def _first(patterns: Iterable[str], words: str) -> int | None:
    found = (re.search(pattern, words, re.IGNORECASE) for pattern in patterns)
    return next((_count(int(match[1].replace(",", ""))) for match in found if match), None)


def _count(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value < 10**12 else None


#: Words of a refusal that concerns the response schema.
_OF_SCHEMAS = re.compile(
    r"response[_ ]?format|schema|structured[_ ]output|(?<![a-z])strict(?![a-z])|grammar|samplers",
    re.IGNORECASE,
)

_QUOTE = r"[`'\"]?"

#: The name of the feature; after a dot or a colon it is a part of some schema.
_FEATURE = (
    rf"(?<!\w){_QUOTE}(?:(?:body|response_format|json_schema)\.)*"
    r"(?:response[_ ]?format|json[_ ]?schema|structured[_ ]outputs?|strict)(?:\.type)?"
    rf"(?!\w|\.\w|\[|{_QUOTE}\s*:){_QUOTE}"
)
#: Words that may stand between the name and the verdict.
_BETWEEN = (
    r"(?:[ :,=`'\"]+(?:of|as|type|value|parameter|param|argument|request|field|key|keyword|input|feature"
    r"|mode|option|supplied|the|a|is|are|was|json_schema|response[_ ]format))*[ :,`'\"]+"
)
#: A verdict after the name. "Not supported with pattern" implies that it is supported without.
_IS_DENIED = (
    r"(?:(?:(?:not|n't) (?:yet |currently )?"
    r"(?:supported|available|implemented|allowed|enabled|permitted|recogni[sz]ed)"
    r"|unsupported|unavailable|unknown|unrecogni[sz]ed)\b"
    r"(?!\s*:| (?:with|for|in|on) (?!this|the|your|model|api))"
    r"|enabled only|only (?:supported|available|enabled)"
    rf"|(?:must|should) be (?:one of |either )?{_QUOTE}(?:text|json_object))"
)
#: A verdict before the name.
_DENIED = (
    r"(?:(?:not|n't) (?:support|recogni[sz]e|know|allow)"
    r"|unsupported|unknown|unrecogni[sz]ed|unexpected)"
)
#: Words that deny the feature, for the server or for this model.
_OF_THE_FEATURE = re.compile(
    rf"{_FEATURE}{_BETWEEN}{_IS_DENIED}|{_DENIED}{_BETWEEN}{_FEATURE}"
    rf"|extra_forbidden.{{1,60}}{_FEATURE},?\s*[\])]",
    re.IGNORECASE,
)

#: Words about a combination that is not supported.
_BESIDE_OTHERS = re.compile(r"\btools?\b|function|stream", re.IGNORECASE)
