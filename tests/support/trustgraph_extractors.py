"""TrustGraph's own extractors and its prompt service, from the package index, each in a process of its own.

`make .venv/extractors/.ready` installs them, without what other processors of the package import. Its
ontology extractor is left out: it downloads data when it is imported.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

FOLDER: Final = Path(sys.prefix) / "extractors"
MISSING: Final = "no trustgraph-flow: make LOCK=ci .venv/extractors/.ready"
_PROGRAM: Final = Path(__file__).with_name("trustgraph_extractor_main.py")

#: Their modules, by the id of the processor.
MODULES: Final = {
    "prompt": "trustgraph.prompt.template",
    "kg-extract-definitions": "trustgraph.extract.kg.definitions",
    "kg-extract-relationships": "trustgraph.extract.kg.relationships",
    "kg-extract-rows": "trustgraph.extract.kg.rows",
    "kg-extract-agent": "trustgraph.extract.kg.agent",
}


def installed() -> bool:
    return (FOLDER / "trustgraph").is_dir()


@dataclass(frozen=True)
class TrustGraphProcessor:
    """A process of TrustGraph's."""

    process: subprocess.Popen[bytes]
    log: Path

    async def started(self, seconds: float = 60) -> None:
        """Wait until it takes messages of all flows that the config had. Raises `AssertionError`."""
        deadline = monotonic() + seconds
        while "Applied startup config version" not in (text := self.log.read_text(errors="replace")):
            assert self.process.poll() is None, text[-3000:]
            assert monotonic() < deadline, text[-3000:]
            await asyncio.sleep(0.05)


@contextmanager
def trustgraph_processor(
    id: str, url: str, space: str, folder: Path, *options: object
) -> Iterator[TrustGraphProcessor]:
    """The processor with this id, for the time of the block; its log lies in the folder."""
    log = folder / f"{id}.log"
    command = [sys.executable, "-P", str(_PROGRAM), MODULES[id], space, "--id", id, "--pulsar-host", url]
    command += ["--no-metrics", "--no-loki-enabled", *map(str, options)]
    with log.open("wb") as lines:
        process = subprocess.Popen(
            command, stdout=lines, stderr=lines, env={**os.environ, "PYTHONPATH": str(FOLDER)}
        )
    try:
        yield TrustGraphProcessor(process, log)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
