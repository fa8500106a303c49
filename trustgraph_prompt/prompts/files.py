"""Reads prompt files and exports of a workspace into entries of the config topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from trustgraph_prompt.config_files import check, read_bytes, read_text, read_yaml
from trustgraph_prompt.errors import ConfigError, PromptError, raise_first
from trustgraph_prompt.prompts.definition import PromptDefinition
from trustgraph_prompt.prompts.entry_schema import SCHEMA, SYSTEM_SCHEMA
from trustgraph_prompt.prompts.example import Example
from trustgraph_prompt.prompts.pool import POOL
from trustgraph_prompt.prompts.pool_files import naming, pool_of_file
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY, PromptSet
from trustgraph_prompt.prompts.source_map import SourceMap

__all__ = ["PromptFiles", "load", "read", "together"]

SUFFIXES = (".prompt", ".yaml", ".yml")
"""The suffixes of prompt files: the schema language, or one entry as YAML."""

MAX_EXPORT = 64 * 1024 * 1024
"""The maximum size of an export, in bytes."""


@dataclass(frozen=True, slots=True)
class PromptFiles:
    """The contents of prompt files: entries (JSON text) and their places by config key, and examples."""

    entries: Mapping[str, str]
    examples: tuple[Example, ...] = ()
    places: Mapping[str, SourceMap] = field(default_factory=dict)

    def build(self) -> PromptSet:
        """Compile the prompts. Raises `ConfigError`, also for conflicts between prompts."""
        prompts = PromptSet.build(self.entries)
        raise_first(
            error.moved(self.places[key].of(error.path) if key in self.places else error.where, error.path)
            for key, error in prompts.refused.items()
        )
        return prompts


def load(path: str | Path) -> dict[str, str]:
    """Read only the entries, JSON text by config key. Raises as `read`."""
    return dict(read(path).entries)


def read(path: str | Path) -> PromptFiles:
    """Read a folder of prompt files, one of them, or an export.

    A file `*.prompt` is in the schema language and contains any number of prompts, their schemas and the
    system message. `<id>.yaml` is one entry, `system.yaml` the system message. An export is a JSON file: the
    entries by key, or TrustGraph's configuration, which has them under `prompt`. The entries of an export are
    not checked here, but by `PromptSet.build`. Raises `ConfigError` with file, line and column (`*.prompt`)
    or key (YAML).
    """
    path = Path(path)
    if path.suffix == ".json":
        entries = _export(path)
        return PromptFiles(entries, places={key: SourceMap(f"{path} {key}") for key in entries})
    if not path.is_dir():
        return _file(path)
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not files:
        suffixes = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
        raise PromptError(f"the folder contains no prompts: no file {suffixes}", where=str(path))
    return together(map(_file, files))


def together(parts: Iterable[PromptFiles]) -> PromptFiles:
    """Combine the contents of several files. Raises `PromptError` for an entry that two of them define."""
    entries: dict[str, str] = {}
    places: dict[str, SourceMap] = {}
    examples: list[Example] = []
    for part in parts:
        for key in part.entries:
            if key in entries and not key.startswith(POOL):
                raise PromptError(
                    "the system message is defined twice"
                    if key == SYSTEM_KEY
                    else "the prompt is defined twice",
                    where=part.places[key].of(),
                    found=key.removeprefix(PREFIX),
                    expected=f"only the definition in {places[key].of()}",
                )
        entries |= part.entries
        places |= part.places
        examples += part.examples
    return PromptFiles(entries, tuple(examples), places)


def _file(path: Path) -> PromptFiles:
    if path.suffix != ".prompt":
        document = read_yaml(path, PromptError)
        is_system = path.stem == SYSTEM_KEY
        check(document, SYSTEM_SCHEMA if is_system else SCHEMA, str(path), PromptError)
        key = SYSTEM_KEY if is_system else PREFIX + path.stem
        places = {key: SourceMap(str(path))}
        if is_system:
            return PromptFiles({key: _json(document, path)}, places=places)
        PromptDefinition.from_entry(path.stem, document, where=str(path))
        return _with_pools({key: document}, places, path)
    from trustgraph_prompt.prompts.prompt_file import compile_file

    compiled = compile_file(read_text(path, PromptError), str(path))
    return _with_pools(compiled.entries, compiled.places, path, compiled.examples)


def _with_pools(
    entries: Mapping[str, Mapping[str, Any]],
    places: Mapping[str, SourceMap],
    path: Path,
    examples: tuple[Example, ...] = (),
) -> PromptFiles:
    """The entries of a file, after the pools that they name. Raises `ConfigError` for an unusable one."""
    pools: dict[str, str] = {}
    texts: dict[str, str] = {}
    for key, entry in entries.items():
        if name := entry.get("examples", {}).get("from"):
            prompt = PromptDefinition.from_entry(key.removeprefix(PREFIX), entry)
            try:
                pool = pool_of_file(prompt, path.parent / name)
            except ConfigError as error:
                error.add_note(f"{places[key].of('/examples/from')}: `examples` names this file")
                raise
            pools[pool.key] = pool.text.decode()
            entry = naming(pool, entry)
        texts[key] = _json(entry, path)
    return PromptFiles(pools | texts, examples, places)


def _json(document: Any, path: Path) -> str:
    try:
        return orjson.dumps(document).decode()
    except orjson.JSONEncodeError as error:
        raise PromptError(f"cannot be written as JSON: {error}", where=str(path)) from error


def _export(path: Path) -> dict[str, str]:
    try:
        document = orjson.loads(read_bytes(path, MAX_EXPORT, PromptError))
    except orjson.JSONDecodeError as error:
        raise PromptError(f"not JSON: {error}", where=str(path)) from error
    prompts = document.get("prompt", document) if isinstance(document, dict) else {}
    entries = {
        key: _text(value)
        for key, value in (prompts.items() if isinstance(prompts, dict) else ())
        if key == SYSTEM_KEY or key.startswith((PREFIX, POOL))
    }
    if not entries:
        raise PromptError(
            "the export contains no prompts",
            where=str(path),
            found=document,
            expected="an object with keys `system` and `template.<id>`, at the top or under `prompt`",
        )
    return entries


def _text(value: Any) -> str:
    """The JSON text of an entry, which an export contains as JSON text or as the value itself."""
    if isinstance(value, str):
        try:
            orjson.loads(value)
        except orjson.JSONDecodeError:
            pass
        else:
            return value
    return orjson.dumps(value).decode()
