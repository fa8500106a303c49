"""The prompt worker of a knowledge-graph ingestion flow: asks a model, publishes typed, validated objects."""

from __future__ import annotations

__version__ = "0.1.0"
