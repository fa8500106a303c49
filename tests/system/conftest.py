"""What the tests of processes need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.worker_processes import Site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """An empty folder for processes, which end with the test; a file of tests lays in it what it serves."""
    async with AsyncExitStack() as stack:
        yield Site(tmp_path, stack)
