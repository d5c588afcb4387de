"""Drift: a model that runs with another configuration than its files would give it, as far as can be seen.

Triton tells what runs and never what is on disk. So the files are read where that is possible (the sandbox);
elsewhere the journal of overrides and what was seen of the configuration over time have to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from history.config_book import ConfigBook, KnownConfig
from history.events import EventKind, EventLog
from telemetry.actions import ActionKind, Outcome, Record
from telemetry.config_diff import FieldChange, changes_between, in_words
from telemetry.config_file import changes_from_file
from telemetry.errors import TritonscopeError
from telemetry.facts import ModelConfig
from telemetry.pbtxt import parse_pbtxt

CHANGED_SECONDS = 3600.0
"""So long a change that nobody told us of is marked: it may be a rollout as well as an override."""
EXPLAINED_SECONDS = 30.0
"""A change that shows within this time after an action of ours is that action's."""

FileText = Callable[[str, str], str | None]


class KnownFrom(StrEnum):
    """Where the configuration on disk is known from."""

    FILE = "file"
    JOURNAL = "journal"
    SEEN = "seen"


@dataclass(frozen=True, slots=True)
class Drift:
    """How what runs differs from the files: of a change `before` is the file's value, `after` what runs.

    `since` is unix seconds, None if unknown; `who` is who overrode it, "" for somebody else or unknown.
    """

    changes: tuple[FieldChange, ...]
    source: KnownFrom
    since: float | None = None
    who: str = ""

    def words(self, clock: Callable[[float], str]) -> str:
        """One sentence; `clock` writes a unix time as the reader's time of day."""
        when = f" since {clock(self.since)}" if self.since is not None else ""
        if self.source is KnownFrom.SEEN:
            return (
                f"Its configuration was changed{when} by somebody else: {in_words(self.changes)}. Whether "
                "its files were edited or it was overridden, Triton does not tell"
            )
        by = f", overridden by {self.who}" if self.who else ""
        lost = "it is lost when the model is unloaded or the server restarts"
        return f"It runs with {in_words(self.changes, 'its file:')}{when}{by}; {lost}"


@dataclass(slots=True)
class _Moment:
    """What was judged at one revision of the history, with the records of it by model, newest first."""

    revision: int
    records: Mapping[tuple[str, str], list[Record]] = field(default_factory=dict)
    judged: dict[tuple[str, str], Drift | None] = field(default_factory=dict)


