"""Keeps the Python state of the client's threads from one callback to the next.

A thread that Python has not started gets its state when it calls into Python, and loses it on return. The
client calls for every message that was sent, received or acknowledged. To make the state each time took up to
a third of the CPU of a send.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from pulsar import asyncio as client

_report = client._set_future
_of_thread = threading.local()  # as long as the state of the thread


def _report_and_keep(*result: Any, **value: Any) -> None:
    if not hasattr(_of_thread, "kept"):
        _of_thread.kept = True
        ctypes.pythonapi.PyGILState_Ensure()  # never released
    _report(*result, **value)


def keep_states() -> None:
    """Keep the states of the client's threads, once they report something. Idempotent.

    The states of a connection, of some 20 kB each, stay until the process ends: two, which is why this is not
    done before a broker has answered.
    """
    client._set_future = _report_and_keep
