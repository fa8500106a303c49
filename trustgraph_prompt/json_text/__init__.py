"""JSON as text: its grammar, JSON Pointers, the positions of values in a text, and the values themselves."""

from __future__ import annotations
