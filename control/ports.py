"""What the write side must read, as protocols: it never imports the read side."""

from __future__ import annotations

from typing import Protocol

from telemetry.facts import IndexEntry, ModelConfig, ModelStatistics


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
