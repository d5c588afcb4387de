"""Something that is done again and again beside everything else: one daemon thread, ended by an event."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_LOG = logging.getLogger(__name__)
_END_SECONDS = 1.0
"""How long `stop` waits for a round that is under way; it goes on if it takes longer."""


class Rounds:
    """Calls `work` every `every_seconds` until it is stopped; a round that fails ends none of the others.

    `at_once`: the first round begins with `start`, else after `every_seconds`.
    """

    def __init__(
        self, name: str, work: Callable[[], object], every_seconds: float, *, at_once: bool = True
    ) -> None:
        self._name, self._work = name, work
        self._every_seconds, self._at_once = every_seconds, at_once
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    @property
    def alive(self) -> bool:
        """True from `start` to `stop`."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def ended(self) -> bool:
        """True after `stop`: a round under way may leave out what is left of it."""
        return self._ended.is_set()

    def start(self) -> None:
        """Begin; a second call does nothing."""
        if self._thread is None:
            # An event of its own: a round of before that still goes on does not come back to life.
            self._ended = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._ended,), name=self._name, daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """End after the round that is under way."""
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_SECONDS)

    def _run(self, ended: threading.Event) -> None:
        if not self._at_once:
            ended.wait(self._every_seconds)
        while not ended.is_set():
            try:
                self._work()
            except Exception:  # noqa: BLE001 - a defect in one round must not end the others
                _LOG.exception("%s: a round failed", self._name)
            ended.wait(self._every_seconds)
