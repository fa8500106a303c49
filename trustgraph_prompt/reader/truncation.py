"""Whether an answer is cut."""

from __future__ import annotations


def cut_short(
    finish_reason: str | None, *, within_value: bool = False, within_fence: bool = False
) -> bool | None:
    """Yes, no, or None where neither the text nor the wire tells.

    A text that ends within a value is cut, whatever the wire says. One that ends within a code fence need
    not be where the model stopped by itself: the closing fence is a common stop sequence.
    """
    if within_value or finish_reason in ("length", "content_filter", "error"):
        return True
    if finish_reason is not None:
        return False
    return True if within_fence else None
