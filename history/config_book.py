"""Which configuration each model runs with, and when that became another one: the one memory of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from telemetry.config_diff import FieldChange, changes_between, in_words
from telemetry.facts import ModelConfig, ModelState
from telemetry.scrape import Scrape, Source

KEEP_CHANGES = 20
SETTLE_SECONDS = 30.0
"""After a load a reading may still bring the configuration from before it."""
MASKED_WORDS = "other settings"
"""What differs where all values that differ were masked in a file."""

NameKey = tuple[str, str]
"""Server id and model name."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """At `at` (unix seconds, the reading that showed it) the configuration was another one than before.

    `anew`: the model was seen unloaded in between, so that the new one is what a load from nothing gave it.
    """

    at: float
    before: ModelConfig
    after: ModelConfig
    anew: bool = False

    @property
    def changes(self) -> tuple[FieldChange, ...]:
        """Field by field."""
        return changes_between(self.before.raw, self.after.raw)

    @property
    def sizes(self) -> bool:
        """Instances or the largest batch changed: memory may differ for that reason."""
        mine, theirs = ((one.instance_count, one.max_batch_size) for one in (self.before, self.after))
        return mine != theirs

    def words(self) -> str:
        """`max_batch_size 16 (was 8)`; values that may be secret stay unsaid."""
        return in_words(self.changes) or MASKED_WORDS


@dataclass(frozen=True, slots=True)
class KnownConfig:
    """`first` is what the model ran with when it was first seen since its load.

    `anew_at` is when that was (unix seconds) if it was seen unloaded before, None for what the process met.
    `unloaded`: it was not loaded at the last reading; `unloaded_at` is the newest reading that showed it so.
    `changes` reach back over loads.
    """

    first: ModelConfig
    now: ModelConfig
    anew_at: float | None = None
    changes: tuple[ConfigChange, ...] = ()
    unloaded: bool = False
    unloaded_at: float | None = None


@dataclass(slots=True)
class ConfigBook:
    """A `Sink` that remembers the configuration of every model and its changes; thread-safe.

    A model that was seen unloaded begins anew with its next configuration: an override does not survive that.
    """

    _not_ready: dict[str, set[str]] = field(default_factory=dict)
    _known: dict[NameKey, KnownConfig] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def known(self, server: str, model: str) -> KnownConfig | None:
        """What is remembered of one model, None if its configuration was never read."""
        with self._lock:
            return self._known.get((server, model))

    def changes(self, since: float) -> dict[NameKey, tuple[ConfigChange, ...]]:
        """The changes since then (unix seconds) of the models that have any, the oldest first."""
        found = {
            row: tuple(change for change in known.changes if change.at >= since)
            for row, known in self.everything().items()
        }
        return {row: changes for row, changes in found.items() if changes}

    def forget(self, server: str) -> None:
        """Who comes back under this id may be another process: what it runs is looked at anew."""
        with self._lock:
            self._not_ready.pop(server, None)
            self._known = {row: known for row, known in self._known.items() if row[0] != server}

    def everything(self) -> dict[NameKey, KnownConfig]:
        """What is remembered of all models, by (server, model)."""
        with self._lock:
            return dict(self._known)

    def restore(self, known: Mapping[NameKey, KnownConfig]) -> None:
        """Remember this; only for a book that has read nothing."""
        with self._lock:
            self._known.update(known)

    def accept(self, scrape: Scrape) -> None:
        """Take the configurations and the states of one reading; other sources tell nothing."""
        payload = scrape.payload
        if not scrape.ok:
            return
        if scrape.source is Source.CONFIG and isinstance(payload, Mapping):
            with self._lock:
                for name, config in payload.items():
                    self._note(scrape.server, name, config, scrape.at)
        elif scrape.source is Source.INDEX and isinstance(payload, tuple):
            ready = {entry.name for entry in payload if entry.state is ModelState.READY}
            listed = {entry.name for entry in payload}
            with self._lock:
                self._not_ready[scrape.server] = listed - ready
                self._note_unloaded(scrape.server, listed - ready, scrape.at)

    def _note(self, server: str, model: str, config: ModelConfig, at: float) -> None:
        key = (server, model)
        known = self._known.get(key)
        if model in self._not_ready.get(server, ()):
            # A configuration from before the unload, kept by its reader.
            return
        if known is None:
            self._known[key] = KnownConfig(config, config)
            return
        if known.now is config and not known.unloaded:
            return
        settling = known.anew_at is not None and at - known.anew_at < SETTLE_SECONDS
        changes = known.changes
        if changes_between(known.now.raw, config.raw):
            change = ConfigChange(at, known.now, config, anew=known.unloaded or settling)
            changes = (*changes, change)[-KEEP_CHANGES:]
        if known.unloaded or settling:
            anew_at = at if known.unloaded else known.anew_at
            self._known[key] = KnownConfig(config, config, anew_at, changes, unloaded_at=known.unloaded_at)
        else:
            self._known[key] = replace(known, now=config, changes=changes)

    def _note_unloaded(self, server: str, models: set[str], at: float) -> None:
        for model in models:
            known = self._known.get((server, model))
            if known is not None:
                self._known[server, model] = replace(known, unloaded=True, unloaded_at=at)
