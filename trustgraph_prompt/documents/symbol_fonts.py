"""Characters of the fonts Symbol and Wingdings, which files store as numbers in the fonts."""

from __future__ import annotations

import re
from typing import Final

_GREEK: Final = {
    0x20: " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",
    0xA0: "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪",
    0xF1: "⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",
}
_DINGBATS: Final = {
    0x20: " ",
    0x21: "✏✂✁",
    0x28: "☎✆✉",
    0x3F: "✍✎✌",
    0x45: "☜☞☝☟✋☺😐☹",
    0x4E: "☠⚐",
    0x51: "✈☼",
    0x6C: "●❍■□❐❑❒⬧⧫◆❖⬥⌧",
    0x80: "⓪①②③④⑤⑥⑦⑧⑨⑩⓿❶❷❸❹❺❻❼❽❾❿",
    0x9E: "·•",
    0xA1: "○",
    0xA7: "▪◻",
    0xAA: "✦★✶",
    0xD5: "⌫⌦",
    0xD8: "➢",
    0xDF: "←→↑↓↖↗↙↘←→↑↓↖↗↙↘⇦⇨⇧⇩⬄⇳",
    0xFB: "✗✔☒☑",
}
_FONTS: Final = {
    font: {start + index: sign for start, signs in table.items() for index, sign in enumerate(signs)}
    for font, table in (
        ("symbol", _GREEK),
        ("wingdings", _DINGBATS),
        ("wingdings 2", {0x4F: "✗✓☒☑"}),
    )
}
_PRIVATE: Final = re.compile("[\uf020-\uf0ff]")


def character(font: str, code: int) -> str:
    """The character of a number in a font; one of the private area where it is unknown."""
    table = _FONTS.get(font.lower())
    if table is None:
        return chr(code) if 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE else ""
    return table.get(code & 0xFF) or chr(0xF000 + (code & 0xFF))


def with_characters(text: str, font: str) -> str:
    """A text in a font, whose characters of the private area are numbers in it."""
    return _PRIVATE.sub(lambda found: character(font, ord(found[0])), text)
