"""What several unit tests need."""

from __future__ import annotations

import pytest

from tests.support.asking import Asked


@pytest.fixture
def asked() -> Asked:
    return Asked()
