"""A model that answers the same question differently every time, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from tests.support.model_server import DONE, Reply, Then, said, used
from tests.support.workers import DEFINITION, entry

PROMPT = "define"
TEMPLATES = {
    "system": json.dumps("Be careful."),
    f"template.{PROMPT}": entry(
        "Define {{ text }}", **{"response-type": "jsonl", "object-schema": DEFINITION}
    ),
}
OBJECTS_EACH = 3


class RestlessModel:
    """Answers for a `ModelServer`, to requests for `PROMPT` whose text is their id.

    Each answer is a few objects, with `pause` seconds before each. The first object of all answers to one
    question is the same, the others never are. After `stalls_after` objects nothing more comes. Whoever asks
    while it does not `speak` waits until it does.
    """

    def __init__(self, pause: float, stalls_after: int | None = None) -> None:
        self.pause = pause
        self.stalls_after = stalls_after
        self.speak = asyncio.Event()
        self.speak.set()
        self.runs: list[tuple[str, list[dict[str, str]]]] = []  # the id and the objects of each call

    def reply(self, body: dict[str, Any]) -> Reply:
        id = body["messages"][-1]["content"].removeprefix("Define ").split("\n")[0]
        number = len(self.runs)
        objects = [{"entity": id, "definition": "the same"}]
        objects += [{"entity": id, "definition": f"{n} in call {number}"} for n in range(1, OBJECTS_EACH)]
        given = objects[: self.stalls_after]
        self.runs.append((id, given))
        parts: list[bytes | float | Then | asyncio.Event] = [self.speak]
        for value in given:
            parts += [self.pause, said(json.dumps(value) + "\n")]
        end = [said(finish_reason="stop"), used(11, 22), DONE] if self.stalls_after is None else [Then.HANG]
        return Reply([*parts, *end])

    @property
    def paid_twice(self) -> int:
        """Calls beyond the first of each request."""
        return len(self.runs) - len(self.times)

    @property
    def times(self) -> Counter[str]:
        """How often each request was put."""
        return Counter(id for id, _ in self.runs)
