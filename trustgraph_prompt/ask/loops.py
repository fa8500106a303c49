"""Whether a model goes round in circles: what it says then is neither continued nor asked for again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

#: Objects a cut answer must have before repetition in it means anything.
_LEAST_OBJECTS = 8

#: The part of the second half of a circle that is new, at most: small models vary what they repeat.
_HARDLY = 0.1

#: Characters at the end of a text that are looked at: short phrases soon, long ones later.
_TAILS = (240, 1600)

#: How often a tail must hold a phrase.
_TIMES = 4

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
    return any(_is_periodic(text[-size:], size // _TIMES) for size in _TAILS if len(text) >= size)


def _is_periodic(tail: str, longest: int) -> bool:
    """Whether a tail is one phrase of at most `longest` characters again and again."""
    end = tail[len(tail) // 2 :]
    before = tail.rfind(end, 0, len(tail) - 1)
    period = len(tail) - len(end) - before
    return before >= 0 and period <= longest and tail[period:] == tail[:-period]
