"""Metrics by flow and by prompt: found fast, and forgotten with what they are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable
from typing import TypeVar

from prometheus_client.metrics import MetricWrapperBase

M = TypeVar("M", bound=MetricWrapperBase)

SECONDS_TO_REMEMBER = 3600.0
"""For so long what was counted of a prompt that is gone stays: whoever reads it comes by within minutes."""


class ByFlow(dict[tuple[str, ...], M]):
    """A metric by its labels, of which the first is a flow; found sooner than by its own `labels`."""

    def __init__(self, metric: M) -> None:
        super().__init__()
        self._metric = metric

    def __missing__(self, labels: tuple[str, ...]) -> M:
        self[labels] = child = self._metric.labels(*labels)
        return child

    def forget(self, flow: str) -> None:
        """There is no such flow any more."""
        self._remove([labels for labels in self if labels[0] == flow])

    def _remove(self, gone: Iterable[tuple[str, ...]]) -> None:
        for labels in gone:
            del self[labels]
            self._metric.remove(*labels)


class ByPrompt(ByFlow[M]):
    """A metric whose second label is a prompt."""

    def forget_prompts(self, prompts: Container[str]) -> None:
        """There are no such prompts any more."""
        self._remove([labels for labels in self if labels[1] in prompts])


class GonePrompts:
    """Which prompts no workspace has any more, and since when."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._served: dict[str, frozenset[str]] = {}
        self._workspaces: Counter[str] = Counter()
        self._gone: dict[str, float] = {}

    def serves(self, workspace: str, prompts: frozenset[str]) -> None:
        """A workspace has these prompts now."""
        before = self._served.pop(workspace, frozenset())
        if prompts:
            self._served[workspace] = prompts
        for prompt in prompts - before:
            self._workspaces[prompt] += 1
            self._gone.pop(prompt, None)
        for prompt in before - prompts:
            self._workspaces[prompt] -= 1
            if not self._workspaces[prompt]:
                del self._workspaces[prompt]
                self._gone[prompt] = self._clock()

    def take_due(self) -> frozenset[str]:
        """Those that are to be forgotten now; each is told once."""
        now = self._clock()
        due = frozenset(prompt for prompt, since in self._gone.items() if now - since >= SECONDS_TO_REMEMBER)
        for prompt in due:
            del self._gone[prompt]
        return due
