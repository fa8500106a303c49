"""Whether an answer is truncated."""

from __future__ import annotations


def is_truncated(
    finish_reason: str | None, *, within_value: bool = False, within_fence: bool = False
) -> bool | None:
    """Whether an answer is truncated; None where neither the text nor the finish reason tells.

    A text that ends within a value is truncated, whatever the finish reason. A text that ends within a code
    fence need not be, if the model stopped by itself: the closing fence is a common stop sequence.
    """
    if within_value or finish_reason in ("length", "content_filter", "error"):
        return True
    if finish_reason is not None:
        return False
    return True if within_fence else None
