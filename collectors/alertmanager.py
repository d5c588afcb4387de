"""Reads the alerts of one Alertmanager: `GET /api/v2/alerts`.

https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from telemetry.alerts import Alert, AlertState
from telemetry.elsewhere import AlertmanagerEndpoint
from telemetry.errors import WrongContent
from telemetry.identity import Server
from telemetry.transport import Transport, host_of

SOURCE = "Alertmanager"
TIMEOUT_SECONDS = 5.0


class AlertmanagerReader:
    """Reads one Alertmanager; safe to use from many threads."""

    def __init__(self, endpoint: AlertmanagerEndpoint, transport: Transport | None = None) -> None:
        self._endpoint = endpoint
        identity = Server("alertmanager", endpoint.url, None, endpoint.headers, endpoint.ca_file)
        self._transport = transport or Transport(identity, timeout_seconds=TIMEOUT_SECONDS)

    @property
    def host(self) -> str:
        """`host:port`, for sentences."""
        return host_of(self._endpoint.url)

    def alerts(self) -> tuple[Alert, ...]:
        """The alerts it holds now; raises SourceError with a sentence."""
        text = self._transport.get(f"{self._endpoint.url}/api/v2/alerts").text
        try:
            return parse_alerts(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise WrongContent(
                f"{self.host} did not answer as Alertmanager's API v2 does: is it the right address?",
                detail=f"{error!r}: {text[:400]}",
            ) from error


def parse_alerts(rows: Any) -> tuple[Alert, ...]:
    """The alerts of an answer of `/api/v2/alerts`; ValueError, KeyError or TypeError for any other."""
    return tuple(_alert(row) for row in rows)


def _alert(row: Mapping[str, Any]) -> Alert:
    labels = {str(name): str(value) for name, value in row["labels"].items()}
    name = labels.pop("alertname", "")
    summary = str((row.get("annotations") or {}).get("summary", ""))
    return Alert(name, labels, _seconds(row["startsAt"]), None, _state(row["status"]), SOURCE, summary)


def _state(status: Mapping[str, Any]) -> AlertState:
    """Alertmanager holds what is not over; `unprocessed` is one that nobody was told of yet."""
    if status.get("silencedBy"):
        return AlertState.SILENCED
    if status.get("inhibitedBy"):
        return AlertState.INHIBITED
    return AlertState.FIRING


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
