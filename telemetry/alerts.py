"""Alerts as Prometheus and Alertmanager tell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AlertState(StrEnum):
    """FIRING: somebody is told. SILENCED and INHIBITED: nobody is told, though it holds. RESOLVED: over."""

    FIRING = "firing"
    SILENCED = "silenced"
    INHIBITED = "inhibited"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. `starts_at` and `ends_at` unix seconds; `ends_at` None while it holds.

    `source` is who told it (Prometheus, Alertmanager), `summary` its annotation, "" where it is not known.
    """

    name: str
    labels: Mapping[str, str]
    starts_at: float
    ends_at: float | None
    state: AlertState
    source: str
    summary: str = ""

    @property
    def server(self) -> str:
        """What its labels call the server, "" if they name none."""
        return self.labels.get("instance", "")

    @property
    def model(self) -> str:
        """The model its labels name, "" if they name none."""
        return self.labels.get("model", "")

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """Name and labels: the same alert told by two sources has the same."""
        return tuple(sorted({**self.labels, "alertname": self.name}.items()))
