"""`make soak`: half an hour of the whole product under traffic and visitors; what the app holds meanwhile.

    python -m benchmarks.soak [--minutes 30] [--visitors 4] [--traffic healthy]

Starts `python -m sandbox run` (tritonserver, traffic, app) on free ports. Visitors open a page each, stay for
a minute and go, and others come: what is kept of people who have left shows. The history keeps ten minutes,
so that it is full long before the end. Prints a row a minute of the app's process: resident memory, bytes of
the history, threads, file descriptors, time of the last report; then, as JSON, how they grew over the second
half. Exit status 1 if the app ended, showed an exception, logged a traceback or turned a visitor away.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families
from websockets.exceptions import WebSocketException

from sandbox.ports import free_ports
from sandbox.processes import end_group, start_bound
from sandbox.run_folder import living_run_folders
from sandbox.traffic_profiles import DEFAULT_PROFILE, PROFILES
from tests.viewers import Viewer, app_answers, watch

ROOT = Path(__file__).resolve().parents[1]
MIB = 2.0**20
HOUR_SECONDS = 3600.0
ROW_SECONDS = 60.0
START_SECONDS = 120.0
END_SECONDS = 60.0
RETENTION_SECONDS = 600
"""The least that the settings take."""
PAGES = ("", "model", "gpu", "triage", "repository", "explore", "capacity", "test_request", "load_runs")
HEADER = (
    f"{'minute':>7} {'RSS MiB':>9} {'history MiB':>12} {'threads':>8} {'descriptors':>12} {'report ms':>10}"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The app's process at one moment; `at_seconds` since the first one."""

    at_seconds: float
    resident_bytes: float
    history_bytes: float
    threads: int
    descriptors: int
    report_seconds: float | None

    def row(self) -> str:
        """One line of the table."""
        report = "not reported" if self.report_seconds is None else f"{self.report_seconds * 1e3:.1f}"
        return (
            f"{self.at_seconds / 60:7.1f} {self.resident_bytes / MIB:9.1f} {self.history_bytes / MIB:12.2f} "
            f"{self.threads:8d} {self.descriptors:12d} {report:>10}"
        )


@dataclass(frozen=True, slots=True)
class Product:
    """The running sandbox and its app, by process ids."""

    launcher: subprocess.Popen[bytes]
    app_pid: int
    app_url: str
    log: Path


# ---- figures


def growth_per_hour(readings: Sequence[tuple[float, float]]) -> float:
    """Slope of (seconds, value) per hour, the middle one of all pairs: one odd reading moves it little."""
    slopes = [
        (later - earlier) / (end - begin)
        for (begin, earlier), (end, later) in itertools.combinations(readings, 2)
        if end > begin
    ]
    if not slopes:
        raise ValueError("growth needs readings at two moments")
    return statistics.median(slopes) * HOUR_SECONDS


