"""Drift: a model that runs with another configuration than its files would give it, as far as can be seen.

Triton tells what runs and never what is on disk. So the files are read where that is possible (the sandbox);
elsewhere the journal of overrides and what was seen of the configuration over time have to do. Pages,
findings and counts all have it from here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from history.config_book import MASKED_WORDS, ConfigBook, ConfigChange, KnownConfig
from history.events import EventKind, EventLog
from history.inventory import Inventory
from telemetry.actions import ActionKind, Outcome, Record
from telemetry.config_diff import FieldChange, changes_between, in_words
from telemetry.config_file import changes_from_file
from telemetry.errors import TritonscopeError
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import ModelKey
from telemetry.pbtxt import parse_pbtxt

CHANGED_SECONDS = 3600.0
"""So long a change that nobody told us of is marked: it may be a rollout as well as an override."""
EXPLAINED_SECONDS = 30.0
"""A change that shows within this time after an action of ours is that action's."""

FileText = Callable[[str, str], str | None]


def no_files(_server: str, _model: str) -> None:
    """A `FileText` of servers whose files cannot be read."""


class KnownFrom(StrEnum):
    """Where the configuration on disk is known from."""

    FILE = "file"
    JOURNAL = "journal"
    SEEN = "seen"


@dataclass(frozen=True, slots=True)
class Drift:
    """How what runs differs from the files: of a change `before` is the file's value, `after` what runs.

    `since` is unix seconds, None if unknown. `ours`: an override through this app is in force, `who` brought
    it; "" where that may not be told.
    """

    changes: tuple[FieldChange, ...]
    source: KnownFrom
    since: float | None = None
    who: str = ""
    ours: bool = False

    @property
    def difference(self) -> str:
        """`max_batch_size 16 (its file: 8)`, or what it was before where no file is known."""
        known = "was" if self.source is KnownFrom.SEEN else "its file:"
        return in_words(self.changes, known) or MASKED_WORDS

    def words(self, clock: Callable[[float], str]) -> str:
        """One sentence; `clock` writes a unix time as the reader's time of day."""
        when = f" since {clock(self.since)}" if self.since is not None else ""
        if self.source is KnownFrom.SEEN and not self.ours:
            return (
                f"Its configuration was changed{when} by somebody else: {self.difference}. Whether "
                "its files were edited or it was overridden, Triton does not tell"
            )
        by = f", overridden by {self.who}" if self.who else ""
        lost = "it is lost when the model is unloaded or the server restarts"
        return f"It runs with {self.difference}{when}{by}; {lost}"


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

    def all(self, inventory: Inventory) -> dict[ModelKey, Drift]:
        """The drift of every model version that runs; those without one are left out.

        One that is not loaded runs with nothing. Where no index was read, what has a configuration runs.
        """
        return {
            facts.key: drift
            for facts in inventory.models
            if facts.state in (ModelState.READY, None)
            and (drift := self.of(facts.key.server, facts.key.name, facts.config)) is not None
        }

    def of(self, server: str, model: str, running: ModelConfig | None) -> Drift | None:
        """The drift of one model that runs, None if there is none or none can be seen."""
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
        if known is not None and known.unloaded:
            # Loaded again just now: what it runs with was not read yet.
            return None
        overrides = overrides_in_force(mine, known, self._events.restarted_after(server))
        newest = overrides[0] if overrides else None
        since, who = (newest.ended_at, newest.action.who) if newest is not None else (None, "")
        changes = self.from_file(server, model, running)
        if changes is not None:
            return Drift(changes, KnownFrom.FILE, since, who, newest is not None) if changes else None
        changes = _since_override(overrides, running) if overrides else ()
        if changes:
            return Drift(changes, KnownFrom.JOURNAL, since, who, ours=True)
        if known is None or _as_before(overrides, known, running):
            return None
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
        self, known: KnownConfig, mine: Sequence[Record], server: str, model: str
    ) -> Drift | None:
        """Changed before our eyes by no action of ours within the last hour, or by one that failed."""
        strange = [
            (change, record)
            for change in self._strange(known, mine, server, model)
            if (record := self._left_by(change, mine)) is not None
            or change.at > self._clock() - CHANGED_SECONDS
        ]
        if not strange or self._loaded_since(strange[-1][0], known, mine):
            return None
        (first, _), (last, record) = strange[0], strange[-1]
        found = changes_between(first.before.raw, known.now.raw)
        who = record.action.who if record is not None else ""
        return Drift(found, KnownFrom.SEEN, last.at, who, record is not None) if found else None

    def _strange(
        self, known: KnownConfig, mine: Sequence[Record], server: str, model: str
    ) -> Iterator[ConfigChange]:
        """Changes since the server's last restart that neither an action nor a load from nothing explains."""
        for change in known.changes:
            earlier = change.anew or change.at <= self._events.restarted_after(server)
            if not (
                earlier
                or self._explained(change.at, mine)
                or self._loaded_from_nothing(change.at, server, model)
            ):
                yield change

    def _loaded_since(self, change: ConfigChange, known: KnownConfig, mine: Sequence[Record]) -> bool:
        """Loaded from its files after the change: by us, or seen unloaded in between."""
        unloaded = known.unloaded_at is not None and known.unloaded_at > change.at
        return unloaded or any(record.took_files and record.started_at > change.at for record in mine)

    def _explained(self, at: float, mine: Sequence[Record]) -> bool:
        """An action of ours that did not fail brought it."""
        return any(record.outcome is not Outcome.FAILED and self._shows(record, at) for record in mine)

    def _left_by(self, change: ConfigChange, mine: Sequence[Record]) -> Record | None:
        """A reload of ours that failed and left another configuration: a gate that put back what served."""
        found = (
            record
            for record in mine
            if record.action.kind is ActionKind.RELOAD
            and record.outcome is Outcome.FAILED
            and self._shows(record, change.at)
        )
        return next(found, None)

    def _shows(self, record: Record, at: float) -> bool:
        """What shows at that time may be the action's."""
        if not record.action.kind.changes_repository or record.sent is False:
            return False
        return record.started_at <= at <= (record.ended_at or self._clock()) + EXPLAINED_SECONDS

    def _loaded_from_nothing(self, at: float, server: str, model: str) -> bool:
        """The server came back, or the model was loaded from nothing, shortly before: from its files."""
        recent = self._events.events(since=at - 2 * EXPLAINED_SECONDS, server=server)
        return any(
            event.at <= at + EXPLAINED_SECONDS
            and (
                event.kind in (EventKind.RESTART, EventKind.UP)
                or (event.kind in _FROM_NOTHING and event.model is not None and event.model.name == model)
            )
            for event in recent
        )


