"""Writes formulas of Word (OMML) and web pages (MathML) in one line: (a+b)²/2, √(x+1), ∑ᵢ₌₁ⁿ xᵢ."""

from __future__ import annotations

import re
from typing import Any, Final
from unicodedata import decomposition

from trustgraph_prompt.documents.elements import local_name
from trustgraph_prompt.documents.raised_text import SIGNS, formula_script

MATH: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath"
"""The tag of a formula of Word and PowerPoint."""

MAX_DEPTH: Final = 100
"""Levels of a formula; of what is nested more deeply, only the text is taken."""

_LEAVES: Final = ("t", "mi", "mn", "mo", "mtext", "ms")
_LEFT_OUT: Final = ("annotation", "annotation-xml", "mphantom", "phant", "del")
_APPLY: Final = "\N{FUNCTION APPLICATION}"
_TIMES: Final = "\N{INVISIBLE TIMES}"
_OPEN, _CLOSE = "\x0e", "\x0f"
"""Around a fraction until its neighbours are known; no text has them."""

_ROOTS: Final = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_LARGE: Final = re.compile(r"[∏∐∑∫-∳⋀-⋃⨀-⨆]\Z")
_ATOM: Final = re.compile(
    rf"[^\W\d_{SIGNS}][\u0300-\u036f\u20d7]*[{SIGNS}]* | \d+(?:[.,]\d+)*[{SIGNS}]*"
    rf" | [^\W\d_{SIGNS}]{{3,}} | ∞"
    r" | [(\[{|⌊⌈⟨] [^()\[\]{}|⌊⌋⌈⌉⟨⟩]* [)\]}|⌋⌉⟩]",
    re.VERBOSE,
)
_PRODUCT: Final = re.compile(r"[\w.,·⋅*\u0300-\u036f]+")
_FRACTION: Final = re.compile(
    rf"(?P<left>[\w)\]/{_TIMES}]?){_OPEN}(?P<inside>[^{_OPEN}{_CLOSE}]*){_CLOSE}"
    rf"(?P<right>(?=[\w(√∑∫{_OPEN}{_TIMES}]))?"
)
_MATRIX: Final = re.compile(r"([(\[{|])\[([^\[\]]*)\](?=[)\]}|])")


def linear(formula: Any) -> str:
    """Return a formula as one line of text."""
    text, found = _read(formula, 0), 1
    while found:  # a fraction within others is placed first
        text, found = _FRACTION.subn(_placed, text)
    text = re.sub(rf"(?<!{_APPLY}){_APPLY}++(?=[\w√∑∫])", " ", text).replace(_APPLY, "")
    text = re.sub(rf"(?<=\d){_TIMES}(?=\d)", "·", text).replace(_TIMES, "")
    text = text.replace("\N{INVISIBLE SEPARATOR}", ",")
    return " ".join(_MATRIX.sub(r"\1\2", text).split())


def _read(element: Any, depth: int) -> str:
    name = local_name(element)
    if name in _LEAVES or depth > MAX_DEPTH:
        text = _without_marks("".join(element.itertext()))
        is_word = name in ("mi", "mo") and len(text.strip()) > 1 and text.strip()[0].isalpha()
        return f"{text.strip()}{_APPLY}" if is_word else text
    if name in _LEFT_OUT or name.endswith("Pr"):
        return ""
    children = [(local_name(child), _read(child, depth + 1)) for child in element.iterchildren("*")]
    texts = [text for child, text in children if not child.endswith("Pr")]
    if name in _FORMS and not _has_no_bar(element):
        make, *keys = _FORMS[name]
        parts: dict[Any, str] = {**dict(children), **dict(enumerate(texts)), None: "".join(texts)}
        return str(make(*(parts.get(key, "") for key in keys)))
    if name in _SEPARATORS:
        return _SEPARATORS[name].join(texts)
    if name == "mmultiscripts":
        return _with_scripts_around(children)
    return _with_own_sign(element, name, dict(children), texts)


def _with_own_sign(element: Any, name: str, parts: dict[str, str], texts: list[str]) -> str:
    """The forms that have a character of their own."""
    if name in ("f", "mfrac"):
        return "; ".join(texts)
    if name == "nary":
        sign = _property(element, "chr", "∫")
        return _with_scripts(sign, parts.get("sub", ""), parts.get("sup", "")) + parts.get("e", "")
    if name in ("acc", "bar"):
        mark = _property(element, "chr", "\u0302" if name == "acc" else "\u0304")
        return parts.get("e", "") + mark
    if name == "d":
        inside = _property(element, "sepChr", "|").join(texts)
        return _property(element, "begChr", "(") + inside + _property(element, "endChr", ")")
    if name == "mfenced":
        start, end = (
            _without_marks(element.get(name, usual)) for name, usual in (("open", "("), ("close", ")"))
        )
        return f"{start}{', '.join(texts)}{end}"
    return f"[{'; '.join(texts)}]" if name in ("m", "mtable") else "".join(texts)


