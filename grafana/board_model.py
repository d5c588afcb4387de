"""Model: why is it slow? Queue, latency budget, batches, failures, and marks where it was loaded."""

from __future__ import annotations

from charts.palette import INFER, INPUT, OUTPUT, QUEUE
from grafana.annotations import of_models
from grafana.board import Board, Section
from grafana.links import to_model
from grafana.model_panels import STATE_COLOURS, memory, model_legend, model_lines, model_states, said
from grafana.panels import AMBER, RED, About, Column, Drawn, Query, distribution, lines, rows, states, tile
from grafana.parameters import Parameters
from grafana.queries import NOT_NAN, Queries, shown
from grafana.variables import app, datasource, exporter_job, models, servers, top
from signals.definition import Level
from signals.latency import QUANTILES
from telemetry.units import Unit

PARTS = {
    "queue": ("queue_us_mean", QUEUE),
    "input": ("compute_input_us_mean", INPUT),
    "infer": ("compute_infer_us_mean", INFER),
    "output": ("compute_output_us_mean", OUTPUT),
}
"""Parts of a request's time in the order in which they happen, in the app's colours."""

_RAW = "Tritonscope's exporter with --raw-batch-sizes"


def board(parameters: Parameters) -> Board:
    """The board."""
    queries = Queries(parameters)
    sections = (
        Section("The chosen models together", _tiles(queries)),
        Section("Where the time goes", _latency(queries)),
        Section("Traffic and failures", _traffic(queries)),
        Section("Batches and waiting", _batches(queries)),
        Section("Replicas", _replicas(queries)),
        Section("Quantiles", _quantiles(queries), "--metrics-config summary_latencies=true"),
        Section("Response cache", [_cache(queries)], "a response cache"),
        Section("Batch sizes, busy share, state", _exporter(queries), "Tritonscope's exporter"),
        Section("By batch size", _raw_sizes(queries), _RAW),
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
        "tritonscope-model",
        "Triton model",
        "Why is this model slow?",
        variables,
        sections,
        annotations=of_models(queries),
        page="model",
        parameters=parameters,
    )


def text() -> str:
    """The committed file."""
    return board(Parameters()).text()


def _tiles(queries: Queries) -> list[Drawn]:
    goods: dict[str, tuple[Level, str, list[tuple[float, str]]]] = {
        "requests_per_second": (Level.MODEL, "Good: follows the demand.", []),
        "failed_ratio": (Level.MODEL, "Good: 0. What Triton refuses for a full queue is not counted.",
                         [(0.001, AMBER), (0.01, RED)]),
        "request_us_mean": (Level.MODEL, "Good: what it was yesterday.", []),
        "queue_ratio": (Level.SERVER, "Good: small. Above half, requests wait longer than they are "
        "worked on.", []),
        "batch_size_mean": (Level.MODEL, "Good: near the largest batch under load; 1 if one client "
        "waits for each "
                            "answer.", []),
        "pending": (Level.MODEL, "Good: near 0.", []),
    }  # fmt: skip
    found = []
    for name, (level, good, steps) in goods.items():
        row = shown(name, level)
        about = About(row.title, said(row.formula, good), row.unit, empty="no requests", width=4, height=4)
        found.append(tile(about, Query(queries.group(name, level, chosen=True)), steps))
    return found


def _latency(queries: Queries) -> list[Drawn]:
    budget = [
        Query(queries.group(signal, Level.SERVER, chosen=True), part) for part, (signal, _) in PARTS.items()
    ]
    return [
        lines(
            About(
                "Latency budget of a request",
                "Mean time of a successful request by part: queue, input, infer, output; sums over "
                "sums of the chosen "
                "models. An ensemble has no parts of its own: choose its steps. Good: mostly infer. "
                "Mostly queue: too "
                "few instances, or max_queue_delay.",
                Unit.US,
                empty="no requests",
                width=24,
                height=9,
            ),
            budget,
            stacked=True,
            colours={part: colour for part, (_, colour) in PARTS.items()},
        ),
        model_lines(queries, "queue_us_mean", "Good: below max_queue_delay plus one execution."),
        model_lines(queries, "request_us_mean", "Good: flat."),
        model_lines(queries, "compute_infer_us_mean", "Good: flat; grows with the batch size."),
        model_lines(queries, "queue_ratio", "Good: small."),
    ]


def _traffic(queries: Queries) -> list[Drawn]:
    reasons = shown("failures_per_second_by_reason")
    return [
        model_lines(queries, "requests_per_second", "Good: follows the demand."),
        lines(
            About(
                reasons.title,
                "BACKEND: the model or its backend failed. REJECTED: the time limit of the queue. "
                "CANCELED: the client "
                "gave up while waiting. OTHER: ensembles, and what Triton itself failed. Refusals "
                "for a full queue are "
                "counted nowhere. Good: nothing but CANCELED.",
                reasons.unit,
                empty="no failures",
            ),
            [Query(f"{queries.group(reasons.name, Level.MODEL, ('reason',))} > 0", "{{reason}}")],
            colours={"BACKEND": RED, "REJECTED": AMBER, "CANCELED": "text", "OTHER": "purple"},
        ),
        model_lines(queries, "failed_ratio", "Good: 0."),
        model_lines(queries, "executions_per_second", "Good: fewer than requests: batches form."),
    ]


