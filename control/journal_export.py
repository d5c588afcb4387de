"""The journal as files for other programs: its own lines, and one row per action for a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable

from control.journal_lines import BEGIN, END, Line

COLUMNS = (
    "began", "ended", "who", "how", "what", "server", "model", "version", "why", "outcome", "result", "sent",
    "duration_seconds", "parameters", "memory",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would compute instead of show."""


def as_json_lines(lines: Iterable[Line]) -> bytes:
    """The lines as they are in the journal."""
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def as_csv(lines: Iterable[Line]) -> bytes:
    """One row per action, UTF-8 with a byte order mark; one that has not ended has no outcome."""
    rows: dict[int, Line] = {}
    for line in lines:
        if line["event"] == BEGIN:
            rows[line["id"]] = {**line, "began": line["at"], "ended": ""}
        elif line["event"] == END:
            rows[line["id"]] = {**line, "ended": line["at"]}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows.values():
        writer.writerow(_cell(row.get(column)) for column in COLUMNS)
    return b"\xef\xbb\xbf" + text.getvalue().encode()


def _cell(value: object) -> str:
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return json.dumps(value)
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text
