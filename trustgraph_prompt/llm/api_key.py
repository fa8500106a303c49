"""The API key of a server, from an environment variable or from the file that one names."""

from __future__ import annotations

import os
from pathlib import Path

from trustgraph_prompt.config_files import read_text
from trustgraph_prompt.errors import ConfigError


def from_environment(variable: str = "OPENAI_API_KEY") -> str | None:
    """The content of the file that `<variable>_FILE` names, or else the variable. Raises `ConfigError`."""
    if path := os.environ.get(f"{variable}_FILE"):
        if key := read_text(Path(path)).removeprefix("\N{BYTE ORDER MARK}").strip():
            return key
        raise ConfigError(f"the file is empty, and {variable}_FILE names it", where=path)
    return os.environ.get(variable)


def about(variable: str = "OPENAI_API_KEY") -> str:
    """Say what to set after the server rejected the request's credentials."""
    given = next((name for name in (f"{variable}_FILE", variable) if os.environ.get(name)), None)
    if given is None:
        return f"no key was sent: set {variable} or {variable}_FILE"
    return f"the key of {given} was rejected: set it to a valid key"
