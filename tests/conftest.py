"""Brokers for every suite, of which `support/brokers.py` says more, and patience for every property."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The machine may be busy: no example is too slow, time is bounded by tests of their own.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

pytest_plugins = ["tests.support.brokers"]
