"""Detects answers that repeat themselves: they are ended, and neither continued nor asked for again."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

#: Objects that a truncated answer must have before repetition in it means anything.
_LEAST_OBJECTS = 8

#: The most of the second half of an answer that may be new: small models vary what they repeat.
_NEW_PART = 0.1

#: How often a text must end with the same phrase, and how many characters that must be in all: real tables
#: have a few equal rows, so a short phrase has to come more often than a long one.
_REPETITIONS = ((8, 240), (4, 1600))
_FEWEST = min(times for times, _ in _REPETITIONS)

#: Characters that a call writes in a loop before it is ended; after how many more they are looked at again.
LOOP, LOOK = 8_000, 1_000

#: Characters of the longest phrase of a loop.
_LONGEST_PHRASE = 2_000

#: Objects in a row that are all known before a call is ended.
_KNOWN_OBJECTS = 50

#: What stands between the strings of a JSON text, and between the rows of a Markdown table.
_BETWEEN_STRINGS = re.compile(r"(?:[\s\[\]{},:0-9.+-]|true|false|null|[eE](?=[0-9+-]))*")
_BETWEEN_ROWS = re.compile(r"\|[ \t\r]*(?:\n|\\n)[ \t]*\|")
_QUOTE = re.compile(r'(?<!\\)"')
_NO_WORD = re.compile(r"[^\w.+-]")

#: Characters at the end of a text in which phrases are looked for.
_TAIL = 10_000

#: Characters of white space at the end of a text that cannot be layout.
_LEAST_SPACE = 240

#: Characters of a continuation that cannot occur in the text before by accident.
_LEAST_TEXT = 200


def repeats_objects(keys: Sequence[bytes], known: Collection[bytes]) -> bool:
    """Whether a call brought only `known` objects, or hardly any new one in its second half."""
    if keys and all(key in known for key in keys):
        return True
    half = len(keys) // 2
    first = set(keys[:half])
    new = {key for key in keys[half:] if key not in first and key not in known}
    return len(keys) >= _LEAST_OBJECTS and len(new) < _NEW_PART * (len(keys) - half)


def repeats_text(text: str, new: str) -> bool:
    """Whether a text ends with a repeated phrase, or its `new` end occurs in it before."""
    before = text.removesuffix(new)
    if len(new) >= _LEAST_TEXT and new in before:
        return True
    tail = text[-_TAIL:]
    # without white space: indentation would make a short list of zeros long enough
    return len(tail) - len(tail.rstrip()) >= _LEAST_SPACE or _ends_with_repetition(" ".join(tail.split()))


def _ends_with_repetition(tail: str) -> bool:
    """Whether a tail ends with enough repetitions of a phrase of any length, in linear time.

    The tail is read backwards. `border` is the length of the longest proper prefix of the text read so far
    that is also its suffix (Knuth, Morris and Pratt), so the shortest period of that text is
    `length - border`.
    """
    backwards = tail[::-1]
    borders = [0]
    for length, character in enumerate(backwards[1:], 2):
        border = borders[-1]
        while border and backwards[border] != character:
            border = borders[border - 1]
        border += backwards[border] == character
        borders.append(border)
        period = length - border
        if length >= _FEWEST * period and any(
            length >= least and length >= times * period for times, least in _REPETITIONS
        ):
            return True
    return False


def is_loop(tail: str, *, of_objects: bool) -> bool:
    """Whether the last `LOOP` characters of a text are one repeated phrase, or white space.

    In a text of objects, a repeated object is a phrase as well.
    """
    if len(tail) < LOOP:
        return False
    # a phrase that is no longer than this begins anew after its own length, and nowhere before
    period = tail.find(tail[:_LONGEST_PHRASE], 1, 2 * _LONGEST_PHRASE)
    if period < 0 or not tail.startswith(tail[period:]):
        return False
    return tail.isspace() or _is_phrase(tail[:period], of_objects=of_objects)


class ObjectLoop:
    """Watches the objects of a call while they come.

    `new` leaves those that no earlier call brought, `identity` is the same for equal ones.
    """

    def __init__(self, new: Callable[[Iterable[Any]], list[Any]], identity: Callable[[Any], bytes]) -> None:
        self._new = new
        self._identity = identity
        self._keys: set[bytes] = set()
        self._unlooked: list[Any] = []
        self._in_a_row = 0

    @property
    def is_loop(self) -> bool:
        """Whether the last objects are all known."""
        return self._in_a_row >= _KNOWN_OBJECTS

    def take(self, objects: Iterable[Any]) -> None:
        """Take the next objects; most answers have too few to look at."""
        self._unlooked += objects
        if len(self._keys) + self._in_a_row + len(self._unlooked) <= _KNOWN_OBJECTS:
            return
        for value in self._unlooked:
            key = self._identity(value)
            is_known = key in self._keys or not self._new([value])
            self._in_a_row = self._in_a_row + 1 if is_known else 0
            self._keys.add(key)
        self._unlooked.clear()


def _is_phrase(text: str, *, of_objects: bool) -> bool:
    """Whether a text that repeats is a phrase: no numbers, rule of dashes, padding or equal rows of a table.

    The text may begin anywhere in the phrase: it is turned until it begins between two words, and either half
    of the parts between its quotes may be strings.
    """
    if len(set(filter(str.isalpha, text))) < 2 or _BETWEEN_ROWS.search(text + text):
        return False
    if of_objects and "{" in text:
        return True
    begin = _NO_WORD.search(text)
    parts = _QUOTE.split(text if begin is None else text[begin.start() :] + text[: begin.start()])
    halves = (parts[start::2] for start in range(min(len(parts), 2)))
    return not (len(parts) % 2 and any(_BETWEEN_STRINGS.fullmatch(" ".join(half)) for half in halves))
