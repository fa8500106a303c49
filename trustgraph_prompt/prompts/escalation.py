"""The condition on which an answer is escalated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Operator = Literal["~", "==", "!=", "contains"]

_MARKUP = str.maketrans("", "", "*_`#")
_PUNCTUATION = str.maketrans("", "", ".!?,;:")


@dataclass(frozen=True, slots=True)
class Escalation:
    """A condition on the text of an answer: how it compares with `value`.

    `==` and `!=` ignore surrounding white space. `~` also ignores Markdown, punctuation, case and layout.
    `contains` searches for the exact value. An empty answer meets no condition.
    """

    op: Operator
    value: str

    def holds(self, answer: str, *, cut: bool = False) -> bool:
        """Whether the answer is escalated. Only `contains` applies to a truncated (`cut`) answer."""
        if self.op == "contains":
            return self.value in answer
        if cut or not answer.strip():
            return False
        if self.op == "~":
            return _plain(answer) == _plain(self.value)
        return (answer.strip() == self.value.strip()) is (self.op == "==")


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.translate(_MARKUP).translate(_PUNCTUATION)).strip().casefold()
