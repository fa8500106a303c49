"""What no error may show, and how it is taken out of what others wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable

#: What stands where a text was cut, ours or another's.
_CUT = ("…", "...", "*")

#: Characters of a secret that are known for its beginning where a text was cut.
_LEAST = 4

#: Characters of a secret, from anywhere in it, that are not shown whatever stands around them: servers quote
#: a key with stars in its middle.
_TELLING = 8


class Secrets:
    """Secrets, as they are and as JSON has them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        written = {form for secret in secrets if secret for form in (secret, json.dumps(secret)[1:-1])}
        self._longest_first = sorted(written, key=len, reverse=True)

    def redacted(self, text: str) -> str:
        """The text without them; nor does it end, or is cut, in the middle of one."""
        for secret in self._longest_first:
            text = _without_beginning(_without_parts(text.replace(secret, "[secret]"), secret), secret)
        return text


def _without_parts(text: str, secret: str) -> str:
    known = {secret[at : at + _TELLING] for at in range(len(secret) - _TELLING + 1)}
    parts, shown, at = [], 0, 0
    while at <= len(text) - _TELLING:
        end = at + _TELLING
        if text[at:end] not in known:
            at += 1
            continue
        while text[end - _TELLING + 1 : end + 1] in known:
            end += 1
        parts += [text[shown:at], "[secret]"]
        shown = at = end
    return "".join(parts) + text[shown:]


def _without_beginning(text: str, secret: str) -> str:
    parts, at = [], 0
    while (found := text.find(secret[:_LEAST], at)) >= 0:
        end = found + _LEAST
        while end - found < len(secret) and text[end : end + 1] == secret[end - found]:
            end += 1
        is_cut = end == len(text) or text.startswith(_CUT, end)
        parts += [text[at:found], "[secret]"] if is_cut else [text[at:end]]
        at = end
    return "".join(parts) + text[at:]
