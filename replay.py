"""A process that shows an incident file: every page works on it, and nothing is asked of any server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors.poller import Job
from history.alerts import AlertsSeen, AlertWatch
from runtime import Runtime
from settings import Settings
from telemetry.identity import Server
from telemetry.scrape import Notice
from triage.incident import Manifest, rules_digest
from triage.incident_file import open_file
from triage.incident_replay import Opened

if TYPE_CHECKING:
    from telemetry.actions import Record

_LEAST_REFRESH_SECONDS = 0.5


def replayed(path: Path, settings: Settings) -> Replay:
    """The process for a file. Who may see it is what `settings` say; raises UnusableFile."""
    return Replay(open_file(path), settings)


class _AlertsThen(AlertWatch):
    """The alerts as they were."""

    def __init__(self, then: AlertsSeen) -> None:
        super().__init__(None, None)
        self._seen = then

    @property
    def configured(self) -> bool:
        """True if there was anybody to ask."""
        return self._seen.read_at is not None


class Replay(Runtime):
    """A `Runtime` without poller, control and Prometheus; its clock stands at the time of the capture."""

    def __init__(self, opened: Opened, settings: Settings) -> None:
        self._opened = opened
        super().__init__(_settings(opened.incident.manifest, settings))
        self.ring, self.events, self.memory = opened.ring, opened.events, opened.memory
        self.advice = opened.advice
        self.probes, self._configs, self._happened = opened.probes, opened.configs, opened.happened
        self._figures = opened.figures
        self.alerts = _AlertsThen(opened.incident.facts.alerts)

    def start(self) -> None:
        """Nothing: there is nothing to read."""

    @property
    def replayed(self) -> Manifest | None:
        """What is replayed here."""
        return self._opened.incident.manifest

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers of the incident."""
        return self._opened.servers

    @property
    def gone(self) -> Mapping[str, float]:
        """Unix time at which servers went within the hour before, by id."""
        return self._opened.gone

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What of this process' settings cannot be used, and whether the rules are others than then."""
        if self._opened.incident.manifest.rules == rules_digest():
            return super().notices
        text = "the rules are others than when this was captured: findings may differ from findings.json"
        return (*super().notices, Notice("incident", None, text))

    @property
    def window_seconds(self) -> float:
        """The window of rates and means."""
        return self._opened.window_seconds

    @property
    def fresh_seconds(self) -> float:
        """How old the last samples of a server could be that was read through Prometheus."""
        return self._opened.fresh_seconds

    def interval_seconds(self, server: str | None = None) -> float:
        """Between two readings of a server; without one, of the one that was read least often."""
        return self._opened.interval_seconds(server)

    def clock(self) -> float:
        """Unix time of the capture."""
        return self._opened.clock()

    def health(self) -> dict[str, Any]:
        """What /healthz answers: a replay is well as long as the process lives."""
        return {
            "status": "ok",
            "poller_age_seconds": 0.0,
            "servers": {server.id: None for server in self.servers},
            "replay_of": self.clock(),
        }

    def _jobs(self, server: Server) -> list[Job]:
        return []

    def _records(self) -> tuple[Record, ...]:
        return self._opened.records()

    def _want_control(self) -> None:
        """Nothing is written, whatever the settings say."""


def _settings(manifest: Manifest, settings: Settings) -> Settings:
    """This process' settings as to who may see it and where it listens; the incident's as to what is seen."""
    return settings.model_copy(
        update={
            "servers": tuple(row.server() for row in manifest.servers),
            "discoveries": (),
            "control": False,
            "sandbox_state": None,
            "prometheus": None,
            "elsewhere": replace(settings.elsewhere, alertmanager=None),
            "saved_requests": None,
            "golden": None,
            "slo": manifest.objectives,
            "rules": dict(manifest.choices),
            "refresh_seconds": max(_LEAST_REFRESH_SECONDS, manifest.interval_seconds),
            "live_window_seconds": manifest.window_seconds,
        }
    )
