"""Source STATISTICS: `GET /v2/models/stats`, as facts and as samples of the `tritonscope_*` families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from collectors.reading import (
    OneCall,
    Reading,
    base_url,
    decode_json,
    listing,
    mapping,
    whole,
    words,
    wrong_shape,
)
from telemetry.catalogue import MEMORY_REPORTED
from telemetry.facts import BatchSizeStatistics, DurationTotals, MemoryUse, ModelStatistics
from telemetry.identity import Server
from telemetry.scrape import Notice, Samples, Series, Source
from telemetry.transport import Transport, host_of
from telemetry.units import us_from_ns

SOURCE_NAME = "statistics"


class StatisticsCollector(OneCall):
    """Reads the statistics of all models in one call; the payload is a tuple of `ModelStatistics`."""

    source = Source.STATISTICS

    def _read(self) -> Reading:
        text = _ask(self.server, self._transport, self._timeout_seconds)
        rows, notices = _parsed(self.server, text)
        return Reading(rows, statistics_samples(rows), notices, text)


def read_statistics(
    server: Server, transport: Transport, timeout_seconds: float
) -> tuple[tuple[ModelStatistics, ...], tuple[Notice, ...]]:
    """The statistics now; raises SourceError."""
    return _parsed(server, _ask(server, transport, timeout_seconds))


def _ask(server: Server, transport: Transport, timeout_seconds: float) -> str:
    return transport.get(base_url(server) + "/v2/models/stats", timeout_seconds=timeout_seconds).text


def _parsed(server: Server, text: str) -> tuple[tuple[ModelStatistics, ...], tuple[Notice, ...]]:
    who = host_of(base_url(server))
    return parse_statistics(decode_json(text, who), who=who)


def parse_statistics(
    data: object, *, who: str = "the file", source: str = SOURCE_NAME
) -> tuple[tuple[ModelStatistics, ...], tuple[Notice, ...]]:
    """Rows of `{"model_stats": [...]}` and what was wrong; raises WrongContent for any other shape.

    Numbers may come as strings; a field that is missing is None (or no batch sizes, no memory), but 0 in
    the JSON of gRPC, which leaves zeros out.
    """
    rows = mapping(data).get("model_stats")
    if not isinstance(rows, list):
        raise wrong_shape(who, "model statistics (`model_stats`)", data)
    missing = 0 if any(_of_grpc(mapping(row)) for row in rows) else None
    found: list[ModelStatistics] = []
    notices: list[Notice] = []
    for position, row in enumerate(rows, 1):
        if isinstance(row, dict) and words(row.get("name")):
            found.append(_model(row, missing))
        else:
            notices.append(Notice(source, None, f"entry {position} has no model name: not used"))
    return tuple(found), tuple(notices)


def _of_grpc(row: Mapping[str, Any]) -> bool:
    """True for a row in the JSON of gRPC: integers are strings, and what is 0 is not written at all."""
    parts = [mapping(row.get("inference_stats")).get("success")]
    parts += [mapping(batch).get("compute_infer") for batch in listing(row.get("batch_stats"))]
    counts = [row.get("inference_count"), row.get("execution_count"), row.get("last_inference")]
    return {} in parts or any(
        isinstance(value, str) for value in (*counts, *(mapping(part).get("count") for part in parts))
    )


def _whole(row: Mapping[str, Any], name: str, missing: int | None) -> int | None:
    return whole(row[name]) if name in row else missing


def _model(row: Mapping[str, Any], missing: int | None) -> ModelStatistics:
    inference = mapping(row.get("inference_stats"))

    def counted(name: str) -> int | None:
        return _whole(inference[name], "count", missing) if isinstance(inference.get(name), dict) else None

    return ModelStatistics(
        name=words(row["name"]),
        version=words(row.get("version")),
        last_inference_ms=_whole(row, "last_inference", missing),
        inference_count=_whole(row, "inference_count", missing),
        execution_count=_whole(row, "execution_count", missing),
        success_count=counted("success"),
        fail_count=counted("fail"),
        batches=tuple(_batches(listing(row.get("batch_stats")), missing)),
        memory=_memory(row.get("memory_usage"), missing),
        durations=_durations(inference, missing),
    )


def _durations(inference: Mapping[str, Any], missing: int | None) -> DurationTotals | None:
    names = ("success", "queue", "compute_input", "compute_infer", "compute_output")
    parts = [inference[name] for name in names if isinstance(inference.get(name), dict)]
    sums = [_whole(part, "ns", missing) for part in parts]
    known = [value for value in sums if value is not None]
    return DurationTotals(*known) if len(known) == len(names) else None


def _batches(rows: Sequence[object], missing: int | None) -> Iterator[BatchSizeStatistics]:
    for row in map(mapping, rows):
        parts = [mapping(row.get(f"compute_{part}")) for part in ("input", "infer", "output")]
        size, executions = whole(row.get("batch_size")), _whole(parts[1], "count", missing)
        times = [time for part in parts if (time := _whole(part, "ns", missing)) is not None]
        if size is not None and executions is not None and len(times) == len(parts):
            yield BatchSizeStatistics(size, executions, *times)


def _memory(rows: object, missing: int | None) -> tuple[MemoryUse, ...] | None:
    if not isinstance(rows, list):
        return None
    read = (
        (words(row.get("type")), _whole(row, "id", missing), _whole(row, "byte_size", missing))
        for row in map(mapping, rows)
    )
    return tuple(
        MemoryUse(kind, device, size)
        for kind, device, size in read
        if kind and device is not None and size is not None
    )


def statistics_samples(rows: Sequence[ModelStatistics]) -> Samples:
    """Samples of the families that `telemetry.catalogue` derives from statistics.

    A row without a value gives no sample; a last inference of 0 means never and gives none either.
    """
    values: dict[Series, float] = {}
    for row in rows:
        model = (("model", row.name), ("version", row.version))
        if row.execution_count is not None:
            values[Series("tritonscope_model_executions_total", model)] = float(row.execution_count)
        if row.last_inference_ms:
            values[Series("tritonscope_model_last_inference_seconds", model)] = row.last_inference_ms / 1e3
        for batch in row.batches:
            _add_batch(values, row, batch)
        for use in row.memory or ():
            where = (("device", str(use.device_id)), ("kind", use.kind))
            labels = (*where, model[0], ("source", MEMORY_REPORTED), model[1])
            values[Series("tritonscope_model_memory_bytes", labels)] = float(use.byte_size)
    return Samples(tuple(values), np.array(list(values.values()), dtype=np.float64))


def _add_batch(values: dict[Series, float], row: ModelStatistics, batch: BatchSizeStatistics) -> None:
    labels = (("batch_size", str(batch.batch_size)), ("model", row.name), ("version", row.version))
    compute_ns = batch.compute_input_ns + batch.compute_infer_ns + batch.compute_output_ns
    values[Series("tritonscope_batch_executions_total", labels)] = float(batch.executions)
    values[Series("tritonscope_batch_compute_us_total", labels)] = us_from_ns(compute_ns)
    values[Series("tritonscope_batch_compute_infer_us_total", labels)] = us_from_ns(batch.compute_infer_ns)
