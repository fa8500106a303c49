"""Canaries: new versions of prompts that answer a share of the requests; comparing them with the old."""

from __future__ import annotations
