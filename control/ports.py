"""What the write side must read, as protocols: it never imports the read side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from telemetry.access import Identity
from telemetry.actions import Action, ActionKind, Record
from telemetry.facts import IndexEntry, ModelConfig, ModelStatistics
from telemetry.memory import MemoryReading

if TYPE_CHECKING:
    from control.journal import Journal
    from control.performer import Job
    from control.policy import Decision


class IndexReader(Protocol):
    """Reads the repository index of one server, fresh at every call and with a short time-out."""

    def index(self, server_id: str) -> tuple[IndexEntry, ...]:
        """All rows of the index now; raises SourceError."""


class StatisticsReader(Protocol):
    """Reads the statistics of one server, fresh at every call and with a short time-out."""

    def statistics(self, server_id: str) -> tuple[ModelStatistics, ...]:
        """Statistics of every model that is ready now; raises SourceError."""


class ConfigReader(Protocol):
    """Reads one model's effective configuration, fresh at every call and with a short time-out."""

    def config(self, server_id: str, model: str, version: str = "") -> ModelConfig:
        """The configuration of the version (the newest ready one for ""); raises SourceError."""


class ServerReader(IndexReader, StatisticsReader, ConfigReader, Protocol):
    """Everything the write side reads."""


class ServerFiles(Protocol):
    """Reads what the API does not tell, where the app runs on the server's machine: the sandbox."""

    def config_text(self, server_id: str, model: str) -> str | None:
        """The text of the model's config.pbtxt, "" if it has none; None if the files cannot be read here."""

    def log_tail(self, server_id: str) -> str | None:
        """The end of the server's log; None if it cannot be read here."""


class NoFiles:
    """The files of no server can be read."""

    def config_text(self, server_id: str, model: str) -> str | None:
        """Not readable."""

    def log_tail(self, server_id: str) -> str | None:
        """Not readable."""


class MemoryReader(Protocol):
    """Reads the memory of one server, fresh at every call; never raises."""

    def memory(self, server_id: str) -> MemoryReading | None:
        """What is in use now, bytes by device; None if nothing is reported."""


class NoMemory:
    """The memory of no server is reported."""

    def memory(self, server_id: str) -> MemoryReading | None:
        """Not reported."""


class Writes(Protocol):
    """The part of `control.facade.Control` that the process' own repairs and returns go through."""

    journal: Journal

    def decide(self, server_id: str, kind: ActionKind, model: str = "", *, by: Identity) -> Decision:
        """May this be done?"""
        ...

    def perform(self, action: Action, *, by: Identity) -> Job:
        """Begin an action; raises a ControlError when nothing was begun."""
        ...

    def records(self) -> tuple[Record, ...]:
        """What was done, newest first."""
        ...
