"""Dead letters: what stands on one, and how they are served again."""

from __future__ import annotations
