"""The API key of a server, from an environment variable or from the file that one names."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from trustgraph_prompt.config_files import read_text
from trustgraph_prompt.errors import ConfigError

ApiKey = str | Callable[[], str]
"""A key, or a function that returns the current one."""


@dataclass(unsafe_hash=True)
class KeyFile:
    """The key in a file. Calling it reads the file again if that has changed, as a mounted secret does.

    While the file cannot be read or is empty, the last key applies. Raises `ConfigError` at first.
    """

    path: Path
    variable: str = field(repr=False, compare=False)
    _key: str = field(init=False, repr=False, compare=False)
    _read: object = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        self._key = self._content()

    def __call__(self) -> str:
        with suppress(ConfigError, OSError):
            found = self.path.stat()
            state = found.st_ino, found.st_mtime_ns, found.st_size
            if state != self._read:
                self._key, self._read = self._content(), state
        return self._key

    def _content(self) -> str:
        if key := read_text(self.path).removeprefix("\N{BYTE ORDER MARK}").strip():
            return key
        raise ConfigError(f"the file is empty, and {self.variable}_FILE names it", where=str(self.path))


def from_environment(variable: str = "OPENAI_API_KEY") -> str | KeyFile | None:
    """The key in the file that `<variable>_FILE` names, or else in the variable. Raises `ConfigError`."""
    if path := os.environ.get(f"{variable}_FILE"):
        return KeyFile(Path(path), variable)
    return os.environ.get(variable)


def about(variable: str = "OPENAI_API_KEY") -> str:
    """Say what to set after the server rejected the request's credentials."""
    given = next((name for name in (f"{variable}_FILE", variable) if os.environ.get(name)), None)
    if given is None:
        return f"no key was sent: set {variable} or {variable}_FILE"
    return f"the key of {given} was rejected: set it to a valid key"
