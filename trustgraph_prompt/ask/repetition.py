"""Whether a model goes round in circles: what it says then is neither continued nor asked for again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

#: Objects a cut answer must have before repetition in it means anything.
_LEAST_OBJECTS = 8

#: The part of the second half of a circle that is new, at most: small models vary what they repeat.
_HARDLY = 0.1

#: How often a text must end with a phrase, and how many characters that must be at least: real tables hold a
#: few rows that are equal, so that a short phrase has to come more often than a long one.
_ENOUGH = ((8, 240), (4, 1600))
_FEWEST = min(times for times, _ in _ENOUGH)

#: Characters at the end of a text in which phrases are looked for.
_TAIL = 10_000

#: Characters of white space at the end of a text that are no layout any more.
_LEAST_SPACE = 240

#: Characters of a continuation that stood in the text before, word for word, by no accident.
_LEAST_TEXT = 200


def repeats_objects(keys: Sequence[bytes], known: Collection[bytes]) -> bool:
    """Whether a call brought only objects that are `known`, or hardly a new one in its second half."""
    if keys and all(key in known for key in keys):
        return True
    half = len(keys) // 2
    first = set(keys[:half])
    new = {key for key in keys[half:] if key not in first and key not in known}
    return len(keys) >= _LEAST_OBJECTS and len(new) < _HARDLY * (len(keys) - half)


def repeats_text(text: str, new: str) -> bool:
    """Whether a text ends with a phrase over and over, or what is `new` at its end stood in it before."""
    before = text.removesuffix(new)
    if len(new) >= _LEAST_TEXT and new in before:
        return True
    tail = text[-_TAIL:]
    # indentation makes a short list of zeros as long as a circle
    return len(tail) - len(tail.rstrip()) >= _LEAST_SPACE or _ends_in_a_circle(" ".join(tail.split()))


def _ends_in_a_circle(tail: str) -> bool:
    """Whether a tail ends with one phrase of any length often enough.

    From its end, `border` is the longest beginning of what was read that is also its end (Knuth, Morris and
    Pratt), so what was read repeats every `length - border` characters, and no less. In linear time; hardly
    any of it is long enough for as many repetitions as it takes.
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
            length >= least and length >= times * period for times, least in _ENOUGH
        ):
            return True
    return False
