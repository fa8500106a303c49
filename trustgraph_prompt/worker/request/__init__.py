"""Processes one request, from its delivery to its settlement."""

from __future__ import annotations