def _batches(queries: Queries) -> list[Drawn]:
    return [
        model_lines(
            queries, "batch_size_mean", "Good: rises with the load. 1 under load: batches do not form."
        ),
        model_lines(queries, "pending", "Good: near 0. Steady with no requests finished: the model hangs."),
    ]


def _replicas(queries: Queries) -> list[Drawn]:
    by = queries.parameters.server
    legend = f"{{{{{queries.parameters.instance}}}}}"
    goods = {
        "requests_per_second": "Good: replicas take the same share.",
        "request_us_mean": "Good: replicas are equally fast; look for the odd one out.",
    }
    return [
        lines(
            About(
                f"{row.title} by replica",
                said(f"of the chosen models: {row.formula}", good),
                row.unit,
                "no requests",
            ),
            [Query(queries.group(name, Level.MODEL, by), legend)],
        )
        for name, good in goods.items()
        for row in [shown(name)]
    ]


def _quantiles(queries: Queries) -> list[Drawn]:
    found = []
    for part, title in (("request", "Request time"), ("queue", "Queue time")):
        of_part = [
            Query(f"{queries.group(f'{part}_us_{suffix}', Level.MODEL)} {NOT_NAN}", suffix)
            for suffix in QUANTILES
        ]
        about = About(
            f"{title}: quantiles, the largest of the chosen models",
            "Of about the last 60 s, as Triton has them. Quantiles cannot be averaged: this is the "
            "slowest model's. "
            "Good: p99 within a few times p50.",
            Unit.US,
            empty="no quantiles: they need summary_latencies=true and requests in the last minute",
        )
        found.append(lines(about, of_part))
    return [
        *found,
        model_lines(queries, "request_us_p99", "Good: flat.", empty="no quantiles"),
        model_lines(queries, "queue_us_p99", "Good: flat.", empty="no quantiles"),
    ]


def _cache(queries: Queries) -> Drawn:
    return model_lines(
        queries, "cache_hit_ratio", "Good: high, or no cache at all.", empty="no response cache", width=24
    )


def _exporter(queries: Queries) -> list[Drawn]:
    buckets = queries.models.over_window("tritonscope_batch_size_bucket")
    state = About(
        "State",
        "From the repository index, of the chosen models. Good: one green bar.",
        width=12,
        height=8,
        links=to_model(queries),
    )
    return [
        distribution(
            About(
                "Distribution of batch sizes",
                "Executions by batch size of the chosen models. Good: under load most executions "
                "near the largest batch.",
                Unit.EXECUTIONS,
                empty="no executions",
            ),
            Query(f"sum by (le) (increase({buckets}))", "{{le}}"),
        ),
        model_lines(
            queries,
            "instance_busy_ratio",
            "Good: below 80 %. Near 100 % with a queue: more instances or more replicas.",
        ),
        states(state, Query(model_states(queries), model_legend(queries)), STATE_COLOURS),
        memory(queries, queries.models.selector("tritonscope_model_memory_bytes"), width=12),
        _configuration(queries),
    ]


def _configuration(queries: Queries) -> Drawn:
    labels = queries.model_labels
    facts = {
        "instances": ("tritonscope_model_instances", Unit.COUNT),
        "largest batch": ("tritonscope_model_max_batch_size", Unit.INFERENCES),
        "batches formed by Triton": ("tritonscope_model_dynamic_batching", Unit.NONE),
        "max queue delay": ("tritonscope_model_max_queue_delay_us", Unit.US),
    }
    columns = {
        title: Column(queries.row(labels, queries.models.selector(family)), unit)
        for title, (family, unit) in facts.items()
    }
    last = queries.models.selector("tritonscope_model_last_inference_seconds")
    columns["last execution before"] = Column(f"time() - {queries.row(labels, last)}", Unit.SECONDS)
    about = About(
        "Configuration of the chosen models",
        "As the server has it, of models that are ready. Good: the same on every replica.",
        links=to_model(queries, in_table=True),
        width=24,
    )
    return rows(about, labels, columns, linked=queries.parameters.model)


def _raw_sizes(queries: Queries) -> list[Drawn]:
    found = []
    for name, good in (
        ("executions_per_second_by_batch_size", "Good: few small batches under load."),
        (
            "compute_us_by_batch_size",
            "Good: grows slower than the batch size; where it grows as fast, larger batches do not pay.",
        ),
    ):
        row = shown(name)
        about = About(
            row.title, said(row.formula, good), row.unit, empty="no executions", links=to_model(queries)
        )
        legend = f"{{{{batch_size}}}} {model_legend(queries)}"
        found.append(lines(about, [Query(queries.top(name), legend)]))
    return found
