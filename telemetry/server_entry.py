"""One server as it is configured -> `Server`; what cannot be used of it becomes notices."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from telemetry.errors import SettingsError
from telemetry.identity import Server
from telemetry.located_yaml import Located
from telemetry.restricted import APIS
from telemetry.scrape import Notice
from telemetry.transport import check_headers, normalise_address

METRICS_PORT = 8002
LOAD_RUN_LIMIT = "max_requests_per_second"
_USUAL_PORTS = {8000: "HTTP API", 8001: "gRPC API", METRICS_PORT: "metrics page"}

SERVER_KEYS: dict[str, str] = {
    "id": "name of the server in the product, in links and labels; default: host:port of `url`",
    "url": "address of the HTTP API, with or without scheme, slash and base path",
    "metrics_url": "address of the metrics page, or `none` if it is closed; default: `url`'s host, port 8002",
    "grpc_url": "address of the gRPC API, host:port or `grpcs://host:port`, for test requests over gRPC",
    "headers": "headers sent with every request to this server, also for metrics",
    "headers_from_env": "header name: environment variable that holds its value (tokens)",
    "headers_from_file": "header name: file that holds its value (mounted secrets)",
    "api_headers_from_env": "group of Triton's restricted APIs (`model-repository`, `inference`, ...): "
    "header name: environment variable; sent with calls of that group only",
    "api_headers_from_file": "the same from files",
    "ca_file": "PEM file with the certificate authority that signed the server's certificate",
    "workload": "name shared by servers that serve the same models; default: the server itself",
    "match": "Prometheus labels of this server's series, for example `namespace` and `pod`; with these alone "
    "the server is known from `history.prometheus` only",
    "load_runs": "`max_requests_per_second`: load runs may be sent to it, never more than so many requests a "
    "second; default: none (the sandbox has no limit)",
    "control": "true: load, unload and test requests may be sent to it; default: the general `control`",
}


def usual_metrics_url(http_url: str) -> str:
    """Where Triton serves metrics unless told otherwise: the same host, port 8002."""
    parts = urlsplit(http_url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{METRICS_PORT}"


def metrics_base(address: str) -> str:
    """Base address of a metrics page, given with or without /metrics; raises SettingsError."""
    return normalise_address(address).removesuffix("/metrics")


def sandbox_server(server_id: str, state: Path) -> Server:
    """The sandbox's server by its state file; OSError, ValueError, KeyError, TypeError if that is none."""
    content = json.loads(state.read_text(encoding="utf-8"))
    return Server(
        server_id,
        normalise_address(str(content["http_url"])),
        metrics_base(str(content["metrics_url"])),
        expected_server_name=str(content["server_id"]),
        grpc_url=str(content["grpc_url"]) if "grpc_url" in content else None,
    )


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server as written: values by key, where they stand, and what relative files are relative to.

    `line` is None for what comes from the environment. `environ` gives the values of `headers_from_env`.
    """

    source: str
    line: int | None
    values: Mapping[str, Located]
    environ: Mapping[str, str] = field(repr=False)
    folder: Path = Path()
    notices: list[Notice] = field(default_factory=list)

    def server(self, control: bool) -> Server | None:
        """The server, None if it has no usable address; `control` is the general switch."""
        try:
            http_url, metrics_url = self._addresses()
        except SettingsError as error:
            self.note("url", f"{error.sentence}: this server is not used")
            return None
        return Server(
            id=self.text("id") or urlsplit(http_url or metrics_url or "").netloc or self._matched_name(),
            http_url=http_url,
            metrics_url=metrics_url,
            headers=MappingProxyType(self.headers()),
            api_headers=MappingProxyType(self.api_headers()),
            ca_file=self.ca_file(),
            workload=self.text("workload"),
            match=tuple(sorted((name, str(value.scalar)) for name, value in self.pairs("match"))),
            control=self.control(control),
            grpc_url=self._grpc_url(),
            load_run_limit_per_second=self._load_run_limit(),
        )

    def text(self, key: str) -> str:
        """A value as text, "" if it is missing or not a plain one."""
        located = self.values.get(key)
        scalar = None if located is None else located.scalar
        return "" if scalar is None or isinstance(scalar, bool) else str(scalar).strip()

    def line_of(self, key: str) -> int | None:
        """The line of a key's value, else of the entry."""
        located = self.values.get(key)
        return self.line if located is None or self.line is None else located.line

    def note(self, key: str, text: str) -> None:
        """Say that what stands at `key` could not be used."""
        self.notices.append(Notice(self.source, self.line_of(key), text))

    # ---- addresses

    def _addresses(self) -> tuple[str | None, str | None]:
        url, metrics = self.text("url"), self.text("metrics_url")
        if not url and not metrics:
            if self._matched_name():
                # No path to it from here: it is known from Prometheus alone.
                return None, None
            raise SettingsError("a server needs `url` (host:port of its HTTP API) or `metrics_url`")
        http_url = normalise_address(url) if url else None
        self._hint("url", http_url, 8000)
        if self._closed(metrics):
            return http_url, None
        usual = usual_metrics_url(http_url) if http_url else None
        if not metrics:
            return http_url, usual
        try:
            metrics_url = metrics_base(metrics)
        except SettingsError as error:
            if usual is None:
                raise
            self.note("metrics_url", f"metrics_url: {error.sentence}; {usual} is used")
            return http_url, usual
        self._hint("metrics_url", metrics_url, METRICS_PORT)
        return http_url, metrics_url

    def _grpc_url(self) -> str | None:
        text = self.text("grpc_url")
        scheme, _, place = text.rpartition("://")
        if not text:
            return None
        host, colon, port = place.rpartition(":")
        if scheme not in ("", "grpc", "grpcs") or not (colon and host and port.isdecimal()):
            self.note("grpc_url", f"grpc_url must be host:port, not {text!r}: gRPC is not offered")
            return None
        return text.removeprefix("grpc://")

    def _matched_name(self) -> str:
        """What to call a server of which only the labels in Prometheus are known; "" without them."""
        located = self.values.get("match")
        labels = (located.entries or {}) if located is not None else {}
        for name in ("instance", "pod", *labels):
            if name in labels and labels[name].scalar is not None:
                return str(labels[name].scalar)
        return ""

    def _closed(self, metrics: str) -> bool:
        located = self.values.get("metrics_url")
        return metrics.lower() == "none" or (located is not None and located.scalar is False)

    def _hint(self, key: str, url: str | None, usual: int) -> None:
        port = urlsplit(url).port if url else None
        if port in _USUAL_PORTS and port != usual:
            self.note(
                key,
                f"{key} has port {port}, usually Triton's {_USUAL_PORTS[port]}; "
                f"its {_USUAL_PORTS[usual]} is usually on {usual}",
            )

    # ---- headers and the rest

    def headers(self) -> dict[str, str]:
        """Headers from all three places; one that cannot be used becomes a notice."""
        headers: dict[str, str] = {}
        readers: tuple[tuple[str, Callable[[str], str]], ...] = (
            ("headers", str),
            ("headers_from_env", self._from_environment),
            ("headers_from_file", self._from_file),
        )
        for key, read in readers:
            headers |= self._read_headers(self.pairs(key), read)
        return headers

    def api_headers(self) -> dict[str, dict[str, str]]:
        """Headers by group of Triton's restricted APIs; what cannot be used becomes a notice."""
        found: dict[str, dict[str, str]] = {}
        readers = (
            ("api_headers_from_env", self._from_environment),
            ("api_headers_from_file", self._from_file),
        )
        for key, read in readers:
            located = self.values.get(key)
            for api, group in ((located.entries or {}) if located is not None else {}).items():
                if api not in APIS:
                    text = f"{key}: Triton has no API {api!r} (there are {', '.join(APIS)}): not used"
                    self.notices.append(Notice(self.source, group.line, text))
                    continue
                values = ServerEntry(
                    self.source, self.line, {key: group}, self.environ, self.folder, self.notices
                )
                found.setdefault(api, {}).update(self._read_headers(values.pairs(key), read))
        return found

    def _read_headers(
        self, pairs: Iterator[tuple[str, Located]], read: Callable[[str], str]
    ) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, located in pairs:
            try:
                value = read("" if located.scalar is None else str(located.scalar))
                check_headers({name: value})
            except SettingsError as error:
                text = f"{error.sentence}; header {name} is not sent"
                self.notices.append(Notice(self.source, located.line, text))
                continue
            headers[name] = value
        return headers

    def _from_environment(self, variable: str) -> str:
        value = self.environ.get(variable)
        if value is None:
            raise SettingsError(f"the environment variable {variable} is not set")
        return value.strip()

    def _from_file(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise SettingsError(f"the file {name} cannot be read") from None

    def pairs(self, key: str) -> Iterator[tuple[str, Located]]:
        """Names and plain values under a key; anything else becomes a notice."""
        located = self.values.get(key)
        if located is None:
            return
        if located.entries is None:
            self.note(key, f"{key} must be names with values: not used")
            return
        for name, value in located.entries.items():
            if value.items is not None or value.entries is not None:
                text = f"{key}: {name} must have one value: not used"
                self.notices.append(Notice(self.source, value.line, text))
            else:
                yield name, value

    def ca_file(self) -> str | None:
        """Path of the CA file, None without one."""
        name = self.text("ca_file")
        if not name:
            return None
        file = self.folder / name
        if not file.is_file():
            self.note("ca_file", f"ca_file {name} does not exist: TLS will fail")
        return str(file)

    def _load_run_limit(self) -> float | None:
        """Requests/s that load runs may send at most; None where it says nothing usable."""
        pairs = dict(self.pairs("load_runs"))
        located = pairs.pop(LOAD_RUN_LIMIT, None)
        for name, other in pairs.items():
            text = f"load_runs: {name} is unknown, it has {LOAD_RUN_LIMIT} only"
            self.notices.append(Notice(self.source, other.line, text))
        if located is None:
            return None
        limit = located.scalar
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < math.inf:
            text = f"load_runs: {LOAD_RUN_LIMIT} must be a number above 0: no load run is sent to it"
            self.notices.append(Notice(self.source, located.line, text))
            return None
        return float(limit)

    def control(self, general: bool) -> bool:
        """May it be written to, as written; `general` where it says nothing."""
        located = self.values.get("control")
        if located is None:
            return general
        if isinstance(located.scalar, bool):
            return located.scalar
        self.note("control", "control must be true or false: false is used")
        return False