class Drifts:
    """Judges models, each once per revision of the history.

    `records` gives the journal, newest first; `file_text` a config.pbtxt where it can be read.
    """

    def __init__(
        self,
        book: ConfigBook,
        events: EventLog,
        records: Callable[[], Sequence[Record]],
        file_text: FileText,
        revision: Callable[[], int],
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` gives the unix time now; None = the machine's clock."""
        self._clock = clock or time.time
        self._book, self._events = book, events
        self._records, self._file_text, self._revision = records, file_text, revision
        self._moment = _Moment(-1)

    def of(self, server: str, model: str, running: ModelConfig | None) -> Drift | None:
        """The drift of one model, None if there is none or none can be seen."""
        if running is None or not running.raw:
            return None
        revision, key = self._revision(), (server, model)
        moment = self._moment
        if moment.revision != revision:
            moment = self._moment = _Moment(revision, _by_model(self._records()))
        if key not in moment.judged:
            moment.judged[key] = self._judge(server, model, running, moment.records.get(key, ()))
        return moment.judged[key]

    def _judge(self, server: str, model: str, running: ModelConfig, mine: Sequence[Record]) -> Drift | None:
        known = self._book.known(server, model)
        overrides = _in_force(mine, known)
        changes = self.from_file(server, model, running)
        if changes is not None:
            if not changes:
                return None
            since, who = (overrides[0].ended_at, overrides[0].action.who) if overrides else (None, "")
            return Drift(changes, KnownFrom.FILE, since, who)
        if overrides:
            changes = _since_override(overrides, running)
            newest = overrides[0]
            return Drift(changes, KnownFrom.JOURNAL, newest.ended_at, newest.action.who) if changes else None
        return self._seen_changing(known, mine, server, model)

    def from_file(self, server: str, model: str, running: ModelConfig) -> tuple[FieldChange, ...] | None:
        """The file's values against the running ones; None where the file cannot be read or is not valid."""
        text = self._file_text(server, model)
        if text is None:
            return None
        try:
            return changes_from_file(parse_pbtxt(text), running.raw)
        except TritonscopeError:
            # The model runs from what the file was before it was broken: nothing can be compared.
            return None

    def _seen_changing(
        self, known: KnownConfig | None, mine: Sequence[Record], server: str, model: str
    ) -> Drift | None:
        """Changed before our eyes and by no action of ours, within the last hour."""
        if known is None or known.unloaded:
            return None
        strange = [
            change
            for change in known.changes
            if change.at > self._clock() - CHANGED_SECONDS
            and not _explained(change.at, mine)
            and not self._restarted(change.at, server, model)
        ]
        if not strange or any(_explained_after(strange[-1].at, record) for record in mine):
            return None
        changes = changes_between(strange[0].before.raw, known.now.raw)
        return Drift(changes, KnownFrom.SEEN, strange[-1].at) if changes else None

    def _restarted(self, at: float, server: str, model: str) -> bool:
        """The server came back, or the model was loaded from nothing, shortly before: from its files."""
        recent = self._events.events(since=at - 2 * EXPLAINED_SECONDS, server=server)
        return any(
            event.at <= at + EXPLAINED_SECONDS
            and (
                event.kind in (EventKind.RESTART, EventKind.UP)
                or (event.kind is EventKind.LOAD and event.model is not None and event.model.name == model)
            )
            for event in recent
        )


def _by_model(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((record.action.server, record.action.model), []).append(record)
    return found


def _in_force(records: Iterable[Record], known: KnownConfig | None) -> list[Record]:
    """Overrides since the model was last loaded from its files, the newest first."""
    found: list[Record] = []
    for record in records:
        kind, done = record.action.kind, record.outcome is Outcome.DONE
        ended = record.ended_at or record.started_at
        if done and kind in (ActionKind.UNLOAD, ActionKind.REVERT, ActionKind.LOAD):
            break
        if known is not None and known.anew_at is not None and known.anew_at > ended:
            # Seen unloaded and loaded again since: from its files.
            break
        if kind is ActionKind.OVERRIDE and record.outcome in (Outcome.DONE, Outcome.UNKNOWN):
            found.append(record)
    return found


def _since_override(overrides: Sequence[Record], running: ModelConfig) -> tuple[FieldChange, ...]:
    """What still differs from before the first override, by the values in the journal."""
    before: dict[str, object] = {}
    for record in overrides:
        changes = record.action.parameters.get("changes")
        if isinstance(changes, Mapping):
            # The newest comes first: older values of the same field are nearer to the file's.
            before |= {path: one.get("before") for path, one in changes.items() if isinstance(one, Mapping)}
    base: dict[str, Any] = deepcopy(dict(running.raw))
    for path, value in before.items():
        _put(base, path, value)
    return tuple(change for change in changes_between(base, running.raw) if change.public)


def _put(config: dict[str, Any], path: str, value: object) -> None:
    """Write one value of a journal's change back; a place that is not there any more is left alone."""
    place: Any = config
    *way, last = path.replace("[", ".").replace("]", "").split(".")
    for step in way:
        place = _step(place, step)
    if isinstance(place, dict):
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value


def _step(place: Any, step: str) -> Any:
    if isinstance(place, list) and step.isdecimal() and int(step) < len(place):
        return place[int(step)]
    return place.get(step) if isinstance(place, dict) else None


def _explained(at: float, records: Iterable[Record]) -> bool:
    return any(
        record.started_at <= at <= (record.ended_at or time.time()) + EXPLAINED_SECONDS
        for record in records
        if record.action.kind.changes_repository and record.sent is not False
    )


def _explained_after(at: float, record: Record) -> bool:
    """Loaded from its files by us after the change."""
    back = (ActionKind.REVERT, ActionKind.LOAD)
    return record.action.kind in back and record.outcome is Outcome.DONE and record.started_at > at
