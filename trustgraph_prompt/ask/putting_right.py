"""What becomes of the refused objects of an answer when they were asked for again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trustgraph_prompt.ask.step import Reply
from trustgraph_prompt.reader import Outcome, Rejected


def still_refused(reply: Reply, is_new: Callable[[Any], bool]) -> list[Rejected]:
    """Those that were asked for and have not been put right, as far as that is known.

    The model is asked to keep the order, so where as many come as were asked for, each takes the place of
    one: a valid one puts it right, a refused one stands for it. So it is where they are as many without the
    objects that were there already. Otherwise nobody knows which were put right, and all remain.
    """
    asked = reply.step.refused
    for came in (_in_order(reply.outcome), _in_order(reply.outcome, is_new)):
        if len(came) == len(asked):
            pairs = zip(asked, came, strict=True)
            return [_instead_of(old, new) for old, new in pairs if new is not None]
    return list(asked)


def _in_order(outcome: Outcome, counts: Callable[[Any], bool] = lambda value: True) -> list[Rejected | None]:
    """The objects of an answer in its order: the refused ones, None for each valid one that `counts`."""
    refused = {rejected.index: rejected for rejected in outcome.rejected}
    valid = iter(outcome.value)
    came: list[Rejected | None] = []
    for index in range(len(outcome.value) + len(refused)):
        if index in refused:
            came.append(refused[index])
        elif counts(next(valid)):
            came.append(None)
    return came


def _instead_of(old: Rejected, new: Rejected) -> Rejected:
    return old if new.raw == old.raw else replace(new, index=old.index)
