"""Counts the kept answers that no question of a run fits any more, and says why."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trustgraph_prompt.broker import connect
from trustgraph_prompt.extraction.results import Job
from trustgraph_prompt.extraction.run import ANSWERS, entries
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.worker.messages.answer_record import UNSERVED, Answer

Unfit = Counter[tuple[str, str]]
"""How many answers of a prompt and its version no question fits."""

SETTINGS: Final = {
    "model": "the model",
    "terms": "--term",
    "chunk-size": "--chunk-size",
    "overlap": "--overlap",
}
"""What all questions depend on, by its name in the record of a run."""


def unfit_answers(state: Path, jobs: Iterable[Job]) -> tuple[Unfit, bool]:
    """Count the kept answers of the prompts of these jobs that answer none of them.

    Also returns whether a job has no answer. Raises `BrokerError` if the state is unusable.
    """
    ids = {job.id: job.prompt for job in jobs}
    return asyncio.run(_counted(state, ids)) if state.exists() else (Counter(), True)


def why_unfit(
    unfit: Unfit, before: Mapping[str, Any], settings: Mapping[str, Any], prompts: Sequence[PromptDefinition]
) -> tuple[int, list[str]]:
    """How many of the answers fitted in the last run, and what has changed since.

    `before` is what the last run claimed; builds that had no record claimed nothing.
    """
    fresh = unfit - Counter({(prompt, version): count for prompt, version, count in before.get("unfit", ())})
    versions = {prompt.id: prompt.version for prompt in prompts}
    changed = [
        f"{name} was {_shown(before[key])}"
        for key, name in SETTINGS.items()
        if key in before and before[key] != settings[key]
    ]
    if changed:
        return fresh.total(), changed
    others = "" if "model" in before else ", or the model, a --term or the size of chunks"
    reasons = {
        f"the prompt {prompt} has changed"
        if version != versions[prompt]
        else f"the texts of files, or which files are read{others}, have changed"
        for prompt, version in fresh
    }
    return fresh.total(), sorted(reasons)


def as_json(unfit: Unfit) -> list[tuple[str, str, int]]:
    """What the record of a run has of them."""
    return [(*key, count) for key, count in unfit.items()]


async def _counted(state: Path, ids: Mapping[str, str]) -> tuple[Unfit, bool]:
    asked, fitting, unfit = frozenset(ids.values()), set[str](), Unfit()
    async with await connect(f"embedded:{state}") as kept:
        for message in await entries(kept, ANSWERS):
            if message.key is not None and message.key in ids:
                fitting.add(message.key)
                continue
            answer = Answer.decode(message.data)
            if answer.prompt in asked and answer.reason not in UNSERVED:
                unfit[answer.prompt, answer.version] += 1
    return unfit, len(fitting) < len(ids)


def _shown(value: object) -> str:
    text = str(value or "none")
    return f"{text[:20]}…" if len(text) > 20 else text
