"""What starting costs: CPU time of whole processes, and how long a worker takes to its first answer.

Each line is the median of many processes, beside that of `python -c pass` of the same run. CPU time is user
and system time of the process to its end. Byte code is there already, as after an installation.
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
HELD = (
    "from trustgraph_prompt import Contract, read; "
    "assert read('[1]', Contract.from_schema({'items': {'type': 'integer'}})).value == [1]"
)
PROCESSES = {
    "import trustgraph_prompt": ["-c", "import trustgraph_prompt"],
    "... and a first answer read": ["-c", READ],
    "... against a schema": ["-c", HELD],
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


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    """A Python process that nobody listens to."""
    command, quiet = [sys.executable, *arguments], subprocess.DEVNULL
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=quiet, stderr=quiet)


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """User and system time of a process to its end."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.args
    return used.ru_utime + used.ru_stime


async def first_answer(folder: Path) -> tuple[float, float]:
    """Seconds by the clock from the start of a worker to its first response, and of CPU to its end."""
    broker, script = f"embedded:{folder / 'broker.db'}", folder / "script.jsonl"
    script.write_text(json.dumps({"answer": "To write on walls."}))
    request = PromptRequest.asking("question", {"question": "What is chalk good for?"})
    async with await connect(broker) as connected:
        responses = await connected.reader(RESPONSES)
        await (await connected.producer(REQUESTS)).send(request.encode(), properties={"id": "1"})
        started = time.perf_counter()
        worker = start([*PROGRAM, "run", "--broker", broker, "--provider", f"scripted:{script}"])
        response = await asyncio.wait_for(responses.receive(), 60)
        took = time.perf_counter() - started
        worker.send_signal(signal.SIGTERM)
        assert response is not None
        assert "To write on walls." in response.data.decode()
        return took, await asyncio.to_thread(cpu_seconds, worker)


def first_answer_of_a_new_worker() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(first_answer(Path(folder)))


def shown(name: str, seconds: float, least: float, bar: float | None = None) -> None:
    told = f"   (bar: {bar * 1e3:,.0f} ms)" if bar else ""
    print(f"  {name:36} {seconds * 1e3:8,.0f} ms {seconds / least:8.1f}x{told}")


def main() -> None:
    for arguments in PROCESSES.values():
        cpu_seconds(start(arguments))  # writes byte code
    first_answer_of_a_new_worker()
    least = median(cpu_seconds(start(["-c", "pass"])) for _ in range(ROUNDS))
    print(f"medians of {ROUNDS} processes\n\nCPU time")
    shown("python -c pass", least, least)
    for name, arguments in PROCESSES.items():
        bar = HELP_BAR if name == "trustgraph-prompt --help" else None
        shown(name, median(cpu_seconds(start(arguments)) for _ in range(ROUNDS)), least, bar)
    answers = [first_answer_of_a_new_worker() for _ in range(ROUNDS)]
    shown("run, one request, SIGTERM", median(cpu for _, cpu in answers), least)
    print("\nby the clock")
    shown("run, to its first response", median(took for took, _ in answers), least, FIRST_ANSWER_BAR)


if __name__ == "__main__":
    main()
