"""Which families the exporter publishes, in order of importance, and where their values come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from collectors.exporter_reading import Answers, Row
from collectors.gpu_processes import process_sizes
from telemetry.catalogue import CATALOGUE, MEMORY_REPORTED, Metric
from telemetry.facts import BatchSizeStatistics, ModelConfig, ModelState, ModelStatistics
from telemetry.memory import MemorySource
from telemetry.reasons import reason_class
from telemetry.units import us_from_ns

STATES = tuple(state for state in ModelState if state is not ModelState.GONE)
"""The states that are published, each as a series of its own. A model that is gone has none."""

Values = Iterator[tuple[tuple[str, ...], float]]
"""Label values (without those of the server) and the number of each series."""


@dataclass(frozen=True, slots=True)
class Exported:
    """One family: its catalogue row, its values, its labels here. `values` None: the histogram."""

    family: str
    values: Callable[[Answers], Values] | None
    labels: tuple[str, ...] | None = None

    @property
    def definition(self) -> Metric:
        """The catalogue's row."""
        return CATALOGUE[self.family]

    @property
    def label_names(self) -> tuple[str, ...]:
        """Labels besides the server's."""
        return self.definition.labels if self.labels is None else self.labels


def batch_sizes(answers: Answers) -> Iterator[tuple[Row, list[tuple[int, int]], int | None]]:
    """(model, version), executions by batch size, and the model's largest batch, None if not known.

    Also of models that have not executed yet: a counter that begins above zero hides its first increase.
    """
    for row in unique(answers.statistics):
        if row.batches or row.execution_count == 0:
            config = answers.configs.get(row.name)
            sizes = [(batch.batch_size, batch.executions) for batch in row.batches]
            yield (row.name, row.version), sizes, None if config is None else config.max_batch_size


def bounds(max_batch_size: int | None, sizes: Sequence[int]) -> tuple[int, ...]:
    """Upper bounds of the histogram: powers of two, 1 up to the first that holds the largest batch.

    While the configuration is not known, up to the first that holds the largest size seen.
    """
    largest = max(sizes, default=1) if max_batch_size is None else max_batch_size
    found = [1]
    while found[-1] < largest:
        found.append(2 * found[-1])
    return tuple(found)


def unique(rows: Sequence[ModelStatistics] | None) -> list[ModelStatistics]:
    """One row for each model version, the first: Triton with namespaces may list a name twice."""
    found: dict[Row, ModelStatistics] = {}
    for row in rows or ():
        found.setdefault((row.name, row.version), row)
    return list(found.values())


# ---- from the index and the metadata


def _server_info(answers: Answers) -> Values:
    if answers.metadata is not None:
        yield (answers.server.id, answers.metadata.name, answers.metadata.version), 1.0


def _states(answers: Answers) -> Values:
    present: dict[Row, set[ModelState]] = {}
    for entry in answers.index or ():
        present.setdefault((entry.name, entry.version), set()).add(entry.state)
    for row, states in present.items():
        for state in STATES:
            yield (*row, state.value), float(state in states)


def _load_failures(answers: Answers) -> Values:
    for entry in answers.index or ():
        if entry.failed or entry.update_failed:
            yield (entry.name, entry.version, reason_class(entry.reason).value), 1.0


# ---- from the configurations of ready models


def _of_version(fact: Callable[[ModelConfig], float | None]) -> Callable[[Answers], Values]:
    """A number of each ready model version; none where the fact is None."""

    def values(answers: Answers) -> Values:
        for name, version in answers.ready:
            config = answers.configs.get(name)
            number = None if config is None else fact(config)
            if number is not None:
                yield (name, version), float(number)

    return values


def _queues_itself(answers: Answers) -> Values:
    for config in answers.configs.values():
        if config.queues_itself:
            yield (config.name,), 1.0


def _ensemble_steps(answers: Answers) -> Values:
    for config in answers.configs.values():
        for step, uses in config.step_uses.items():
            yield (config.name, step), float(uses)


def _preferred_sizes(answers: Answers) -> Values:
    for name, version in answers.ready:
        config = answers.configs.get(name)
        for size in config.preferred_batch_sizes if config is not None else ():
            yield (name, version, str(size)), 1.0


def _forms_batches(config: ModelConfig) -> float | None:
    return None if config.ensemble else float(config.dynamic_batching)


