"""Where servers come from that come and go: a Prometheus `file_sd` file or a DNS name, as configured.

What is found there becomes a `Server` here: the same address and labels make the same server, whichever
process looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from telemetry.errors import SettingsError
from telemetry.identity import Server
from telemetry.located_yaml import Located
from telemetry.scrape import Notice
from telemetry.server_entry import METRICS_PORT, ServerEntry, metrics_base
from telemetry.transport import normalise_address

HTTP_PORT = 8000

DISCOVERY_KEYS: dict[str, str] = {
    "file": "Prometheus `file_sd` file (YAML or JSON) whose targets are metrics pages of servers; its name "
    "may hold `*`",
    "dns": "name whose addresses are servers of one workload, for example a headless Kubernetes service",
    "http_port": f"port of the HTTP API of every server found; default: {HTTP_PORT}",
    "metrics_port": f"port of the metrics page where none is given; default: {METRICS_PORT}",
    "scheme": "`http` or `https`; default: `http`",
    "workload": "workload of servers that have no label `workload`; default: the DNS name, else the server",
    "headers": "headers sent to every server found; `headers_from_env` and `headers_from_file` as above",
    "headers_from_env": "as for a server",
    "headers_from_file": "as for a server",
    "api_headers_from_env": "as for a server",
    "api_headers_from_file": "as for a server",
    "ca_file": "as for a server",
    "control": "true: the servers found may be written to; default: the general `control`",
}
FILE_LABELS: dict[str, str] = {
    "__server": "the server's id; default: the target as it is written",
    "__url": "address of its HTTP API, or `none`; default: the target's host with `http_port`",
    "__scheme__, __metrics_path__": "as Prometheus takes them",
    "workload": "the workload it belongs to",
    "instance, cluster, namespace, pod": "Prometheus labels of its series (`match` of a server)",
}
"""Labels of a `file_sd` entry that count here; others are Prometheus' alone."""

_MATCHED = ("instance", "cluster", "namespace", "pod")


class Kind(StrEnum):
    """How servers are looked for."""

    FILE = "file"
    DNS = "dns"


@dataclass(frozen=True, slots=True)
class Discovery:
    """One place to look: `target` is the file's path as written or the DNS name.

    `source` and `line` say where it is configured. The rest is what every server found there has.
    """

    kind: Kind
    target: str
    source: str = ""
    line: int | None = None
    folder: Path = Path()
    http_port: int = HTTP_PORT
    metrics_port: int = METRICS_PORT
    scheme: str = "http"
    workload: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    ca_file: str | None = None
    control: bool = False
    api_headers: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: MappingProxyType({}), repr=False
    )

    @property
    def pattern(self) -> Path:
        """The file, relative to the configuration file's folder; its name may hold `*`."""
        return self.folder / self.target


def discoveries_of(
    source: str, located: Located | None, environ: Mapping[str, str], folder: Path, control: bool
) -> tuple[tuple[Discovery, ...], list[Notice]]:
    """The entries under `discovery:`; one that cannot be used is left out with a notice.

    Line 0 stands for an entry that is in no file.
    """
    if located is None:
        return (), []
    if located.items is None:
        text = "discovery must be a list: every entry begins with `- file:` or `- dns:`"
        return (), [Notice(source, located.line, text)]
    found: list[Discovery] = []
    notices: list[Notice] = []
    for item in located.items:
        entry = ServerEntry(source, item.line or None, item.entries or {}, environ, folder)
        try:
            found.append(_discovery(entry, control))
        except SettingsError as error:
            entry.note("", f"discovery: {error.sentence}: this entry is not used")
        notices += entry.notices
    return tuple(found), notices


def _discovery(entry: ServerEntry, control: bool) -> Discovery:
    unknown = sorted(set(entry.values) - set(DISCOVERY_KEYS))
    if unknown:
        raise SettingsError(f"unknown key {unknown[0]}")
    file, dns = entry.text("file"), entry.text("dns")
    if bool(file) == bool(dns):
        raise SettingsError("give either `file:` or `dns:`")
    scheme = entry.text("scheme") or "http"
    if scheme not in ("http", "https"):
        raise SettingsError(f"scheme is {scheme!r}: write http or https")
    return Discovery(
        Kind.FILE if file else Kind.DNS,
        file or dns,
        entry.source,
        entry.line,
        entry.folder,
        _port(entry, "http_port", HTTP_PORT),
        _port(entry, "metrics_port", METRICS_PORT),
        scheme,
        entry.text("workload"),
        MappingProxyType(entry.headers()),
        entry.ca_file(),
        entry.control(control),
        MappingProxyType(entry.api_headers()),
    )


def _port(entry: ServerEntry, key: str, default: int) -> int:
    text = entry.text(key)
    if not text:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise SettingsError(f"{key} is {text!r}: write a port from 1 to 65535")
    return int(text)


def found_server(address: str, labels: Mapping[str, str], discovery: Discovery) -> Server:
    """The server behind a target (host or host:port of its metrics page) with its labels.

    Raises SettingsError for an address that cannot be used.
    """
    scheme = labels.get("__scheme__") or discovery.scheme
    base = normalise_address(f"{scheme}://{address}")
    parts = urlsplit(base)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    port = parts.port or discovery.metrics_port
    metrics_url = metrics_base(f"{scheme}://{host}:{port}{labels.get('__metrics_path__', '')}")
    http = labels.get("__url", "")
    if http.lower() != "none":
        http = normalise_address(http or f"{scheme}://{host}:{discovery.http_port}")
    return Server(
        id=labels.get("__server") or f"{host}:{port}",
        http_url=None if http.lower() == "none" else http,
        metrics_url=metrics_url,
        headers=discovery.headers,
        ca_file=discovery.ca_file,
        workload=labels.get("workload") or discovery.workload,
        match=tuple(sorted((name, labels[name]) for name in _MATCHED if labels.get(name))),
        control=discovery.control,
        api_headers=discovery.api_headers,
    )


def servers_of_file(
    root: Located | None, source: str, discovery: Discovery
) -> tuple[tuple[Server, ...], list[Notice]]:
    """The servers of a `file_sd` document; what cannot be used costs itself and says its line."""
    servers: list[Server] = []
    notices: list[Notice] = []
    for entry in (root.items or []) if root is not None else ():
        targets = (entry.entries or {}).get("targets")
        if targets is None or targets.items is None:
            notices.append(Notice(source, entry.line, "an entry needs a list `targets`: not used"))
            continue
        labels = dict(_labels((entry.entries or {}).get("labels"), source, notices))
        for target in targets.items:
            try:
                servers.append(found_server(str(target.scalar or ""), labels, discovery))
            except SettingsError as error:
                notices.append(Notice(source, target.line, f"{error.sentence}: this target is not used"))
    return tuple(servers), notices


def _labels(located: Located | None, source: str, notices: list[Notice]) -> Iterator[tuple[str, str]]:
    for name, value in ((located.entries or {}) if located is not None else {}).items():
        if value.items is not None or value.entries is not None:
            notices.append(Notice(source, value.line, f"label {name} must have one value: not used"))
        elif value.scalar is not None:
            yield name, str(value.scalar)
