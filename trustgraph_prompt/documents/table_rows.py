"""Puts merged cells, titles and several header rows of tables into plain rows, for every format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, zip_longest
from typing import Final, NamedTuple

from trustgraph_prompt.documents.writer import MAX_CHARACTERS
from trustgraph_prompt.errors import ConfigError

MAX_COLUMNS: Final = 1_000
"""Of one cell, as in HTML's standard."""

_MAX_HEADERS: Final = 3
_HEAD: Final = 8
"""First rows that are searched for titles."""

_NUMBER: Final = re.compile(r"(?!(?:19|20)\d\d\Z)[-+−]?[\d.,\s]*\d[%\s]?")
"""A number that is no year: no column has such a name."""


class Cell(NamedTuple):
    """A cell as it stands in its row; without a text it is a part of the cell above."""

    text: str | None
    columns: int = 1


class MergedRow(list[str]):
    """The texts of a row; `continued` are the columns whose cell began in the column before."""

    def __init__(self, texts: Iterable[str], continued: set[int]) -> None:
        super().__init__(texts)
        self.continued = continued


def expanded(rows: Iterable[Iterable[Cell]]) -> Iterator[list[str]]:
    """Yield rows in which a merged cell stands in each of its rows and columns.

    A cell that is alone in its row stands there once. A row of nothing but parts of the cells above is blank.
    Raises `ConfigError` if that makes too much text.
    """
    above: list[str] = []
    repeated = 0
    for cells in rows:
        texts: list[str] = []
        continued: set[int] = set()
        has_own = False
        for cell in cells:
            is_part = cell.text is None
            text = "".join(above[len(texts) :][:1]) if cell.text is None else cell.text
            columns = max(1, min(cell.columns, MAX_COLUMNS))
            continued.update(range(len(texts) + 1, len(texts) + columns))
            texts += [text] * columns
            has_own |= not is_part and bool(text.strip())
            repeated += (columns - 1 + is_part) * (len(text) + 1)
        check_repeated(repeated)
        above = texts
        yield merged_row(texts, continued, has_own)


def check_repeated(characters: int) -> None:
    """Raise `ConfigError` if merged cells stand for too many characters in other rows and columns."""
    if characters > MAX_CHARACTERS:
        raise ConfigError(f"its merged cells stand for more than {MAX_CHARACTERS:,} characters; split it")


def merged_row(texts: list[str], continued: set[int], has_own: bool) -> list[str]:
    """Return a row with merged cells, which is blank if all of its text is of the cells above."""
    begun = [text for column, text in enumerate(texts) if column not in continued]
    if has_own and sum(map(bool, begun)) > 1:
        return MergedRow(texts, continued)
    return begun if has_own else []


def headed(rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield rows; the names of a table's further header rows stand in the first one, and these are blank."""
    rest = iter(rows)
    for row in rest:
        if not _is_alone(row):
            headers, below = [row], next(rest, None)
            while below is not None and len(headers) < _MAX_HEADERS and _continues(headers[-1], below):
                headers.append(below)
                below = next(rest, None)
            columns = zip_longest(*headers, fillvalue="")
            yield [" > ".join(filter(None, dict.fromkeys(names))) for names in columns]
            yield from ([] for _ in headers[1:])
            if below is not None:
                yield below
            break
        yield row
    yield from rest


def titled(rows: Iterable[list[str]]) -> tuple[list[str], Iterator[list[str]]]:
    """Return the titles above a table, and its rows that are not blank, the first of which has the names."""
    rest = filter(any, rows)
    head = list(islice(rest, _HEAD))
    titles = list(_titles(head))
    return titles, filter(None, headed(chain(head[len(titles) :], rest)))


def _titles(head: list[list[str]]) -> Iterator[str]:
    """The titles in the first rows: cells that are alone, above names with rows below."""
    count = next((number for number, row in enumerate(head) if not _is_alone(row)), len(head))
    if count < len(head) - 1 and not any(_NUMBER.fullmatch(cell) for cell in head[count]):
        yield from map("".join, head[:count])


def _is_alone(row: list[str]) -> bool:
    return sum(map(bool, row)) < 2


def _continues(header: list[str], below: list[str]) -> bool:
    """Whether a row has the names below the merged cells of a header, and nothing new elsewhere."""
    continued: set[int] = getattr(header, "continued", set())
    merged = continued | {column - 1 for column in continued}
    return bool(merged) and all(
        bool(name) if column in merged else not name or not over or name == over
        for column, (over, name) in enumerate(zip_longest(header, below, fillvalue=""))
    )
