"""What is wrong with a file as a whole: names, bases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trustgraph_prompt.language.nodes import File
from trustgraph_prompt.language.problem import Problem


def check(file: File, types: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """Everything that is wrong in a file."""
    return iter(())
