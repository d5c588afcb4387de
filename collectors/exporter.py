"""The exporter: `python -m collectors.exporter` publishes for Prometheus what Triton's own page lacks.

The servers are those of the settings (the environment and tritonscope.yml) and those found where the settings
say; they come and go while it runs. This module alone of the collectors knows the settings: it is a command.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Iterable, Sequence

import uvicorn

from collectors.exporter_families import DEFAULT_MAX_SERIES, Options
from collectors.exporter_http import Exporter
from collectors.roster import Change, Roster
from settings import load_settings
from telemetry.identity import Server
from telemetry.scrape import Notice

DEFAULT_ADDRESS = "127.0.0.1"
DEFAULT_PORT = 9105
_SPARE_REQUESTS = 32
_REQUESTS_PER_SERVER = 4
_STOP_SECONDS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until ended by a signal; exit status 2 and one sentence if it cannot listen."""
    options = _parser().parse_args(arguments)
    settings = load_settings()
    roster = Roster(settings)
    roster.check()
    _tell(roster.notices)
    if not settings.servers and not settings.discoveries:
        print("No server is configured: set TRITONSCOPE_URL or write tritonscope.yml.", file=sys.stderr)
        return 2
    try:
        listening = _listen(options.address, options.port)
    except OSError as error:
        # Python adds the address to the system's words, which says it twice.
        why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
        print(
            f"Nothing can listen on {options.address}:{options.port} ({why}): "
            "choose another with --address and --port.",
            file=sys.stderr,
        )
        return 2
    with listening:
        _announce(listening, roster.servers)
        serve(listening, roster, Options(options.raw_batch_sizes, options.max_series))
    return 0


def serve(listening: socket.socket, roster: Roster, options: Options) -> None:
    """Answer on a listening socket until SIGINT or SIGTERM; too many requests at once are answered 503."""
    exporter = Exporter(roster.servers, options)
    config = uvicorn.Config(
        exporter.app(),
        log_level="warning",
        access_log=False,
        lifespan="off",
        limit_concurrency=_limit(roster),
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    told = set(roster.notices)

    def follow(change: Change) -> None:
        if change:
            exporter.watch(roster.servers)
            # Read anew for every connection.
            config.limit_concurrency = _limit(roster)
            for one in (*change.came, *change.went):
                print(f"{one.server.id} {'came' if one in change.came else 'went'}: {one.origin}", flush=True)
        _tell(notice for notice in roster.notices if notice not in told)
        told.clear()
        told.update(roster.notices)

    roster.start(follow)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        roster.stop()
        exporter.close()


def _limit(roster: Roster) -> int:
    return _SPARE_REQUESTS + _REQUESTS_PER_SERVER * len(roster.servers)


def _tell(notices: Iterable[Notice]) -> None:
    for notice in notices:
        where = notice.source if notice.line is None else f"{notice.source}, line {notice.line}"
        print(f"{where}: {notice.text}", file=sys.stderr, flush=True)


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=128)


def _announce(listening: socket.socket, servers: Sequence[Server]) -> None:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    ids = ", ".join(server.id for server in servers)
    print(f"exporter on http://{shown}:{port}/probe?target=ID for {ids}", flush=True)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m collectors.exporter",
        description="Publishes for Prometheus what Triton's own metrics page lacks.",
    )
    parser.add_argument("--address", default=DEFAULT_ADDRESS, help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help="port to listen on (%(default)s)")
    parser.add_argument(
        "--raw-batch-sizes",
        action="store_true",
        help="publish executions and compute time of every batch size, beside the histogram",
    )
    parser.add_argument(
        "--max-series",
        type=_positive,
        default=DEFAULT_MAX_SERIES,
        help="most series of one server; the least important families go first (%(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
