"""Marks over the charts: models that appear, models that go, counters that fall."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus

from grafana.panels import DATASOURCE
from grafana.queries import WINDOW, Queries

FAMILY = "nv_inference_request_success"
"""Vanishes with its model; failures stay on the page for ever."""


def of_models(queries: Queries) -> list[builders.AnnotationQuery]:
    """Loads, unloads and resets of the chosen models, from Triton's own series."""
    now = queries.models.selector(FAMILY)
    before, match = f"{now} offset {WINDOW}", queries.model_match
    texts = {
        "Models that appeared": (f"{now} unless on ({match}) {before}", "green", "appeared"),
        "Models that went": (f"{before} unless on ({match}) {now}", "text", "went"),
        "Counters that fell": (
            f"resets({now}[{WINDOW}]) > 0",
            "orange",
            "counters began anew: a reload or a restart",
        ),
    }
    return [
        _annotation(queries, name, queries.row(queries.model_labels, text), colour, what)
        for name, (text, colour, what) in texts.items()
    ]


def _annotation(queries: Queries, name: str, text: str, colour: str, what: str) -> builders.AnnotationQuery:
    names = queries.parameters
    target = prometheus.Dataquery().ref_id("Anno").expr(text).interval("15s").datasource(DATASOURCE)
    annotation = builders.AnnotationQuery().name(name).datasource(DATASOURCE).target(target).enable(True)
    title = f"{{{{{names.model}}}}} v{{{{{names.version}}}}} {what}"
    annotation = annotation.icon_color(colour).hide(False).title_format(title)
    return annotation.text_format(f"{{{{{names.instance}}}}}")
