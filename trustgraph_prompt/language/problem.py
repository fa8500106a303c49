"""What is wrong with a text, before it is known in which file it stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from trustgraph_prompt.errors import LanguageError, excerpt, first_of
from trustgraph_prompt.language.nodes import Position

MAX_PROBLEMS = 20
"""How many of them one error tells."""


class Problem(Exception):
    """One thing that is wrong, in words of an author; where `at` is None, it is about the whole."""

    def __init__(
        self, message: str, at: Position | None, found: object = None, expected: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.found = found
        self.expected = expected


class TooLarge(Problem):
    """There is too much of it, so that it is read no further."""


def complain(problems: Iterable[Problem], where: str | None) -> NoReturn:
    """Raise `LanguageError` for the first in the text; the rest are its `others`."""
    ordered = sorted(problems, key=lambda problem: problem.at or Position(0, 0))
    raise first_of([_error(problem, where) for problem in ordered[:MAX_PROBLEMS]]) from None


def _error(problem: Problem, where: str | None) -> LanguageError:
    place = where
    if problem.at is not None:
        line, column = problem.at
        place = f"{where}:{line}:{column}" if where else f"line {line}, column {column}"
    return LanguageError(
        excerpt(problem.message), where=place, found=problem.found, expected=problem.expected
    )
