"""Telling values to somebody else's function, which may be slow, fail, or ask back."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from threading import Lock, Thread, get_ident
from typing import Any

log = logging.getLogger(__name__)

Exporter = Callable[[str, Any], None]
"""Called with the name and the value of a metric."""

_SOON = 0
"""Stands for a thread that is about to tell; no thread has this number."""


class Exporting:
    """Tells the exporter what changed; `values` gives what all names are worth now.

    It is called in a thread that changed something, and outside of any lock. What others change meanwhile a
    thread of its own tells, after that, so that values never go back, and who changed one thing does not tell
    of all that follows. What the exporter itself changes it is not told.
    """

    def __init__(self, values: Callable[[], Mapping[str, float]]) -> None:
        self.exporter: Exporter | None = None
        self._values = values
        self._lock = Lock()
        self._changed: dict[str, None] = {}
        self._telling: int | None = None  # the thread that is
        self._failed: Exporter | None = None

    def tell(self, names: Iterable[str]) -> None:
        """These have changed."""
        if self.exporter is None:
            return
        with self._lock:
            if self._telling == get_ident():
                return
            self._changed |= dict.fromkeys(names)
            if self._telling is not None:
                return
            self._telling = get_ident()
        if self._tell_once():
            self._telling = _SOON
            try:
                Thread(target=self._tell_the_rest, name="metrics exporter").start()
            except RuntimeError:  # there is no room for one
                self._tell_the_rest()

    def _tell_the_rest(self) -> None:
        self._telling = get_ident()
        while self._tell_once():
            pass

    def _tell_once(self) -> bool:
        """Tell what has changed, and say whether more has meanwhile."""
        with self._lock:
            changed, self._changed = self._changed, {}
        try:
            values = self._values()
            for name in changed:
                self._export(name, values[name])
        except BaseException:
            self._telling = None
            raise
        with self._lock:
            if not self._changed:
                self._telling = None
            return self._telling is not None

    def _export(self, name: str, value: float) -> None:
        exporter = self.exporter
        if exporter is None:
            return
        try:
            try:
                exporter(name, value)
            except ValueError as error:
                if "Duplicated timeseries" not in str(error) or not _forget_gauge(name):
                    raise
                exporter(name, value)
            self._failed = None
        except Exception:
            level = logging.DEBUG if self._failed is exporter else logging.WARNING
            self._failed = exporter  # and one line is enough until it works again
            log.log(level, "the exporter of metrics failed at %s", name, exc_info=True)


def _forget_gauge(name: str) -> bool:
    """Have Prometheus' client take a gauge of this name once more, as seed 3's exporter makes one each time.

    The client knows no other way to ask for a collector by its name than its private table.
    """
    client = sys.modules.get("prometheus_client")
    if client is None:
        return False
    known = client.REGISTRY._names_to_collectors.get(name)
    if not isinstance(known, client.Gauge):
        return False
    client.REGISTRY.unregister(known)
    return True
