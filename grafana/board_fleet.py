"""Fleet: is anything wrong, and where? Workloads, replicas, models; with the exporter the repository."""

from __future__ import annotations

from grafana.board import Board, Section
from grafana.links import to_model, to_server
from grafana.model_panels import STATE_COLOURS, model_legend, model_lines, model_states, said
from grafana.panels import AMBER, GREEN, GREY, RED, About, Column, Drawn, Query, lines, rows, states, tile
from grafana.parameters import Parameters
from grafana.queries import Queries, shown
from grafana.variables import app, datasource, exporter_job, models, servers, top
from signals.definition import Level
from signals.evaluation import NAME
from signals.expression import Increase
from telemetry.units import Unit
from triage.rulebook import RULES

_WHOLE = Level.SERVER
_WAITED = Increase("nv_inference_request_duration_us", NAME)
"""Time that clients waited for a model, summed: what ranks the models."""


def board(parameters: Parameters) -> Board:
    """The board."""
    queries = Queries(parameters)
    sections = (
        Section("Now", _tiles(queries)),
        Section("Workloads", _workloads(queries)),
        Section("Replicas", _replicas(queries)),
        Section("Models", _models(queries)),
        Section("Repository", _repository(queries), "Tritonscope's exporter"),
        Section("The exporter itself", _exporter(queries), "Tritonscope's exporter"),
        Section("Alerts", _alerts(queries), "the rules in prometheus/rules"),
    )
    variables = [
        datasource(),
        *servers(parameters),
        *models(queries),
        exporter_job(queries),
        top(),
        app(parameters),
    ]
    return Board(
        "tritonscope-fleet",
        "Triton fleet",
        "Is anything wrong, and where?",
        variables,
        sections,
        parameters=parameters,
    )


def text() -> str:
    """The committed file."""
    return board(Parameters()).text()


def answering(queries: Queries) -> str:
    """1 for each Triton target that answers Prometheus, 0 for each that does not.

    Targets of jobs that had Triton's series in the last day: `up` alone does not tell what a target is.
    """
    dialect, job = queries.servers, queries.parameters.job
    had = " or ".join(
        f"present_over_time({dialect.selector(family)}[1d])"
        for family in ("nv_cpu_utilization", "nv_inference_request_success")
    )
    same = f"{queries.parameters.cluster}, {job}"
    return f"{dialect.selector('up')} and on ({same}) group by ({same}) ({had})"


def _tiles(queries: Queries) -> list[Drawn]:
    up = answering(queries)
    loaded = queries.row(queries.model_labels, queries.models.selector("nv_inference_request_success"))
    return [
        tile(
            About(
                "Servers not answering",
                "Triton targets that Prometheus cannot read. Good: 0.",
                Unit.COUNT,
                width=4,
                height=4,
            ),
            Query(f"count({up}) - sum({up})"),
            [(1, RED)],
        ),
        tile(
            About(
                "Models loaded",
                "Model versions on the servers' metrics pages, counted per server. Counted from successes: a "
                "model's failures stay on the page after it is gone. Good: as many as were loaded.",
                Unit.COUNT,
                empty="no model is loaded",
                width=4,
                height=4,
            ),
            Query(f"count({loaded})"),
        ),
        _tile(queries, "requests_per_second", "Each client's request once. Good: follows the demand."),
        _tile(
            queries,
            "failed_ratio",
            "Good: 0. Refusals for a full queue are not counted by Triton.",
            _BAD_RATIO,
        ),
        _tile(queries, "request_us_mean", "Good: what it was yesterday."),
        _tile(queries, "pending", "Good: near 0, or steady while batches form. Growing: overload."),
    ]


_BAD_RATIO = [(0.001, AMBER), (0.01, RED)]


def _tile(queries: Queries, name: str, good: str, steps: list[tuple[float, str]] | None = None) -> Drawn:
    row = shown(name, _WHOLE)
    about = About(row.title, said(row.formula, good), row.unit, empty="no requests", width=4, height=4)
    return tile(about, Query(queries.group(name, _WHOLE)), steps or ())


