"""A trial of everything at once: real Triton under mixed traffic, the exporter, the app's process and a real
Prometheus with the shipped rules, watched for a while; then all three are asked the same.
"""

from __future__ import annotations

import math
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from history.protocol import Grid
from runtime import Runtime
from sandbox import FAULT_MODELS, Sandbox, SandboxOptions
from settings import load_settings
from signals.definition import Definition
from signals.facts import SignalFacts
from tests.parity import of_history, of_prometheus, traffic
from tests.prometheus_server import ROOT, PrometheusServer

MODELS = ("batch_add_model", "batch_cost_model", "ensemble_pipeline", "resnet18", "label_head")
RATES: Mapping[str, float] = {
    "batch_add_model": 10.0,
    "batch_cost_model": 15.0,
    "ensemble_pipeline": 1.5,
    "flaky": 4.0,
    "flaky_cached": 4.0,
    "decoupled_thread": 0.5,
}
"""Requests per second."""
WINDOW_SECONDS = 20.0
RULES = ROOT / "prometheus" / "rules" / "tritonscope.yml"
Until = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Trial:
    """What watched the trial, and from when to when (unix seconds)."""

    prometheus: PrometheusServer
    process: Runtime
    begin: float
    end: float

    def apart(self, row: Definition) -> Apart:
        """How far the app's own reading of a signal is from Prometheus', over the whole trial."""
        grid = Grid(math.ceil(self.begin + WINDOW_SECONDS), self.end, 1.0)
        facts = SignalFacts.of(self.process.inventory())
        ours = of_history(self.process.ring, facts, row, grid, WINDOW_SECONDS)
        theirs = of_prometheus(self.prometheus, row, grid, f"{WINDOW_SECONDS:.0f}s")
        found = [
            abs(ours[key][at] - theirs[key][at]) / max(abs(theirs[key][at]), abs(ours[key][at]), 1e-9)
            for key in ours.keys() & theirs.keys()
            for at in ours[key].keys() & theirs[key].keys()
        ]
        return Apart(tuple(sorted(found)), frozenset(ours), frozenset(theirs))


@dataclass(frozen=True, slots=True)
class Apart:
    """Relative differences of two readers, ascending, and the groups that each has."""

    ratios: tuple[float, ...]
    ours: frozenset[tuple[str, ...]]
    theirs: frozenset[tuple[str, ...]]

    @property
    def median(self) -> float | None:
        """The middle difference, a ratio; None if nothing could be compared."""
        return statistics.median(self.ratios) if self.ratios else None

    def line(self, name: str) -> str:
        """One line of the printed table."""
        groups = f"{len(self.ours & self.theirs)} of {len(self.ours | self.theirs)} groups"
        if not self.ratios:
            return f"{name:42} {groups:16} nothing to compare"
        p90 = self.ratios[int(0.9 * (len(self.ratios) - 1))]
        middle = statistics.median(self.ratios)
        return (
            f"{name:42} {groups:16} {len(self.ratios):6} values   median {middle:9.4%}"
            f"   90 % within {p90:9.4%}   worst {self.ratios[-1]:9.3%}"
        )


@contextmanager
def trial(folder: Path, seconds: float, exporter: Callable[..., object], until: Until) -> Iterator[Trial]:
    """Mixed traffic, failures, a model that cannot be loaded, a reload, an unload and a load."""
    options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=MODELS, cache_bytes=1 << 20,
        extra_models=(
            *(FAULT_MODELS[name] for name in ("flaky", "decoupled_thread", "fail_init")), _cached(folder),
        ),
    )  # fmt: skip
    for name in ("exporter", "prometheus"):
        (folder / name).mkdir()
    with Sandbox(options) as triton:
        servers = [{"id": "sandbox", "url": triton.http_url, "metrics_url": triton.metrics_url}]
        with exporter(folder / "exporter", servers, "--raw-batch-sizes") as beside:
            pages = {"triton": triton.metrics_url, "tritonscope-exporter": f"{beside.url}/metrics"}
            with (
                PrometheusServer(
                    folder / "prometheus", pages, every_seconds=1.0, rules=[RULES]
                ) as prometheus,
                _watching(folder, triton) as process,
            ):
                until(prometheus.ready, 30.0)
                begin = time.time()
                with traffic(triton.http_url, RATES):
                    _watched(prometheus, until, begin + seconds / 3)
                    _reload(triton)
                    _watched(prometheus, until, begin + seconds / 2)
                    _act(triton, "unload")
                    _watched(prometheus, until, time.time() + 8)
                    _act(triton, "load")
                    _watched(prometheus, until, max(begin + seconds, time.time() + 8))
                yield Trial(prometheus, process, begin, float(int(time.time())))


@contextmanager
def _watching(folder: Path, triton: Sandbox) -> Iterator[Runtime]:
    """The app's process without its pages, reading every second as Prometheus does."""
    file = folder / "tritonscope.yml"
    file.write_text(
        f"refresh_seconds: 1\nservers:\n  - id: sandbox\n    url: {triton.http_url}\n"
        f"    metrics_url: {triton.metrics_url}\n",
        encoding="utf-8",
    )
    process = Runtime(load_settings({}, file))
    process.start()
    try:
        yield process
    finally:
        process.stop()


def _cached(folder: Path) -> Path:
    model = folder / "flaky_cached"
    shutil.copytree(FAULT_MODELS["flaky"], model)
    config = model / "config.pbtxt"
    text = config.read_text(encoding="utf-8").replace('"flaky"', '"flaky_cached"')
    config.write_text(text + "\nresponse_cache { enable: true }\n", encoding="utf-8")
    return model


def _watched(prometheus: PrometheusServer, until: Until, moment: float) -> None:
    """Wait until Prometheus has scraped Triton after this moment."""

    def seen() -> bool:
        rows = prometheus.query('timestamp(up{job="triton"})', time.time())
        return bool(rows) and float(rows[0]["value"][1]) >= moment

    until(seen, moment - time.time() + 30.0)


def _reload(triton: Sandbox) -> None:
    """Another setting in the file, then load: an in-place reload, at which the statistics begin anew."""
    config = triton.repository / "batch_add_model" / "config.pbtxt"
    config.write_text(
        config.read_text(encoding="utf-8") + '\nparameters { key: "trial" value { string_value: "1" } }\n',
        encoding="utf-8",
    )
    _act(triton, "load")


def _act(triton: Sandbox, action: str) -> None:
    url = f"{triton.http_url}/v2/repository/models/batch_add_model/{action}"
    assert requests.post(url, timeout=60).status_code == 200
