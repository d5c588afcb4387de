"""Advice that was given, kept until the configuration changes, and then held against what was measured."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from history.kept_file import Keeper, KeptFile, Key
from signals.advice import Advice, Observed, Proposal, predict
from signals.advice_check import Check, check
from signals.batcher import BatcherConfig
from telemetry.identity import ModelKey

MAX_MODELS = 500
MAX_AGE_SECONDS = 7 * 86400.0
"""What was advised longer ago was advised for another time's traffic: no change is judged by it."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was predicted of a configuration before it came into force, at `made_at` (unix seconds).

    `before` is the advice it rests on; `since` when the new configuration was first seen.
    """

    made_at: float
    since: float
    before: Advice
    promised: Proposal


@dataclass(frozen=True, slots=True)
class Given:
    """The last advice for a model, given at `at` (unix seconds), and the last prediction put to the test."""

    key: ModelKey
    at: float
    advice: Advice
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """A prediction and what came of it."""

    prediction: Prediction
    check: Check


class AdviceBook:
    """The last advice for each model and the last prediction that was put to the test. Thread-safe.

    `keeper` is what is kept on disk, None = in memory alone.
    """

    def __init__(self, keeper: Keeper[Given] | None = None) -> None:
        self._keeper = keeper
        self._lock = threading.Lock()
        self._given: dict[ModelKey, Given] = {}

    def give(self, key: ModelKey, advice: Advice, at: float) -> None:
        """Keep what was shown; it is what a later configuration is judged by."""
        self._learn()
        with self._lock:
            before = self._given.pop(key, None)
            row = Given(key, at, advice, before.prediction if before is not None else None)
            self._put(row)

    def last(self, key: ModelKey) -> Advice | None:
        """The last advice for a model, whatever its configuration was then."""
        self._learn()
        with self._lock:
            given = self._given.get(key)
        return given.advice if given is not None else None

    def rows(self) -> tuple[Given, ...]:
        """Everything that is kept, the oldest first."""
        self._learn()
        with self._lock:
            return tuple(self._given.values())

    def restore(self, rows: Iterable[Given]) -> None:
        """Know this; only for a book that has given none."""
        with self._lock:
            self._given.update((row.key, row) for row in rows)

    def prediction(self, key: ModelKey, now: BatcherConfig, at: float) -> Prediction | None:
        """What the last advice says of the configuration now in force; None if it has not changed, or if that
        advice promised nothing.

        Made at the first call after the change, from the traffic before it.
        """
        self._learn()
        with self._lock:
            given = self._given.get(key)
        if given is None:
            return None
        if given.prediction is not None and given.prediction.promised.config == now:
            return given.prediction
        if given.advice.now == now or not given.advice.trusted or at - given.at > MAX_AGE_SECONDS:
            return None
        made = Prediction(given.at, at, given.advice, predict(given.advice, now))
        with self._lock:
            # Newer advice may have been given meanwhile.
            self._put(replace(self._given.pop(key, given), prediction=made))
        return made

    def checked(
        self, key: ModelKey, now: BatcherConfig, measured: Observed | None, at: float
    ) -> Checked | None:
        """The prediction against what is measured since; None without one, or without traffic."""
        prediction = self.prediction(key, now, at)
        if prediction is None or measured is None or measured.requests_per_second <= 0:
            return None
        return Checked(prediction, check(prediction.promised, measured, prediction.before))

    def _put(self, row: Given) -> None:
        """The newest stands last, so that the oldest goes."""
        while len(self._given) >= MAX_MODELS:
            self._given.pop(next(iter(self._given)))
        self._given[row.key] = row
        if self._keeper is not None:
            self._keeper.put(row)

    def _learn(self) -> None:
        """Take in what is on disk: at the start, and what another process writes while it holds the file."""
        news = self._keeper.news() if self._keeper is not None else None
        if news is None or self._keeper is None:
            return
        with self._lock:
            kept = {row.key: row for row in news.rows}
            own = [row for key, row in self._given.items() if key not in kept or kept[key].at < row.at]
            self._given = kept | {row.key: row for row in own}
            for row in own if news.taken else ():
                self._keeper.put(row)


def kept_advice(journal: Path) -> KeptFile[Given]:
    """The file of a book, beside the journal; not opened."""
    what = "what was advised and predicted"
    return KeptFile(
        journal.with_name(f"{journal.stem}-advice.jsonl"), Given, _identity, most=MAX_MODELS, what=what
    )


def _identity(row: Given) -> Key:
    return row.key.server, row.key.name, row.key.version
