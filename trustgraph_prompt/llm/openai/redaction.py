"""Replaces secrets in what others wrote, such as a server's error message, by `[secret]`."""

from __future__ import annotations

import json
from collections.abc import Iterable

#: What stands where a text was truncated, by us or by a server.
_ELLIPSES = ("…", "...", "*")

#: Characters of a secret that are recognised as its beginning where a text was truncated.
_LEAST_BEGINNING = 4

#: Characters of a secret, from anywhere in it, that are never shown: servers quote a key with stars in its
#: middle.
_LEAST_PART = 8


class Secrets:
    """Secrets in plain form and as JSON strings."""

    def __init__(self, secrets: Iterable[str]) -> None:
        written = {form for secret in secrets if secret for form in (secret, json.dumps(secret)[1:-1])}
        self._longest_first = sorted(written, key=len, reverse=True)

    def redacted(self, text: str) -> str:
        """The text without the secrets, without parts of them, and without a beginning that was truncated."""
        for secret in self._longest_first:
            text = _without_beginning(_without_parts(text.replace(secret, "[secret]"), secret), secret)
        return text


def _without_parts(text: str, secret: str) -> str:
    known = {secret[at : at + _LEAST_PART] for at in range(len(secret) - _LEAST_PART + 1)}
    parts, shown, at = [], 0, 0
    while at <= len(text) - _LEAST_PART:
        end = at + _LEAST_PART
        if text[at:end] not in known:
            at += 1
            continue
        while text[end - _LEAST_PART + 1 : end + 1] in known:
            end += 1
        parts += [text[shown:at], "[secret]"]
        shown = at = end
    return "".join(parts) + text[shown:]


def _without_beginning(text: str, secret: str) -> str:
    parts, at = [], 0
    while (found := text.find(secret[:_LEAST_BEGINNING], at)) >= 0:
        end = found + _LEAST_BEGINNING
        while end - found < len(secret) and text[end : end + 1] == secret[end - found]:
            end += 1
        is_truncated = end == len(text) or text.startswith(_ELLIPSES, end)
        parts += [text[at:found], "[secret]"] if is_truncated else [text[at:end]]
        at = end
    return "".join(parts) + text[at:]