def _fraction(above: str, below: str) -> str:
    above, below = above.strip(), below.strip()
    left = above if _PRODUCT.fullmatch(above) else _grouped(above)
    return f"{_OPEN}{left}/{_grouped(below)}{_CLOSE}"


def _placed(fraction: re.Match[str]) -> str:
    """A fraction between its neighbours: a number before it makes a mixed number, others need brackets."""
    left, inside = fraction["left"], fraction["inside"]
    if left.isdecimal() and fraction["right"] is None and re.fullmatch(r"\d+/\d+", inside):
        return f"{left} {inside}"
    return f"{left}({inside})" if left or fraction["right"] is not None else inside


def _with_scripts(base: str, below: str, above: str) -> str:
    function = _APPLY * base.endswith(_APPLY)
    base = base.strip().rstrip(_APPLY)
    space = " " * bool(_LARGE.search(base))
    if not space:
        base = (
            f"({base})" if above and decomposition(base[-1:] or " ").startswith("<super>") else _grouped(base)
        )
    return f"{base}{_script(below, -1)}{_script(above, 1)}{space}{function}"


def _with_scripts_around(children: list[tuple[str, str]]) -> str:
    """A base with lower and upper scripts in turn: those after it and, behind a mark, those before it."""
    names, (base, *scripts) = [name for name, _ in children], [text for _, text in children] or [""]
    mark = names.index("mprescripts") - 1 if "mprescripts" in names else len(scripts)
    after, before = (
        "".join(_script(text, (-1, 1)[place % 2]) for place, text in enumerate(some))
        for some in (scripts[:mark], scripts[mark + 1 :])
    )
    return f"{before}{base}{after}"


def _script(text: str, level: int) -> str:
    text = text.strip().rstrip(_APPLY)
    if (written := formula_script(text, level)) is not None:
        return written
    return ("^" if level > 0 else "_") + (text if len(text) == 1 else _grouped(text, is_script=True))


def _root(inside: str, degree: str) -> str:
    degree = degree.strip()
    sign = _ROOTS.get(degree) or f" {_script(degree, 1).removeprefix('^')}√"
    return sign + _grouped(inside)


def _grouped(text: str, is_script: bool = False) -> str:
    """A text in brackets, if it is more than one number, letter, word or bracket."""
    text = text.strip().rstrip(_APPLY)
    if text.startswith(_OPEN) and text.find(_CLOSE) == len(text) - 1:
        return f"({text[1:-1]})"
    is_atom = not text or (_ATOM.fullmatch(text) and not (is_script and text[-1] in SIGNS))
    return text if is_atom else f"({text})"


def _has_no_bar(element: Any) -> bool:
    """Whether it is a binomial coefficient, which both formats write as a fraction without a bar."""
    thickness = element.get("linethickness", "").rstrip("%ptxem")
    return thickness == "0" or _property(element, "type", "") == "noBar"


def _without_marks(text: str) -> str:
    return text.replace(_OPEN, "").replace(_CLOSE, "")


def _property(element: Any, name: str, default: str) -> str:
    """A property of a formula of Word, which may be empty."""
    for each in element.iterchildren("*"):
        if local_name(each).endswith("Pr"):
            for found in each.iterchildren("*"):
                if local_name(found) == name:
                    return next(iter(found.values()), "")
    return default


_FORMS: Final[dict[str, tuple[Any, ...]]] = {
    "f": (_fraction, "num", "den"),
    "mfrac": (_fraction, 0, 1),
    "sSup": (_with_scripts, "e", "", "sup"),
    "msup": (_with_scripts, 0, "", 1),
    "limUpp": (_with_scripts, "e", "", "lim"),
    "mover": (_with_scripts, 0, "", 1),
    "sSub": (_with_scripts, "e", "sub", ""),
    "msub": (_with_scripts, 0, 1, ""),
    "limLow": (_with_scripts, "e", "lim", ""),
    "munder": (_with_scripts, 0, 1, ""),
    "sSubSup": (_with_scripts, "e", "sub", "sup"),
    "msubsup": (_with_scripts, 0, 1, 2),
    "munderover": (_with_scripts, 0, 1, 2),
    "sPre": (lambda below, above, base: _script(below, -1) + _script(above, 1) + base, "sub", "sup", "e"),
    "rad": (_root, "e", "deg"),
    "mroot": (_root, 0, 1),
    "msqrt": (_root, None, ""),
    "func": (lambda function, argument: function + _APPLY + argument, "fName", "e"),
}
"""The parts of each form: of Word by name, of MathML by number; None for all of them together."""

_SEPARATORS: Final = {"mr": ", ", "mtr": ", ", "eqArr": "; "}
