"""Where else an operator looks: Alertmanager, Grafana and the logs as the settings name them, with links."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote, urlencode, urlsplit

from telemetry.errors import SettingsError
from telemetry.located_yaml import Located
from telemetry.scrape import Notice
from telemetry.server_entry import ServerEntry
from telemetry.transport import normalise_address

SECTIONS = ("alertmanager", "grafana", "logs")
"""Sections of the settings that are read here."""

ALERTMANAGER_KEYS: dict[str, str] = {
    "url": "address of Alertmanager, read by the app (`/api/v2/alerts`) and opened by people to silence",
    "public_url": "address people open it at, where it is another; default: `url`",
    "headers": "headers sent with every request",
    "headers_from_env": "header name: environment variable that holds its value (tokens)",
    "headers_from_file": "header name: file that holds its value (mounted secrets)",
    "ca_file": "PEM file with the certificate authority that signed its certificate",
}
GRAFANA_KEYS: dict[str, str] = {
    "url": "address people open Grafana at; findings then link to the board of their model and time",
}
LOGS_KEYS: dict[str, str] = {
    "url_template": "address of the logs (Loki, Kibana) with `{server}`, `{model}`, `{version}`, `{from}`, "
    "`{to}` (unix seconds), `{from_ms}`, `{to_ms}`, `{from_iso}`, `{to_iso}`; findings then link there",
}
LOG_FIELDS = ("server", "model", "version", "from", "to", "from_ms", "to_ms", "from_iso", "to_iso")
_FIELD = re.compile(r"\{([A-Za-z_]+)\}")

MODEL_BOARD, FLEET_BOARD = "tritonscope-model", "tritonscope-fleet"
"""Uids of the boards in grafana/dashboards/."""


@dataclass(frozen=True, slots=True)
class AlertmanagerEndpoint:
    """One Alertmanager. `url` is what the app asks, `public_url` what people open; no trailing slash."""

    url: str
    public_url: str
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What the settings name; None and "" for what they do not."""

    alertmanager: AlertmanagerEndpoint | None = None
    grafana_url: str = ""
    log_template: str = ""


def elsewhere_of(
    source: str, sections: Mapping[str, Located], environ: Mapping[str, str], folder: Path = Path()
) -> tuple[Elsewhere, list[Notice]]:
    """The three sections as written; what cannot be used of them becomes a notice and costs itself only."""
    notices: list[Notice] = []
    entries = {name: _entry(source, name, sections, environ, folder, notices) for name in SECTIONS}
    alertmanager, grafana, logs = (entries[name] for name in SECTIONS)
    found = Elsewhere(
        _alertmanager(alertmanager) if alertmanager is not None else None,
        _address(grafana, "grafana", "url") if grafana is not None else "",
        _template(logs) if logs is not None else "",
    )
    return found, notices


def _entry(
    source: str,
    name: str,
    sections: Mapping[str, Located],
    environ: Mapping[str, str],
    folder: Path,
    notices: list[Notice],
) -> ServerEntry | None:
    located = sections.get(name)
    if located is None or located == Located(located.line):
        return None
    known = {"alertmanager": ALERTMANAGER_KEYS, "grafana": GRAFANA_KEYS, "logs": LOGS_KEYS}[name]
    if located.entries is None:
        notices.append(Notice(source, located.line, f"{name} needs `{next(iter(known))}:`: not used"))
        return None
    notices += (
        Notice(source, line, f"{name}: unknown setting {key}: not used")
        for key, line in located.key_lines.items()
        if key not in known
    )
    return ServerEntry(source, located.line, located.entries, environ, folder, notices)


def _address(entry: ServerEntry, section: str, key: str) -> str:
    try:
        return normalise_address(entry.text(key))
    except SettingsError as error:
        entry.note(key, f"{section}: {error.sentence}: not used")
        return ""


def _alertmanager(entry: ServerEntry) -> AlertmanagerEndpoint | None:
    url = _address(entry, "alertmanager", "url")
    if not url:
        return None
    url = url.removesuffix("/api/v2")
    public = _address(entry, "alertmanager", "public_url") if entry.text("public_url") else ""
    return AlertmanagerEndpoint(url, public or url, MappingProxyType(entry.headers()), entry.ca_file())


def _template(entry: ServerEntry) -> str:
    template = entry.text("url_template")
    unknown = sorted(set(_FIELD.findall(template)) - set(LOG_FIELDS))
    if unknown:
        entry.note("url_template", f"logs: url_template knows no {{{unknown[0]}}}: not used")
        return ""
    parts = urlsplit(_FIELD.sub("x", template))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        entry.note("url_template", "logs: url_template must be an address beginning with http:// or https://")
        return ""
    return template


# ---- links


def log_link(template: str, *, server: str, model: str, version: str, start: float, end: float) -> str:
    """The template filled in for [start, end] (unix seconds); every value is percent-encoded."""
    values = {
        "server": server,
        "model": model,
        "version": version,
        "from": f"{start:.0f}",
        "to": f"{end:.0f}",
        "from_ms": f"{start * 1e3:.0f}",
        "to_ms": f"{end * 1e3:.0f}",
        "from_iso": _iso(start),
        "to_iso": _iso(end),
    }
    return _FIELD.sub(lambda found: quote(values[found[1]], safe=""), template)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def grafana_link(url: str, *, server: str, model: str, version: str, start: float, end: float) -> str:
    """The board of a model, or of the fleet without one, at [start, end] (unix seconds)."""
    chosen = {"var-server": server, "var-model": model, "var-version": version}
    query = {name: value for name, value in chosen.items() if value}
    query |= {"from": f"{start * 1e3:.0f}", "to": f"{end * 1e3:.0f}"}
    return f"{url}/d/{MODEL_BOARD if model else FLEET_BOARD}?{urlencode(query)}"


def silence_link(url: str, labels: Mapping[str, str]) -> str:
    """Alertmanager's form for a new silence with these labels as its matchers."""
    matchers = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items() if value)
    return f"{url}/#/silences/new?filter={quote('{' + matchers + '}', safe='')}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