def second_half(readings: Sequence[Reading]) -> list[Reading]:
    """Those from the middle one on: the history is full and every page has been drawn before."""
    return list(readings[len(readings) // 2 :])


def summary(readings: Sequence[Reading]) -> dict[str, float | int]:
    """Growth per hour over the second half, and its least and most threads and file descriptors."""
    late = second_half(readings)

    def grown(name: str) -> float:
        return growth_per_hour([(one.at_seconds, float(getattr(one, name))) for one in late])

    return {
        "minutes": round(readings[-1].at_seconds / 60, 1),
        "resident_mib_first": round(late[0].resident_bytes / MIB, 1),
        "resident_mib_last": round(late[-1].resident_bytes / MIB, 1),
        "resident_mib_per_hour": round(grown("resident_bytes") / MIB, 2),
        "history_mib_per_hour": round(grown("history_bytes") / MIB, 2),
        "threads_least": min(one.threads for one in late),
        "threads_most": max(one.threads for one in late),
        "threads_per_hour": round(grown("threads"), 2),
        "descriptors_least": min(one.descriptors for one in late),
        "descriptors_most": max(one.descriptors for one in late),
        "descriptors_per_hour": round(grown("descriptors"), 2),
    }


# ---- the running product


@contextmanager
def product(folder: Path, traffic: str) -> Iterator[Product]:
    """`python -m sandbox run` until the block ends."""
    app_port, *triton_ports = free_ports(4)
    log = folder / "product.log"
    environment = {
        **os.environ,
        "TRITONSCOPE_APP_PORT": str(app_port),
        "TRITONSCOPE_SANDBOX_PORTS": ",".join(map(str, triton_ports)),
        "TRITONSCOPE_RETENTION_SECONDS": str(RETENTION_SECONDS),
    }
    with log.open("wb") as output:
        launcher = start_bound(
            [sys.executable, "-m", "sandbox", "run", "--traffic", traffic],
            environment=environment, output=output, folder=ROOT,
        )  # fmt: skip
    url = f"http://127.0.0.1:{app_port}"
    try:
        _await_traffic(launcher, url, log)
        yield Product(launcher, _app_of(launcher.pid), url, log)
    finally:
        end_group(launcher, END_SECONDS)


def _await_traffic(launcher: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not (app_answers(url) and _sends(launcher.pid)):
        if launcher.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(
                f"the product did not start. It said:\n{log.read_text(errors='replace')[-2000:]}"
            )
        time.sleep(0.2)


def _sends(launcher_pid: int) -> bool:
    """True once the launcher has tried every model and its traffic runs."""
    for folder in living_run_folders():
        path = folder / "state.json"
        if path.is_file():
            state = json.loads(path.read_text(encoding="utf-8"))
            if state["launcher_pid"] == launcher_pid:
                return bool(state["server_ready"] and state["traffic_running"] == state["traffic_wanted"])
    return False


def _app_of(launcher_pid: int) -> int:
    """The child of the launcher that is the app."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
            words = path.with_name("cmdline").read_bytes().split(b"\0")
        except OSError:  # it ended while the list was read
            continue
        if parent == launcher_pid and b"app.py" in words:
            return int(path.parent.name)
    raise SystemExit("the launcher has no app among its children")


def read(running: Product, began: float) -> Reading:
    """The app's process now, as the kernel and its own GET /metrics tell."""
    if running.launcher.poll() is not None:
        raise SystemExit(f"the product ended. It said:\n{running.log.read_text(errors='replace')[-2000:]}")
    page = requests.get(f"{running.app_url}/metrics", timeout=30).text
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if not sample.labels
    }
    process = Path(f"/proc/{running.app_pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return Reading(
        at_seconds=time.monotonic() - began,
        resident_bytes=float(status["VmRSS"].split()[0]) * 1024,
        history_bytes=found["tritonscope_history_bytes"],
        threads=int(status["Threads"]),
        descriptors=len(list((process / "fd").iterdir())),
        report_seconds=found.get("tritonscope_report_duration_seconds"),
    )


# ---- the half hour


def visit(app_url: str, visitors: int, seconds: float, first_page: int) -> list[Viewer]:
    """So many people at once, each on another page, who go when the time is over."""
    pages = [PAGES[(first_page + number) % len(PAGES)] for number in range(visitors)]
    with ThreadPoolExecutor(max(1, visitors)) as people:
        futures: list[Future[list[Viewer]]] = [
            people.submit(watch, app_url, page, 1, seconds) for page in pages
        ]
        return [viewer for future in futures for viewer in _seen_by(future)]


def _seen_by(future: Future[list[Viewer]]) -> list[Viewer]:
    try:
        return future.result()
    except (OSError, WebSocketException) as error:
        return [Viewer(exceptions=[f"nothing more ({type(error).__name__}: {error})"])]


def soak(running: Product, minutes: float, visitors: int) -> tuple[list[Reading], list[Viewer]]:
    """Readings a minute apart while people come and go, printed as they are taken."""
    began, seen = time.monotonic(), list[Viewer]()
    print(HEADER, flush=True)
    readings = [read(running, began)]
    print(readings[0].row(), flush=True)
    for turn in itertools.count():
        left = minutes * 60 - (time.monotonic() - began)
        if left < 1.0:
            return readings, seen
        seconds = min(ROW_SECONDS, left)
        # Visitors need a moment to go before their places are counted.
        seen += visit(running.app_url, visitors, max(1.0, seconds - 3.0), turn * visitors)
        until = began + min(minutes * 60, (turn + 1) * ROW_SECONDS)
        time.sleep(max(0.0, until - time.monotonic()))
        readings.append(read(running, began))
        print(readings[-1].row(), flush=True)
    raise AssertionError("unreachable")


def faults(seen: Sequence[Viewer], log: str) -> list[str]:
    """What must not have happened, in sentences; a traceback by its last line."""
    found = Counter(f"a page showed: {text}" for viewer in seen for text in viewer.exceptions)
    found.update(f"the product logged: {line}" for line in ends_of_tracebacks(log))
    return [f"{sentence} ({times} times)" for sentence, times in found.most_common()]


def ends_of_tracebacks(log: str) -> Iterator[str]:
    """The line with the error of each traceback: the first after it that is not indented."""
    inside = False
    for line in log.splitlines():
        if line.endswith("Traceback (most recent call last):"):
            inside = True
        elif inside and line and not line.startswith(" "):
            inside = False
            yield line
    if inside:
        yield "a traceback without an end"


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="default: %(default)g, at least 2")
    parser.add_argument("--visitors", type=int, default=4, help="at once; default: %(default)d")
    parser.add_argument("--traffic", choices=tuple(PROFILES), default=DEFAULT_PROFILE)
    chosen = parser.parse_args()
    if chosen.minutes < 2 or chosen.visitors < 0:
        parser.error("--minutes must be at least 2 and --visitors at least 0")
    with tempfile.TemporaryDirectory() as folder:
        with product(Path(folder), chosen.traffic) as running:
            readings, seen = soak(running, chosen.minutes, chosen.visitors)
        log = running.log.read_text(errors="replace")
    refreshes = sum(one.refreshes for one in seen)
    times = [second for one in seen for second in one.refresh_seconds]
    print(json.dumps(summary(readings)))
    if times:
        print(
            f"{len(seen)} visits, {refreshes} refreshes: median {statistics.median(times) * 1e3:.0f} ms, "
            f"longest {max(times) * 1e3:.0f} ms"
        )
    wrong = faults(seen, log)
    print("\n".join(wrong) or "no exception on a page, no traceback in the log")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
