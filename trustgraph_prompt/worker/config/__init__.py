"""Where a worker gets its prompts and flows from: the config topic, or TrustGraph's config service."""

from __future__ import annotations
