"""What some tests need and not every machine has: a real Pulsar, a Redis, a model."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    """Skip the test and say why; where `CI` is set, fail it: there everything must be had."""
    if os.environ.get("CI"):
        pytest.fail(f"in CI no test may be skipped: {reason}", pytrace=False)
    pytest.skip(reason)
