"""Reads dates as texts write them: with the name of a month, or in numbers in any usual order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple, Self

_NAMES = (
    "january januar jänner janvier enero gennaio janeiro januari janv jan",
    "february februar février fevrier febrero febbraio fevereiro februari feb févr fév",
    "march märz maerz mars marzo março marco maart mar mär",
    "april avril abril aprile apr avr",
    "may mai mayo maggio maio mei",
    "june juni juin junio giugno junho jun",
    "july juli juillet julio luglio julho juil jul",
    "august août aout agosto augustus aug",
    "september septembre septiembre settembre setembro sept sep",
    "october oktober octobre octubre ottobre outubro oct okt",
    "november novembre noviembre novembro nov",
    "december dezember décembre decembre diciembre dicembre dezembro dec dez déc",
)
"""The months in English, German, French, Spanish, Italian, Portuguese and Dutch."""

_MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}

_LONGEST = 40  # characters of a date

_DATE = re.compile(r"\d(?:\D{1,20}\d|\d{3})")  # what each date has, and few other values
_YEAR = re.compile(r"\d\d")
_FIRST = r"(?<![\da-z])(?<!\d[.,/-])"  # else a part of a version or a longer number
_LAST = r"(?!\d|[./-]\d|[a-su-y])"  # T and Z belong to a time
_GAP = r"(?!\n\n)[\s,.-]{0,3}(?:(?:of|de|di|del)\s)?"
_MARK = r"\s?([-\u2010\u2011./])\s?"
_NAME = rf"(?<![^\W\d_])({'|'.join(sorted(_MONTHS, key=len, reverse=True))})(?![^\W\d_])"
_DAY = r"(\d{1,2})(?:st|nd|rd|th|er|º|°|\.)?"
_DAYS = rf"{_DAY}\s?(?:[-\u2010-\u2015]|(?:and|to|und|bis|et|au)\b)\s?{_DAY}"
_FORMS = (
    (["d m y"], rf"{_DAY}{_GAP}{_NAME}{_GAP}(\d{{4}}|\d\d)"),
    (["m d y"], rf"{_NAME}{_GAP}{_DAY}[\s,.-]{{1,3}}(\d{{4}})"),
    (["m y"], rf"(?!(?-i:Mars)){_NAME}{_GAP}(\d{{4}})"),  # Mars 2020 is a rover, mars 2020 is French
    (["y m d"], rf"(\d{{4}})[\s,-]{{1,2}}{_NAME}[\s-]?{_DAY}"),  # no point: it may end a sentence
    (["y - m d"], rf"(\d{{4}}){_MARK}(\d{{1,2}})\s?\2\s?(\d{{1,2}})"),
    (["y m"], r"(\d{4})-(\d\d)"),
    (["y m d"], r"(\d{4})\s?[年년]\s?(\d{1,2})\s?[月월](?:\s?(\d{1,2})\s?[日일])?"),
    (["d - m y", "m - d y"], rf"(\d{{1,2}}){_MARK}(\d{{1,2}})\s?\2\s?(\d{{4}}|\d\d)"),
)
"""Each form, with the order of its parts. 03/05/2021 may be read in two ways."""

_RANGES = (
    (["d - m y", "- d m y"], rf"{_DAYS}{_GAP}{_NAME}{_GAP}(\d{{4}})"),
    (["m d - y", "m - d y"], rf"{_NAME}{_GAP}{_DAYS}[\s,.-]{{1,3}}(\d{{4}})"),
)
"""Forms of two dates, which a text may have: 3-5 May 2021."""


def _compiled(forms: Iterable[tuple[list[str], str]]) -> list[tuple[list[str], re.Pattern[str]]]:
    return [(orders, re.compile(f"{_FIRST}{form}{_LAST}", re.IGNORECASE)) for orders, form in forms]


_OF_VALUES = _compiled(_FORMS)
_OF_TEXTS = [*_OF_VALUES, *_compiled(_RANGES)]


class Date(NamedTuple):
    """A day, or a month without one. A year of two digits may be of any century."""

    year: str
    month: int
    day: int | None

    @classmethod
    def of(cls, year: str, month: str, day: str | None) -> Self | None:
        """The date of these parts; None if the calendar has none."""
        try:
            number, century = _MONTHS.get(month.lower()) or int(month), "" if len(year) == 4 else "20"
            date(int(century + year), number, int(day or 1))
        except ValueError:
            return None
        return cls(f"{int(year):0{len(year)}}", number, int(day) if day else None)

    @property
    def key(self) -> tuple[int, str]:
        """What two dates have in common if they may be the same."""
        return self.month, self.year[-2:]

    def is_in(self, other: Date) -> bool:
        """Whether the other date says at least this; of years of two digits, these are compared."""
        one, two = self.year, other.year
        return (
            self.month == other.month
            and self.day in (None, other.day)
            and (one.endswith(two) or two.endswith(one))
        )


def readings(value: str) -> list[Date]:
    """The dates that a value may stand for; none if it is no date."""
    if not _DATE.search(value) or len(value := value.strip()) > _LONGEST:  # saves time
        return []
    return [read for orders, pattern in _OF_VALUES for read in _read(orders, pattern.fullmatch(value))]


def dates_in(text: str) -> Iterator[tuple[Date, tuple[int, int]]]:
    """The dates of a text in all their readings, each with its start and end."""
    for start, end in _near_numbers(text):
        for orders, pattern in _OF_TEXTS:
            for found in pattern.finditer(text, start, end):
                for read in _read(orders, found):
                    yield read, found.span()


def _near_numbers(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a text that may hold dates: searching all of it would take ten times as long."""
    start = end = 0
    for found in _YEAR.finditer(text):
        if found.start() - _LONGEST > end:
            yield start, end
            start = found.start() - _LONGEST
        end = found.end() + _LONGEST
    yield start, end


def _read(orders: Sequence[str], found: re.Match[str] | None) -> Iterator[Date]:
    if found is None:
        return
    for order in orders:
        parts = dict(zip(order.split(), found.groups(), strict=True))
        if read := Date.of(parts["y"], parts["m"], parts.get("d")):
            yield read
