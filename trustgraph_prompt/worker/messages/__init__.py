"""The messages of a worker: requests in, responses and answer records out."""

from __future__ import annotations
