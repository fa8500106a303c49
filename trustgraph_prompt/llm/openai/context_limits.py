"""Parses the errors of servers about questions that are too long for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

#: What servers put under `code` or `type` for a request that exceeds the context of the model.
_CONTEXT_NAMES = frozenset(("context_length_exceeded", "exceed_context_size_error"))

_ABOUT = re.compile(
    r"context (?:length|size|window|limit)|maximum model length|max_model_len"
    r"|prompt is too long|input token count|input tokens exceed|tokens in the prompt"
    r"|input is too large to process|in the context|kv[- ]cache",
    re.IGNORECASE,
)
_TOO_MUCH = re.compile(
    r"exceed|too (?:long|large|many)|(?:longer|greater|larger) than|not enough|maximum \w+ length is",
    re.IGNORECASE,
)

_NUMBER = r"(\d[\d,]{0,15})"
_QUESTION = (  # the first that is found
    rf"{_NUMBER} (?:tokens )?(?:in|from) (?:the|your) (?:input |chat )?(?:messages|prompt|input)\b",
    rf"(?:has|least) {_NUMBER} input tokens",
    rf"(?:request|input|prompt) \((?:length )?{_NUMBER}\b",
    rf"(?:messages resulted in|prompt contains|prompt is too long:|context limit:) {_NUMBER}\b",
    rf"input token count \({_NUMBER}\b",
    rf"\breceived {_NUMBER}\b",
    rf"\brequested {_NUMBER} tokens",
    rf"keep the first {_NUMBER} tokens",
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
    rf"batch size: {_NUMBER}\b",
)
#: Tokens per minute that are allowed, and those of the request (OpenAI, Groq).
_OF_RATE = re.compile(rf"limit:? {_NUMBER}, (?:used:? [\d,]+, )?requested:? {_NUMBER}\b", re.IGNORECASE)


class TokenOverflow(NamedTuple):
    """Tokens of the question and of the requested answer, and what the server allows; None where unknown.

    `is_of_rate`: one request alone exceeds what the server allows in a minute; its tokens are those of
    question and answer.
    """

    question: int | None = None
    answer: int | None = None
    allowed: int | None = None
    is_of_rate: bool = False

    def explain(self, estimate: int | None) -> str:
        """Say what does not fit; the `estimate` is used where the server does not count the question."""
        if self.is_of_rate:
            return (
                "the question does not fit the server's limit of tokens per minute: with its answer it has "
                f"{self.question:,} tokens; the server allows {self.allowed:,}"
            )
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


def too_long(names: Iterable[str], error: Any, words: str) -> TokenOverflow | None:
    """Parse a refusal because of the model's context, or of a rate that no pause would meet; else None."""
    if (found := _OF_RATE.search(words)) and (allowed := _number(found[1])) < (
        requested := _number(found[2])
    ):
        return TokenOverflow(requested, allowed=allowed, is_of_rate=True)
    if not _CONTEXT_NAMES.intersection(names) and not (_ABOUT.search(words) and _TOO_MUCH.search(words)):
        return None
    fields = error if isinstance(error, Mapping) else {}
    return TokenOverflow(
        _count(fields.get("n_prompt_tokens")) or _first(_QUESTION, words),  # llama.cpp
        _first(_ANSWER, words),
        _count(fields.get("n_ctx")) or _first(_ALLOWED, words),
    )


def _first(patterns: Iterable[str], words: str) -> int | None:
    found = (re.search(pattern, words, re.IGNORECASE) for pattern in patterns)
    return next((_count(_number(match[1])) for match in found if match), None)


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def _count(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value < 10**12 else None
