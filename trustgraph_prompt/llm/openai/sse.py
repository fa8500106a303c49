"""Decodes server-sent events (WHATWG HTML, "Interpreting an event stream"); only their `data` is used."""

from __future__ import annotations

#: Bytes of one event.
MAX_EVENT_BYTES = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "


class EventTooLarge(ValueError):
    """An event is larger than the limit."""


class EventStream:
    """Splits chunks of any size into the data of events.

    Takes time linear in the number of bytes, even if they come one at a time.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._begun = False
        self._line = bytearray()  # whose end has not come yet
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the events that end in this chunk. Raises `EventTooLarge`."""
        if not (self._line or self._data) and (events := _plain_events(chunk)) and len(chunk) <= self._max:
            self._begun = True
            return events
        if b"\n" not in chunk and b"\r" not in chunk and not self._line.endswith(b"\r"):
            self._line += chunk
            self._check(len(self._line))
            return []
        lines = (bytes(self._line) + chunk).splitlines(keepends=True)
        # a line that ends in \r may yet turn out to end in \r\n
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        self._line = bytearray(rest)
        self._check(len(rest))
        return [event for line in lines if (event := self._take(line.rstrip(b"\r\n"))) is not None]

    def close(self) -> list[bytes]:
        """Return the last event if the server left out the empty line that ends it."""
        line, self._line = bytes(self._line), bytearray()
        events = [self._take(line.rstrip(b"\r\n")), self._take(b"")]
        return [event for event in events if event is not None]

    def _take(self, line: bytes) -> bytes | None:
        if not self._begun:
            line, self._begun = line.removeprefix(_BOM), True
        if not line:
            event = b"\n".join(self._data) if self._data else None
            self._data, self._size = [], 0
            return event
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(line)
            self._check(self._size)
        return None

    def _check(self, size: int) -> None:
        if size > self._max:
            raise EventTooLarge(f"the server sent an event of more than {self._max:,} bytes")


def _plain_events(chunk: bytes) -> list[bytes] | None:
    """The events of a chunk in which each is one line `data: …` and an empty line, as nearly all are.

    None for any other chunk.
    """
    *events, rest = chunk.split(b"\n\n")
    if rest or b"\r" in chunk or chunk.count(b"\n") != 2 * len(events):
        return None
    data = [event[len(_DATA) :] for event in events if event.startswith(_DATA)]
    return data if len(data) == len(events) else None
