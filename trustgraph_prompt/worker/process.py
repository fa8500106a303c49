"""The worker as a process: signals."""

from __future__ import annotations

import asyncio
import os
import signal

from trustgraph_prompt.worker.worker import Worker

SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def run_until_signalled(worker: Worker) -> None:
    """Run; a first SIGTERM or SIGINT drains, a second one quits at once with exit code 1."""

    def on_signal() -> None:
        if worker.stopping:
            os._exit(1)
        worker.stop()

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        await worker.run()
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
