"""`python -m trustgraph_prompt` is the command `trustgraph-prompt`."""

from __future__ import annotations

from trustgraph_prompt.cli import main

main()
