"""Workloads and their replicas: who stands out among those that serve the same model."""

from __future__ import annotations

import runtime
from signals.fleet import COMPARED, LEAST_REQUESTS, ODD_MADS, Fleet, FleetModel, Odd, Replica
from telemetry.units import NOT_REPORTED, Unit, human, human_duration
from ui.filters import Filters
from ui.format import counted, raw_tip
from ui.html import Html, div, join, link, span, tag
from ui.person import me
from ui.sight import fleet_of
from ui.view import View

SHOWN_MODELS = 12
_UNITS = {"failed_ratio": Unit.RATIO, "request_us_mean": Unit.US, "queue_us_mean": Unit.US}
_HEADS = {"failed_ratio": "failed", "request_us_mean": "latency", "queue_us_mean": "queue"}


def fleet_panel(view: View) -> Html | None:
    """The replicas of every workload with more than one; None where there is none."""
    found = fleet_of(runtime.current().fleet(deadline=view.deadline), me().sees)
    models = [one for one in found.models if len(one.replicas) > 1]
    if not found.workloads:
        return None
    return div(
        div("Fleet", span(_sum_up(found), class_="ts-faint"), class_="ts-h"),
        [div(_sentence(odd, view.filters), class_="ts-warn") for odd in found.odd],
        [_model(one, view.filters) for one in models[:SHOWN_MODELS]],
        div(f"{len(models) - SHOWN_MODELS} more models with less traffic", class_="ts-more")
        if len(models) > SHOWN_MODELS
        else None,
    )


def _sum_up(found: Fleet) -> str:
    replicas = sum(len(servers) for servers in found.workloads.values())
    odd = len({one.key.server for one in found.odd})
    words = f"{counted(odd, 'replica')} unlike the siblings" if odd else "none stands out"
    return (
        f"{counted(len(found.workloads), 'workload')}, {counted(replicas, 'replica')}: {words}; "
        f"last {human_duration(found.window_seconds)}, more than {ODD_MADS:g} MAD apart, same version, "
        f"at least {LEAST_REQUESTS:g} requests each"
    )


def _sentence(odd: Odd, filters: Filters) -> Html:
    unit = _UNITS[odd.signal]
    mine, others = human(odd.value, unit), human(odd.median, unit)
    model = odd.key.label()
    words = {
        "failed_ratio": f" fails {mine} of the requests to {model}, its siblings {others}",
        "request_us_mean": f" answers {model} in {mine}, its siblings in {others}",
        "queue_us_mean": f" lets requests to {model} wait {mine}, its siblings {others}",
    }
    tip = f"{odd.signal}: {odd.mads:.1f} MAD from the median of {odd.siblings} siblings"
    return span(_link(odd.key.server, odd, filters), words[odd.signal], data_tip=tip)


def _link(label: str, of: Odd | Replica, filters: Filters) -> Html:
    params = filters.params(server=of.key.server, model=of.key.name, version=of.key.version or None)
    return link(label, "model", params, class_="ts-name")


def _model(one: FleetModel, filters: Filters) -> Html:
    odd = {(odd.key.server, odd.signal) for odd in one.odd}
    head = tag("tr", tag("th", "replica"), tag("th", "requests", class_="ts-right"),
               [tag("th", _HEADS[name], class_="ts-right") for name in COMPARED])  # fmt: skip
    rows = [
        tag(
            "tr",
            tag("td", _link(replica.key.server, replica, filters)),
            tag("td", human(round(replica.requests), Unit.COUNT), class_="ts-right"),
            [_cell(replica, name, (replica.key.server, name) in odd) for name in COMPARED],
        )
        for replica in one.replicas
    ]
    label = f"{one.name} v{one.version}" if one.version else one.name
    words = f" in {one.workload}: {counted(len(one.replicas), 'replica')}"
    summary = join(tag("b", label), words, f", {len(one.odd)} odd" if one.odd else "")
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="ts-table")
    return tag(
        "details",
        tag("summary", summary),
        div(table, class_="ts-scroll"),
        class_="ts-fold",
        open=bool(one.odd),
        data_key=f"{one.workload}/{label}",
    )


def _cell(replica: Replica, name: str, odd: bool) -> Html:
    value = replica.figures.get(name)
    if value is None:
        shown = span(NOT_REPORTED, class_="ts-none", data_tip="no request finished in the window")
    else:
        tip = raw_tip(value, _UNITS[name], name)
        shown = span(human(value, _UNITS[name]), class_="ts-warn" if odd else None, data_tip=tip)
    return tag("td", shown, class_="ts-right")
