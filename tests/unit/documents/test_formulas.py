"""Formulas of Word and of web pages in one line, with brackets only where they are needed."""

from __future__ import annotations

from typing import Any

import pytest
from lxml import etree, html  # type: ignore[import-untyped]

from trustgraph_prompt.documents.formulas import MAX_DEPTH, linear

MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


def run(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def form(name: str, **parts: str) -> str:
    """A form of Word; a part without tags is text."""
    inside = "".join(f"<m:{part}>{as_run(text)}</m:{part}>" for part, text in parts.items())
    return f"<m:{name}>{inside}</m:{name}>"


def as_run(text: str) -> str:
    return text if "<" in text else run(text)


def with_properties(made: str, **values: str) -> str:
    start, end = made.split(">", 1)
    name = start.removeprefix("<m:")
    inside = "".join(f'<m:{key} m:val="{value}"/>' for key, value in values.items())
    return f"<m:{name}><m:{name}Pr>{inside}</m:{name}Pr>{end}"


def word(made: str) -> str:
    return linear(etree.fromstring(f"<m:oMath {MATH}>{made}</m:oMath>"))


def page(made: str) -> str:
    return linear(html.fromstring(f"<math>{made}</math>"))


def fraction(above: str, below: str) -> str:
    return form("f", num=above, den=below)


def power(base: str, above: str) -> str:
    return form("sSup", e=base, sup=above)


def matrix(*rows: str) -> str:
    made = "".join(f"<m:mr>{''.join(f'<m:e>{run(cell)}</m:e>' for cell in row)}</m:mr>" for row in rows)
    return f"<m:m>{made}</m:m>"


@pytest.mark.parametrize(
    ("made", "written"),
    [
        (fraction("1", "20"), "1/20"),
        (run("x=") + fraction("a+b", "2c"), "x=(a+b)/(2c)"),
        (run("5") + fraction("1", "2"), "5 1/2"),
        (fraction("1", "2") + run("mv"), "(1/2)mv"),
        (run("x") + fraction("a", "b"), "x(a/b)"),
        (fraction(fraction("1", "2"), "3"), "(1/2)/3"),
        (fraction("1", "2") + fraction("a", "b"), "(1/2)a/b"),
        (fraction("distance", "time"), "distance/time"),
        (run("E=m") + power("c", "2"), "E=mc²"),
        (power(form("d", e="a+b"), "n+1"), "(a+b)ⁿ⁺¹"),
        (power("2x", "2"), "(2x)²"),
        (power(power("x", "2"), "3"), "(x²)³"),
        (power("e", run("-") + power("x", "2")), "e^(-x²)"),
        (power("x", fraction("1", "2")), "x^(1/2)"),
        (power("x", "a"), "x^a"),
        (form("sSub", e="r", sub="ij"), "rᵢⱼ"),
        (form("sSub", e="r", sub="bc"), "r_(bc)"),
        (form("sSubSup", e="x", sub="i", sup="2"), "xᵢ²"),
        (form("rad", deg="", e="x+1"), "√(x+1)"),
        (form("rad", deg="3", e="x"), "∛x"),
        (form("func", fName="sin", e="x"), "sin x"),
        (form("func", fName=form("limLow", e="lim", lim="x→0"), e=fraction("1", "x")), "lim_(x→0) 1/x"),
        (
            with_properties(form("nary", sub="i=1", sup="n", e=form("sSub", e="x", sub="i")), chr="∑"),
            "∑ᵢ₌₁ⁿ xᵢ",
        ),
        (with_properties(form("nary", sub="k=0", sup="∞", e="k"), chr="∑"), "∑ₖ₌₀^∞ k"),
        (form("nary", sub="0", sup="1", e=run("f(x)dx")), "∫₀¹ f(x)dx"),
        (matrix("ab", "cd"), "[a, b; c, d]"),
        (form("d", e=matrix("ab", "cd")), "(a, b; c, d)"),
        (with_properties(form("d", e="x"), begChr="|", endChr="|"), "|x|"),
        (with_properties(form("d", e=form("eqArr", e="x, x>0")), begChr="{", endChr=""), "{x, x>0"),
        (with_properties(form("acc", e="x"), chr="\u0302"), "x\u0302"),
        (form("d", e=with_properties(fraction("5", "2"), type="noBar")), "(5; 2)"),
    ],
)
def test_formula_of_word_becomes_one_line(made: str, written: str) -> None:
    assert word(made) == written


@pytest.mark.parametrize(
    ("made", "written"),
    [
        ("<mfrac><mn>1</mn><mn>20</mn></mfrac>", "1/20"),
        ("<mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup>", "E=mc²"),
        ("<mi>sin</mi><mo>&#x2061;</mo><mi>x</mi>", "sin x"),
        ("<mi>sin</mi><mo>(</mo><mi>x</mi><mo>)</mo>", "sin(x)"),
        ("<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><mi>x</mi>", "∑ᵢⁿ x"),
        ("<msqrt><mi>x</mi><mo>+</mo><mn>1</mn></msqrt>", "√(x+1)"),
        ("<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr></mtable>", "[1, 2]"),
        ("<semantics><mi>x</mi><annotation>x_tex</annotation></semantics>", "x"),
        ("<mmultiscripts><mi>C</mi><mprescripts/><none/><mn>14</mn></mmultiscripts>", "¹⁴C"),
        (
            "<mmultiscripts><mi>C</mi><mn>2</mn><none/><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>",
            "₆¹⁴C₂",
        ),
        ("<mn>2</mn><mo>&#x2062;</mo><mfrac><mn>1</mn><mn>3</mn></mfrac>", "2(1/3)"),
        ("<mn>2</mn><mo>&#x2062;</mo><mn>3</mn><mo>&#x2062;</mo><mi>x</mi>", "2·3x"),
        ("<mn>3</mn><mo>/</mo><mfrac><mn>1</mn><mn>2</mn></mfrac>", "3/(1/2)"),
        ("<mo>(</mo><mfrac linethickness='0'><mn>5</mn><mn>2</mn></mfrac><mo>)</mo>", "(5; 2)"),
        ("<msup><mi>f</mi><mo>′</mo></msup><msup><mn>20</mn><mo>∘</mo></msup>", "f′20°"),
        ("<mo>lim</mo><mi>x</mi>", "lim x"),
        ("<mstyle><mfrac><mi>a</mi><mi>b</mi></mfrac></mstyle><mi>x</mi>", "(a/b)x"),
    ],
)
def test_formula_of_a_web_page_becomes_one_line(made: str, written: str) -> None:
    assert page(made) == written


def test_formula_nested_too_deep_is_its_text() -> None:
    element: Any = etree.Element("mi")
    element.text = "x"
    for _ in range(20 * MAX_DEPTH):
        outer = etree.Element("mrow")
        outer.append(element)
        element = outer
    assert linear(element) == "x"
