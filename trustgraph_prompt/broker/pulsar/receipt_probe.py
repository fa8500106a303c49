"""A child process that receives messages with limited memory, and dies of one that is too large.

Pulsar's client decompresses messages and assembles chunks in native code, before Python sees them, and aborts
the process when memory runs out. No setting of the client limits that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from typing import Final

import pulsar

from trustgraph_prompt.broker.pulsar.credentials import Credentials
from trustgraph_prompt.process_memory import limit_memory

LARGEST: Final = 64_000_000
"""Bytes of a decompressed message that can be received. Our own messages have 5 MB at most."""

_CLIENT_BYTES: Final = 48_000_000
"""Bytes that the client itself may need."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Receive the entries from `first` to `last`, or only `first`, through a subscription.

    An entry is a pair of ledger and entry number. `deadline` seconds without a message end the process
    (SIGALRM).
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
    """Read a probe from standard input, and write the id of each received message to standard output."""
    probe = Probe(**json.load(sys.stdin))
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    client = pulsar.Client(probe.url, logger=logger, **Credentials.from_environment().options())
    consumer = client.subscribe(
        probe.topic,
        probe.subscription,
        # 0 prevents prefetching of other entries, but receives only the first message of a batch.
        receiver_queue_size=0 if probe.last is None else 1,
        start_message_id_inclusive=True,
    )
    consumer.seek(pulsar.MessageId(probe.partition, *probe.first, -1))
    limit_memory(LARGEST + _CLIENT_BYTES)
    last = tuple(probe.last or probe.first)
    while True:
        signal.alarm(probe.deadline)
        id = consumer.receive().message_id()
        sys.stdout.write(f"{id}\n")
        sys.stdout.flush()
        if (id.ledger_id(), id.entry_id()) >= last:
            os._exit(0)  # closing the client takes long


if __name__ == "__main__":
    main()
