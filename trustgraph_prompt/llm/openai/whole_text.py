"""Text out of pieces that may end within a character: who counts in UTF-16 cuts an emoji in two."""

from __future__ import annotations


class WholeText:
    """Takes the pieces of a text and gives what is whole of it."""

    def __init__(self) -> None:
        self._half = ""

    def take(self, piece: str) -> str:
        """What is whole so far; half a character without its other half becomes U+FFFD."""
        text = self._half + piece
        if text.isascii():
            return text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return well_formed(text.removesuffix(self._half))

    def end(self) -> str:
        """What is left of it when nothing more comes."""
        half, self._half = self._half, ""
        return well_formed(half)


def well_formed(text: str) -> str:
    """The text with halves of surrogate pairs put together, and U+FFFD for those that are alone."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
