"""Text from outside on its way to a terminal, which obeys some characters instead of showing them."""

from __future__ import annotations

import json
import re

#: Controls, which begin what moves the cursor, sets a title or writes to the clipboard; and marks that turn
#: the text around. Line ends are left to whoever prints.
_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """The text with what a terminal would obey escaped as in JSON; JSON still says the same."""
    return _OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], text)
