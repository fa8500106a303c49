"""What the state of a run records beside its answers: whose it is, how it asked, and which files it wrote."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trustgraph_prompt import wire
from trustgraph_prompt.documents.named_files import is_page_of_ours
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.extraction.state import OBJECTS, OWNER, RECORD, read_state, write_state


class RunRecord:
    """The record in a state. Paths are relative to the state's folder, so that all can be moved together.

    The constructor raises `ConfigError` if the state belongs to another command than `command`, whose option
    `option` names another file, and `BrokerError` if the state is unusable.
    """

    def __init__(self, state: Path, command: str, option: str) -> None:
        self._state = state
        self._command = command
        recorded = read_state(state, RECORD)
        self._entries: dict[str, Any] = {
            key: wire.decode(message.data, "record") for key, message in recorded.items()
        }
        if (owner := self.run.get("command", command)) != command:
            about = f" for {file}" if (file := self.run.get("file")) else ""
            raise ConfigError(
                f"holds the answers of `{owner}`{about}; give `{command}` another {option}", where=str(state)
            )

    @property
    def run(self) -> Mapping[str, Any]:
        """Whose the state is, and how the last run asked; empty before the first run with a record."""
        found: Mapping[str, Any] = self._entries.get(OWNER, {})
        return found

    def owner(self, file: Path, **settings: object) -> dict[str, object]:
        """What a run has to record: the command, the file that the state belongs to, and how it asks."""
        return {"command": self._command, "file": file.name, **settings}

    def may_replace(self, file: Path) -> bool:
        """Whether a file is as an earlier run wrote it, so that nothing is lost with it.

        A page of ours, and objects that are all in the state, may not be in the record: the run was killed
        before it could record them, or was one of a build without a record.
        """
        if (known := self._entries.get(self._key(file))) is not None:
            return bool(known["sha256"] == sha256_of(file))
        return self._state.exists() and (is_page_of_ours(file) or _holds_only(file, self._objects()))

    def wrote(self, *files: Path) -> None:
        """Record the hashes of files that the run has written, so that the next run may replace them."""
        self._note({self._key(file): {"sha256": sha256_of(file)} for file in files})

    def text_in(self, store: Path, file: str) -> str | None:
        """The hash of the text of a file that the last run put into a store."""
        known: Mapping[str, str] = self._entries.get(self._key_of_text(store, file), {})
        return known.get("sha256")

    def note_texts(self, store: Path, hashes: Mapping[str, str]) -> None:
        """Record which texts of files were put into a store."""
        changed = {file: digest for file, digest in hashes.items() if self.text_in(store, file) != digest}
        self._note({self._key_of_text(store, file): {"sha256": digest} for file, digest in changed.items()})

    def _key(self, path: Path | str) -> str:
        relative = os.path.relpath(os.path.realpath(path), os.path.realpath(self._state.parent))
        return os.fsencode(relative).decode(errors="backslashreplace")  # a name need not be UTF-8

    def _key_of_text(self, store: Path, file: str) -> str:
        return json.dumps(["text", self._key(store), self._key(file)])

    def _note(self, changes: Mapping[str, Mapping[str, object]]) -> None:
        write_state(self._state, RECORD, changes)
        self._entries.update(changes)

    def _objects(self) -> set[bytes]:
        return {wire.canonical(json.loads(each.data)) for each in read_state(self._state, OBJECTS).values()}


def sha256_of(file: Path) -> str | None:
    """The hash of a regular file, None of anything else. Raises `OSError`."""
    if not file.is_file():
        return None
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def hashes_in(objects: Path) -> dict[str, str]:
    """The hashes of the texts of files, as JSON lines with an origin have them; empty for another file."""
    try:
        with objects.open("rb") as lines:
            return {line["file"]: line["sha256"] for line in map(json.loads, lines)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _holds_only(file: Path, objects: set[bytes]) -> bool:
    """Whether each line of a file is one of these objects, with its origin or without."""
    try:
        with file.open("rb") as lines:
            values = map(json.loads, lines)
            return all(
                wire.canonical(each) in objects or wire.canonical(each["object"]) in objects
                for each in values
            )
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return False
