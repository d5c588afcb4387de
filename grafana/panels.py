"""Panels: what a query looks like in Grafana. Sizes are in Grafana's grid, 24 columns wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from grafana_foundation_sdk.builders import bargauge, heatmap, stat, statetimeline, table, text, timeseries
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import prometheus as prometheus_builders
from grafana_foundation_sdk.models import common, dashboard, prometheus
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models import text as text_models

from grafana.grafana_units import GRAFANA_UNIT
from telemetry.units import Unit

DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
POINTS, TILE_POINTS = 200, 60
"""Most points of a line: what Prometheus has to do grows with them, and a pixel each is too many."""
GREEN, AMBER, RED, GREY = "green", "orange", "red", "text"
"""Status; never without a word or a number beside it."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel and the name of its series, `{{label}}` filled in."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """What a panel is called, what it tells (and what good looks like), and what it says without data."""

    title: str
    description: str
    unit: Unit | str = Unit.NONE
    empty: str = "not reported"
    width: int = 12
    height: int = 8
    links: Sequence[dashboard.DashboardLink] = ()
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A panel and its size."""

    panel: dashboard.Panel
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its query, unit, and bars or colours from these thresholds on."""

    expr: str
    unit: Unit | str = Unit.NONE
    steps: Sequence[tuple[float, str]] = field(default=())


def lines(
    about: About, queries: Sequence[Query], *, stacked: bool = False, colours: Mapping[str, str] | None = None
) -> Drawn:
    """A chart over time; the legend is sorted by the last value."""
    builder = timeseries.Panel().max_data_points(POINTS).line_width(1).fill_opacity(60 if stacked else 8)
    builder = builder.show_points(common.VisibilityMode.NEVER).axis_soft_min(0)
    legend = common_builders.VizLegendOptions().show_legend(True).calcs(["lastNotNull", "max"])
    legend = legend.display_mode(common.LegendDisplayMode.TABLE).placement(common.LegendPlacement.BOTTOM)
    builder = builder.legend(legend.sort_by("Last *").sort_desc(True))
    tooltip = common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    builder = builder.tooltip(tooltip.sort(common.SortOrder.DESCENDING))
    if stacked:
        builder = builder.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    for name, colour in (colours or {}).items():
        fixed = {"mode": "fixed", "fixedColor": colour}
        builder = builder.override_by_name(name, [dashboard.DynamicConfigValue("color", fixed)])
    return _finished(builder.build(), about, queries)


def tile(about: About, query: Query, steps: Sequence[tuple[float, str]] = ()) -> Drawn:
    """One number, the last one, with its course behind it."""
    builder = stat.Panel().graph_mode(common.BigValueGraphMode.AREA)
    colour = common.BigValueColorMode.VALUE if steps else common.BigValueColorMode.NONE
    builder = builder.color_mode(colour).reduce_options(_last()).thresholds(_thresholds(steps))
    builder = builder.max_data_points(TILE_POINTS)
    return _finished(builder.build(), about, [query])


def bars(about: About, query: Query, steps: Sequence[tuple[float, str]] = ()) -> Drawn:
    """A bar for each series' last value."""
    builder = bargauge.Panel().orientation(common.VizOrientation.HORIZONTAL).reduce_options(_last())
    builder = builder.display_mode(common.BarGaugeDisplayMode.BASIC).thresholds(_thresholds(steps)).min(0)
    return _finished(builder.build(), about, [query])


def distribution(about: About, query: Query, y_unit: str = "short") -> Drawn:
    """A heat map of a histogram's buckets."""
    colour = heatmap_models.HeatmapColorOptions(
        mode=heatmap_models.HeatmapColorMode.SCHEME, scheme="Blues", steps=64, exponent=0.5, fill="blue"
    )
    panel = heatmap.Panel().build()
    options = heatmap_models.Options(color=colour, y_axis=heatmap_models.YAxisConfig(unit=y_unit))
    panel.options = options
    drawn = _finished(panel, about, [query])
    for target in panel.targets or ():
        if isinstance(target, prometheus.Dataquery):
            target.format_val = prometheus.PromQueryFormat.HEATMAP
    return drawn


def states(about: About, query: Query, colours: Mapping[str, str]) -> Drawn:
    """Which state each series is in over time; the query's value is the state's place in `colours`."""
    builder = statetimeline.Panel().merge_values(True).show_value(common.VisibilityMode.AUTO)
    options = {
        str(place): dashboard.ValueMappingResult(text=name, color=colour, index=place)
        for place, (name, colour) in enumerate(colours.items())
    }
    mapping = dashboard.ValueMap(options=options)
    return _finished(builder.mappings([mapping]).row_height(0.8).build(), about, [query])


