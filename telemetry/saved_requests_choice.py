"""Whether test requests are kept, where and for how long, as the settings say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from telemetry.located_yaml import Located
from telemetry.scrape import Notice
from telemetry.server_entry import ServerEntry

RETENTION_DAYS = 30.0
MAX_RETENTION_DAYS = 3650.0

SAVED_REQUESTS_KEYS: dict[str, str] = {
    "path": "folder for saved test requests, made with mode 0700; without it nothing is saved. They hold "
    "what was sent and answered: mind whose data that is",
    "retention_days": f"days after which a saved request is removed; default: {RETENTION_DAYS:g}",
}


@dataclass(frozen=True, slots=True)
class SavedRequestsChoice:
    """The folder, and days after which a saved request is removed."""

    path: Path
    retention_days: float = RETENTION_DAYS


def saved_requests_of(
    source: str, located: Located | None, folder: Path
) -> tuple[SavedRequestsChoice | None, list[Notice]]:
    """The choice as written, None where nothing is to be saved, and what could not be used."""
    if located is None:
        return None, []
    if located.entries is None:
        return None, [
            Notice(source, located.line, "saved_requests needs `path:`; no test request can be saved")
        ]
    entry = ServerEntry(source, located.line, located.entries, {}, folder)
    notices = [
        Notice(source, line, f"saved_requests: unknown setting {key}: not used")
        for key, line in located.key_lines.items()
        if key not in SAVED_REQUESTS_KEYS
    ]
    path = entry.text("path")
    if not path:
        notices.append(
            Notice(source, located.line, "saved_requests needs `path:`; no test request can be saved")
        )
        return None, notices
    days = _days(entry)
    return SavedRequestsChoice(folder / path, days), notices + entry.notices


def _days(entry: ServerEntry) -> float:
    text = entry.text("retention_days")
    if not text:
        return RETENTION_DAYS
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if 0 < days <= MAX_RETENTION_DAYS:
        return days
    entry.note(
        "retention_days",
        f"retention_days must be above 0 and at most {MAX_RETENTION_DAYS:g}, not {text}: "
        f"{RETENTION_DAYS:g} is used",
    )
    return RETENTION_DAYS
