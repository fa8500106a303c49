"""Raised and lowered text in a line: numbers and signs in Unicode, letters in line, footnotes apart."""

from __future__ import annotations

import re

import pytest

from trustgraph_prompt.documents.raised_text import Run, joined


def line(text: str) -> str:
    """The line of a text in which `^…^` is raised and `~…~` lowered."""
    return joined(
        Run(part.strip("^~"), {"^": 1, "~": -1}.get(part[:1], 0))
        for part in re.split(r"(\^.*?\^|~.*?~)", text)
    )


@pytest.mark.parametrize(
    ("marked", "written"),
    [
        ("10^6^ m^2^", "10⁶ m²"),
        ("10^-6^ and 10^–6^ and 10^−6^", "10⁻⁶ and 10⁻⁶ and 10⁻⁶"),
        ("H~2~O, r~2~", "H₂O, r₂"),
        ("Ca^2+^ SO~4~^2-^ Na^+^", "Ca²⁺ SO₄²⁻ Na⁺"),
        ("25 Meter^2^, 3 feet^3^, sin^2^ x, km^2^", "25 Meter², 3 feet³, sin² x, km²"),
        ("^14^C, (a+b)^2^", "¹⁴C, (a+b)²"),
        ("2^n^ and e^x^", "2ⁿ and eˣ"),
    ],
)
def test_raised_and_lowered_numbers_and_signs_become_unicode(marked: str, written: str) -> None:
    assert line(marked) == written


@pytest.mark.parametrize(
    ("marked", "written"),
    [
        ("1^st^, XIX^e^ siècle, M^me^ Curie", "1st, XIXe siècle, Mme Curie"),
        ("V~max~, x~i~, PM~2.5~, La~0.7~", "Vmax, xi, PM2.5, La0.7"),
        ("^99m^Tc", "99mTc"),
        ("1.5^*^, 2.5^**^, z^*^", "1.5*, 2.5**, z*"),
    ],
)
def test_letters_and_lone_signs_stay_in_line(marked: str, written: str) -> None:
    assert line(marked) == written


@pytest.mark.parametrize(
    ("marked", "written"),
    [("2^n+1^", "2^(n+1)"), ("x~n+1~", "x_(n+1)"), ("10^2.5^", "10^(2.5)"), ("e^-x^", "e^(-x)")],
)
def test_power_without_unicode_characters_is_written_with_a_caret(marked: str, written: str) -> None:
    assert line(marked) == written


@pytest.mark.parametrize(
    ("marked", "written"),
    [
        ("Rhine^3^ flows", "Rhine [3] flows"),
        ("Rhine^[3]^ flows", "Rhine [3] flows"),
        ("It flows.^12^ On", "It flows. [12] On"),
        ("Smith^1,2^, Jones^a,b^", "Smith [1,2], Jones [a,b]"),
        ("l'Arc-en-Ciel^2^", "l'Arc-en-Ciel [2]"),
        ("(Rhine)^3^", "(Rhine)³"),
    ],
)
def test_footnote_mark_is_set_apart_from_the_name(marked: str, written: str) -> None:
    assert line(marked) == written


def test_reference_is_a_footnote_mark_wherever_it_stands() -> None:
    assert joined([Run("Ob"), Run("7", 1, is_reference=True), Run(" of 1998"), Run("8", 1, True)]) == (
        "Ob [7] of 1998 [8]"
    )


@pytest.mark.parametrize(
    ("marked", "written"),
    [
        ("^1^/~20~", "1/20"),
        ("5^1^/~2~ l", "5 1/2 l"),
        ("x^1^/~2~", "x 1/2"),
        ("^1^\N{FRACTION SLASH}~20~", "1/20"),
        ("a^1^/b", "a¹/b"),
    ],
)
def test_raised_and_lowered_numbers_with_a_slash_are_a_fraction(marked: str, written: str) -> None:
    assert line(marked) == written


def test_pieces_of_one_number_are_read_together() -> None:
    assert joined([Run("10"), Run("1", 1), Run("2", 1), Run("x", 0)]) == "10¹²x"
