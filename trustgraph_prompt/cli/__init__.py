"""The command line: parses, calls, prints."""

from __future__ import annotations

import logging
import os
import sys


def main() -> None:
    """Run the command; exit codes are 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted."""
    from trustgraph_prompt.cli.app import app
    from trustgraph_prompt.errors import ConfigError, TrustgraphPromptError

    logging.getLogger("trustgraph_prompt").addHandler(logging.NullHandler())
    try:
        app(prog_name="trustgraph-prompt")
    except ConfigError as error:
        sys.exit(_complain(error, 2))
    except TrustgraphPromptError as error:
        sys.exit(_complain(error, 1))
    except OSError as error:  # what is ours is mapped where it appears; left is standard output: a full disk
        with open(os.devnull, "w") as nowhere:  # Python writes the rest of its buffer when it ends
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        sys.exit(_complain(error.strerror or error, 1))


def _complain(error: Exception | str, code: int) -> int:
    from trustgraph_prompt.terminal import harmless

    sys.stderr.write(f"error: {harmless(str(error))}\n")
    said = [*getattr(error, "__notes__", ())]
    if others := getattr(error, "others", ()):
        more = f"{len(others):,} more error{'' if len(others) == 1 else 's'}"
        said.append(f"`trustgraph-prompt check` shows {more}")
    if said:
        sys.stderr.write(f"{'; '.join(said)}\n")
    return code
