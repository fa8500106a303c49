"""Prompt files, as authors edit them, and exports of a workspace, read into entries of the config topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from trustgraph_prompt.config_files import check, read_text, read_yaml
from trustgraph_prompt.errors import ConfigError, PromptError, raise_first
from trustgraph_prompt.prompts.definition import PromptDefinition
from trustgraph_prompt.prompts.entry import SCHEMA, SYSTEM_SCHEMA
from trustgraph_prompt.prompts.example import Example
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY, PromptSet
from trustgraph_prompt.prompts.source_map import SourceMap

__all__ = ["PromptFiles", "load", "read", "together"]

SUFFIXES = (".prompt", ".yaml", ".yml")
"""How files end that hold prompts: in the schema language, or one entry as YAML."""

MAX_EXPORT = 64 * 1024 * 1024
"""Bytes an export may have."""


@dataclass(frozen=True, slots=True)
class PromptFiles:
    """What prompt files say: entries by config key, as JSON text; examples; and where each entry stands."""

    entries: Mapping[str, str]
    examples: tuple[Example, ...] = ()
    places: Mapping[str, SourceMap] = field(default_factory=dict)

    def build(self) -> PromptSet:
        """The prompts, compiled. Raises `ConfigError` for what is wrong only in them all together."""
        prompts = PromptSet.build(self.entries)
        raise_first(self._placed(key, error) for key, error in prompts.refused.items())
        return prompts

    def _placed(self, key: str, error: ConfigError) -> ConfigError:
        """The error of an entry, said of the place where it is written."""
        where = self.places[key].of(error.path) if key in self.places else error.where
        return type(error)(
            error.message, where=where, path=error.path, found=error.found, expected=error.expected
        )


def load(path: str | Path) -> dict[str, str]:
    """The entries in a folder of prompt files, in one prompt file, or in an export: config key -> JSON text.

    Raises as `read`.
    """
    return dict(read(path).entries)


def read(path: str | Path) -> PromptFiles:
    """What a folder of prompt files says, or one of them, or an export.

    A file `*.prompt` is in the schema language; it holds any number of prompts, their schemas and perhaps the
    system message. `<id>.yaml` is one entry, `system.yaml` the system message. An export is a JSON file: the
    entries by key, or TrustGraph's configuration, which has them under `prompt`. Files are checked whole:
    raises `ConfigError` naming file, line and column (`*.prompt`) or key, what was found and what was
    expected. The entries of an export are taken as they are; `PromptSet.build` judges them.
    """
    path = Path(path)
    if path.suffix == ".json":
        return PromptFiles(_export(path))
    if not path.is_dir():
        return _file(path)
    files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if not files:
        raise PromptError(
            "no prompts here", where=str(path), found="no *.prompt and no *.yaml file", expected="some"
        )
    return together(map(_file, files))


def together(parts: Iterable[PromptFiles]) -> PromptFiles:
    """What several files say. Raises `PromptError` for an entry that two of them have."""
    entries: dict[str, str] = {}
    places: dict[str, SourceMap] = {}
    examples: list[Example] = []
    for part in parts:
        for key in part.entries:
            if key in entries:
                raise PromptError(
                    "the system message is there twice" if key == SYSTEM_KEY else "the prompt is there twice",
                    where=part.places[key].of(),
                    found=key.removeprefix(PREFIX),
                    expected=f"no other than that of {places[key].of()}",
                )
        entries |= part.entries
        places |= part.places
        examples += part.examples
    return PromptFiles(entries, tuple(examples), places)


def _file(path: Path) -> PromptFiles:
    if path.suffix != ".prompt":
        key, entry = _entry(path)
        return PromptFiles({key: entry}, places={key: SourceMap(str(path))})
    from trustgraph_prompt.prompts.prompt_file import compile

    written = compile(read_text(path, PromptError), str(path))
    entries = {key: _json(entry, path) for key, entry in written.entries.items()}
    return PromptFiles(entries, written.examples, written.places)


def _entry(path: Path) -> tuple[str, str]:
    document = read_yaml(path, PromptError)
    if path.stem == SYSTEM_KEY:
        check(document, SYSTEM_SCHEMA, str(path), PromptError)
        return SYSTEM_KEY, _json(document, path)
    check(document, SCHEMA, str(path), PromptError)
    PromptDefinition.from_entry(path.stem, document, where=str(path))
    return PREFIX + path.stem, _json(document, path)


def _json(document: Any, path: Path) -> str:
    try:
        return orjson.dumps(document).decode()
    except orjson.JSONEncodeError as error:
        raise PromptError(f"not plain JSON: {error}", where=str(path)) from error


def _export(path: Path) -> dict[str, str]:
    try:
        if path.stat().st_size > MAX_EXPORT:
            raise PromptError(f"larger than {MAX_EXPORT:,} bytes", where=str(path))
        document = orjson.loads(path.read_bytes())
    except OSError as error:
        raise PromptError(error.strerror or str(error), where=str(path)) from error
    except orjson.JSONDecodeError as error:
        raise PromptError(f"not JSON: {error}", where=str(path)) from error
    prompts = document.get("prompt", document) if isinstance(document, dict) else {}
    entries = {
        key: _text(value)
        for key, value in (prompts.items() if isinstance(prompts, dict) else ())
        if key == SYSTEM_KEY or key.startswith(PREFIX)
    }
    if not entries:
        raise PromptError(
            "no prompts here",
            where=str(path),
            found=document,
            expected="an object with `system` and `template.<id>`, or one that has it under `prompt`",
        )
    return entries


def _text(value: Any) -> str:
    """The JSON text of an entry, which an export has as text already, or as the value itself."""
    if isinstance(value, str):
        try:
            orjson.loads(value)
        except orjson.JSONDecodeError:
            pass
        else:
            return value
    return orjson.dumps(value).decode()
