"""Estimates what questions will take before they are asked: tokens, money and time."""

from __future__ import annotations
