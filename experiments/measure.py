"""One measured load: what the clients saw beside what the server counted over the same interval."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control.server_split import ModelSplit
from experiments.figures import LoadFigures
from experiments.load_process import LoadProgress, RunLoad, Target, Watch, run_load
from experiments.plan import LoadPlan
from experiments.server_side import Interval, LoadReader, ServerSide
from telemetry.identity import SIMULATED_GPU_PREFIX
from telemetry.units import Unit, human, significant

WARM_UP = "warm-up"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One load. `server` is None where the statistics could not be read, and `why_no_server` says why.

    `label` names it among others ("serial", "batching off"); `began_at` is unix seconds.
    """

    label: str
    model: str
    plan: LoadPlan
    clients: LoadFigures
    server: ServerSide | None
    began_at: float
    why_no_server: str = ""

    @property
    def split(self) -> ModelSplit | None:
        """The server's figures of the model itself."""
        return self.server.of(self.model) if self.server is not None else None

    @property
    def busy_ratio(self) -> float | None:
        """Busy share of the model's instances; None where it is not known."""
        return self.server.busy_ratio.get(self.model) if self.server is not None else None

    @property
    def gpu_ratio(self) -> float | None:
        """Mean utilization of the busiest GPU, None without a GPU."""
        gpus = self.server.gpus if self.server is not None else ()
        return max((gpu.utilization_ratio for gpu in gpus if gpu.utilization_ratio is not None), default=None)

    @property
    def others(self) -> int | None:
        """Requests the server counted for the model beyond ours; None if its count is not known.

        Those that our load had failed or given up may be among the server's failures, not among these.
        """
        if self.server is None:
            return None
        counted = sum(row.requests for row in self.server.rows if row.model == self.model)
        return max(0, counted - self.clients.succeeded - self.clients.unanswered)

    def to_json(self) -> dict[str, Any]:
        """For the state folder."""
        return {
            "label": self.label,
            "model": self.model,
            "plan": self.plan.to_json(),
            "clients": self.clients.to_json(),
            "server": self.server.to_json() if self.server is not None else None,
            "began_at": self.began_at,
            "why_no_server": self.why_no_server,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Measurement:
        """What `to_json` wrote; raises TypeError, KeyError and ValueError for anything else."""
        server = row["server"]
        return cls(
            row["label"],
            row["model"],
            LoadPlan.from_json(row["plan"]),
            LoadFigures.from_json(row["clients"]),
            ServerSide.from_json(server) if server is not None else None,
            row["began_at"],
            row["why_no_server"],
        )


Show = Callable[[LoadPlan, LoadProgress], None]


def measure(
    reader: LoadReader, target: Target, label: str, plan: LoadPlan, show: Show, stopping: Callable[[], bool],
    load: RunLoad = run_load,
) -> Measurement:  # fmt: skip
    """Warm up and measure; `show` hears how far it is. Raises ActionFailed if the generator breaks."""
    interval = Interval(reader, target.server.id, target.config)
    began_at = time.time()

    def measuring() -> None:
        nonlocal began_at
        interval.begin()
        began_at = time.time()

    def progress(row: LoadProgress) -> None:
        if row.phase != WARM_UP:
            interval.look()
        show(plan, row)

    clients = load(target, plan, Watch(progress, measuring, stopping))
    server = interval.end(clients.succeeded, clients.seconds)
    why_not = "" if server is not None else interval.why_not
    return Measurement(label, target.request.model, plan, clients, server, began_at, why_not)


def notes(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """What a reader must know to read the figures of these loads rightly."""
    found = []
    foreign = sum(one.others or 0 for one in measurements)
    if foreign:
        found.append(
            f"Other clients sent {foreign:,} requests to the model meanwhile: executions, batch sizes and "
            "latencies include them."
        )
    models: dict[str, int] = {}
    for one in measurements:
        for name, count in (one.server.other_models if one.server is not None else {}).items():
            models[name] = models.get(name, 0) + count
    if models:
        named = ", ".join(f"{name} ({count:,})" for name, count in list(models.items())[:3])
        found.append(f"Other models answered requests of others meanwhile and shared the server: {named}.")
    if any(
        gpu.uuid.startswith(SIMULATED_GPU_PREFIX)
        for one in measurements if one.server is not None for gpu in one.server.gpus
    ):  # fmt: skip
        found.append("The GPU is simulated: its utilization follows the load of the whole sandbox.")
    for one in measurements:
        found += [f"{one.label}: {words}" if one.label else words for words in _client_notes(one.clients)]
        if one.why_no_server:
            found.append(one.why_no_server)
    return tuple(dict.fromkeys(found))


def _client_notes(clients: LoadFigures) -> list[str]:
    found = []
    if clients.unsent:
        found.append(
            f"{clients.unsent:,} requests were due and never sent: the server fell behind the arrival rate, "
            "and the latencies shown are less than what all clients would have seen."
        )
    elif clients.open_loop and clients.max_under_way >= clients.concurrency:
        found.append(
            f"all {clients.concurrency} connections were busy at times: requests waited for one, "
            "and their latency counts from when they were due."
        )
    if clients.unanswered:
        found.append(f"{clients.unanswered:,} requests had no answer when the load was given up.")
    if clients.open_loop and clients.held_by_cap:
        found.append(
            f"the limit set for this server held {clients.held_by_cap:,} requests back; their latency "
            "includes it."
        )
    return found


def ended_early(clients: LoadFigures, plan: LoadPlan) -> str:
    """Why a limit ended the load, "" if none did."""
    if clients.ended_by == "failed_ratio" and plan.max_failed_ratio is not None:
        return f"ended early: more than {human(plan.max_failed_ratio, Unit.RATIO)} of the requests failed"
    if clients.ended_by == "p99_us" and plan.max_p99_us is not None:
        return f"ended early: p99 went above {human(plan.max_p99_us, Unit.US)}"
    return ""


def headline(one: Measurement) -> str:
    """One measured load in words: throughput, p99, failures."""
    clients = one.clients
    rate = clients.throughput_per_second
    if rate is None:
        why = next(iter(clients.errors), "")
        return f"no request succeeded{f': {why}' if why else ''}"
    words = f"{significant(rate)} requests/s, p99 {human(clients.p99_us, Unit.US)}"
    if clients.failed:
        words += f", {human(clients.failed_ratio, Unit.RATIO)} failed ({next(iter(clients.errors))})"
    early = ended_early(clients, one.plan)
    return f"{words}; {early}" if early else words
