"""Which answers of a prompt are for somebody else to deal with (seed 5, `escalate if`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Operator = Literal["~", "==", "!=", "contains"]

_MARKUP = str.maketrans("", "", "*_`#")
_PUNCTUATION = str.maketrans("", "", ".!?,;:")


@dataclass(frozen=True, slots=True)
class Escalation:
    """A condition on the text of an answer, compared with `value`.

    `==` and `!=` compare all but white space around, `~` without markup, punctuation, case and layout;
    `contains` looks for the value as it is. An empty answer is none.
    """

    op: Operator
    value: str

    def holds(self, answer: str, *, cut: bool = False) -> bool:
        """Whether the answer is escalated; of one that is `cut`, only `contains` can say so."""
        if self.op == "contains":
            return self.value in answer
        if cut or not answer.strip():
            return False
        if self.op == "~":
            return _plain(answer) == _plain(self.value)
        return (answer.strip() == self.value.strip()) is (self.op == "==")


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.translate(_MARKUP).translate(_PUNCTUATION)).strip().casefold()
