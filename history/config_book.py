"""Which configuration each model had when it was first seen since it was loaded, and when that changed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from telemetry.facts import ModelConfig, ModelState
from telemetry.scrape import Scrape, Source

KEEP_CHANGES = 20
SETTLE_SECONDS = 30.0
"""After a load a reading may still bring the configuration from before it."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """At `at` (unix seconds, the reading that showed it) the configuration was another one than before."""

    at: float
    before: ModelConfig
    after: ModelConfig


@dataclass(frozen=True, slots=True)
class KnownConfig:
    """`first` is what the model ran with when it was first seen since its load.

    `anew_at` is when that was (unix seconds) if it was seen unloaded before, None for what the process met.
    """

    first: ModelConfig
    now: ModelConfig
    anew_at: float | None = None
    changes: tuple[ConfigChange, ...] = ()
    unloaded: bool = False


@dataclass(slots=True)
class ConfigBook:
    """A `Sink` that remembers the first configuration of every loaded model; thread-safe.

    A model that was seen unloaded begins anew with its next configuration: an override does not survive that.
    """

    _not_ready: dict[str, set[str]] = field(default_factory=dict)
    _known: dict[tuple[str, str], KnownConfig] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def known(self, server: str, model: str) -> KnownConfig | None:
        """What is remembered of one model, None if its configuration was never read."""
        with self._lock:
            return self._known.get((server, model))

    def forget(self, server: str) -> None:
        """Who comes back under this id may be another process: what it runs is looked at anew."""
        with self._lock:
            self._not_ready.pop(server, None)
            self._known = {row: known for row, known in self._known.items() if row[0] != server}

    def everything(self) -> dict[tuple[str, str], KnownConfig]:
        """What is remembered of all models, by (server, model)."""
        with self._lock:
            return dict(self._known)

    def restore(self, known: Mapping[tuple[str, str], KnownConfig]) -> None:
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
                self._note_unloaded(scrape.server, listed - ready)

    def _note(self, server: str, model: str, config: ModelConfig, at: float) -> None:
        key = (server, model)
        known = self._known.get(key)
        if model in self._not_ready.get(server, ()):
            # A configuration from before the unload, kept by its reader.
            return
        if known is None:
            self._known[key] = KnownConfig(config, config)
        elif known.unloaded:
            self._known[key] = KnownConfig(config, config, at)
        elif known.now is config:
            return
        elif known.anew_at is not None and at - known.anew_at < SETTLE_SECONDS:
            self._known[key] = KnownConfig(config, config, known.anew_at)
        elif known.now.raw != config.raw:
            changes = (*known.changes, ConfigChange(at, known.now, config))[-KEEP_CHANGES:]
            self._known[key] = replace(known, now=config, changes=changes)

    def _note_unloaded(self, server: str, models: set[str]) -> None:
        for model in models:
            known = self._known.get((server, model))
            if known is not None and not known.unloaded:
                self._known[server, model] = replace(known, unloaded=True)
