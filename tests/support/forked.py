"""A process that has imported all of the command, and forks for each order to run it.

An order is a line of JSON on standard input; the exit code is a line of standard output. A fork has all that
a process has of its own. It saves the imports, which are most of what most commands cost.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from importlib import import_module
from typing import Any

from trustgraph_prompt.cli import main
from trustgraph_prompt.cli.app import COMMANDS

MODULES = ("broker.embedded", "broker.pulsar.admin", "worker", *(f"cli.{name}" for name in COMMANDS))


def serve() -> dict[str, Any] | None:
    """Returns in each fork, with its order; and when no more orders come."""
    orders, codes = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for order in orders:
        if not (child := os.fork()):
            return dict(json.loads(order))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=codes, flush=True)
    return None


def become(arguments: list[str], folder: str, out: str, err: str, environment: dict[str, str]) -> None:
    """Be the command, with these files as its standard output and error."""
    for number, file in enumerate((os.devnull, out, err)):
        os.dup2(os.open(file, os.O_WRONLY if number else os.O_RDONLY), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    main()


if __name__ == "__main__":
    for module in MODULES:
        import_module(f"trustgraph_prompt.{module}")
    gc.collect()
    gc.freeze()  # no fork goes through what all of them share
    if order := serve():
        become(**order)
