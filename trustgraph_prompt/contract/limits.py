"""The limits of reading and validating an answer, and the meter that counts validation steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.errors import ContractError
from trustgraph_prompt.json_text.values import levels

MAX_STEPS = 200_000_000
"""Steps for one answer, about a second. A step is one subschema applied to one character: 1 to 5 ns."""

MAX_CALL = 8_000_000
"""Steps in one call of native code, during which no other thread runs."""

VALUE = 8
"""Steps for each value, in addition to its characters."""

DEEPEST = 1_000  # levels; the decoder fails a little later, the validator crashes at some tens of thousands


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an answer: objects that are read, levels of nesting, steps of validating all its values.

    A step is one subschema applied to one character. Raises `ContractError` for an invalid number.
    """

    objects: int = 20_000
    depth: int = 200
    steps: int = MAX_STEPS

    def __post_init__(self) -> None:
        _check("objects", self.objects, self.objects, "1 or more")
        _check("steps", self.steps, self.steps, "1 or more")
        _check("depth", self.depth, DEEPEST, f"1 to {DEEPEST:,}")


def _check(name: str, number: object, most: int, expected: str) -> None:
    if type(number) is not int or not 1 <= number <= most:
        raise ContractError("invalid limit", path=f"/limits/{name}", found=number, expected=expected)


class TooCostly(ValueError):
    """Validating a value would take too much."""


class StepMeter:
    """Counts the steps of validating one answer; when they are spent, no further value is validated.

    `name` is that of the contract, for the message.
    """

    __slots__ = ("_name", "_wanted", "left", "most")

    def __init__(self, name: str | None = None, most: int = MAX_STEPS) -> None:
        self._name = name
        self._wanted: int | None = None
        self.left = self.most = most

    @property
    def is_spent(self) -> bool:
        """Whether more steps were requested than were left."""
        return self._wanted is not None

    def spend(self, steps: int) -> None:
        """Spend steps before taking them. Raises `TooCostly` if fewer are left."""
        if steps > self.left:
            self._wanted = self._wanted or self.most - self.left + steps
            self.left = 0
            raise TooCostly(self.message)
        self.left -= steps

    def may_explain(self, steps: int) -> bool:
        """Whether an explanation may take so many steps; half of all steps are reserved for verdicts."""
        return self.left - steps >= self.most // 2

    @property
    def message(self) -> str:
        """The message when the steps are spent."""
        contract = "its contract" if self._name is None else f"the contract {self._name!r}"
        found = f"{self._wanted or 0:,} steps or more"
        return f"judging the answer by {contract} takes {found}, and {self.most:,} are allowed"


_COMPARED = 30  # steps to visit a value here and to compare it with another


def size(value: Any) -> int:
    """The steps to compare a value with a similar one."""
    return sum(
        _COMPARED + (len(part) if isinstance(part, str) else 0) for level in levels(value) for part in level
    )
