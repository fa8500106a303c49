"""How much of an answer is read and validated, and the meter that counts the steps of validating it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trustgraph_prompt.errors import ContractError

MAX_STEPS = 200_000_000
"""Steps for one answer, a second or so: a step is a subschema that looks at a character, some 1 to 5 ns."""

MAX_CALL = 8_000_000
"""Steps within one call of native code, in which no other thread runs."""

VALUE = 8
"""Steps for each value beside its characters."""

DEEPEST = 1_000  # the decoder gives up a little later, the validator crashes at some tens of thousands


@dataclass(frozen=True, slots=True)
class Limits:
    """How many objects of an answer are read, how deep their values may be nested, and in how many steps all
    that it holds is judged: one is a subschema that looks at a character.

    Raises `ContractError` for a number that is none, and for a depth that no decoder reaches.
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
        raise ContractError("not usable as a limit", path=f"/limits/{name}", found=number, expected=expected)


class TooCostly(ValueError):
    """It would take too much to judge a value."""


class StepMeter:
    """Counts the steps that judging one answer takes. Once they are spent, nothing more of it is judged.

    `name` is that of the contract, for the message.
    """

    __slots__ = ("_name", "_wanted", "left", "most")

    def __init__(self, name: str | None = None, most: int = MAX_STEPS) -> None:
        self._name = name
        self._wanted: int | None = None
        self.left = self.most = most

    @property
    def is_spent(self) -> bool:
        """Whether more steps were wanted than there are."""
        return self._wanted is not None

    def spend(self, steps: int) -> None:
        """Count steps that are about to be taken. Raises `TooCostly` where there are not so many left."""
        if steps > self.left:
            self._wanted = self._wanted or self.most - self.left + steps
            self.left = 0
            raise TooCostly(self.message)
        self.left -= steps

    def may_explain(self, steps: int) -> bool:
        """Whether an explanation may take so many: half of all steps are kept for verdicts."""
        return self.left - steps >= self.most // 2

    @property
    def message(self) -> str:
        """What to say of an answer once the steps are spent."""
        contract = "its contract" if self._name is None else f"the contract {self._name!r}"
        found = f"{self._wanted or 0:,} steps or more"
        return f"judging the answer by {contract} takes {found}, and {self.most:,} are allowed"


_COMPARED = 30  # steps of a look at a value here, and of its comparison with another


def size(value: Any) -> int:
    """The steps that it takes to compare a value with another like it."""
    steps, level = 0, [value]
    while level:
        steps += _COMPARED * len(level)
        inner: list[Any] = []
        for one in level:
            if isinstance(one, str):
                steps += len(one)
            elif isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        level = inner
    return steps