def _queue_delay_us(config: ModelConfig) -> float | None:
    return config.max_queue_delay_us if config.dynamic_batching else None


def _queue_limit(config: ModelConfig) -> float | None:
    # 0 is no limit.
    return config.max_queue_size or None


# ---- from the statistics


def _of_row(values_of: Callable[[ModelStatistics], Values]) -> Callable[[Answers], Values]:
    """Series of each row of the statistics, with the labels model and version first."""

    def values(answers: Answers) -> Values:
        for row in unique(answers.statistics):
            for more, number in values_of(row):
                yield (row.name, row.version, *more), number

    return values


def _by_size(number: Callable[[BatchSizeStatistics], float]) -> Callable[[Answers], Values]:
    def sized(row: ModelStatistics) -> Values:
        for batch in row.batches:
            yield (str(batch.batch_size),), number(batch)

    return _of_row(sized)


def _executions(row: ModelStatistics) -> Values:
    if row.execution_count is not None:
        yield (), float(row.execution_count)


def _compute_us(batch: BatchSizeStatistics) -> float:
    return us_from_ns(batch.compute_input_ns + batch.compute_infer_ns + batch.compute_output_ns)


def _compute_us_of_all_sizes(row: ModelStatistics) -> Values:
    if row.batches or row.execution_count == 0:
        yield (), sum(map(_compute_us, row.batches))


def _last_inference(row: ModelStatistics) -> Values:
    # 0 means never.
    if row.last_inference_ms:
        yield (), row.last_inference_ms / 1e3


def _memory(answers: Answers) -> Values:
    """As its backend reports it, and of Python models as their processes show it."""
    for row in unique(answers.statistics):
        for use in row.memory or ():
            labels = (row.name, row.version, use.kind, str(use.device_id), MEMORY_REPORTED)
            yield labels, float(use.byte_size)
    if answers.processes is not None:
        for held, size in process_sizes(answers.processes).items():
            yield (*held, MemorySource.PROCESS.value), float(size)


_COMPUTE = "tritonscope_batch_compute_us_total"
_TOTALS = Exported(_COMPUTE, _of_row(_compute_us_of_all_sizes), ("model", "version"))
_BY_SIZE = Exported(_COMPUTE, _by_size(_compute_us))
_RAW = (
    Exported("tritonscope_batch_executions_total", _by_size(lambda batch: float(batch.executions))),
    Exported(
        "tritonscope_batch_compute_infer_us_total", _by_size(lambda batch: us_from_ns(batch.compute_infer_ns))
    ),
)


def exported(raw_batch_sizes: bool) -> tuple[Exported, ...]:
    """The families, the most important first: they are the last to go when the budget is used up.

    Compute time is either the total of each model or, with raw batch sizes, a series for each size: its
    sum without `batch_size` is the same.
    """
    return (
        Exported("tritonscope_server_info", _server_info),
        Exported("tritonscope_model_state", _states),
        Exported("tritonscope_model_load_failed", _load_failures),
        Exported("tritonscope_model_executions_total", _of_row(_executions)),
        _BY_SIZE if raw_batch_sizes else _TOTALS,
        Exported("tritonscope_model_instances", _of_version(lambda config: config.instance_count)),
        Exported("tritonscope_model_queues_itself", _queues_itself),
        Exported("tritonscope_ensemble_step", _ensemble_steps),
        Exported("tritonscope_model_max_batch_size", _of_version(lambda config: config.max_batch_size)),
        Exported("tritonscope_model_dynamic_batching", _of_version(_forms_batches)),
        Exported("tritonscope_model_max_queue_delay_us", _of_version(_queue_delay_us)),
        Exported("tritonscope_model_max_queue_size", _of_version(_queue_limit)),
        Exported("tritonscope_model_memory_bytes", _memory),
        Exported("tritonscope_batch_size", None),
        Exported("tritonscope_model_last_inference_seconds", _of_row(_last_inference)),
        Exported("tritonscope_model_preferred_batch_size", _preferred_sizes),
        *(_RAW if raw_batch_sizes else ()),
    )


def families_by_importance() -> tuple[tuple[Metric, bool], ...]:
    """Every family that can be published, the most important first; True for those of raw batch sizes."""
    always = [one.definition for one in exported(False)]
    return (*((row, False) for row in always), *((one.definition, True) for one in _RAW))
