"""JSON as text: its grammar, JSON Pointers, and where values stand in a text."""

from __future__ import annotations
