"""Dead letters: their format and their replay."""

from __future__ import annotations
