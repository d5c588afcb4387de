"""Why is this model slow?"""

import streamlit as st

from ui import shell
from ui.advice import advice_card
from ui.empty import empty_state, nobody_answers, silent
from ui.findings import finding_cards
from ui.golden_results import golden_of_model
from ui.header import header
from ui.live import live, slot
from ui.model_answer import answer_of, facts_line
from ui.model_charts import ModelCharts
from ui.model_choice import choose_model, chosen_model
from ui.model_memory import model_memory
from ui.model_panels import actions, configuration, failures, statistics, steps
from ui.panel import panel
from ui.plot import figure
from ui.remote_history import is_far
from ui.view import View

shell.guard()


def page() -> None:
    view = View.take()
    key = chosen_model(view)
    if key is None:
        header(view, "No model is known yet.", "unknown")
        panel(
            nobody_answers(view.coverage, "there is no model to show")
            if silent(view.coverage)
            else empty_state(
                "There is no model to show.", todo=("The page Repository shows what can be loaded.",)
            ),
            key="no_model",
        )
        return
    facts = view.facts(key)
    config = facts.config if facts is not None else None
    sentence, level = answer_of(view, key)
    header(view, sentence, level, extra=facts_line(view, key))
    found = view.findings_about(key)
    with slot():
        if found:
            panel(finding_cards(found, view.now, view.filters, said=True), key="findings")
    charts = ModelCharts(view, key, config)
    budget, sizes = st.columns([5, 3])
    with budget:
        figure(charts.latency_budget(), key="budget", group="model")
    with sizes:
        figure(charts.histogram(), key="histogram", group="model")
    for pair in ((charts.throughput(), charts.batch_size()), (charts.pending(), charts.busy())):
        for column, spec in zip(st.columns(2), pair, strict=True):
            with column:
                figure(spec, key=spec.title, group="model")
    quantiles = charts.quantiles()
    with slot():
        if not quantiles.empty:
            figure(quantiles, key="quantiles", group="model")
    left, right = st.columns(2)
    with left:
        panel(
            steps(view, facts) if facts else None, failures(charts.failures_by_reason(), view), key="failures"
        )
        panel(
            model_memory(view, facts) if facts else None,
            advice_card(view, facts) if facts else None,
            golden_of_model(view, key),
            actions(key, view.now),
            key="memory",
        )
    with right:
        panel(
            configuration(config, details=view.details(key.server), from_afar=is_far(key.server)),
            statistics(facts.statistics) if facts else None,
            key="configuration",
        )


choose_model()
live(page, name="model")
