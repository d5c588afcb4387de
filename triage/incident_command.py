"""`python -m triage capture` and `replay`: write an incident file from a terminal, and look at one.

capture asks a running app for what it knows of the last minutes, or reads a server for a while itself.
replay starts the app on the file: read-only, without any server.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from history.config_book import ConfigBook
from history.events import EventLog
from history.memory_ledger import MemoryLedger
from signals import command
from signals.live import server_of, watch
from telemetry.errors import SettingsError, TritonscopeError
from telemetry.identity import Server
from telemetry.scrape import Scrape
from telemetry.units import Unit, human
from triage.context import ServerCoverage
from triage.coverage import server_coverage
from triage.happenings import Happened, Probes
from triage.incident import Incident, Sources, take
from triage.incident_file import open_file, read, save
from triage.running_app import RunningApp, headers_in, secret_in

ROOT = Path(__file__).resolve().parents[1]
WINDOW_SECONDS = 60.0


def capture(argv: Sequence[str], known_password: Callable[[], str] = lambda: "") -> int:
    """`python -m triage capture`; returns the exit status.

    `known_password` gives the shared password of the settings, "" without one.
    """
    arguments = _capture_parser().parse_args(argv)
    try:
        if bool(arguments.app_url) == bool(arguments.url or arguments.metrics_url):
            raise SettingsError(
                "give either --app-url of a running app, or --url or --metrics-url of a server"
            )
        if arguments.app_url:
            _from_app(arguments, known_password)
        elif arguments.sign_in or arguments.password_from_file or arguments.header_from_file:
            raise SettingsError("--sign-in and --header-from-file are for a running app: --app-url")
        else:
            server = server_of(arguments.url, arguments.metrics_url)
            _from_server(server, arguments.out, arguments.window)
        incident = read(arguments.out)
    except (TritonscopeError, OSError) as error:
        print(error.sentence if isinstance(error, TritonscopeError) else f"{error}", file=sys.stderr)
        return command.UNREADABLE
    command.write(f"{_written(arguments.out, incident)}\n")
    return 0


def replay(argv: Sequence[str]) -> int:
    """`python -m triage replay`: this process becomes the app; returns only if the file cannot be shown."""
    parser = argparse.ArgumentParser(
        prog="python -m triage replay", description="Show an incident file in the app, read-only."
    )
    parser.add_argument("file", type=Path, help="the incident file")
    parser.add_argument("--port", type=int, help="port the app listens on (default: that of the settings)")
    arguments = parser.parse_args(argv)
    try:
        open_file(arguments.file)
    except TritonscopeError as error:
        print(error.sentence, file=sys.stderr)
        return command.UNREADABLE
    os.putenv("TRITONSCOPE_INCIDENT", str(arguments.file.resolve()))
    if arguments.port is not None:
        os.putenv("TRITONSCOPE_APP_PORT", str(arguments.port))
    os.chdir(ROOT)
    return _become([sys.executable, str(ROOT / "app.py")])


def _become(line: list[str]) -> NoReturn:
    os.execv(line[0], line)


def _capture_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m triage capture",
        description="Write an incident file: numbers, answers, findings.",
        # --password would be taken for the beginning of --password-from-file.
        allow_abbrev=False,
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the zip to write")
    parser.add_argument("--app-url", help="address of a running Tritonscope: it knows the last hour")
    parser.add_argument("--minutes", type=float, help="how far back (default: all that the app holds)")
    parser.add_argument(
        "--sign-in",
        metavar="NAME",
        help="sign in to the app by this name with its shared password: that of the settings "
        "(TRITONSCOPE_PASSWORD, or access: password: in tritonscope.yml) or of --password-from-file",
    )
    parser.add_argument(
        "--password-from-file", metavar="FILE", help="the shared password stands in it; - for standard input"
    )
    parser.add_argument(
        "--header-from-file",
        metavar="NAME=FILE",
        action="append",
        default=[],
        help="send this header with the value in the file (- for standard input), for a proxy before the app",
    )
    parser.add_argument("--ca-file", type=Path, metavar="FILE", help="whom to trust over TLS")
    parser.add_argument("--url", help="address of a Triton server's HTTP API, to read it for a while")
    parser.add_argument("--metrics-url", help="address of its metrics page (default: port 8002 beside --url)")
    parser.add_argument(
        "--window", type=float, default=WINDOW_SECONDS, help="seconds to read a server (default 60)"
    )
    return parser


def _from_app(arguments: argparse.Namespace, known_password: Callable[[], str]) -> None:
    headers = headers_in(arguments.header_from_file)
    with RunningApp(arguments.app_url, headers, arguments.ca_file) as app:
        if arguments.sign_in is not None:
            file = arguments.password_from_file
            app.sign_in(arguments.sign_in, secret_in(file) if file is not None else known_password())
        elif arguments.password_from_file is not None:
            raise SettingsError("--password-from-file needs --sign-in NAME: the name for the app's journal")
        app.incident(arguments.out, arguments.minutes)


def _written(path: Path, incident: Incident) -> str:
    manifest = incident.manifest
    covered = manifest.captured_at - manifest.start
    size = human(float(path.stat().st_size), Unit.BYTES)
    return (
        f"{path}: {size}, {len(manifest.servers)} server(s), {covered / 60.0:.1f} minutes. "
        f"Look at it with: python -m triage replay {path}"
    )


# ---- a server that is read for the file


@dataclass
class _Reading:
    """What a process keeps beside its numbers, of one server that is read for a window."""

    server: Server
    interval: float
    events: EventLog = field(default_factory=EventLog)
    configs: ConfigBook = field(default_factory=ConfigBook)
    measured_seconds: float = 0.0

    def accept(self, scrape: Scrape) -> None:
        """Take one reading."""
        self.events.accept(scrape)
        self.configs.accept(scrape)

    @property
    def servers(self) -> tuple[Server, ...]:
        """The one server."""
        return (self.server,)

    @property
    def gone(self) -> Mapping[str, float]:
        """None went."""
        return {}

    @property
    def window_seconds(self) -> float:
        """The window of rates and means: all that was read."""
        return self.measured_seconds

    @property
    def fresh_seconds(self) -> float:
        """How old the last samples may be."""
        return 4 * self.interval

    def interval_seconds(self, server: str | None = None) -> float:
        """Between two readings."""
        return self.interval


def _from_server(server: Server, out: Path, window_seconds: float) -> None:
    reading = _Reading(server, window_seconds)
    seen = watch(server, window_seconds, also=(reading,))
    # Raises what is wrong if nothing could be read.
    report = seen.report()
    reading.interval = seen.interval_seconds
    reading.measured_seconds = report.window_seconds or seen.interval_seconds
    at = time.time()

    def coverage() -> tuple[ServerCoverage, ...]:
        return (server_coverage(seen.ring, server, at),)

    happened = Happened.watched(seen.ring, reading.events, reading.configs, lambda: at)
    sources = Sources(
        watch=reading,
        ring=seen.ring,
        events=reading.events,
        configs=reading.configs,
        memory=MemoryLedger(seen.ring, reading.events, tuple, reading.interval_seconds),
        drifts=lambda: happened.now(seen.inventory(), at).drifts,
        probes=Probes(),
        records=tuple,
        coverage=coverage,
    )
    save(take(sources, at), out)
