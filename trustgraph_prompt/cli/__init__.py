"""The command line."""

from __future__ import annotations

import logging
import os
import signal
import sys


class _Notes(logging.Handler):
    """Prints what a server does not accept, in commands that log nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.root.handlers:
            from trustgraph_prompt.cli import output

            output.note(record.getMessage())


def main() -> None:
    """Run the command. Exit codes: 0 success, 1 failure, 2 wrong usage or configuration, 130 interrupted."""
    if os.getpid() == 1:  # of a container: the kernel withholds signals that it has no handler for
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))

    from trustgraph_prompt.cli.app import app
    from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError

    logging.getLogger("trustgraph_prompt").addHandler(logging.NullHandler())
    logging.getLogger("trustgraph_prompt.llm").addHandler(_Notes())
    try:
        app(prog_name="trustgraph-prompt")
    except ConfigError as error:
        sys.exit(_report(error, 2))
    except TrustgraphPromptError as error:
        sys.exit(_report(error, 1))
    except OSError as error:
        # All other OSErrors are mapped where they occur, so this is standard output, perhaps on a full disk.
        # Python flushes it again at exit, and would print a second error.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        sys.exit(_report(error.strerror or error, 1))


def _report(error: Exception | str, code: int) -> int:
    from trustgraph_prompt.terminal import harmless

    sys.stderr.write(f"error: {harmless(str(error))}\n")
    notes = [*getattr(error, "__notes__", ())]
    if others := getattr(error, "others", ()):
        more = f"{len(others):,} more error{'' if len(others) == 1 else 's'}"
        notes.append(f"`trustgraph-prompt check` shows {more}")
    if notes:
        sys.stderr.write(f"{'; '.join(notes)}\n")
    return code
