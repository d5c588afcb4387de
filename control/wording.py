"""The text of a server's error answers; `load_errors` and `request_errors` say what they mean."""

from __future__ import annotations

import json

from telemetry.errors import Restricted, SourceError
from telemetry.reasons import reason_line

NOT_EXPLICIT_MARK = "explicit model load / unload is not allowed"


def server_text(raw: str | None) -> str:
    """The text inside `{"error": text}`, or the body itself: the content type is not reliable."""
    if not raw:
        return ""
    try:
        body = json.loads(raw)
    except ValueError:
        return raw.strip()
    error = body.get("error") if isinstance(body, dict) else None
    return (error if isinstance(error, str) else raw).strip()


def source_sentence(error: SourceError) -> str:
    """A failed call that no table explains: what the transport says of it, with the server's first line."""
    text = reason_line(server_text(error.detail)) if error.status else ""
    if text and not isinstance(error, Restricted):
        return f"{error.sentence}: {text}"
    return error.sentence
