"""A process that read an overloaded server, a silent one and much else, for tests of incident files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from collectors.config import parse_config
from collectors.exposition import SeriesCache, read_page
from collectors.repository import index_samples
from runtime import Runtime
from settings import Settings
from telemetry.actions import Action, ActionKind, Outcome, Record
from telemetry.errors import NoAnswer
from telemetry.facts import IndexEntry, ModelConfig, ModelState, ServerMetadata
from telemetry.identity import Server
from telemetry.memory import ServerProcesses, StubProcess
from telemetry.probe import ProbeResult
from telemetry.scrape import Samples, Scrape, Series, Source
from triage.incident import take
from triage.incident_file import save
from triage.incident_replay import Opened

CASES = Path(__file__).parent / "fixtures" / "cases"
SECRET = "s3cr3t-Sesame-7781"
HEADER_SECRET = "Bearer-h34d3r-0451"
SANDBOX = Server(
    "sandbox",
    "http://h:8000",
    "http://h:8002",
    headers={"Authorization": HEADER_SECRET},
    expected_server_name="tritonscope-1a2b",
)
OTHER = Server("other", "http://g:8000", "http://g:8002")
START = 1_700_000_000.0


def config(**more: object) -> ModelConfig:
    raw = {
        "name": "alpha",
        "backend": "python",
        "max_batch_size": 4,
        "dynamic_batching": {"max_queue_delay_microseconds": 500_000},
        "instance_group": [{"name": "a", "kind": "KIND_CPU", "count": 1}],
        "parameters": {"API_TOKEN": {"string_value": SECRET}, "EXECUTION_MODE": {"string_value": "alpha"}},
    }
    return parse_config(raw | more, who="test")


class Recorded(Runtime):
    """A runtime whose journal is what a test says."""

    done: tuple[Record, ...] = ()

    def _records(self) -> tuple[Record, ...]:
        return self.done


class Watched:
    """A process that read an overloaded server, one that is silent, and much else."""

    def __init__(self) -> None:
        self.process = Recorded(Settings(servers=(SANDBOX, OTHER), live_window_seconds=30))
        self._cache = SeriesCache()

    def accept(self, source: Source, at: float, samples: Samples, payload: object, raw: str | None) -> None:
        self.process.accept(Scrape("sandbox", source, at, 0.01, samples, payload, raw=raw))

    def page(self, at: float, text: str) -> None:
        page = read_page(text, self._cache)
        self.accept(Source.METRICS, at, page.samples, page, text)

    def everything(self) -> Watched:
        first, second = ((CASES / f"b07_overload_t{n}.prom").read_text() for n in (0, 1))
        self.accept(
            Source.METADATA, START, Samples.empty(), ServerMetadata("tritonscope-1a2b", "2.51.0"), None
        )
        entries = (
            IndexEntry("alpha", "1", ModelState.READY),
            IndexEntry(
                "broken", "1", ModelState.UNAVAILABLE, f"cannot reach http://me:{SECRET}@host/: {SECRET}"
            ),
        )
        self.accept(Source.INDEX, START, index_samples(entries), entries, f"[{SECRET}]")
        self.accept(Source.CONFIG, START, Samples.empty(), {"alpha": config()}, None)
        self.page(START, first)
        self.page(START + 10, second + "# TYPE own gauge\nown NaN\n")
        changed = {"alpha": config(max_batch_size=8)}
        self.accept(Source.CONFIG, START + 11, Samples.empty(), changed, None)
        stub = StubProcess(7, "alpha", "1", "0", 1 << 20, {"GPU-1": 5})
        processes = ServerProcesses(6, stubs=(stub,), weights={("alpha", "1"): 12})
        self.accept(Source.PROCESSES, START + 11, Samples.empty(), processes, None)
        probe = ProbeResult(
            "sandbox", "alpha", START + 11, False, "wrong_answer", "alpha answered 3", "1", 5.0, START + 9
        )
        self.process.probes.report(probe)
        series = Series(
            "tritonscope_probe_success", (("cause", probe.cause), ("model", "alpha"), ("version", "1"))
        )
        self.accept(Source.PROBES, START + 11, Samples((series,), np.zeros(1)), (probe,), None)
        error = NoAnswer("g:8002 gave no answer within 1.8 s", detail=f"sent {HEADER_SECRET}")
        for at in (START, START + 4, START + 8):
            self.process.accept(Scrape("other", Source.METRICS, at, 1.8, error=error))
        action = Action(
            ActionKind.OVERRIDE, "sandbox", "alpha", who="anna", why="tuning", config={"x": SECRET},
            parameters={"changes": {"max_batch_size": {"before": 4, "after": 8}}},
        )  # fmt: skip
        self.process.done = (
            Record(1, action, START + 9, "loading", True, START + 10, Outcome.DONE, "overridden", "detail"),
        )
        return self

    def saved(self, path: Path, **options: object) -> Opened:
        taken = take(self.process.sources(), START + 12, **options)  # type: ignore[arg-type]
        return save(taken, path)