_FROM_NOTHING = (EventKind.LOAD, EventKind.RESET)
"""Counters of a model begin at zero only after an unload: a reload in place keeps them."""


def _by_model(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((record.action.server, record.action.model), []).append(record)
    return found


def overrides_in_force(
    records: Iterable[Record], known: KnownConfig | None = None, restarted_after: float = float("-inf")
) -> list[Record]:
    """Overrides since the model was last loaded from its files, the newest first, as `records` of it are."""
    found: list[Record] = []
    unloaded_at = known.unloaded_at if known is not None else None
    for record in records:
        ended = record.ended_at or record.started_at
        if record.took_files or ended < restarted_after:
            break
        if unloaded_at is not None and ended < unloaded_at:
            # Seen unloaded since: from its files.
            break
        if record.action.kind is ActionKind.OVERRIDE and record.outcome in (Outcome.DONE, Outcome.UNKNOWN):
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


def _as_before(overrides: Sequence[Record], known: KnownConfig, running: ModelConfig) -> bool:
    """Overridden, and it runs with what ran before the first override: somebody took them back."""
    if not overrides:
        return False
    began = overrides[-1].started_at
    before = next((change.before for change in known.changes if change.at >= began), None)
    return before is not None and not changes_between(before.raw, running.raw)


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
