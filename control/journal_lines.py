"""The lines of the journal: one JSON object each, two for every action, and how they are read again.

    begin    written and synced before anything is sent: who, what, why, where, with which parameters
    end      written after it: the same, the outcome in words, whether it was sent, seconds, memory
    intend   a configuration was changed for a while and must be put back
    settled  it was put back, or nothing is left to put back
    denied   somebody without the right asked for it: on standard output alone, id 0

A line never holds a tensor, a model's configuration, or a value of the headers that servers are called with.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from control.restoration import PendingRestoration, Restoration
from telemetry.actions import Action, ActionKind, MemoryChange, Outcome, Record

FORMAT = 1
BEGIN, END, INTEND, SETTLED, DENIED = "begin", "end", "intend", "settled", "denied"
MAX_TEXT = 2000
"""Characters of any one text; what is cut off ends in an ellipsis."""
HIDDEN = "[secret]"
_SHORTEST_SECRET = 4
"""Shorter values of headers ("1", "on") are words, not secrets."""

Line = dict[str, Any]


def encoded(line: Mapping[str, object], secrets: Collection[str] = ()) -> bytes:
    """One line as it is written, with its end; every secret in any text of it is hidden."""
    hidden = [one for one in secrets if len(one) >= _SHORTEST_SECRET]
    clean = _cleaned(line, sorted(hidden, key=len, reverse=True))
    return json.dumps(clean, ensure_ascii=True, separators=(",", ":"), default=str).encode() + b"\n"


def decoded(text: bytes) -> Line:
    """A line as it was written; raises ValueError for a damaged one."""
    line = json.loads(text)
    if not isinstance(line, dict) or not isinstance(line.get("id"), int) or "event" not in line:
        raise ValueError("not a line of the journal")
    return line


def begin_line(record: Record) -> Line:
    """The line before anything is sent."""
    return {**_head(BEGIN, record.id, record.started_at), **_what(record.action)}


def end_line(record: Record) -> Line:
    """The line that completes an action; it can be read without the first one."""
    ended = record.ended_at if record.ended_at is not None else record.started_at
    return {
        **_head(END, record.id, ended),
        "began": moment(record.started_at),
        **_what(record.action),
        "outcome": str(record.outcome),
        "result": record.sentence,
        "sent": record.sent,
        "duration_seconds": round(ended - record.started_at, 3),
        "detail": record.detail,
        "memory": [
            {"where": one.where, "before_bytes": one.before_bytes, "after_bytes": one.after_bytes}
            for one in record.memory
        ],
    }


def denied_line(action: Action, at: float, sentence: str) -> Line:
    """The line about an action that was asked for without the right to it."""
    return {
        **_head(DENIED, 0, at),
        **_what(action),
        "outcome": str(Outcome.REFUSED),
        "result": sentence,
        "sent": False,
    }


def intend_line(pending: PendingRestoration) -> Line:
    """The line before a configuration is changed for a while."""
    what = pending.restoration
    return {
        **_head(INTEND, pending.id, pending.since),
        "server": what.server,
        "model": what.model,
        "restore": "disk" if what.config is None else "configuration",
        "why": what.reason,
    }


def settled_line(pending_id: int, at: float, sentence: str) -> Line:
    """The line after it was put back."""
    return {**_head(SETTLED, pending_id, at), "result": sentence}


def record_of(line: Line, begun: Record | None = None) -> Record:
    """The record a begin line or an end line tells; raises ValueError where something needed is missing."""
    try:
        action = begun.action if begun is not None else _action(line)
        started = begun.started_at if begun is not None else unix(line.get("began") or line["at"])
        record = Record(line["id"], action, started, f"{action.kind.doing} {action.target}")
        if line["event"] == BEGIN:
            return record
        return Record(
            line["id"],
            action,
            started,
            record.stage,
            line["sent"],
            unix(line["at"]),
            Outcome(line["outcome"]),
            str(line["result"]),
            line.get("detail"),
            tuple(
                MemoryChange(str(one["where"]), one["before_bytes"], one["after_bytes"])
                for one in line.get("memory") or ()
            ),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"a line of the journal lacks {error}") from error


def pending_of(line: Line, config: Mapping[str, object] | None) -> PendingRestoration:
    """What an intend line says must be put back; raises ValueError where something needed is missing."""
    try:
        restoration = Restoration(str(line["server"]), str(line["model"]), config, str(line["why"]))
        return PendingRestoration(line["id"], restoration, unix(line["at"]), left_over=True)
    except (KeyError, TypeError) as error:
        raise ValueError(f"a line of the journal lacks {error}") from error


def moment(at: float) -> str:
    """Unix seconds as the journal writes them: UTC with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix(text: object) -> float:
    """Such a time as unix seconds; raises ValueError."""
    return datetime.fromisoformat(str(text)).timestamp()


def _head(event: str, number: int, at: float) -> Line:
    return {"format": FORMAT, "event": event, "id": number, "at": moment(at)}


def _what(action: Action) -> Line:
    parameters = dict(action.parameters)
    if action.unload_dependents:
        parameters["unload_dependents"] = True
    return {
        "who": action.who,
        "how": action.how,
        "what": str(action.kind),
        "why": action.why,
        "server": action.server,
        "model": action.model,
        "version": action.version,
        "parameters": parameters,
    }


def _action(line: Line) -> Action:
    parameters = dict(line.get("parameters") or {})
    dependents = bool(parameters.pop("unload_dependents", False))
    return Action(
        ActionKind(line["what"]),
        str(line["server"]),
        str(line["model"]),
        str(line.get("version", "")),
        str(line["who"]),
        str(line.get("how", "")),
        unload_dependents=dependents,
        why=str(line.get("why", "")),
        parameters=parameters,
    )


def _cleaned(value: object, secrets: list[str]) -> object:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…"
    if isinstance(value, Mapping):
        return {str(key): _cleaned(one, secrets) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(one, secrets) for one in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return _cleaned(str(value), secrets)
