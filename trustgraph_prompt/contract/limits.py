"""How much of an answer is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from trustgraph_prompt.contract.judging_meter import MAX_STEPS
from trustgraph_prompt.errors import ContractError

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
