"""Patterns of broken JSON: punctuation and quotes in all spellings, and what shows that a member begins.

Every pattern takes linear time: it stops at the next quote, bracket or comma of its kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto


class Within(Enum):
    """What is being read, which decides what may follow."""

    KEY = auto()
    MEMBER = auto()  # the value of a member
    ELEMENT = auto()


SPACE = r"[\s\ufeff\u200b-\u200d\u2060\u180e]*+"
COMMA = ",，;"
COLON = r"(?:[:：]=?|=>?)"
CLOSERS = {"{": "}", "[": "]", "(": ")"}

# The quotes that may close a string, by the opening quote.
_DOUBLE, _SINGLE = '"“”„‟＂', "'‘’‚‛"
CLOSING_QUOTES = (
    {'"': '"', "'": "'", "`": "`", "´": "'´’"}
    | dict.fromkeys("“”„‟＂", _DOUBLE)
    | dict.fromkeys("‘’‚‛", _SINGLE)
)
QUOTES = "".join(CLOSING_QUOTES)

_PAIRS = (('"', '"'), ("'", "'"), ("`", "`"), ("“”„‟＂", _DOUBLE), ("‘’‚‛", _SINGLE))
_QUOTED = "|".join(
    rf"[{opening}][^{closing}\\\n]*+(?:\\.[^{closing}\\\n]*+){{0,20}}+[{closing}]"
    for opening, closing in _PAIRS
)
_HALF_QUOTED = "|".join(
    rf"[{opening}][^{closing}\\]*+(?:\\(?s:.)[^{closing}\\]*+){{0,20}}+[{closing}\\]?"
    for opening, closing in _PAIRS
)
_AFTER_KEY = rf"{SPACE}(?:[:：](?!//)|=>)"
# It may have a prefix, or a doubled quote.
QUOTED_KEY = re.compile(
    rf"(?:[rbufRBUF]{{1,2}}(?=[\"'])|\"(?=\"\w))?+(?:{_QUOTED})\"?+{SPACE}(?:[:：]|=(?!=))"
)
# A key without its first quote or without any; one that begins with a digit could also be a time.
_BARE_KEY = re.compile(
    rf"([^\W\d][\w$@.-]*+|\d++(?=[\"'”’]?{SPACE}:[\s\"'\[{{])|[$@][\w$.-]++)[{QUOTES}]?{_AFTER_KEY}"
)
_OPEN_KEY = re.compile(
    rf"[{QUOTES}][\w$@.-]++(?:[ \t]++[\w$@.-]++)*+[{QUOTES}]?{_AFTER_KEY}"
)  # without its last quote
_KEY_OF_WORDS = re.compile(r"([^\W\d][\w-]*+(?: [\w-]++){1,2}+):[ \n]")
_KEY_WITHOUT_COLON = re.compile(rf"(?:{_QUOTED}){SPACE}(?=[{QUOTES}\[{{\d])")
_KEY_BEHIND_WORD = re.compile(rf"\w++[ \t]++(?:{_QUOTED}){_AFTER_KEY}")
VALUELESS_KEY = re.compile(rf"(?:{_QUOTED}){SPACE}(?=[,}}])")
_HALF_KEY = re.compile(rf"(?:{_HALF_QUOTED}|[\w$@.-]++){SPACE}\Z")

COMMENT = re.compile(r"//|/\*|#(?=[\s!#])")
ELLIPSIS = re.compile(r"\.{3,}|…")
FENCE = re.compile(r"`{3,}+(?=[^`]*\Z|[ \t]*\w*[ \t]*\r?(?:\n|\Z))")
_NEXT = re.compile(rf"({SPACE})((?s:.)?)")

Names = frozenset[str]


def next_mark(text: str, position: int) -> tuple[int, str]:
    """The position of the next character that is not a space, and the character; "" at the end."""
    match = _NEXT.match(text, position)
    assert match is not None
    return match.start(2), match[2]


def begins_member(text: str, position: int, names: Names) -> bool:
    """Whether a key with its colon is at `position`; one without quotes must be among `names`, if any."""
    if QUOTED_KEY.match(text, position):
        return True
    return _is_key(_BARE_KEY.match(text, position), names)


def key_at(text: str, position: int) -> str | None:
    """The key with its colon at `position`, as written; None if there is none."""
    if quoted := QUOTED_KEY.match(text, position):
        return quoted[0][:-1].strip().strip(QUOTES)
    bare = _BARE_KEY.match(text, position)
    return bare[1] if bare else None


def _is_key(bare: re.Match[str] | None, names: Names) -> bool:
    return bare is not None and (not names or bare[1] in names)


def may_begin_member(text: str, position: int, names: Names) -> bool:
    """Whether what follows a comma could be a member, even a broken or incomplete one."""
    return (
        begins_member(text, position, names)
        or _is_key(_KEY_OF_WORDS.match(text, position), names)
        or _HALF_KEY.match(text, position) is not None
        or _OPEN_KEY.match(text, position) is not None
        or _KEY_WITHOUT_COLON.match(text, position) is not None
        or _KEY_BEHIND_WORD.match(text, position) is not None
    )


def is_stop(text: str, position: int) -> bool:
    """Whether a comment, an ellipsis, a fence or the end of the text is at `position`."""
    return (
        position >= len(text)
        or COMMENT.match(text, position) is not None
        or ELLIPSIS.match(text, position) is not None
        or FENCE.match(text, position) is not None
    )


_CLOSING = re.compile(rf"[}}\])]({SPACE})")
_ELEMENT = re.compile(rf"[{QUOTES}\[{{(\d.-]|(?:true|false|null|None|True|False|undefined|NaN)\b")


def begins_element(text: str, position: int) -> bool:
    """Whether a value other than words is at `position`."""
    return _ELEMENT.match(text, position) is not None


def closes(text: str, position: int, brackets: Sequence[str], names: Names) -> bool:
    """Whether the closing brackets at `position` belong to the JSON, because it continues after them.

    `brackets` are the closing ones that are missing there, the outermost first.
    """
    depth = 0
    while match := _CLOSING.match(text, position):
        depth, position = depth + 1, match.end()
        if depth >= len(brackets) or "\n" in match[1]:
            return True
    if text[position : position + 1] in CLOSERS or is_stop(text, position):
        return True
    if text[position] not in COMMA:
        return begins_member(text, position, names)
    position, mark = next_mark(text, position + 1)
    return mark in "}]" or may_begin_member(text, position, names) or begins_element(text, position)
