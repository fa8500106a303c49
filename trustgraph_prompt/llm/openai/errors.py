"""Maps a refusal by an OpenAI-compatible server to one of the provider errors (OpenArmature, section 7)."""

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

_NAMES = frozenset(("context_length_exceeded", "exceed_context_size_error"))

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
    """Tokens of a question, of the answer asked for, and what a server allows for both; None where untold."""

    question: int | None = None
    answer: int | None = None
    allowed: int | None = None

    def in_words(self, estimate: int | None) -> str:
        """What is wrong; `estimate` is how many tokens the question has where the server does not say so."""
        question = "more than the server takes"
        if known := self.question or estimate:
            question = f"{known:,} tokens" if self.question else f"about {known:,} tokens (estimated)"
        allowed = "the server does not say how many it allows"
        if self.allowed:
            allowed = f"the server allows {self.allowed:,}"
        if not self._is_of_both:
            return f"the question does not fit the model's context: it has {question}; {allowed}"
        answer = f"up to {self.answer:,}" if self.answer else "the rest of what was asked for"
        return (
            "question and answer together do not fit the model's context: "
            f"the question has {question}, the answer may have {answer}; {allowed}"
        )

    @property
    def _is_of_both(self) -> bool:
        """Whether the question would fit alone, as far as that is known."""
        if self.question and self.allowed:
            return self.question < self.allowed
        return self.answer is not None


def too_long(names: Iterable[str], error: Any, words: str) -> TooLong | None:
    """What a refusal says of the model's context; None where it is about something else."""
    if not _NAMES.intersection(names) and not (_ABOUT.search(words) and _TOO_MUCH.search(words)):
        return None
    told = error if isinstance(error, Mapping) else {}
    return TooLong(
        _count(told.get("n_prompt_tokens")) or _first(_QUESTION, words),  # llama.cpp
        _first(_ANSWER, words),
        _count(told.get("n_ctx")) or _first(_ALLOWED, words),
    )


def _first(patterns: Iterable[str], words: str) -> int | None:
    found = (re.search(pattern, words, re.IGNORECASE) for pattern in patterns)
    return next((_count(int(one[1].replace(",", ""))) for one in found if one), None)


def _count(value: Any) -> int | None:
    is_one = isinstance(value, int) and not isinstance(value, bool)
    return value if is_one and 0 < value < 10**12 else None


_OF_SCHEMAS = re.compile(
    r"response[_ ]?format|schema|structured[_ ]output|(?<![a-z])strict(?![a-z])|grammar|samplers",
    re.IGNORECASE,
)

_QUOTE = r"[`'\"]?"

#: The feature by its name; what stands behind a dot or a colon is a part of some schema.
_FEATURE = (
    rf"(?<!\w){_QUOTE}(?:(?:body|response_format|json_schema)\.)*"
    r"(?:response[_ ]?format|json[_ ]?schema|structured[_ ]outputs?|strict)(?:\.type)?"
    rf"(?!\w|\.\w|\[|{_QUOTE}\s*:){_QUOTE}"
)
#: Words that may stand between its name and the verdict on it.
_BETWEEN = (
    r"(?:[ :,=`'\"]+(?:of|as|type|value|parameter|param|argument|request|field|key|keyword|input|feature"
    r"|mode|option|supplied|the|a|is|are|was|json_schema|response[_ ]format))*[ :,`'\"]+"
)
#: The verdict after the name. What is not there "with pattern" is there without.
_IS_NOT_THERE = (
    r"(?:(?:(?:not|n't) (?:yet |currently )?"
    r"(?:supported|available|implemented|allowed|enabled|permitted|recogni[sz]ed)"
    r"|unsupported|unavailable|unknown|unrecogni[sz]ed)\b"
    r"(?!\s*:| (?:with|for|in|on) (?!this|the|your|model|api))"
    r"|enabled only|only (?:supported|available|enabled)"
    rf"|(?:must|should) be (?:one of |either )?{_QUOTE}(?:text|json_object))"
)
#: And before it.
_NO_SUCH = (
    r"(?:(?:not|n't) (?:support|recogni[sz]e|know|allow)"
    r"|unsupported|unknown|unrecogni[sz]ed|unexpected)"
)
#: Words about what the server has no idea of, or does not do with this model.
_OF_THE_FEATURE = re.compile(
    rf"{_FEATURE}{_BETWEEN}{_IS_NOT_THERE}|{_NO_SUCH}{_BETWEEN}{_FEATURE}"
    rf"|extra_forbidden.{{1,60}}{_FEATURE},?\s*[\])]",
    re.IGNORECASE,
)

#: Words about what the feature does not go together with.
_BESIDE_OTHERS = re.compile(r"\btools?\b|function|stream", re.IGNORECASE)


def are_of_schemas(words: str) -> bool:
    """Whether the request may be taken without its response schema, or with less of it."""
    return _OF_SCHEMAS.search(words) is not None


def are_of_the_feature(words: str) -> bool:
    """Whether they clearly say that the server or the model takes no schema so, whatever it says."""
    return not _BESIDE_OTHERS.search(words) and _OF_THE_FEATURE.search(words) is not None


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
        return self._status in (400, 422) and are_of_schemas(self.words)

    @property
    def is_of_feature(self) -> bool:
        """Whether its words clearly say that no schema is taken so, whatever it says."""
        return are_of_the_feature(self.words)

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
