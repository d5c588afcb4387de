"""The mark of a model that runs with another configuration than its files give it."""

from __future__ import annotations

import runtime
from history.drift import Drift
from history.inventory import ModelFacts
from ui.format import clock
from ui.html import Html, span


def drift_of(facts: ModelFacts | None) -> Drift | None:
    """How this version's running configuration differs from its files', None if not or not to be seen."""
    return None if facts is None else runtime.current().drifts().get(facts.key)


def drift_of_model(server: str, model: str) -> Drift | None:
    """The same for a model as a whole: an action is on all of its versions."""
    found = runtime.current().drifts().items()
    return next((drift for key, drift in found if (key.server, key.name) == (server, model)), None)


def drift_badge(facts: ModelFacts | None) -> Html | None:
    """The mark beside a model's name, with the difference as its tooltip; None without one."""
    drift = drift_of(facts)
    if drift is None:
        return None
    return span("drift", class_="ts-badge ticket", data_tip=f"{drift.words(clock)}.", tabindex="0")