def rows(
    about: About,
    labels: Sequence[str],
    columns: Mapping[str, Column],
    *,
    linked: str = "",
    hidden: Sequence[str] = (),
) -> Drawn:
    """A table: the series' labels in the order of `labels`, and a column for each query's value now.

    `linked` = the label whose cells carry the panel's links.
    """
    builder = table.Panel()
    names = {f"Value #{_ref(place)}": title for place, title in enumerate(columns)}
    if len(columns) == 1:
        names = {"Value": next(iter(columns))}
    # What has no place comes last.
    order = {name: place for place, name in enumerate((*labels, *names))}
    options = {"excludeByName": dict.fromkeys(("Time", *hidden), True), "indexByName": order}
    builder = builder.transformations(
        [
            *([dashboard.DataTransformerConfig("merge", options={})] if len(columns) > 1 else []),
            dashboard.DataTransformerConfig("organize", options={**options, "renameByName": names}),
        ]
    )
    for title, column in columns.items():
        builder = builder.override_by_name(title, _of_column(column))
    if linked:
        found = dashboard.DynamicConfigValue("links", [_data_link(one) for one in about.links])
        builder = builder.override_by_name(linked, [found])
    drawn = _finished(
        builder.build(), replace(about, links=()), [Query(column.expr) for column in columns.values()]
    )
    for target in drawn.panel.targets or ():
        if isinstance(target, prometheus.Dataquery):
            target.format_val, target.instant, target.range_val = (
                prometheus.PromQueryFormat.TABLE,
                True,
                False,
            )
    return drawn


def words(title: str, content: str, width: int = 24, height: int = 3) -> Drawn:
    """Text in Markdown."""
    panel = text.Panel().title(title).mode(text_models.TextMode.MARKDOWN).content(content).build()
    return Drawn(panel, width, height)


def link(title: str, url: str) -> dashboard.DashboardLink:
    """A link from a value; `url` may hold `${__field.labels.model}`."""
    built = dashboard_builders.DashboardLink(title).url(url).target_blank(True).build()
    built.type_val = dashboard.DashboardLinkType.LINK
    return built


def unit_id(unit: Unit | str) -> str:
    """Grafana's id of a unit."""
    return GRAFANA_UNIT[unit] if isinstance(unit, Unit) else unit


def _ref(place: int) -> str:
    return chr(ord("A") + place)


def _finished(panel: dashboard.Panel, about: About, queries: Sequence[Query]) -> Drawn:
    panel.title, panel.description, panel.datasource = about.title, about.description, DATASOURCE
    panel.targets = [_target(query, place) for place, query in enumerate(queries)]
    config = panel.field_config or dashboard.FieldConfigSource()
    config.defaults.unit, config.defaults.no_value = unit_id(about.unit), about.empty
    config.defaults.max_val = about.maximum
    if about.links:
        config.defaults.links = list(about.links)
    panel.field_config = config
    return Drawn(panel, about.width, about.height)


def _data_link(one: dashboard.DashboardLink) -> dict[str, object]:
    return {"title": one.title, "url": one.url, "targetBlank": one.target_blank}


def _target(query: Query, place: int) -> prometheus.Dataquery:
    builder = prometheus_builders.Dataquery().ref_id(_ref(place)).expr(query.expr).range()
    builder = builder.editor_mode(prometheus.QueryEditorMode.CODE).datasource(DATASOURCE)
    return builder.legend_format(query.legend or "__auto").build()


def _last() -> common_builders.ReduceDataOptions:
    return common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False)


def _thresholds(steps: Sequence[tuple[float, str]]) -> dashboard_builders.ThresholdsConfig:
    listed = [dashboard.Threshold(value=None, color=GREEN if steps else GREY)]
    listed += [dashboard.Threshold(value=value, color=colour) for value, colour in steps]
    return dashboard_builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(listed)


def _of_column(column: Column) -> list[dashboard.DynamicConfigValue]:
    found = [dashboard.DynamicConfigValue("unit", unit_id(column.unit))]
    if column.steps:
        steps: list[dict[str, object]] = [{"value": None, "color": GREY}]
        steps += [{"value": value, "color": colour} for value, colour in column.steps]
        found.append(dashboard.DynamicConfigValue("thresholds", {"mode": "absolute", "steps": steps}))
        found.append(dashboard.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}))
    return found
