"""Explore's tables: the families, and the samples of the chosen one with their values as printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from telemetry.units import human
from ui.families import FamilyRow, Sample
from ui.html import Html, copy_button, div, link, span, tag
from ui.view import View

SHOWN_FAMILIES = 200
SHOWN_SAMPLES = 200


def family_table(rows: Sequence[FamilyRow], chosen: str | None, view: View, find: str) -> Html:
    """One row per family; a row opens the family below."""
    head = tag(
        "tr",
        tag("th", "family"),
        tag("th", "type", class_="ts-roomy"),
        tag("th", "series", class_="ts-right"),
        tag("th", "help", class_="ts-roomy"),
    )
    body = [_family(row, row.name == chosen, view, find) for row in rows[:SHOWN_FAMILIES]]
    more = len(rows) - SHOWN_FAMILIES
    return div(
        div(
            tag("table", tag("thead", head), tag("tbody", body), class_="ts-table"),
            class_="ts-scroll ts-tall",
        ),
        div(f"and {more} more: search to find them", class_="ts-more") if more > 0 else None,
    )


def _family(row: FamilyRow, chosen: bool, view: View, find: str) -> Html:
    params = view.filters.params(find=find or None, family=row.name)
    name = span(link(row.name, "explore", params, class_="ts-name"), _custom(row), class_="ts-model")
    return tag(
        "tr",
        tag("td", name),
        tag("td", row.kind.value, class_="ts-faint ts-roomy"),
        tag("td", f"{len(row.samples):,}", class_="ts-right"),
        tag("td", row.help or "no help text on the page", class_="ts-why ts-roomy"),
        class_="chosen" if chosen else None,
        data_row=True,
        data_key=row.name,
    )


def _custom(row: FamilyRow) -> Html | None:
    if not row.custom:
        return None
    return span(
        "custom", class_="ts-badge", data_tip="Not one of Triton's own families: a model or backend made it."
    )


def sample_table(row: FamilyRow, samples: Sequence[Sample], *, several_servers: bool) -> Html:
    """The samples of one family: labels, the value as printed, and the same for reading."""
    head = tag(
        "tr",
        tag("th", "server") if several_servers else None,
        tag("th", "labels"),
        tag("th", "as printed", class_="ts-right"),
        tag("th", "value", class_="ts-right ts-roomy"),
        tag("th"),
    )
    body = [_sample(row, one, several_servers) for one in samples[:SHOWN_SAMPLES]]
    more = len(samples) - SHOWN_SAMPLES
    return div(
        div(
            tag("table", tag("thead", head), tag("tbody", body), class_="ts-table"),
            class_="ts-scroll ts-tall",
        ),
        div(f"and {more:,} more: search to find them", class_="ts-more") if more > 0 else None,
    )


def _sample(row: FamilyRow, one: Sample, several_servers: bool) -> Html:
    suffix = one.name.removeprefix(row.name)
    labels = [
        span(span(f"{name}=", class_="ts-faint"), span(value, class_="ts-name"), class_="ts-label-pair")
        for name, value in one.labels
    ]
    badge = span(suffix, class_="ts-badge") if suffix else None
    return tag(
        "tr",
        tag("td", one.server) if several_servers else None,
        tag("td", div(badge, labels or span("no labels", class_="ts-faint"), class_="ts-labels")),
        tag("td", tag("code", one.text), class_="ts-right"),
        tag("td", _readable(row, one), class_="ts-right ts-roomy"),
        tag("td", copy_button(_selector(one)), class_="ts-right"),
        data_key=f"{one.server} {one.name} {one.labels}",
    )  # fmt: skip


def _readable(row: FamilyRow, one: Sample) -> str:
    """The value scaled for reading; counts of a distribution have no unit of their own."""
    if math.isnan(one.value):
        return "n/a"
    return (
        human(one.value, row.unit)
        if one.name == row.name or one.name.endswith("_sum")
        else human(one.value, row.unit.NONE)
    )


def _selector(one: Sample) -> str:
    """The series as PromQL, to look for it in Prometheus."""
    escaped = (
        (name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, value in one.labels
    )
    inside = ",".join(f'{name}="{value}"' for name, value in escaped)
    return f"{one.name}{{{inside}}}" if inside else one.name
