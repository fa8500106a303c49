"""The problems found in a text, and the `LanguageError` that reports them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from trustgraph_prompt.errors import LanguageError, excerpt, first_of
from trustgraph_prompt.language.nodes import Position

MAX_PROBLEMS = 20
"""How many problems one error reports."""


class Problem(Exception):
    """One problem, described for an author; `at` is None where it concerns the whole text."""

    def __init__(
        self, message: str, at: Position | None, found: object = None, expected: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.found = found
        self.expected = expected


class TooLarge(Problem):
    """The text is too large to be read any further."""


def complain(problems: Iterable[Problem], where: str | None) -> NoReturn:
    """Raise `LanguageError` for the first problem in the text; the rest are its `others`."""
    errors = []
    for problem in sorted(problems, key=lambda problem: problem.at or Position(0, 0))[:MAX_PROBLEMS]:
        place = where
        if problem.at is not None:
            line, column = problem.at
            place = f"{where}:{line}:{column}" if where else f"line {line}, column {column}"
        message = excerpt(problem.message)
        errors.append(LanguageError(message, where=place, found=problem.found, expected=problem.expected))
    raise first_of(errors) from None
