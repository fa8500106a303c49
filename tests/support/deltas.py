"""A call to a provider, and what came of it: the deltas, and what they add up to."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, Final

from trustgraph_prompt.llm import Call, Delta, Message, Provider

#: For tests to which it is all the same what is asked.
CALL: Final = Call([Message("system", "Be brief."), Message("user", "Say it.")])


async def heard(provider: Provider, call: Call = CALL) -> list[Delta]:
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


async def text(provider: Provider, call: Call = CALL) -> str:
    """The text that comes."""
    return text_of(await heard(provider, call))