def _workloads(queries: Queries) -> list[Drawn]:
    labels = queries.parameters.workload
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    goods = {
        "requests_per_second": "A workload is what shares cluster, namespace, job and `workload`. "
        "Good: follows "
        "the demand, no sudden drop.",
        "failed_ratio": "Good: 0.",
        "request_us_mean": "Sums over sums of all replicas, never an average of averages. Good: flat.",
        "queue_ratio": "Good: small. Above half, requests wait longer than they are worked on.",
    }
    return [
        lines(
            About(f"{row.title} by workload", said(row.formula, good), row.unit, empty="no requests"),
            [Query(queries.group(name, _WHOLE, labels), legend)],
        )
        for name, good in goods.items()
        for row in [shown(name, _WHOLE)]
    ]


def _replicas(queries: Queries) -> list[Drawn]:
    labels = queries.server_labels
    columns = {"answers": Column(queries.row(labels, answering(queries)), Unit.NONE, [(0, RED), (1, GREEN)])}
    for name, level in (
        ("requests_per_second", _WHOLE),
        ("failed_ratio", _WHOLE),
        ("request_us_mean", _WHOLE),
        ("queue_us_mean", _WHOLE),
        ("pending", _WHOLE),
        ("cpu_ratio", Level.HOST),
    ):
        row = shown(name, level)
        columns[row.title] = Column(queries.row(labels, queries.of(name, level)), row.unit)
    busiest = shown("requests_per_second", _WHOLE)
    slowest = shown("request_us_mean", _WHOLE)
    legend = f"{{{{{queries.parameters.instance}}}}}"
    return [
        rows(
            About(
                "Replicas",
                "One row for each server. The CPU is the whole machine's, as Triton sees it. Good: "
                "replicas of a "
                "workload look alike; look for the odd one out.",
                links=to_server(queries.parameters, in_table=True),
                width=24,
                height=9,
            ),
            labels,
            columns,
            linked=queries.parameters.instance,
        ),
        _by_server(queries, busiest.name, "Good: replicas of a workload take the same share.", legend),
        _by_server(queries, slowest.name, "Good: replicas of a workload are equally fast.", legend),
    ]


def _by_server(queries: Queries, name: str, good: str, legend: str) -> Drawn:
    row = shown(name, _WHOLE)
    about = About(
        f"{row.title} by replica, top $top",
        said(row.formula, good),
        row.unit,
        "no requests",
        links=to_server(queries.parameters),
    )
    return lines(about, [Query(queries.top(name, level=_WHOLE), legend)])


def _models(queries: Queries) -> list[Drawn]:
    labels, columns = queries.model_labels, {}
    for name in (
        "requests_per_second",
        "failed_ratio",
        "request_us_mean",
        "queue_us_mean",
        "batch_size_mean",
        "pending",
    ):
        row = shown(name)
        text = queries.row(labels, queries.busiest(queries.of(name), _WAITED))
        columns[row.title] = Column(text, row.unit, _BAD_RATIO if name == "failed_ratio" else ())
    goods = {
        "requests_per_second": "Good: follows the demand.",
        "failures_per_second": "Good: nothing here.",
        "queue_us_mean": "Good: below the model's max_queue_delay plus one execution.",
        "pending": "Good: near 0. A line that only climbs: requests arrive faster than they are "
        "served. A flat line "
        "with no requests finished: the model hangs.",
    }
    return [
        rows(
            About(
                "Models that clients waited for most, top $top",
                "One row for each model version on each server; the models with the largest sum of "
                "request times in "
                "the shown range. Good: what queues and fails here is known. A model's name opens its board.",
                empty="no model is loaded",
                links=to_model(queries, in_table=True),
                width=24,
                height=9,
            ),
            labels,
            columns,
            linked=queries.parameters.model,
        ),
        *(model_lines(queries, name, good) for name, good in goods.items()),
    ]


