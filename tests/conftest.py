"""Brokers for every suite; `support/brokers.py` says which fixtures there are."""

from __future__ import annotations

pytest_plugins = ["tests.support.brokers"]
