"""Prompt files, as authors edit them, and exports of a workspace, read into entries of the config topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from trustgraph_prompt.authored import check, read_yaml
from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.prompts.definition import PromptDefinition
from trustgraph_prompt.prompts.entry import SCHEMA, SYSTEM_SCHEMA
from trustgraph_prompt.prompts.prompt_set import PREFIX, SYSTEM_KEY

MAX_EXPORT = 64 * 1024 * 1024
"""Bytes an export may have."""


def load(path: str | Path) -> dict[str, str]:
    """The entries in a folder of prompt files, in one prompt file, or in an export: config key -> JSON text.

    A prompt file is `<id>.yaml`; `system.yaml` holds the system message of all of them. An export is a JSON
    file: the entries by key, or TrustGraph's configuration, which has them under `prompt`. Files are checked
    whole: raises `ConfigError` naming file, key, what was found and what was expected. The entries of an
    export are taken as they are; `PromptSet.build` judges them.
    """
    path = Path(path)
    if path.suffix == ".json":
        return _export(path)
    if not path.is_dir():
        return dict([_file(path)])
    files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
    if not files:
        raise PromptError("no prompts here", where=str(path), found="no *.yaml file", expected="one a prompt")
    return dict(map(_file, files))


def _file(path: Path) -> tuple[str, str]:
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
