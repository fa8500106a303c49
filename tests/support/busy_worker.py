"""What a worker is asked whose status page is looked at, and what its model says."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.support.workers import DEFINITION, entry

GOOD: Final = '{"entity": "chalk", "definition": "a soft rock"}'
LONG: Final = f"{GOOD}\n{GOOD.replace('chalk', 'lime')}\n{GOOD.replace('chalk', 'marl')}"

RECORDING: Final[list[dict[str, Any]]] = [
    {"contains": "plain", "answer": f"{GOOD}\n{GOOD.replace('chalk', 'lime')}"},
    {"contains": "refused", "answer": f'{GOOD}\n{{"entity": "SECRET-ANSWER"}}'},
    {"contains": "broken", "answer": GOOD.replace('"entity"', "'entity'")},
    {"contains": "continued", "answer": LONG, "cut_after": len(GOOD) + 9},
    {"contains": "continued", "answer": LONG.partition("\n")[2]},
    {"contains": "useless", "answer": "I cannot help with that."},
]
"""The answers of the model about texts with these words; a second one for the same word is for the rest."""

KINDS: Final = ("plain", "plain", "plain", "plain", "refused", "broken", "continued", "useless")

TEMPLATES: Final = {
    f"template.{id}": entry(
        f"{verb} what is in: {{{{ text }}}}",
        **{"response-type": "jsonl", "object-schema": DEFINITION, "repair": True},
    )
    for id, verb in (("define", "Define"), ("explain", "Explain"))
}


def text_of(number: int) -> str:
    """The text of a request: one that the model answers in one of the `KINDS`."""
    return f"A text that is {KINDS[number % len(KINDS)]}. SECRET-TEXT number {number}."


def flow_file(name: str, space: str = "tg/flow") -> str:
    """A flow of prompt requests with a price."""
    topic = f"persistent://{space}/{name}"
    return json.dumps(
        {
            "name": name,
            "input": {"topic": topic},
            "outputs": {
                "response": f"{topic}-responses",
                "answers": f"{topic}-answers",
                "objects": f"{topic}-objects",
            },
            "concurrency": 16,
            "budget": {"attempts": 1},
            "price": {"prompt": 0.2, "completion": 0.6},
        }
    )
