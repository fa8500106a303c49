"""How good the answers of a prompt are: scores against the objects that should come, with intervals."""

from __future__ import annotations
