"""Where the history beyond this process is: one Prometheus-compatible API, as it is configured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from telemetry.errors import SettingsError
from telemetry.located_yaml import Located
from telemetry.scrape import Notice
from telemetry.server_entry import ServerEntry
from telemetry.transport import check_headers, normalise_address

TENANT_HEADER = "X-Scope-OrgID"
"""The header by which Mimir, Cortex and Thanos tell tenants apart."""
TIMEOUT_SECONDS = 10.0

PROMETHEUS_KEYS: dict[str, str] = {
    "url": "address of the API (Prometheus, Thanos, Mimir, VictoriaMetrics), up to before `/api/v1`",
    "tenant": f"tenant, sent as `{TENANT_HEADER}` with every query",
    "headers": "headers sent with every query",
    "headers_from_env": "header name: environment variable that holds its value (tokens)",
    "headers_from_file": "header name: file that holds its value (mounted secrets)",
    "ca_file": "PEM file with the certificate authority that signed the API's certificate",
    "matchers": "labels that every query asks for, for example `cluster: prod`; a value may begin with "
    "`=~`, `!~` or `!=`",
    "replica_label": "label in which the series of an HA pair of Prometheus differ; default: found out",
    "server_label": "label that tells Triton servers apart; default: `instance`",
    "model_label": "label with the model's name; default: `model`, or `exported_model` where there is one",
    "version_label": "label with its version; default: `version`, or `exported_version` where there is one",
    "workload_label": "label shared by servers that serve the same models; default: `workload`, else the job",
    "timeout_seconds": f"longest time for one query, seconds; default: {TIMEOUT_SECONDS:g}",
}

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OPERATORS = ("=~", "!~", "!=")
_LABEL_KEYS = ("replica_label", "server_label", "model_label", "version_label", "workload_label")


@dataclass(frozen=True, slots=True)
class PrometheusEndpoint:
    """One API. `url` is complete, without a trailing slash; `matchers` is PromQL text for every selector.

    `model_label` and `version_label` "" mean that they are found out; so does `replica_label`.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    ca_file: str | None = None
    matchers: tuple[str, ...] = ()
    replica_label: str = ""
    server_label: str = "instance"
    model_label: str = ""
    version_label: str = ""
    workload_label: str = "workload"
    timeout_seconds: float = TIMEOUT_SECONDS


def quoted(value: str) -> str:
    """A label value as PromQL writes it, with its quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def endpoint_of(
    source: str,
    line: int | None,
    values: Mapping[str, Located],
    environ: Mapping[str, str],
    folder: Path = Path(),
) -> tuple[PrometheusEndpoint | None, list[Notice]]:
    """The API as written, None without a usable address, and what could not be used of it."""
    entry = ServerEntry(source, line, values, environ, folder)
    try:
        url = normalise_address(entry.text("url")).removesuffix("/api/v1")
    except SettingsError as error:
        text = f"history.prometheus: {error.sentence}: Prometheus is not asked"
        return None, [Notice(source, entry.line_of("url"), text)]
    headers = entry.headers()
    tenant = entry.text("tenant")
    if tenant:
        try:
            check_headers({TENANT_HEADER: tenant})
            headers[TENANT_HEADER] = tenant
        except SettingsError as error:
            entry.note("tenant", f"tenant: {error.sentence}")
    labels = {key: text for key in _LABEL_KEYS if (text := _label(entry, key))}
    endpoint = PrometheusEndpoint(
        url,
        MappingProxyType(headers),
        entry.ca_file(),
        _matchers(entry),
        timeout_seconds=_timeout(entry),
        **labels,
    )
    return endpoint, entry.notices


def _label(entry: ServerEntry, key: str) -> str:
    text = entry.text(key)
    if text and not _LABEL.fullmatch(text):
        entry.note(key, f"{key}: {text!r} is not a label name: not used")
        return ""
    return text


def _matchers(entry: ServerEntry) -> tuple[str, ...]:
    found = []
    for name, located in entry.pairs("matchers"):
        if not _LABEL.fullmatch(name):
            entry.notices.append(
                Notice(entry.source, located.line, f"matchers: {name!r} is not a label name")
            )
            continue
        text = "" if located.scalar is None else str(located.scalar)
        operator = next((one for one in _OPERATORS if text.startswith(one)), "=")
        found.append(f"{name}{operator}{quoted(text.removeprefix(operator) if operator != '=' else text)}")
    return tuple(sorted(found))


def _timeout(entry: ServerEntry) -> float:
    text = entry.text("timeout_seconds")
    if not text:
        return TIMEOUT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if 0.1 <= seconds <= 120.0:
        return seconds
    entry.note(
        "timeout_seconds", f"timeout_seconds must be 0.1 to 120, not {text}: {TIMEOUT_SECONDS:g} is used"
    )
    return TIMEOUT_SECONDS