def _repository(queries: Queries) -> list[Drawn]:
    state = queries.models.selector("tritonscope_model_state")
    failed = queries.models.selector("tritonscope_model_load_failed")
    info = queries.servers.selector("tritonscope_server_info")
    labels = queries.model_labels
    said_of_itself = (*queries.server_labels, "server", "name", "version")
    by_state = {name: colour for name, colour in STATE_COLOURS.items() if colour != GREY}
    return [
        lines(
            About(
                "Models by state",
                "Versions in the repository index, summed over servers. Good: READY steady; "
                "UNAVAILABLE only what "
                "was unloaded on purpose; LOADING short.",
                Unit.COUNT,
            ),
            [Query(f"sum by (state) ({state})", "{{state}}")],
            stacked=True,
            colours=by_state,
        ),
        rows(
            About(
                "Models that could not be loaded",
                "With the class of the reason; its full text is on the page Repository of the app. "
                "Good: empty.",
                empty="every model could be loaded",
                links=to_model(queries, in_table=True),
            ),
            (*labels, "reason_class"),
            {"failed": Column(queries.row((*labels, "reason_class"), failed))},
            linked=queries.parameters.model,
            hidden=("Value",),
        ),
        states(
            About(
                "State of each model",
                "From the repository index; only models whose state changed in the shown range or "
                "that could not be "
                "loaded. Good: short amber, then green.",
                links=to_model(queries),
                width=24,
                height=8,
                empty="no model changed its state",
            ),
            Query(_changed(queries), model_legend(queries)),
            STATE_COLOURS,
        ),
        rows(
            About(
                "Triton's versions",
                "What each server says of itself. Good: one version for each workload.",
                width=24,
            ),
            said_of_itself,
            {"servers": Column(queries.row(said_of_itself, info))},
            hidden=("Value",),
        ),
    ]


def _changed(queries: Queries) -> str:
    """States of those models whose state changed over the range, or that could not be loaded."""
    dialect, match = queries.models, queries.model_match
    family = "tritonscope_model_state"
    every = f"{dialect.selector(family)}[$__range] @ end()"
    moved = f"changes({every}) > 0"
    failed = f"max_over_time({dialect.selector('tritonscope_model_load_failed')}[$__range] @ end())"
    return f"{model_states(queries)} and on ({match}) ({moved} or {failed})"


def _exporter(queries: Queries) -> list[Drawn]:
    dialect = queries.servers
    success = dialect.selector("tritonscope_exporter_source_success")
    age = dialect.selector("tritonscope_exporter_source_age_seconds")
    dropped = dialect.selector("tritonscope_exporter_series_dropped")
    published = dialect.selector("tritonscope_exporter_series")
    server = queries.parameters.instance
    return [
        lines(
            About(
                "Sources that did not answer",
                "What the exporter reads of each server. Good: nothing.",
                Unit.COUNT,
                empty="every source answers",
                width=8,
            ),
            [Query(f"sum by ({server}, source) (1 - {success}) > 0", f"{{{{source}}}} {{{{{server}}}}}")],
        ),
        lines(
            About(
                "Age of what is published",
                "By source, the oldest server. Good: below two scrape intervals.",
                Unit.SECONDS,
                width=8,
            ),
            [Query(f"max by (source) ({age})", "{{source}}")],
        ),
        lines(
            About(
                "Series published",
                "By server; left out: more than the budget (`--max-series`). Good: nothing left out.",
                Unit.COUNT,
                width=8,
            ),
            [
                Query(f"sum by ({server}) ({published})", f"{{{{{server}}}}}"),
                Query(f"sum by ({server}) ({dropped})", f"left out {{{{{server}}}}}"),
            ],
        ),
    ]


def _alerts(queries: Queries) -> list[Drawn]:
    # An alert is called as its rule's file.
    names = "|".join(sorted(path.stem for path in RULES.glob("*.md")))
    alerts = queries.servers.selector("ALERTS", (), f'alertname=~"{names}"')
    firing = queries.servers.selector("ALERTS", (("alertstate", "firing"),), f'alertname=~"{names}"')
    return [
        lines(
            About(
                "Alerts",
                "Tritonscope's rules, pending or firing. Good: nothing.",
                Unit.COUNT,
                empty="no alert",
            ),
            [Query(f"count by (alertname, alertstate) ({alerts})", "{{alertname}} {{alertstate}}")],
        ),
        rows(
            About(
                "Firing now", "What to do is in the alert's runbook. Good: empty.", empty="no alert is firing"
            ),
            ("alertname", "severity", *queries.model_labels),
            {"alerts": Column(f"sum without (alertstate) ({firing})")},
            hidden=("Value", "__name__"),
        ),
    ]
