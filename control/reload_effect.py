"""What a load of a ready model did: Triton answers 200 also when nothing had changed and it did nothing."""

from __future__ import annotations

from dataclasses import dataclass

from control.ports import ServerReader
from telemetry.actions import AS_UNCHANGED, CHANGED_IN_USE, LOADED_ANEW, UNCHANGED_ON_DISK, UNTOLD
from telemetry.errors import SourceError
from telemetry.facts import ModelConfig, ModelStatistics

NOOP_SECONDS = 0.05
"""A load call of an unchanged model was answered in about 10 ms, the smallest real update in 130 ms."""


@dataclass(frozen=True, slots=True)
class ReloadFacts:
    """What can be compared before and after; None where it could not be read."""

    model: str
    config: ModelConfig | None
    statistics: dict[str, ModelStatistics] | None
    """By version."""


@dataclass(frozen=True, slots=True)
class ReloadEffect:
    """`changed` None: it could not be told. The sentence begins in lower case after `model: `."""

    changed: bool | None
    sentence: str


def facts_before(reader: ServerReader, server_id: str, model: str) -> ReloadFacts:
    """What the model looks like now; a source that does not answer leaves None."""
    return ReloadFacts(model, _config(reader, server_id, model), _statistics(reader, server_id, model))


def effect_of(reader: ServerReader, server_id: str, before: ReloadFacts, call_seconds: float) -> ReloadEffect:
    """Compare with what the model looks like now. `call_seconds` is how long the load took."""
    return judge_effect(before, facts_before(reader, server_id, before.model), call_seconds)


def judge_effect(before: ReloadFacts, after: ReloadFacts, call_seconds: float) -> ReloadEffect:
    """What the load did, by the statistics (a new copy begins at 0), the config and the time it took."""
    if _restarted(before.statistics, after.statistics):
        return ReloadEffect(True, f"{LOADED_ANEW}, and its statistics begin at 0")
    if before.config is not None and after.config is not None and before.config.raw != after.config.raw:
        return ReloadEffect(True, CHANGED_IN_USE)
    if _counted(before.statistics):
        return ReloadEffect(False, f"{UNCHANGED_ON_DISK}, so the server kept what it had loaded")
    if call_seconds <= NOOP_SECONDS:
        return ReloadEffect(False, f"answered in {call_seconds * 1e3:.0f} ms, {AS_UNCHANGED}")
    return ReloadEffect(
        None,
        f"the server answered after {call_seconds:.1f} s; {UNTOLD} from outside, since no request was "
        "counted before",
    )


def _config(reader: ServerReader, server_id: str, model: str) -> ModelConfig | None:
    try:
        return reader.config(server_id, model)
    except SourceError:
        return None


def _statistics(reader: ServerReader, server_id: str, model: str) -> dict[str, ModelStatistics] | None:
    try:
        return {row.version: row for row in reader.statistics(server_id) if row.name == model}
    except SourceError:
        return None


def _total(row: ModelStatistics) -> int:
    """All that was counted; a count that is not reported tells nothing and adds nothing."""
    return sum(count or 0 for count in (row.success_count, row.fail_count, row.execution_count))


def _counted(rows: dict[str, ModelStatistics] | None) -> bool:
    return rows is not None and any(_total(row) > 0 for row in rows.values())


def _restarted(before: dict[str, ModelStatistics] | None, after: dict[str, ModelStatistics] | None) -> bool:
    if before is None or after is None:
        return False
    if set(after) - set(before):
        return True
    return any(version in before and _total(row) < _total(before[version]) for version, row in after.items())
