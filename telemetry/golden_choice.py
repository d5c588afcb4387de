"""Whether golden requests are sent, from where and how often, as the settings say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from telemetry.located_yaml import Located
from telemetry.scrape import Notice
from telemetry.server_entry import ServerEntry

EVERY_MINUTES = 5.0
MAX_EVERY_MINUTES = 1440.0
TIMEOUT_SECONDS = 10.0
MAX_TIMEOUT_SECONDS = 300.0

GOLDEN_KEYS: dict[str, str] = {
    "path": "folder of golden requests, made with mode 0700; without it none is sent outside the sandbox. "
    "They hold what is sent and answered and are never removed by a retention: mind whose data that is",
    "every_minutes": "minutes between two golden requests to a model; 0: none is sent by itself, they only "
    f"check reloads; default: {EVERY_MINUTES:g}",
    "timeout_seconds": f"longest wait for the whole answer; default: {TIMEOUT_SECONDS:g}",
}


@dataclass(frozen=True, slots=True)
class GoldenChoice:
    """The folder, minutes between two requests to a model (0 = none by itself), and seconds to wait."""

    path: Path
    every_minutes: float = EVERY_MINUTES
    timeout_seconds: float = TIMEOUT_SECONDS


def golden_of(source: str, located: Located | None, folder: Path) -> tuple[GoldenChoice | None, list[Notice]]:
    """The choice as written, None where no golden request is to be sent, and what could not be used."""
    if located is None:
        return None, []
    needs_path = Notice(source, located.line, "golden needs `path:`; no golden request is sent")
    if located.entries is None:
        return None, [needs_path]
    entry = ServerEntry(source, located.line, located.entries, {}, folder)
    notices = [
        Notice(source, line, f"golden: unknown setting {key}: not used")
        for key, line in located.key_lines.items()
        if key not in GOLDEN_KEYS
    ]
    path = entry.text("path")
    if not path:
        return None, [*notices, needs_path]
    minutes = _number(entry, "every_minutes", EVERY_MINUTES, MAX_EVERY_MINUTES, least=1.0, off=True)
    seconds = _number(entry, "timeout_seconds", TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS, least=0.1)
    return GoldenChoice(folder / path, minutes, seconds), notices + entry.notices


def _number(
    entry: ServerEntry, key: str, default: float, most: float, *, least: float, off: bool = False
) -> float:
    text = entry.text(key)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if least <= value <= most or (off and value == 0.0):
        return value
    entry.note(
        key,
        f"golden: {key} must be {'0 or ' if off else ''}from {least:g} to {most:g}, not {text}: "
        f"{default:g} is used",
    )
    return default
