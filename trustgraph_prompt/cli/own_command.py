"""The command line of this process, to be typed again with a change."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping

MAX_LENGTH = 600
"""Characters. A shell may have made thousands of names of one pattern."""


def own_command(changes: Mapping[str, str | None] | None = None) -> str:
    """Return the command with these options replaced or added, or left out where the value is None.

    Where it is too long to be shown, it is called `the same command`, with the changes.
    """
    program = "trustgraph-prompt" if shutil.which("trustgraph-prompt") else sys.argv[0]
    changes = changes or {}
    kept: list[str] = []
    words = iter(sys.argv[1:])
    for word in words:
        option, is_assigned, _ = word.partition("=")
        if option not in changes:
            kept.append(word)
        elif not is_assigned:
            next(words, None)
    added = [word for option, value in changes.items() if value is not None for word in (option, value)]
    command = shlex.join([program, *kept, *added])
    return command if len(command) <= MAX_LENGTH else " ".join(["(the same command)", shlex.join(added)])
