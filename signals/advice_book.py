"""Advice that was given, kept until the configuration changes, and then held against what was measured."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from signals.advice import Advice, Check, Observed, Proposal, check, predict
from signals.batcher import BatcherConfig
from telemetry.identity import ModelKey

MAX_MODELS = 500


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
class Checked:
    """A prediction and what came of it."""

    prediction: Prediction
    check: Check


class AdviceBook:
    """The last advice for each model and the last prediction that was put to the test. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given: dict[ModelKey, tuple[float, Advice]] = {}
        self._predictions: dict[ModelKey, Prediction] = {}

    def give(self, key: ModelKey, advice: Advice, at: float) -> None:
        """Keep what was shown; it is what a later configuration is judged by."""
        with self._lock:
            if key not in self._given and len(self._given) >= MAX_MODELS:
                self._given.pop(next(iter(self._given)))
            self._given[key] = (at, advice)

    def last(self, key: ModelKey) -> Advice | None:
        """The last advice for a model, whatever its configuration was then."""
        with self._lock:
            given = self._given.get(key)
        return given[1] if given is not None else None

    def prediction(self, key: ModelKey, now: BatcherConfig, at: float) -> Prediction | None:
        """What the last advice says of the configuration now in force; None if it has not changed, or if that
        advice promised nothing.

        Made at the first call after the change, from the traffic before it.
        """
        with self._lock:
            known = self._predictions.get(key)
            if known is not None and known.promised.config == now:
                return known
            given = self._given.get(key)
        if given is None or given[1].now == now or not given[1].trusted:
            return None
        made = Prediction(given[0], at, given[1], predict(given[1], now))
        with self._lock:
            self._predictions[key] = made
        return made

    def checked(
        self, key: ModelKey, now: BatcherConfig, measured: Observed | None, at: float
    ) -> Checked | None:
        """The prediction against what is measured since; None without one, or without traffic."""
        prediction = self.prediction(key, now, at)
        if prediction is None or measured is None or measured.requests_per_second <= 0:
            return None
        return Checked(prediction, check(prediction.promised, measured))
