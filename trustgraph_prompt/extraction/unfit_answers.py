"""Counts the kept answers that no question of a run fits any more, and says what has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from trustgraph_prompt.extraction.questions import Job
from trustgraph_prompt.extraction.state import ANSWERS, read_state
from trustgraph_prompt.worker.messages.answer_record import UNSERVED, Answer

SETTINGS: Final = {
    "model": "the model",
    "terms": "--term",
    "ontology": "--ontology",
    "chunk-size": "--chunk-size",
    "overlap": "--overlap",
}
"""What all questions depend on, as the record of a run has it, and for people."""

Unfit = Counter[str]
"""How many answers no question fits, by prompt and version, with a space between them."""


def unfit_answers(state: Path, jobs: Iterable[Job]) -> tuple[Unfit, bool]:
    """Count the kept answers to the prompts of these jobs that answer none of them.

    Also returns whether a job has no answer. Raises `BrokerError` if the state is unusable.
    """
    prompts = {job.id: job.prompt for job in jobs}
    asked, kept = frozenset(prompts.values()), read_state(state, ANSWERS)
    answers = (Answer.decode(message.data) for id, message in kept.items() if id not in prompts)
    unfit = Unfit(
        f"{each.prompt} {each.version}"
        for each in answers
        if each.prompt in asked and each.reason not in UNSERVED
    )
    return unfit, not prompts.keys() <= kept.keys()


def why_unfit(fresh: Unfit, before: Mapping[str, Any], now: Mapping[str, Any], versions: set[str]) -> str:
    """What has changed since the last run, so that these answers do not fit any more.

    `before` and `now` are the records of both runs, the first empty for a build without a record. `versions`
    are those of the prompts.
    """
    changed = [key for key in SETTINGS if key in before and before[key] != now.get(key)]
    if changed:
        return "; ".join(f"{SETTINGS[key]} was {before[key] or 'none'!s:.30}" for key in changed)
    others = "" if before else ", or the model, a --term or the size of chunks"
    texts = f"the texts of files, or which files are read{others}, have changed"
    keys = (key.rpartition(" ") for key in fresh)
    return "; ".join(
        sorted({texts if key[-1] in versions else f"the prompt {key[0]} has changed" for key in keys})
    )
