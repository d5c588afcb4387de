"""The page Load runs: which model, then everything of `ui.load_runs`."""

from __future__ import annotations

from ui import load_runs, test_request
from ui.drift import drift_badge
from ui.empty import answers, empty_state, nobody_answers, silent
from ui.header import header
from ui.live import live
from ui.model_choice import choose_model, chosen_model
from ui.panel import panel
from ui.view import View


def _answer() -> None:
    view = View.take()
    key = chosen_model(view)
    if key is None:
        header(view, "No model is known yet.", "unknown")
        return
    facts = view.facts(key)
    ready = facts is not None and facts.state == "READY" and answers(view.coverage, key.server)
    level = "fine" if ready else "unknown"
    header(view, f"Measure {key.label()} on {key.server}.", level, extra=drift_badge(facts))


def _body() -> None:
    view = View.take()
    key = chosen_model(view)
    if key is None:
        nothing = empty_state("There is no model to measure.", todo=("The page Repository loads one.",))
        unseen = silent(view.coverage)
        panel(
            nobody_answers(view.coverage, "there is no model to measure") if unseen else nothing, key="none"
        )
        return
    config = test_request.config_of(view, key)
    if isinstance(config, str):
        panel(empty_state(config), key="none")
        return
    load_runs.body(view, key, config)


def draw() -> None:
    """The whole page, for one visitor."""
    choose_model()
    live(_answer, name="answer")
    _body()
