"""The body of an answer as a server that does not stream would have sent it, put together from chunks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trustgraph_prompt.errors import ProviderInvalidResponse

#: Bytes after which it is counted what is held besides the answer (log probabilities and the like); half of
#: them may be, so that counting is seldom.
MAX_BESIDES = 64 * 1024 * 1024


class Body:
    """What the chunks of one choice have said so far: texts joined, of all else the last word."""

    def __init__(self) -> None:
        self._envelope: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._texts: dict[str, list[str]] = {}
        self._logprobs: dict[str, list[Any]] = {}
        self._finish_reason: Any = None
        self._usage: Any = None
        self._held = 0  # bytes at most

    @property
    def has_choice(self) -> bool:
        """Whether anything was an answer."""
        return bool(self._choice)

    def add(
        self, envelope: Mapping[str, Any], choice: Mapping[str, Any], message: Mapping[str, Any], size: int
    ) -> None:
        """Take in a chunk of `size` bytes, and of it the choice that is heard, and its delta."""
        self._envelope.update(envelope)
        self._choice.update(choice)
        self._message.update(message)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        self._usage = envelope.get("usage") or self._usage
        logprobs = choice.get("logprobs")
        if logprobs:
            self._add_logprobs(logprobs)
        self._held += size
        if self._held > MAX_BESIDES:
            self._recount()

    def add_text(self, key: str, text: str) -> None:
        """What a chunk says under a key whose text comes in pieces."""
        if text:
            self._texts.setdefault(key, []).append(text)

    def whole(self, tool_calls: Mapping[str, Any]) -> dict[str, Any]:
        """The body, with the usage as it came; `tool_calls` is what its message says of them."""
        texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
        message = {**self._message, **texts, **tool_calls}
        choice = self._choice | {"message": message, "finish_reason": self._finish_reason}
        choice.pop("delta", None)
        if self._logprobs:
            choice["logprobs"] = self._logprobs
        body = self._envelope | {"object": "chat.completion", "choices": [choice]}
        body.pop("usage", None)
        return body if self._usage is None else body | {"usage": self._usage}

    def _add_logprobs(self, logprobs: Any) -> None:
        for key, tokens in logprobs.items() if isinstance(logprobs, dict) else ():
            if isinstance(tokens, list):
                self._logprobs.setdefault(key, []).extend(tokens)

    def _recount(self) -> None:
        """Most of what came has been replaced by what came later."""
        try:
            self._held = len(json.dumps((self._envelope, self._choice, self._message, self._logprobs)))
        except RecursionError:
            self._held = MAX_BESIDES
        if self._held > MAX_BESIDES // 2:
            raise ProviderInvalidResponse(f"more than {MAX_BESIDES // 2:,} bytes besides the answer")
