"""Metrics, traces, logs and health of a worker."""

from __future__ import annotations
