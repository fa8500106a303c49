"""What starting costs: CPU time of whole processes, and how long a worker takes to its first answer.

Each line is the median of many processes, beside that of `python -c pass` of the same run. CPU time is user and
system time of the process to its end. Byte code is there already, as after an installation.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from trustgraph_prompt.broker import connect
from trustgraph_prompt.wire import PromptRequest

ROUNDS = 15
HELP_BAR = 0.150  # seconds of CPU
FIRST_ANSWER_BAR = 1.5  # seconds by the clock
REQUESTS = "persistent://tg/flow/prompt-requests"
RESPONSES = "persistent://tg/flow/prompt-responses"
PROGRAM = ["-m", "trustgraph_prompt"]
READ = "from trustgraph_prompt import read; assert read('[1]', 'json').value == [1]"
WITH_SCHEMA = "from trustgraph_prompt import Contract, read; read('{}', Contract.from_schema({'type': 'object'}))"
PROCESSES = {
    "import trustgraph_prompt": ["-c", "import trustgraph_prompt"],
    "... and a first answer read": ["-c", READ],
    "... against a schema": ["-c", WITH_SCHEMA],
    "trustgraph-prompt --help": [*PROGRAM, "--help"],
    "trustgraph-prompt ask --help": [*PROGRAM, "ask", "--help"],
    "trustgraph-prompt run --help": [*PROGRAM, "run", "--help"],
    "trustgraph-prompt config --help": [*PROGRAM, "config", "--help"],
}
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith(("TRUSTGRAPH_PROMPT_", "OPENAI_", "OTEL_"))
}


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of a Python process that runs to its end."""
    process = subprocess.Popen([sys.executable, *arguments], env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    return _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> float:
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.args
    return used.ru_utime + used.ru_stime


async def first_answer(folder: Path) -> tuple[float, float]:
    """Seconds by the clock from the start of a worker to its first response, and of CPU to its end."""
    broker, script = f"embedded:{folder / 'broker.db'}", folder / "script.jsonl"
    script.write_text(json.dumps({"answer": "To write on walls."}))
    worker = [*PROGRAM, "run", "--broker", broker, "--provider", f"scripted:{script}"]
    async with await connect(broker) as connected:
        responses = await connected.reader(RESPONSES)
        request = PromptRequest.asking("question", {"question": "What is chalk good for?"}).encode()
        await (await connected.producer(REQUESTS)).send(request, properties={"id": "1"})
        started = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, *worker], env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            response = await asyncio.wait_for(responses.receive(), 60)
            took = time.perf_counter() - started
            assert response is not None
            assert "To write on walls." in response.data.decode()
            process.send_signal(signal.SIGTERM)
            return took, await asyncio.to_thread(_ended, process)


def first_answer_of_a_new_worker() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(first_answer(Path(folder)))


def shown(name: str, seconds: float, least: float, bar: float | None = None) -> None:
    told = f"   (bar: {bar * 1e3:,.0f} ms)" if bar else ""
    print(f"  {name:36} {seconds * 1e3:8,.0f} ms {seconds / least:8.1f}x{told}")


def main() -> None:
    for arguments in PROCESSES.values():
        cpu_seconds(arguments)  # writes byte code
    first_answer_of_a_new_worker()
    least = median(cpu_seconds(["-c", "pass"]) for _ in range(ROUNDS))
    print(f"medians of {ROUNDS} processes\n\nCPU time")
    shown("python -c pass", least, least)
    for name, arguments in PROCESSES.items():
        bar = HELP_BAR if name == "trustgraph-prompt --help" else None
        shown(name, median(cpu_seconds(arguments) for _ in range(ROUNDS)), least, bar)
    answers = [first_answer_of_a_new_worker() for _ in range(ROUNDS)]
    shown("run, one request, SIGTERM", median(cpu for _, cpu in answers), least)
    print("\nby the clock")
    shown("run, to its first response", median(took for took, _ in answers), least, FIRST_ANSWER_BAR)


if __name__ == "__main__":
    main()
