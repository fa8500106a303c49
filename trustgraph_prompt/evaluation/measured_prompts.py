"""Keeps the text of each measured prompt beside its answers: a version that was printed leads to its text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from trustgraph_prompt import wire
from trustgraph_prompt.broker import connect
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY

PROMPTS: Final = "persistent://local/eval/prompts"


def keep(state: Path, prompts: Iterable[PromptDefinition], entries: Mapping[str, str]) -> None:
    """Keep the texts of prompts, of which the config entries are given. Raises `BrokerError`."""
    texts = {
        _key(prompt.id, prompt.version): {key: entries[key] for key in (SYSTEM_KEY, PREFIX + prompt.id)}
        for prompt in prompts
    }
    asyncio.run(_kept(state, texts))


def find(state: Path, id: str, version: str) -> dict[str, str] | None:
    """The config entries of a version, which may be abbreviated; None if it was not measured.

    Raises `ConfigError` if several versions begin like this, and `BrokerError`.
    """
    known = asyncio.run(_kept(state)) if state.exists() else {}
    found = [key for key in known if key.startswith(_key(id, version))]
    if len(found) > 1:
        raise ConfigError(
            "several versions begin like this",
            where=str(state),
            found=version,
            expected=f"one of {', '.join(key.rpartition('@')[2] for key in found)}",
        )
    return {**wire.decode(known[found[0]], "prompt")} if found else None


def _key(id: str, version: str) -> str:
    return f"{id}@{version}"


async def _kept(state: Path, new: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> dict[str, bytes]:
    """The texts in a state, by id and version, after adding the new ones that it does not have."""
    async with await connect(f"embedded:{state}") as kept:
        table = await kept.table(PROMPTS)
        await table.close()
        known = {key: message.data for key, message in table.entries.items()}
        producer = await kept.producer(PROMPTS)
        for key in new.keys() - known.keys():
            await producer.send(wire.encode(new[key]), key=key)
        await producer.close()
    return known
