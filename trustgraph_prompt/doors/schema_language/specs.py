"""What a workflow knows of a prompt, and what of an answer it escalates (seed 5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.language.names import suggestion
from trustgraph_prompt.prompts import Escalation
from trustgraph_prompt.reader import Outcome

EscalationSpec = Escalation
"""A condition on the text of an answer: `op` and `value`."""


@dataclass
class PromptSpec:
    """A prompt: `body` makes its text of the terms, `schema` is the name of what it expects, `X` or `X[]`."""

    body: Callable[[Any], str]
    model: str | None = None
    schema: str | None = None
    escalation: EscalationSpec | None = None


@dataclass(frozen=True)
class EscalationEvent:
    """What is escalated, and why: a condition of the prompt, or attempts that brought nothing to use.

    `result` is the value, or what the model said where there is none; then `error` is what would be raised.
    """

    prompt_name: str
    why: Literal["condition", "attempts"]
    result: Any
    outcome: Outcome
    condition: EscalationSpec | None = None
    error: Exception | None = None


OnEscalation = Callable[[EscalationEvent], Awaitable[Any] | Any]
"""Who decides about what is escalated: what it returns, or its coroutine, is the result."""


def unknown(what: str, name: str, known: Iterable[str], *, where: str | None = None) -> PromptError:
    """The error for a name that nothing has."""
    names = sorted(known)
    return PromptError(
        f"there is no {what} of this name{suggestion(name, names)}",
        where=where,
        found=name,
        expected=", ".join(names) or "none",
    )
