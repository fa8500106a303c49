"""Sources of prompts and flows: the config topic, or TrustGraph's config service."""

from __future__ import annotations
