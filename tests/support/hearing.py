"""Listening to a provider, for tests."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from trustgraph_prompt.llm import Call, Delta, Provider


async def heard(provider: Provider, call: Call) -> list[Delta]:
    """All that comes."""
    async with aclosing(provider.stream(call)) as deltas:
        return [delta async for delta in deltas]


def last(deltas: list[Delta], name: str) -> Any:
    """What was said last of it, None where nothing was."""
    values = [getattr(delta, name) for delta in deltas]
    return next((value for value in reversed(values) if value is not None), None)


def text_of(deltas: list[Delta]) -> str:
    """The text of the answer."""
    return "".join(delta.text for delta in deltas)
