"""The command line: parses, calls, prints."""

from __future__ import annotations

import logging
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


def _complain(error: Exception, code: int) -> int:
    sys.stderr.write(f"error: {error}\n")
    return code
