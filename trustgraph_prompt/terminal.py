"""Makes untrusted text safe to print on a terminal."""

from __future__ import annotations

import json
import re

# Control characters, which start escape sequences (cursor, title, clipboard), and bidirectional marks, which
# reorder text; and lone surrogates, which UTF-8 cannot hold. Line feeds stay.
_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """Escape as in JSON what a terminal obeys, and lone surrogates; JSON text keeps its meaning."""
    return _OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], text)
