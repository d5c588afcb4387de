"""Arguments that `python -m signals` and its sisters share: a live server, or saved answers of one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from signals.saved import SavedAnswers, SavedFile
from telemetry.errors import SettingsError

UNREADABLE = 2
"""Exit status when nothing could be read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options for a live server and for saved answers."""
    live = parser.add_argument_group("a live server")
    live.add_argument("--url", help="address of its HTTP API, for example 127.0.0.1:8000")
    live.add_argument("--metrics-url", help="address of its metrics page (default: port 8002 beside --url)")
    live.add_argument("--window", type=_seconds, default=10.0, help="seconds to watch it (default 10)")
    saved = parser.add_argument_group("saved answers of one server, in the order in which they were saved")
    saved.add_argument(
        "--scrape",
        action="append",
        default=[],
        metavar="FILE",
        help="metrics page; repeat for successive ones",
    )
    saved.add_argument(
        "--every", type=_seconds, default=10.0, help="seconds between successive pages (default 10)"
    )
    saved.add_argument(
        "--stats", action="append", default=[], metavar="FILE", help="answer of GET /v2/models/stats"
    )
    saved.add_argument(
        "--index", action="append", default=[], metavar="FILE", help="answer of POST /v2/repository/index"
    )
    saved.add_argument(
        "--config", action="append", default=[], metavar="FILE", help="answer of GET /v2/models/M/config"
    )
    parser.add_argument("--json", action="store_true", help="print strict JSON")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e9:
        raise ValueError(text)
    return value


def is_live(arguments: argparse.Namespace) -> bool:
    """True for a live server. Raises SettingsError for both or neither kind of input."""
    live = bool(arguments.url or arguments.metrics_url)
    saved = bool(arguments.scrape or arguments.stats or arguments.index or arguments.config)
    if live == saved:
        raise SettingsError(
            "give either the address of a live server (--url, --metrics-url) "
            "or saved answers (--scrape, --stats, --index, --config)"
        )
    return live


def saved_answers(arguments: argparse.Namespace) -> SavedAnswers:
    """The files named on the command line. Raises SettingsError for one that cannot be read."""
    return SavedAnswers(
        arguments.every,
        pages=_files(arguments.scrape),
        statistics=_files(arguments.stats),
        indexes=_files(arguments.index),
        configs=_files(arguments.config),
    )


def _files(paths: Sequence[str]) -> tuple[SavedFile, ...]:
    return tuple(_file(Path(path)) for path in paths)


def _file(path: Path) -> SavedFile:
    try:
        # Not read_text: universal newlines would hide the line ends the reader must see.
        return SavedFile(path.name, path.read_bytes().decode("utf-8", errors="replace"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error
