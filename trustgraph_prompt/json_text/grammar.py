"""The grammar of JSON (RFC 8259), as regular expressions that never backtrack.

They take linear time: every repetition is possessive, and the first character decides every alternative.
Values of up to `LEVELS` levels, the usual ones in answers, are matched as one token; the scanner takes deeper
ones apart.
"""

from __future__ import annotations

import re

LEVELS = 2

SPACE = r"[ \t\n\r]*+"
CHARACTERS = r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
STRING = f'"{CHARACTERS}"'
NUMBER = r"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
SCALAR = f"(?:{STRING}|{NUMBER}(?=[^0-9.eE+-])|true|false|null)"
_UNFINISHED_SCALAR = r"-?[0-9.eE+-]*|t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|n(?:u(?:ll?)?)?"
_UNFINISHED_ESCAPE = r"\\(?:u[0-9a-fA-F]{0,3})?"


def array(value: str) -> str:
    """An array whose elements match `value`."""
    return rf"\[{SPACE}(?:{value}{SPACE}(?:,{SPACE}{value}{SPACE})*+)?+\]"


def member(value: str) -> str:
    """A member whose value matches `value`, and white space after it."""
    return f"{STRING}{SPACE}:{SPACE}{value}{SPACE}"


def object_(value: str) -> str:
    """An object whose values match `value`."""
    return rf"\{{{SPACE}(?:{member(value)}(?:,{SPACE}{member(value)})*+)?+\}}"


def _nested(levels: int) -> str:
    value = SCALAR
    for _ in range(levels):
        value = f"(?:{SCALAR}|{array(value)}|{object_(value)})"
    return value


_VALUE = _nested(LEVELS - 1)

# One token: group 1 is a string, group 2 any other value, else it is a structural character.
TOKEN = re.compile(f"{SPACE}(?:({STRING})|({_VALUE})|[][{{}}:,])")
FLAT_TOKEN = re.compile(f"{SPACE}(?:({STRING})|({SCALAR})|[][{{}}:,])")

# All members, or elements, up to the last comma.
MEMBERS = re.compile(f"(?:{SPACE}{member(_VALUE)},)++")
ELEMENTS = re.compile(f"(?:{SPACE}{_VALUE}{SPACE},)++")

# An object whose first member is an array of objects, or an object that is like that, to four levels. Group 1
# is its key, group 2 the beginning of the inner objects, whose keys have no "}".
_INNER = rf'\{{{SPACE}"[^"\\}}\x00-\x1f]*+"{SPACE}:{SPACE}'
WRAPPER = re.compile(rf"\{{{SPACE}({STRING}){SPACE}:{SPACE}((?:{_INNER}){{0,3}}+)\[{SPACE}[{{\]]")

OBJECT_BEGINS = re.compile(rf'\{{{SPACE}["}}]')

# Between two objects, and between two array elements that are objects.
BEFORE_OBJECT = re.compile(r"[ \t\n\r,]*+(?=\{)")
BEFORE_ELEMENT = re.compile(rf"{SPACE},{SPACE}(?=\{{)")

# The beginning of an array of objects.
OBJECTS_BEGIN = re.compile(rf"{SPACE}\[{SPACE}[{{\]]")
OBJECTS_BEGIN_LATER = re.compile(rf"{SPACE}(?:\[{SPACE})?\Z")

# The incomplete string, or other scalar, at the end of a text that will go on.
STRING_BEGINS = re.compile(f'{SPACE}("){CHARACTERS}')
REST_OF_STRING = re.compile(CHARACTERS)
UNFINISHED = re.compile(f"{SPACE}(?:{_UNFINISHED_SCALAR})\\Z")
UNFINISHED_ESCAPE = re.compile(f"(?:{_UNFINISHED_ESCAPE})?\\Z")

# The characters of a string with any escapes, valid or not, that ends at the end of its line.
CHARACTERS_IN_LINE = r'[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+'


_WHITE_SPACE = re.compile(SPACE)


def skip_space(text: str, position: int) -> int:
    """The position of the first character from `position` on that is not white space, or the end."""
    return end_of(_WHITE_SPACE, text, position)


def end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    """The end of the match at `position`, of a pattern that matches anywhere."""
    match = pattern.match(text, position)
    assert match is not None
    return match.end()


_PART = r"\\(?:u[0-9a-fA-F]{0,3})?"
_FIRST_OF_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_HALF = re.compile(rf"(?<!\\)(?:\\\\)*+({_FIRST_OF_PAIR}(?:{_PART})?|{_PART})\Z")


def before_half_escape(text: str) -> str:
    """Return the text without an incomplete escape, or half a surrogate pair, at its end.

    A model that is constrained to JSON would start a new escape inside the old one.
    """
    half = _HALF.search(text)
    return text[: half.start(1)] if half else text
