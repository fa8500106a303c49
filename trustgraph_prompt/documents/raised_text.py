"""Writes raised and lowered text in one line: 10⁶, H₂O, 1st, Rhine [3]."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple

LEVELS: Final = {"superscript": 1, "subscript": -1}
"""By the names that Word and Excel give to raised and lowered text."""

_PLAIN: Final = "0123456789+-−–=()"
_RAISED: Final = dict(zip(_PLAIN, "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁼⁽⁾", strict=True))
_LOWERED: Final = dict(zip(_PLAIN, "₀₁₂₃₄₅₆₇₈₉₊₋₋₋₌₍₎", strict=True))
_RAISED_LETTERS: Final = {"n": "ⁿ", "i": "ⁱ", "∘": "°"} | {sign: sign for sign in "°′″‴"}
_LOWERED_LETTERS: Final = dict(zip("aehijklmnoprstuvx", "ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
SIGNS: Final = "".join({*_RAISED.values(), *_LOWERED.values(), *"ⁿⁱˣ", *_LOWERED_LETTERS.values()})
"""All raised and lowered characters that are written here."""

_POWERS: Final = {"n": "ⁿ", "x": "ˣ"}
"""Letters that no abbreviation or ordinal number ends with."""

CONTEXT: Final = 60
"""Characters before a raised text that tell what it is."""

_LONGEST: Final = 20
_ITEM: Final = r"(?:\d{1,3}|[a-z*†‡§¶])"
_MARKS = re.compile(rf"\[.*\]|\(?{_ITEM}(?:\s?[,;–-]\s?{_ITEM})*\)?", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*\Z")
_UNIT = re.compile(  # and functions and variables, whose raised number is a power
    r"(?:kilo|centi|milli|mikro|micro|deci|dezi|deca|hecto|hekto)?m[eè]t(?:er|re)[sn]?|metros?|metri|feet|foot"
    r"|inch(?:es)?|yards?|miles?|acres?|a?(?:sin|cos|tan|cot)h?|sec|csc|log|exp|mol|rad|min|ppm|lbf|kgf|kwh"
    r"|alpha|beta|gamma|delta|chi|eta|rho|phi|psi|sigma|lambda|omega",
    re.IGNORECASE,
)
_OPERATORS = {  # with what they are applied to: a lone * tells of significance
    1: re.compile(r"(?=.*\w)(?:[\d+=−×·/*,]|\A[-–])"),
    -1: re.compile(r"(?=.*\w)(?:[+=−×/*,]|\A[-–])"),
}
_NUMBER = re.compile(r"\s*[0-9]{1,9}\s*")


class Run(NamedTuple):
    """A piece of a line: raised (1), lowered (-1) or neither; a reference leads to a note."""

    text: str
    level: int = 0
    is_reference: bool = False


def joined(runs: Iterable[Run]) -> str:
    """Return the line of these runs."""
    parts = [
        Run("".join(run.text for run in same), *kind) for kind, same in groupby(runs, lambda run: run[1:])
    ]
    pieces, before = [], ""
    for index, part in enumerate(parts):
        if is_fraction(parts[index : index + 3]):
            parts[index + 1 : index + 3] = Run("/"), Run(parts[index + 2].text.strip())
            part = Run(numerator(part.text, before))
        pieces.append(scripted(part, before))
        before = (before + pieces[-1])[-CONTEXT:]
    return "".join(pieces)


def is_fraction(parts: list[Run]) -> bool:
    """Whether parts are a fraction such as ¹/₂₀: a raised number, a slash and a lowered number."""
    return (
        [part.level for part in parts] == [1, 0, -1]
        and parts[1].text.strip() in ("/", "\N{FRACTION SLASH}")
        and all(_NUMBER.fullmatch(part.text) for part in (parts[0], parts[2]))
    )


def numerator(text: str, before: str) -> str:
    """The numerator of a fraction in line, apart from a number or a word before it."""
    return " " * before[-1:].isalnum() + text.strip()


def scripted(part: Run, before: str) -> str:
    """Return a part of a line as it follows the text before it."""
    text = part.text.strip()
    if not part.level or not text:
        return part.text
    glued, has_blank = bool(re.search(r"[\w)\]]\Z", before)), part.text[0].isspace()
    if part.level > 0 and (part.is_reference or _is_mark(text, before)):
        space = " " if before and not before[-1].isspace() else ""
        written = f"{space}[{text.strip('[]()')}]"
    elif translated := _translated(text, part.level):
        written = translated
    elif part.level > 0 and text in _POWERS and re.search(r"(?:\d|\b[^\W\d_])\Z", before):
        written = _POWERS[text]
    elif glued and len(text) <= _LONGEST and " " not in text and _OPERATORS[part.level].search(text):
        written = f"{'^' if part.level > 0 else '_'}({text})"
    else:
        return part.text
    return " " * has_blank + written + " " * part.text[-1].isspace()


def formula_script(text: str, level: int) -> str | None:
    """An exponent or an index of a formula in raised or lowered characters; None where Unicode has none."""
    return _translated(text, level, _RAISED_LETTERS if level > 0 else _LOWERED_LETTERS)


def _translated(text: str, level: int, letters: dict[str, str] | None = None) -> str | None:
    table = (_RAISED if level > 0 else _LOWERED) | (letters or {})
    return "".join(table[sign] for sign in text) if table.keys() >= set(text) else None


def _is_mark(text: str, before: str) -> bool:
    """Whether a raised text marks a footnote: it follows a sentence, or a word that is no unit."""
    if text.isalpha() or not _MARKS.fullmatch(text):
        return False
    if text.startswith("[") or before[-1:] in tuple('.,;:!?”»…"'):
        return True
    if "," in text and not before[-1:].isdigit():
        return True
    word = _WORD.search(before[-CONTEXT:])
    return word is not None and len(word[0]) > 2 and not _UNIT.fullmatch(word[0])
