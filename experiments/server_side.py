"""What the server counted over the interval of a load: splits, busy instances, GPUs, and others' traffic."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from control.ports import StatisticsReader
from control.server_split import ModelSplit, Rows, increase
from telemetry.ensembles import steps
from telemetry.errors import SourceError
from telemetry.facts import ModelConfig, ModelStatistics

COUNTED_WITHIN_SECONDS = 1.5
"""Triton counts a request when it is released, which may be a moment after its answer."""
_COUNTED_POLL_SECONDS = 0.05
_GPU_EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment; None where the page does not report it."""

    uuid: str
    utilization_ratio: float | None = None
    memory_used_bytes: float | None = None
    power_watts: float | None = None


class LoadReader(StatisticsReader, Protocol):
    """What a load reads of its server."""

    def gpus(self, server_id: str) -> tuple[GpuReading, ...]:
        """The server's GPUs as its metrics page reports them now; raises SourceError."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU over the interval: means over the readings taken about once a second, and the most memory."""

    uuid: str
    utilization_ratio: float | None
    memory_used_bytes: float | None
    power_watts: float | None


@dataclass(frozen=True, slots=True)
class ServerSide:
    """The increase over one interval, everybody's requests included.

    `rows` are the model asked and, for an ensemble, its steps. `busy_ratio` by model: compute time of its
    executions / (interval x instances); a model whose instances are not known is not in it. `other_models`
    are requests that other models answered meanwhile, by name. `gpus` () = none reported.
    """

    rows: tuple[ModelSplit, ...]
    busy_ratio: Mapping[str, float]
    other_models: Mapping[str, int]
    gpus: tuple[GpuUse, ...] = ()

    def of(self, model: str) -> ModelSplit | None:
        """The figures of one model; of the version that answered most where there are several."""
        mine = [row for row in self.rows if row.model == model]
        return max(mine, key=lambda row: row.requests, default=None)

    def to_json(self) -> dict[str, Any]:
        """For the state folder: plain values under the names of the fields."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> ServerSide:
        """The figures written by `to_json`; raises TypeError and KeyError for anything else."""
        splits = []
        for split in row["rows"]:
            sizes = {int(size): count for size, count in split["executions_by_batch_size"].items()}
            splits.append(ModelSplit(**split | {"executions_by_batch_size": sizes}))
        gpus = tuple(GpuUse(**gpu) for gpu in row["gpus"])
        return cls(tuple(splits), row["busy_ratio"], row["other_models"], gpus)


class Interval:
    """The server over the interval of one load: `begin`, `look` from time to time, `end`."""

    def __init__(self, reader: LoadReader, server_id: str, config: ModelConfig) -> None:
        self._reader = reader
        self._server = server_id
        self._config = config
        self._before: Rows | None = None
        self._gpus: dict[str, list[GpuReading]] = {}
        self._look_at = 0.0
        self.why_not = ""
        """Why there are no figures, one sentence."""

    def begin(self) -> None:
        """The interval begins now."""
        self._gpus.clear()
        self._before = self._statistics()

    def look(self) -> None:
        """Read the GPUs, about once a second."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _GPU_EVERY_SECONDS
        try:
            readings = self._reader.gpus(self._server)
        except SourceError:
            # A closed metrics page is no reason to give up a load: its GPUs are then not reported.
            self._look_at = float("inf")
            return
        for reading in readings:
            self._gpus.setdefault(reading.uuid, []).append(reading)

    def end(self, succeeded: int, seconds: float) -> ServerSide | None:
        """The increase, once `succeeded` requests of the model are counted; None if it cannot be read.

        `seconds` is the length of the load.
        """
        before, name = self._before, self._config.name
        if before is None:
            return None
        models = (name, *steps(self._config))
        deadline = time.monotonic() + COUNTED_WITHIN_SECONDS
        while True:
            after = self._statistics()
            if after is None:
                return None
            rows = increase(before, after, models)
            counted = sum(row.requests for row in rows if row.model == name)
            if counted >= succeeded or time.monotonic() > deadline:
                return ServerSide(
                    rows,
                    busy_ratios(before, after, self._config, seconds),
                    others(before, after, models),
                    tuple(_use(uuid, readings) for uuid, readings in sorted(self._gpus.items())),
                )
            time.sleep(_COUNTED_POLL_SECONDS)

    def _statistics(self) -> Rows | None:
        try:
            return self._reader.statistics(self._server)
        except SourceError as error:
            self.why_not = f"The server's statistics could not be read. {error.sentence}"
            return None


def busy_ratios(before: Rows, after: Rows, config: ModelConfig, seconds: float) -> dict[str, float]:
    """Busy share of the model's instances: compute time of all executions / (seconds x instances), 0..1."""
    instances = config.instance_count
    if not instances or seconds <= 0:
        return {}
    known = {(row.name, row.version): row for row in before}
    found: dict[str, float] = {}
    for row in after:
        if row.name == config.name:
            start = known.get((row.name, row.version))
            spent_ns = _compute_ns(row) - (_compute_ns(start) if start else 0)
            # A fall means that it was loaded anew: it counts from 0.
            spent_ns = spent_ns if spent_ns >= 0 else _compute_ns(row)
            # Instances are those of each version.
            found[row.name] = max(found.get(row.name, 0.0), spent_ns / 1e9 / (seconds * instances))
    return found


def others(before: Rows, after: Rows, mine: Iterable[str]) -> dict[str, int]:
    """Requests that models other than `mine` answered in between, by name, the busiest first."""
    own = set(mine)
    names = dict.fromkeys(row.name for row in after if row.name not in own)
    counts: dict[str, int] = {}
    for split in increase(before, after, names):
        counts[split.model] = counts.get(split.model, 0) + split.requests + split.failures
    return dict(sorted(counts.items(), key=lambda row: -row[1]))


def _compute_ns(row: ModelStatistics) -> int:
    return sum(one.compute_input_ns + one.compute_infer_ns + one.compute_output_ns for one in row.batches)


def _use(uuid: str, readings: list[GpuReading]) -> GpuUse:
    memory = [one.memory_used_bytes for one in readings if one.memory_used_bytes is not None]
    return GpuUse(
        uuid,
        _mean(one.utilization_ratio for one in readings),
        max(memory, default=None),
        _mean(one.power_watts for one in readings),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
