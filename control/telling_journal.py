"""A journal that says when an action on a repository was sent or has ended, so that it is looked at once."""

from __future__ import annotations

from collections.abc import Callable

from control.actions import Conclusion, Record
from control.journal import Journal


class TellingJournal(Journal):
    """A journal that tells when an action on the repository was sent or has ended."""

    def __init__(self, acted: Callable[[Record], None]) -> None:
        super().__init__()
        self._acted = acted

    def progress(self, record_id: int, stage: str | None = None, *, sent: bool | None = None) -> Record:
        """As in Journal; a request that has just left makes the index be read."""
        return self._told(super().progress(record_id, stage, sent=sent))

    def end(self, record_id: int, conclusion: Conclusion) -> Record:
        """As in Journal; makes everything be read that the action may have changed."""
        return self._told(super().end(record_id, conclusion))

    def _told(self, record: Record) -> Record:
        if record.sent and record.action.kind.changes_repository:
            self._acted(record)
        return record
