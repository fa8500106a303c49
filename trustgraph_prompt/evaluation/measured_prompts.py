"""Keeps the text of each measured prompt beside its answers: a version that was printed leads to its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trustgraph_prompt import wire
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.extraction.state import read_state, write_state
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.prompts.pool import pools_in
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY

PROMPTS: Final = "persistent://local/eval/prompts"


def keep(state: Path, prompts: Sequence[PromptDefinition], entries: Mapping[str, str]) -> None:
    """Keep the texts of prompts, of which the config entries are given, and their pools by themselves.

    Raises `BrokerError`.
    """
    known = read_state(state, PROMPTS)
    texts: dict[str, tuple[str, ...]]
    texts = {_key(prompt.id, prompt.version): (SYSTEM_KEY, PREFIX + prompt.id) for prompt in prompts}
    texts |= {prompt.pool.key: (prompt.pool.key,) for prompt in prompts if prompt.pool}
    new = {key: {name: entries[name] for name in names} for key, names in texts.items() if key not in known}
    write_state(state, PROMPTS, new)


def find(state: Path, id: str, version: str) -> dict[str, str] | None:
    """The config entries of a version, which may be abbreviated, with all pools; None if it was not measured.

    Raises `ConfigError` if several versions begin like this, and `BrokerError`.
    """
    known = read_state(state, PROMPTS)
    found = [key for key in known if key.startswith(_key(id, version))]
    if len(found) > 1:
        raise ConfigError(
            "several versions begin like this",
            where=str(state),
            found=version,
            expected=f"one of {', '.join(key.rpartition('@')[2] for key in found)}",
        )
    if not found:
        return None
    return {
        name: text
        for key in (*pools_in(known), found[0])
        for name, text in wire.decode(known[key].data, "prompt").items()
    }


def _key(id: str, version: str) -> str:
    return f"{id}@{version}"
