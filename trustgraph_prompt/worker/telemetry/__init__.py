"""What a worker tells about itself: metrics, traces, logs, health."""

from __future__ import annotations
