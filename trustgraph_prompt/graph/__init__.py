"""From the objects of an answer to the statements of a knowledge graph. Pure: no I/O, no clock."""

from __future__ import annotations
