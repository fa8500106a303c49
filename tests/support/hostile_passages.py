"""Texts, and values to look for in them, that are meant to take long: each for a size."""

from __future__ import annotations

import random
from collections.abc import Callable


def _alike(count: int) -> str:
    letters = random.Random(1)
    return " ".join("abcdefgh" + "".join(letters.choices("abcd", k=8)) + "z" for _ in range(count))


HOSTILE: dict[str, Callable[[int], tuple[str, str]]] = {
    "one letter": lambda size: ("a" * size, "a" * (size // 2)),
    "one letter, folded": lambda size: ("a" * size, "A" * (size // 2)),
    "words of one letter": lambda size: ("b " * size, "b " * (size // 2) + "c"),
    "words of one letter, folded": lambda size: ("b " * size, "B " * (size // 2)),
    "words that are alike": lambda size: (_alike(size), _alike(70).upper()),
    "the same words far apart": lambda size: (("alpha " * 50 + "beta ") * (size // 50), "beta gamma alpha"),
    "groups of a number": lambda size: ("1" + ",111" * size + "1", "12,345"),
    "short groups of a number": lambda size: ("1" + ",11" * size + "1", "12,345"),
    "dots in a number": lambda size: ("1." * size, "12,345"),
    "hyphens": lambda size: ("a-" * size, "A-b"),
    "hyphens at line ends": lambda size: ("a-\n" * size, "A-b"),
    "blanks behind a hyphen": lambda size: ("a-" + " " * size, "A-b"),
    "marks": lambda size: ("a" + "\u0301" * size, "á b"),
    "marks without a letter": lambda size: ("\u0301" * size, "\u0301"),
    "marks in a script without spaces": lambda size: ("ท่" * size, "ท่" * 29 + "น"),
    "joiners": lambda size: ("a" + "\u200d" * size, "a"),
    "signs": lambda size: ("-" * size + "1 -", "-1"),
    "signed numbers": lambda size: (" minus 1.500 -2" * size, "1.5"),
    "exponents": lambda size: (" 1e99" * size, "1000"),
    "separators": lambda size: (",.'" * size, "1,2"),
    "words with one beginning": lambda size: ("w na " + _alike(size // 8), "Abcdefgha " * 29),
    "initials": lambda size: ("A " * size, "AAAAAAAB"),
    "no spaces": lambda size: ("京都" * size, "京都" * 29 + "東"),
    "dates": lambda size: ("3 May 2021 " * size, "2021-05-03"),
    "dates in part": lambda size: ("12 1st of May " * size, "2021-05-03"),
    "a long value": lambda size: ("京都 and so on", "東京 x1 " * size),
}
