"""What is derived from one revision of the history, computed once however many ask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True)
class _Cell:
    lock: threading.Lock = field(default_factory=threading.Lock)
    filled: bool = False
    value: Any = None


class Moment:
    """What was derived from one revision of the history; `at` is the unix time of its figures."""

    def __init__(self, revision: int, at: float) -> None:
        self.revision = revision
        self.at = at
        self._lock = threading.Lock()
        self._cells: dict[Hashable, _Cell] = {}

    def once(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """The value of `key`, computed by whoever asks first while the others wait for it."""
        with self._lock:
            cell = self._cells.setdefault(key, _Cell())
        with cell.lock:
            if not cell.filled:
                cell.value, cell.filled = compute(), True
            value: Result = cell.value
        return value
