"""A process that receives messages one by one and may die of them: it has little memory to unpack them in.

Pulsar's client unpacks a message and puts chunks together in native code, before anybody sees the message,
and aborts the process where there is not enough memory. No setting of the client bounds that.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pulsar

from trustgraph_prompt.broker.pulsar.credentials import Credentials

LARGEST: Final = 64_000_000
"""Bytes of a message once it is unpacked. Of what is published here, none has more than 5 MB."""

_BESIDE: Final = 48_000_000
"""Bytes that the client itself may need."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Receive, through a subscription, from an entry of a topic to the last one, or the first one alone.

    Entries are pairs of ledger and entry. Without a message for `deadline` seconds SIGALRM ends the process.
    """

    url: str
    topic: str
    partition: int
    subscription: str
    first: tuple[int, int]
    last: tuple[int, int] | None
    deadline: int

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def main() -> None:
    """Read a probe from standard input; write the id of each message that was received."""
    probe = Probe(**json.load(sys.stdin))
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    client = pulsar.Client(probe.url, logger=logger, **Credentials.from_environment().options())
    consumer = client.subscribe(
        probe.topic,
        probe.subscription,
        receiver_queue_size=0
        if probe.last is None
        else 1,  # 0: no other comes; but of a batch only the first
        start_message_id_inclusive=True,
    )
    consumer.seek(pulsar.MessageId(probe.partition, *probe.first, -1))
    _limit_memory(LARGEST + _BESIDE)
    last = tuple(probe.last or probe.first)
    while True:
        signal.alarm(probe.deadline)
        id = consumer.receive().message_id()
        sys.stdout.write(f"{id}\n")
        sys.stdout.flush()
        if (id.ledger_id(), id.entry_id()) >= last:
            os._exit(0)  # to close the client takes its time


def _limit_memory(more: int) -> None:
    """To so much more than there is now; on systems that cannot say (all but Linux) there is no limit."""
    import resource

    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmData:\s+(\d+) kB", status.read_text())):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (int(found[1]) * 1024 + more, hard))


if __name__ == "__main__":
    main()
