"""A process that has imported all of the command, and forks for each order to run it.

An order comes over the socket that is its standard input: JSON, and four descriptors. Over the first of these
go the pid, and at the end the exit code; the others are the standard input, output and error of the command.
A fork has all that a process has of its own. It saves the imports, which are most of what most commands cost.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final

import trustgraph_prompt
from trustgraph_prompt import Contract
from trustgraph_prompt.cli import main

LARGEST_ORDER: Final = 1 << 18

IMPORTED_LATE: Final = ("aiohttp.web", "lark", "lxml.html", "pulsar.asyncio", "pyoxigraph", "rapidfuzz.fuzz")
"""What commands import when they need it."""


def serve(orders: socket.socket) -> dict[str, Any] | None:
    """Returns in each fork, with its order; and when no more orders come."""
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready, _, _ = select.select([orders.fileno(), *running], [], [])
        for ended in running.keys() & set(ready):
            pid, customer = running.pop(ended)
            os.close(ended)
            _tell(customer, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            customer.close()
        if orders.fileno() not in ready:
            continue
        order, descriptors, _, _ = socket.recv_fds(orders, LARGEST_ORDER, 4)
        if not order:
            for pid, _ in running.values():
                os.kill(pid, signal.SIGKILL)  # whoever started it died, and ends it no more
            return None
        customer, streams = socket.socket(fileno=descriptors[0]), descriptors[1:]
        if not (pid := os.fork()):
            for _, other in running.values():
                other.close()
            customer.close()
            orders.detach()  # closed by its successor
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for left in (*running, *streams):
                os.close(left)
            return dict(json.loads(order))
        for stream in streams:
            os.close(stream)
        running[os.pidfd_open(pid)] = pid, customer
        _tell(customer, pid)


def _tell(customer: socket.socket, number: int) -> None:
    with suppress(OSError):  # who gave the order has ended
        customer.send(str(number).encode())


def become(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Be the command. SIGABRT has it print where it stands."""
    faulthandler.enable()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            _end(ended.code or 0)
        raise


def _end(code: int) -> None:
    """What Python does at the end, but for taking its objects apart: of so many, that is most of the time."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError):  # else Python says so
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def prepare() -> None:
    """Import all that commands use, and make what each of them makes once."""
    for module in walk_packages(trustgraph_prompt.__path__, "trustgraph_prompt."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in IMPORTED_LATE:
        import_module(name)
    Contract.language("schema Thing:\n    name: string")
    gc.collect()
    gc.freeze()  # no fork goes through what all of them share


if __name__ == "__main__":
    prepare()
    if order := serve(socket.socket(fileno=0)):
        become(**order)
