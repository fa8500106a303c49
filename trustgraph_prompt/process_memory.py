"""Limits the memory of this process. Only Linux tells how much is in use; elsewhere there is no limit."""

from __future__ import annotations

from pathlib import Path

_STATUS = Path("/proc/self/status")


def data_in_use() -> int | None:
    """Return the bytes that count towards the limit, or None where the system does not tell."""
    if not _STATUS.exists():
        return None
    lines = _STATUS.read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), None)


def limit_memory(more: int) -> None:
    """Limit memory to `more` bytes than are in use: whatever needs more fails, or ends the process.

    A lower limit that the system already sets stays.
    """
    import resource

    if (in_use := data_in_use()) is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = in_use + more
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
