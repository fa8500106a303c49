"""Detects answers that repeat themselves, which are neither continued nor asked for again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

#: Objects that a truncated answer must have before repetition in it means anything.
_LEAST_OBJECTS = 8

#: The most of the second half of an answer that may be new: small models vary what they repeat.
_NEW_PART = 0.1

#: How often a text must end with the same phrase, and how many characters that must be in all: real tables
#: have a few equal rows, so a short phrase has to come more often than a long one.
_REPETITIONS = ((8, 240), (4, 1600))
_FEWEST = min(times for times, _ in _REPETITIONS)

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
