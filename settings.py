"""Everything the product can be told, in one frozen model, from the environment and tritonscope.yml.

What cannot be used costs itself only: a bad line becomes a notice with its number, and the rest counts.
docs/settings.md is written from here by `tools.settings_file`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, InstanceOf, PrivateAttr, TypeAdapter, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from telemetry.access import Access
from telemetry.access_entry import access_of
from telemetry.discovery import Discovery, discoveries_of
from telemetry.elsewhere import SECTIONS as ELSEWHERE
from telemetry.elsewhere import Elsewhere, elsewhere_of
from telemetry.errors import SettingsError
from telemetry.golden_choice import GoldenChoice, golden_of
from telemetry.identity import Server
from telemetry.journal_choice import JournalChoice, default_path, journal_of
from telemetry.located_yaml import Located, read_located
from telemetry.objective import Objective, objectives_of, rule_choices_of
from telemetry.prometheus_endpoint import PROMETHEUS_KEYS, PrometheusEndpoint, endpoint_of
from telemetry.rule_choice import RuleChoice
from telemetry.saved_requests_choice import SavedRequestsChoice, saved_requests_of
from telemetry.scrape import Notice
from telemetry.server_entry import SERVER_KEYS, ServerEntry, sandbox_server, usual_metrics_url

PREFIX = "TRITONSCOPE_"
FILE_NAME = "tritonscope.yml"
SANDBOX_ID = "sandbox"
DEFAULT_URL = "http://127.0.0.1:8000"
MIN_LIVE_INTERVALS = 4

SCALARS = ("refresh_seconds", "live_window_seconds", "retention_seconds", "control", "app_host", "app_port")
"""Settings that are one value: in the file under their name, in the environment with the prefix."""

_SECTIONS = (
    "servers", "discovery", "history", "slo", "rules", "journal", "access", "saved_requests", "golden",
)  # fmt: skip
"""Top-level keys of the file that hold more than one value."""

_WITHOUT_RESTART = ("servers", "discoveries", "notices", "file", "readable", "lines")
_SECTION_OF = {"prometheus": "history", "elsewhere": "alertmanager, grafana or logs"}
"""Fields whose section of the file has another name."""

VARIABLES: dict[str, str] = {
    "CONFIG": f"path of the configuration file; default: `{FILE_NAME}` in the working directory",
    "SERVERS": "servers in one line: `id=address,id=address`; without `id=` the id is host:port",
    "URL": "address of one server's HTTP API, beside those of SERVERS",
    "METRICS_URL": "address of that one server's metrics page",
    "DISCOVERY_FILE": "Prometheus `file_sd` file with servers, beside those of `discovery:`",
    "DISCOVERY_DNS": "DNS name whose addresses are servers, beside those of `discovery:`",
    "PROMETHEUS_URL": "address of a Prometheus-compatible API; wins over `url` of `history: prometheus:`",
    "JOURNAL_PATH": "file of the journal; wins over `path` of `journal:`",
    "ANONYMOUS": "role of whoever is not signed in; wins over `anonymous` of `access:`",
    "PASSWORD": "the shared password; wins over `password` of `access:`",
    "INCIDENT": "incident file to show instead of servers, read-only; `python -m triage replay FILE` sets it",
    "SANDBOX_STATE": "state file of `python -m sandbox run`, which sets it; adds the server `sandbox`",
}


class Settings(BaseSettings):
    """The settings in force. Made by `load_settings`; `notices` say what could not be used."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    servers: tuple[InstanceOf[Server], ...] = Field(default=(), description="the servers that are watched")
    discoveries: tuple[InstanceOf[Discovery], ...] = Field(
        default=(), description="where servers are looked for that come and go"
    )
    refresh_seconds: float = Field(
        default=2.0, ge=0.5, le=300, description="how often metrics and statistics are read, seconds"
    )
    live_window_seconds: float = Field(
        default=60.0, ge=2, le=3600, description="window of rates and means, seconds; never under 4 intervals"
    )
    retention_seconds: float = Field(
        default=3600.0, ge=600, le=86400, description="how long the process keeps numbers in memory, seconds"
    )
    control: bool = Field(
        default=False, description="true: every server may be written to; the sandbox needs no permission"
    )
    app_host: str = Field(default="127.0.0.1", min_length=1, description="address the app listens on")
    app_port: int = Field(default=8501, ge=1, le=65535, description="port the app listens on")
    sandbox_state: Path | None = Field(default=None, description="state file of `python -m sandbox run`")
    incident: Path | None = Field(default=None, description="incident file that is shown instead of servers")
    prometheus: InstanceOf[PrometheusEndpoint] | None = Field(
        default=None, description="where the history beyond this process is"
    )
    slo: tuple[InstanceOf[Objective], ...] = Field(default=(), description="service level objectives")
    rules: dict[str, InstanceOf[RuleChoice]] = Field(
        default={}, description="rules that are switched on or off, or leave models out"
    )
    journal: InstanceOf[JournalChoice] = Field(default=JournalChoice(), description="record of actions")
    access: InstanceOf[Access] = Field(default_factory=Access, description="who may see and do what")
    saved_requests: InstanceOf[SavedRequestsChoice] | None = Field(default=None, description="folder")
    golden: InstanceOf[GoldenChoice] | None = Field(default=None, description="golden requests")
    elsewhere: InstanceOf[Elsewhere] = Field(default=Elsewhere(), description="alertmanager, grafana, logs")
    notices: tuple[InstanceOf[Notice], ...] = Field(default=(), description="what could not be used")
    file: Path | None = Field(default=None, description="the file they come from, whether it is there or not")
    readable: bool = Field(default=True, description="false: the file could not be read as a whole")
    lines: dict[str, int] = Field(default={}, description="line of each setting in the file")

    _again: Callable[[], Settings] | None = PrivateAttr(default=None)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load_settings` hands in: it reads the environment and the file with their lines."""
        return (init_settings,)

    def server(self, server_id: str) -> Server | None:
        """The server of that id, None if there is none."""
        return next((server for server in self.servers if server.id == server_id), None)

    def reloaded(self) -> Settings:
        """The settings as they are written now; the same ones if they were not loaded from anywhere."""
        return self if self._again is None else self._again()

    def waiting_for_restart(self, written: Settings) -> tuple[Notice, ...]:
        """What of `written` counts only after a restart: all that differs but the lists of servers."""
        differing = [
            name
            for name in type(self).model_fields
            if name not in _WITHOUT_RESTART and getattr(self, name) != getattr(written, name)
        ]
        source = written.file.name if written.file is not None else FILE_NAME
        return tuple(
            Notice(
                source,
                written.lines.get(_SECTION_OF.get(name, name)),
                f"{_SECTION_OF.get(name, name)} was changed: restart to use it",
            )
            for name in differing
        )


def load_settings(environ: Mapping[str, str] | None = None, path: Path | None = None) -> Settings:
    """Settings from the environment (which wins), the file and the defaults; never raises for their content.

    `environ` replaces the process environment, `path` the file that would be looked for.
    """
    settings = _Loader(os.environ if environ is None else environ).load(path)
    settings._again = lambda: load_settings(environ, path)
    return settings


class _Loader:
    """One loading: gathers values and notices."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._notices: list[Notice] = []
        self._file_is_broken = False
        self._mentions_access = False

    def load(self, path: Path | None) -> Settings:
        file = path or Path(self._variable("CONFIG") or FILE_NAME)
        root = self._read_file(file, named=path is not None or bool(self._variable("CONFIG")))
        scalars = {name: self._scalar(name, file.name, root) for name in SCALARS}
        scalars["live_window_seconds"] = self._live_window(scalars)
        entries = [*self._environment_entries(), *self._file_entries(file, root)]
        discoveries = self._discoveries(file, root, bool(scalars["control"]))
        prometheus = self._prometheus(file, root)
        slo, slo_notices = objectives_of(file.name, self._section(root, "slo"))
        rules, rule_notices = rule_choices_of(file.name, self._section(root, "rules"))
        self._notices += [*slo_notices, *rule_notices]
        state = self._variable("SANDBOX_STATE")
        journal, journal_notices = journal_of(
            file.name,
            self._section(root, "journal"),
            self._variable("JOURNAL_PATH"),
            default_path(self._environ, Path(state) if state else None),
            file.parent,
        )
        saved, notices = saved_requests_of(file.name, self._section(root, "saved_requests"), file.parent)
        golden, golden_notices = golden_of(file.name, self._section(root, "golden"), file.parent)
        sections = (root.entries or {}) if root is not None else {}
        elsewhere, elsewhere_notices = elsewhere_of(file.name, sections, self._environ, file.parent)
        self._notices += [*journal_notices, *notices, *golden_notices, *elsewhere_notices]
        servers = self._sandbox(Path(state)) if state else []
        servers += self._servers(entries, bool(scalars["control"]), prometheus is not None)
        if not (entries or state or discoveries or self._file_is_broken or prometheus is not None):
            usual = usual_metrics_url(DEFAULT_URL)
            servers = [Server("127.0.0.1:8000", DEFAULT_URL, usual, control=bool(scalars["control"]))]
        return Settings(
            **scalars,
            servers=tuple(servers),
            discoveries=discoveries,
            sandbox_state=Path(state) if state else None,
            incident=Path(self._variable("INCIDENT")) if self._variable("INCIDENT") else None,
            prometheus=prometheus,
            slo=slo,
            rules=dict(rules),
            access=self._access(file, root),
            journal=journal,
            saved_requests=saved,
            golden=golden,
            elsewhere=elsewhere,
            notices=tuple(self._notices),
            file=file,
            readable=not self._file_is_broken,
            lines=dict(root.key_lines) if root is not None else {},
        )

    def _variable(self, name: str) -> str:
        return self._environ.get(PREFIX + name, "").strip()

    def _note(self, source: str, line: int | None, text: str) -> None:
        self._notices.append(Notice(source, line, text))

    # ---- the file

    def _read_file(self, file: Path, named: bool) -> Located | None:
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            if named:
                self._file_is_broken = True
                self._note(file.name, None, "this file does not exist: only the environment counts")
            return None
        except (OSError, UnicodeDecodeError) as error:
            self._file_is_broken = True
            why = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "cannot be read"
            self._note(file.name, None, f"this file {why}: only the environment counts")
            return None
        self._mentions_access = any(line.startswith("access:") for line in text.splitlines())
        root, notices = read_located(text, file.name)
        self._notices += notices
        self._file_is_broken = bool(notices)
        if root is not None and root.entries is None:
            self._file_is_broken = True
            self._note(file.name, root.line, "this file must hold settings by name, for example `servers:`")
            return None
        self._note_unknown(file.name, root.key_lines if root else {}, (*SCALARS, *_SECTIONS, *ELSEWHERE))
        return root

    def _note_unknown(self, source: str, lines: Mapping[str, int], known: Iterable[str]) -> None:
        for key, line in lines.items():
            if key not in known:
                near = difflib.get_close_matches(key, list(known), 1)
                guess = f" (did you mean {near[0]}?)" if near else ""
                self._note(source, line, f"unknown setting {key}{guess}: not used")

    def _file_entries(self, file: Path, root: Located | None) -> Iterator[ServerEntry]:
        located = (root.entries or {}).get("servers") if root else None
        if located is None or located == Located(located.line):
            return
        if located.items is None:
            self._file_is_broken = True
            self._note(file.name, located.line, "servers must be a list: every server begins with `- id:`")
            return
        for item in located.items:
            values = item.entries
            if isinstance(item.scalar, str):
                values = {"url": item}
            if values is None:
                self._file_is_broken = True
                self._note(file.name, item.line, "a server needs at least `url:`: this entry is not used")
                continue
            self._note_unknown(file.name, item.key_lines, SERVER_KEYS)
            yield ServerEntry(file.name, item.line, values, self._environ, file.parent)

    def _section(self, root: Located | None, name: str) -> Located | None:
        """A section of the file, None if it is not there or empty."""
        located = (root.entries or {}).get(name) if root else None
        return None if located is None or located == Located(located.line) else located

    def _discoveries(self, file: Path, root: Located | None, control: bool) -> tuple[Discovery, ...]:
        found: list[Discovery] = []
        for key in ("file", "dns"):
            name = f"DISCOVERY_{key.upper()}"
            if value := self._variable(name):
                entry = Located(0, entries={key: Located(0, scalar=value)})
                one, notices = discoveries_of(
                    PREFIX + name, Located(0, items=[entry]), self._environ, Path(), control
                )
                found += one
                self._notices += notices
        section = self._section(root, "discovery")
        written, notices = discoveries_of(file.name, section, self._environ, file.parent, control)
        self._notices += notices
        return (*found, *written)

    def _access(self, file: Path, root: Located | None) -> Access:
        access, notices = access_of(
            file.name,
            self._section(root, "access"),
            self._environ,
            file.parent,
            anonymous=self._variable("ANONYMOUS"),
            password=self._variable("PASSWORD"),
            written=self._mentions_access,
        )
        self._notices += notices
        return access

    # ---- history

    def _prometheus(self, file: Path, root: Located | None) -> PrometheusEndpoint | None:
        located = (root.entries or {}).get("history") if root else None
        self._note_unknown(file.name, located.key_lines if located else {}, ("prometheus",))
        written = (located.entries or {}).get("prometheus") if located else None
        values = dict((written.entries or {}) if written else {})
        self._note_unknown(file.name, written.key_lines if written else {}, PROMETHEUS_KEYS)
        source, line = file.name, written.line if written else None
        if url := self._variable("PROMETHEUS_URL"):
            source, line = (PREFIX + "PROMETHEUS_URL", None) if not values else (source, line)
            values["url"] = Located(line or 0, scalar=url)
        if not values and located is None:
            return None
        endpoint, notices = endpoint_of(source, line, values, self._environ, file.parent)
        self._notices += notices
        return endpoint

    # ---- single values

    def _scalar(self, name: str, file: str, root: Located | None) -> Any:
        field = Settings.model_fields[name]
        located = (root.entries or {}).get(name) if root else None
        candidates: list[tuple[str, int | None, Any]] = []
        if self._variable(name.upper()):
            candidates.append((PREFIX + name.upper(), None, self._variable(name.upper())))
        if located is not None and located.scalar is not None:
            candidates.append((file, located.line, located.scalar))
        elif located is not None:
            self._note(file, located.line, f"{name} must be one value: not used")
        # The field's own type and limits, for this one value.
        adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field])  # type: ignore[arg-type]
        for source, line, value in candidates:
            try:
                return adapter.validate_python(value)
            except ValidationError as error:
                why = error.errors()[0]["msg"]
                self._note(source, line, f"{name}: {value!r} cannot be used ({why})")
        return field.default

    def _live_window(self, scalars: Mapping[str, Any]) -> float:
        name = "live_window_seconds"
        least: float = MIN_LIVE_INTERVALS * scalars["refresh_seconds"]
        window: float = scalars[name]
        if window < least and window != Settings.model_fields[name].default:
            text = f"{window:g} s is less than {MIN_LIVE_INTERVALS} intervals: {least:g} s is used"
            self._note(name, None, text)
        return max(window, least)

    # ---- servers

    def _environment_entries(self) -> Iterator[ServerEntry]:
        for part in filter(None, map(str.strip, self._variable("SERVERS").replace("\n", ",").split(","))):
            name, equals, address = part.partition("=")
            values = {"id": name, "url": address} if equals and "/" not in name else {"url": part}
            yield self._environment_entry("SERVERS", values)
        values = {"url": self._variable("URL"), "metrics_url": self._variable("METRICS_URL")}
        if any(values.values()):
            yield self._environment_entry("URL" if values["url"] else "METRICS_URL", values)

    def _environment_entry(self, variable: str, values: Mapping[str, str]) -> ServerEntry:
        located = {key: Located(0, scalar=value) for key, value in values.items() if value}
        return ServerEntry(PREFIX + variable, None, located, self._environ)

    def _servers(self, entries: list[ServerEntry], control: bool, has_history: bool) -> list[Server]:
        servers: dict[str, Server] = {}
        for entry in entries:
            server = entry.server(control)
            self._notices += entry.notices
            if server is None:
                continue
            if not has_history and server.http_url is None and server.metrics_url is None:
                text = f"server {server.id} has no address, and no Prometheus is configured to ask about it"
                self._note(entry.source, entry.line_of("match"), text)
                continue
            if server.id in servers or (server.id == SANDBOX_ID and self._variable("SANDBOX_STATE")):
                text = f"a server {server.id} is defined already: this one is not used"
                self._note(entry.source, entry.line_of("id"), text)
                continue
            servers[server.id] = server
        return list(servers.values())

    def _sandbox(self, state: Path) -> list[Server]:
        try:
            return [sandbox_server(SANDBOX_ID, state)]
        except (OSError, ValueError, KeyError, TypeError, SettingsError) as error:
            text = f"the sandbox's state cannot be read ({type(error).__name__}): there is no sandbox"
            self._note(PREFIX + "SANDBOX_STATE", None, text)
            return []
