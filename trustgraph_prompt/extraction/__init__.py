"""The batch job at a laptop: documents in, objects in a file out."""

from __future__ import annotations
