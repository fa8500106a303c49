"""One instance that all share who are handed none."""

from __future__ import annotations

from threading import RLock
from typing import Any, ClassVar, Self


class DefaultInstance:
    """A class with one default instance, made when it is first asked for."""

    _default: ClassVar[Any] = None
    _default_lock: ClassVar[RLock]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._default, cls._default_lock = None, RLock()

    @classmethod
    def get_instance(cls) -> Self:
        """The instance that all share."""
        with cls._default_lock:
            if cls._default is None:
                cls._default = cls._make_default()
            made: Self = cls._default
            return made

    @classmethod
    def reset(cls) -> None:
        """Have a new one made when the next asks; who has the old one keeps it."""
        with cls._default_lock:
            cls._default = None

    @classmethod
    def _make_default(cls) -> Self:
        return cls()
