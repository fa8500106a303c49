"""Begins a gold file from a run of `extract`, for a person to correct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trustgraph_prompt.config_files import read_json_lines
from trustgraph_prompt.documents import Converter
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.extraction.questions import Splitting

_LINE: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["prompt", "file", "sha256", "chunk", "object"],
    "properties": {
        "prompt": {"type": "string"},
        "file": {"type": "string"},
        "sha256": {"type": "string"},
        "chunk": {"type": "integer"},
        "object": {},
    },
}


def begin(extracted: Path, prompts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines of a gold file: one for each chunk of the documents and each of these prompts.

    They have what the model gave, so also the chunks of which nothing came. Only documents of which no prompt
    gave an object are left out, as `extracted` does not name them. The documents are read again, and split as
    they were. Raises `ConfigError` if `extracted` is not the output of a run, or if a document is
    gone or has changed.
    """
    objects: dict[tuple[str, int, str], list[Any]] = {}
    files: dict[str, tuple[str, str]] = {}
    for where, line in read_json_lines(extracted, _LINE):
        files.setdefault(line["file"], (line["sha256"], where))
        if line["prompt"] in prompts:
            objects.setdefault((line["file"], line["chunk"], line["prompt"]), []).append(line["object"])
    if not objects:
        raise ConfigError(
            "it has no objects of these prompts",
            where=f"--from {extracted}",
            expected=f"objects of {' or '.join(prompts)}",
        )
    splitting = Splitting.recorded(extracted.with_name(f"{extracted.name}.state"))
    with Converter() as converter:
        for file, (sha256, where) in files.items():
            document, chunks = splitting.read(Path(file), converter)
            if document.sha256 != sha256:
                raise ConfigError("the document has changed since it was extracted", where=where, found=file)
            for chunk in chunks:
                for prompt in prompts:
                    yield {
                        "name": f"{file} chunk {chunk.number}",
                        "prompt": prompt,
                        "terms": {"text": chunk.text},
                        "objects": objects.get((file, chunk.number, prompt), []),
                    }
