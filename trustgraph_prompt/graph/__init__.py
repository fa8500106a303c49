"""From the objects of an answer to the statements of a graph."""

from __future__ import annotations
