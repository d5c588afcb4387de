"""Arguments that `python -m signals` and its sisters share: a live server, or saved answers of one."""

from __future__ import annotations

import argparse
import codecs
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from signals.saved import SavedAnswers, SavedFile
from telemetry.errors import SettingsError
from telemetry.scrape import Notice

_GZIP = b"\x1f\x8b"
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
UNREADABLE = 2
"""Exit status when nothing could be read."""


def add_arguments(parser: argparse.ArgumentParser, *, window_seconds: float = 10.0) -> None:
    """Options for a live server, which is watched for `window_seconds` unless told otherwise, and for saved
    answers.
    """  # fmt: skip
    live = parser.add_argument_group("a live server")
    live.add_argument("--url", help="address of its HTTP API, for example 127.0.0.1:8000")
    live.add_argument("--metrics-url", help="address of its metrics page (default: port 8002 beside --url)")
    live.add_argument(
        "--window",
        type=_seconds,
        default=window_seconds,
        help=f"seconds to watch it (default {window_seconds:g})",
    )
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
    """Seconds, to the millisecond in which a history keeps time."""
    try:
        value = round(float(text), 3)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, at least 0.001")
    return value


def write(text: str) -> None:
    """Print; names may hold what the terminal's encoding has not, and what would steer the terminal."""
    encoding = sys.stdout.encoding or "utf-8"
    text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


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
    """The files named on the command line; one that cannot be read says so in the report."""
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
    # Not read_text: universal newlines would hide the line ends the reader must see.
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return SavedFile(path.name, "", problem=f"{path} cannot be read: {reason or error}")
    if data.startswith(_GZIP):
        return SavedFile(path.name, "", problem=f"{path} is compressed (gzip): unpack it first")
    return _decoded(path.name, data)


def _decoded(name: str, data: bytes) -> SavedFile:
    """UTF-8, or what a byte order mark says (PowerShell writes UTF-16)."""
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        return SavedFile(name, data.decode(encoding))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        notice = Notice(name, line, f"bytes that are not {encoding}, from here on shown as \ufffd")
        return SavedFile(name, data.decode(encoding, errors="replace"), notices=(notice,))
