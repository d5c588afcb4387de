"""All signals of all servers at one time, over any history: rows, nulls, and what was impossible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from collectors.exposition import MetricsPage
from history.inventory import Inventory, ModelFacts
from history.protocol import Frame, Grid, GroupKey, History
from history.ring import Ring
from signals import frames
from signals.checks import checked
from signals.definition import LABELS, Definition, Level
from signals.definitions import of_level
from signals.evaluation import FREEZABLE, MODEL, SERVER, Evaluation
from signals.facts import SignalFacts
from signals.other import PageReader
from signals.report import (
    GpuSignals,
    ModelSignals,
    Report,
    ServerSignals,
    Signals,
    SignalValue,
)
from telemetry.identity import GpuKey
from telemetry.scrape import Notice, Source

SELF_QUEUEING = "the backend queues by itself: Triton's queue, batch and latency figures do not show its work"
FROZEN = (
    "the counters of all models stand at zero although models execute (counter_latencies=false): "
    "what the statistics or the summaries do not tell is not reported"
)

_RECENT_SECONDS = 10.0
"""What was left out of a reading is told as long as the window holds it, and a little longer."""

_Rows = dict[GroupKey, dict[str, SignalValue]]
_SOURCES = frozenset((Source.METRICS, Source.STATISTICS))


def evaluate(
    history: History,
    inventory: Inventory,
    at: float,
    window_seconds: float | None,
    *,
    pages: Mapping[str, MetricsPage] | None = None,
    notices: Iterable[Notice] = (),
) -> Report:
    """The report at `at` (unix seconds) over the window before it; None = totals since the servers' start.

    `pages` are the last metrics pages by server, for custom families; `notices` go into the report.
    """
    frozen = frozen_models(history, inventory, at)
    facts = SignalFacts.of(inventory, frozenset(frozen))
    evaluation = Evaluation(history, facts, window_seconds, Grid(at, at, 1.0))
    found = [*notices, *_about_models(inventory), *_about_frozen(frozen)]
    models = _rows(evaluation, Level.MODEL, found)
    servers = _rows(evaluation, Level.SERVER, found)
    gpus = _rows(evaluation, Level.GPU, found)
    hosts = _rows(evaluation, Level.HOST, found)
    reader = _read_pages(pages or {})
    return Report(
        at,
        window_seconds,
        servers=tuple(_server(server, Level.SERVER, servers) for server in inventory.servers),
        models=tuple(_model(one, models, facts) for one in inventory.models),
        gpus=tuple(
            GpuSignals(GpuKey(*key), _signals(Level.GPU, gpus.get(key))) for key in _gpu_keys(gpus, reader)
        ),
        host=tuple(_server(server, Level.HOST, hosts) for server in inventory.servers),
        other=reader.samples,
        notices=(*found, *reader.notices),
    )


def report_of(
    ring: Ring,
    servers: Sequence[str],
    at: float,
    window_seconds: float | None,
    *,
    inventory: Inventory | None = None,
    notices: Iterable[Notice] = (),
) -> Report:
    """The report of what a ring holds, with the notices of the newest readings and why sources failed."""
    pages = {
        server: scrape.payload
        for server in servers
        if (scrape := ring.last(server, Source.METRICS)) is not None
        and isinstance(scrape.payload, MetricsPage)
    }
    inventory = inventory if inventory is not None else Inventory.of(ring, servers)
    found = [*notices, *_of_sources(ring, servers, at - (window_seconds or 0.0) - _RECENT_SECONDS)]
    return evaluate(ring, inventory, at, window_seconds, pages=pages, notices=found)


def _of_sources(ring: Ring, servers: Sequence[str], since: float) -> Iterator[Notice]:
    for server in servers:
        for source in Source:
            scrape = ring.latest(server, source)
            if scrape is None:
                continue
            if scrape.error is not None:
                yield Notice(f"{server} {source}", None, scrape.error.sentence)
            for notice in scrape.notices:
                yield Notice(f"{server} {notice.source}", notice.line, notice.text)
        for notice in ring.notices(server, since=since):
            yield Notice(f"{server} {notice.source}", notice.line, notice.text)


def _rows(evaluation: Evaluation, level: Level, found: list[Notice]) -> _Rows:
    """Values of every printed signal of a level, by row."""
    definitions = [one for one in of_level(level) if one.printed]
    values = {one.name: evaluation.of(one.expression) for one in definitions}
    # A row whose only readings cannot be is a row all the same.
    width = len(LABELS[level])
    rows: _Rows = {key[:width]: {} for frame in values.values() for key in frames.at_first(frame)}
    values, notices = checked(level, values)
    found += notices
    for definition in definitions:
        _fill(rows, definition, values[definition.name])
    return rows


def _fill(rows: _Rows, definition: Definition, frame: Frame) -> None:
    name, width = definition.name, len(LABELS[definition.level])
    for key, value in frames.at_first(frame).items():
        row = rows.setdefault(key[:width], {})
        if not definition.keys:
            row[name] = value
        elif any(key[width:]):
            # A server without the label (reason before 24.07) has nothing to tell apart.
            entry = row.setdefault(name, {})
            assert isinstance(entry, dict)
            entry[" ".join(key[width:])] = value


def _signals(level: Level, values: Mapping[str, SignalValue] | None) -> Signals:
    known = values or {}
    return Signals({one.name: known.get(one.name) for one in of_level(level) if one.printed})


def _server(server: str, level: Level, rows: _Rows) -> ServerSignals:
    return ServerSignals(server, _signals(level, rows.get((server,))))


def _model(facts: ModelFacts, rows: _Rows, signal_facts: SignalFacts) -> ModelSignals:
    key = facts.key
    row: GroupKey = (key.server, key.name, key.version)
    there = bool(facts.sources & _SOURCES) and signal_facts.canonical(row) == row
    return ModelSignals(key, facts.state, _signals(Level.MODEL, rows.get(row) if there else None))


def _gpu_keys(rows: _Rows, reader: PageReader) -> list[GroupKey]:
    return sorted({*(key for key in rows if key[1]), *reader.gpus})


def frozen_models(history: History, inventory: Inventory, at: float) -> set[GroupKey]:
    """Models of servers whose counters all stand at zero while statistics or summaries count requests.

    The option is one of the whole server, and of all counters: a server whose requests all fail has no
    successes either. Statistics read before the page cannot be ahead of it.
    """
    counted = history.gauge("nv_inference_request_success", MODEL, at)
    worked = [
        *history.gauge("tritonscope_model_executions_total", MODEL, at).items(),
        *history.gauge("nv_inference_request_summary_us_count", MODEL, at).items(),
    ]
    frozen: set[GroupKey] = set()
    for server in inventory.servers:
        mine = [key for key in counted if key[0] == server]
        busy = any(value > 0 for key, value in worked if key[0] == server)
        if mine and busy and not any(counted[key] for key in mine) and _all_at_zero(history, server, at):
            frozen.update(mine)
    return frozen


def _all_at_zero(history: History, server: str, at: float) -> bool:
    where = (("server", server),)
    return not any(
        value > 0
        for family in sorted(FREEZABLE)
        for value in history.gauge(family, SERVER, at, where=where).values()
    )


def _about_frozen(frozen: set[GroupKey]) -> Iterator[Notice]:
    for server in sorted({key[0] for key in frozen}):
        yield Notice(f"{server} metrics", None, FROZEN)


def _about_models(inventory: Inventory) -> Iterator[Notice]:
    for facts in inventory.models:
        if facts.queues_itself and facts.sources & _SOURCES:
            yield Notice(f"{facts.key.server} {facts.key.label()}", None, SELF_QUEUEING)


def _read_pages(pages: Mapping[str, MetricsPage]) -> PageReader:
    reader = PageReader()
    for server, page in pages.items():
        reader.add(server, page)
    return reader
