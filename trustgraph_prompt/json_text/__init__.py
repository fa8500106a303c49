"""JSON as text: its grammar, JSON Pointers, and the positions of values in a text."""

from __future__ import annotations
