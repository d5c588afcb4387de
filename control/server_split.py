"""Where the server spent the time of a request: the increase of its statistics from before to after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from telemetry.facts import DurationTotals, ModelStatistics
from telemetry.units import us_from_ns

Rows = tuple[ModelStatistics, ...]


@dataclass(frozen=True, slots=True)
class ModelSplit:
    """One model version over one interval; means per successful request in us, None without a request.

    `executions_by_batch_size` are the executions of that size in the interval. Cache hits are in `request_us`
    only, so the parts need not add up to it.
    """

    model: str
    version: str
    requests: int
    failures: int
    executions: int
    inferences: int
    request_us: float | None
    queue_us: float | None
    compute_input_us: float | None
    compute_infer_us: float | None
    compute_output_us: float | None
    executions_by_batch_size: dict[int, int]

    @property
    def batch_size_mean(self) -> float | None:
        """Inferences per execution, None without an execution."""
        return self.inferences / self.executions if self.executions else None


@dataclass(frozen=True, slots=True)
class ServerSplit:
    """The split of the model asked for and, for an ensemble, of its steps; `sentence` says what it covers."""

    rows: tuple[ModelSplit, ...]
    sentence: str

    def of(self, model: str) -> ModelSplit | None:
        """The row of one model, None if nothing was counted for it."""
        return next((row for row in self.rows if row.model == model), None)


def increase(before: Rows, after: Rows, models: Iterable[str]) -> tuple[ModelSplit, ...]:
    """The increase for these models, versions that counted anything only.

    A version whose counts fell was reloaded in between: it counts from 0, as Prometheus reads a reset.
    """
    known = {(row.name, row.version): row for row in before}
    splits = []
    for name in models:
        for row in after:
            if row.name == name:
                split = _split(known.get((row.name, row.version)), row)
                if split is not None and (split.requests or split.failures or split.executions):
                    splits.append(split)
    return tuple(splits)


def split_of_request(
    before: Rows, after: Rows, model: str, steps: tuple[str, ...], sent: int = 1
) -> ServerSplit:
    """The split of one test request, or the mean over the requests counted with it, and which it is.

    `sent` is the number of requests that were sent: the steps of a sequence.
    """
    rows = increase(before, after, (model, *steps))
    counted = [row for row in rows if row.model == model]
    if not counted:
        return ServerSplit(
            (), f"The server has counted no request of {model} in between: no split can be given."
        )
    total = sum(row.requests + row.failures for row in counted)
    if 1 < sent == total:
        return ServerSplit(
            rows, f"Mean over the {sent} steps of this sequence: no other request was counted."
        )
    if total == 1 and all(row.requests + row.failures <= 1 for row in rows):
        return ServerSplit(rows, "This request alone: the server counted no other in between.")
    others = max(row.requests + row.failures for row in rows)
    if total == 1:
        return ServerSplit(
            rows,
            f"This request alone for {model}; its steps show means over up to {others} requests in between.",
        )
    return ServerSplit(
        rows, f"Mean over the {total} requests of {model} in between: other traffic was running."
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    """The counts of one row; a row that lacks one of them cannot be compared."""

    success: int = 0
    fail: int = 0
    executions: int = 0
    inferences: int = 0

    def since(self, before: _Counts) -> _Counts:
        return _Counts(
            self.success - before.success,
            self.fail - before.fail,
            self.executions - before.executions,
            self.inferences - before.inferences,
        )

    def fell_below(self, before: _Counts) -> bool:
        change = self.since(before)
        return min(change.success, change.fail, change.executions) < 0


def _counts(row: ModelStatistics) -> _Counts | None:
    counts = (row.success_count, row.fail_count, row.execution_count, row.inference_count)
    known = [count for count in counts if count is not None]
    return _Counts(*known) if len(known) == len(counts) else None


def _split(before: ModelStatistics | None, after: ModelStatistics) -> ModelSplit | None:
    end, start = _counts(after), _counts(before) if before else _Counts()
    if end is None or start is None:
        return None
    if end.fell_below(start):
        before, start = None, _Counts()
    change = end.since(start)
    first = before.durations if before else None
    sizes_before = {row.batch_size: row.executions for row in before.batches} if before else {}
    sizes = {row.batch_size: row.executions - sizes_before.get(row.batch_size, 0) for row in after.batches}

    def mean_us(part: str) -> float | None:
        return _mean_us(first, after.durations, part, change.success)

    return ModelSplit(
        model=after.name,
        version=after.version,
        requests=change.success,
        failures=change.fail,
        executions=change.executions,
        inferences=change.inferences,
        request_us=mean_us("request_ns"),
        queue_us=mean_us("queue_ns"),
        compute_input_us=mean_us("compute_input_ns"),
        compute_infer_us=mean_us("compute_infer_ns"),
        compute_output_us=mean_us("compute_output_ns"),
        executions_by_batch_size={size: count for size, count in sorted(sizes.items()) if count > 0},
    )


def _mean_us(
    before: DurationTotals | None, after: DurationTotals | None, part: str, requests: int
) -> float | None:
    if after is None or requests <= 0:
        return None
    start: int = getattr(before, part) if before is not None else 0
    end: int = getattr(after, part)
    return us_from_ns((end - start) / requests)
