"""Scrape time and size of the exporter at 10, 200 and 1,000 models.

    python -m benchmarks.exporter [models ...]

The exporter runs as its command and is scraped over HTTP as Prometheus does it. The Triton behind it, a
process of its own, answers with a real server's statistics and configuration under other model names: all
models are ready and have run batches of eight sizes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import requests

_FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
_MODEL = "add"
_COUNTS = (10, 200, 1000)
_STEADY_ROUNDS = 5
_TIMEOUT_SECONDS = 10.0
_LIMIT_SECONDS = 120.0


# ---- the Triton behind it


def pages(models: int) -> dict[str, bytes]:
    """Path -> answer of a server with so many models."""
    rows = json.loads((_FIXTURES / "stats_under_load.json").read_text())["model_stats"]
    row = next(one for one in rows if one["name"] == _MODEL)
    row["memory_usage"] = [{"type": "GPU", "id": 0, "byte_size": 123456789}]
    config = json.loads((_FIXTURES / "model_configs.json").read_text())[_MODEL]
    names = [f"{_MODEL}_{number:05d}" for number in range(models)]
    answers: dict[str, object] = {
        "/v2": json.loads((_FIXTURES / "server_metadata.json").read_text()),
        "/v2/models/stats": {"model_stats": [row | {"name": name} for name in names]},
        "/v2/repository/index": [{"name": name, "version": "1", "state": "READY"} for name in names],
        **{f"/v2/models/{name}/config": config | {"name": name} for name in names},
    }
    return {path: json.dumps(answer).encode() for path, answer in answers.items()}


def serve(models: int) -> None:
    """Answer on a free port, printed first, until ended."""
    answers = pages(models)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            body = answers.get(self.path, b"{}")
            self.send_response(200 if self.path in answers else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        print(server.server_port, flush=True)
        server.serve_forever()


# ---- measuring


def started(arguments: list[str], **variables: str) -> tuple[subprocess.Popen[str], str]:
    """A Python module as a process of its own, and the first line it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    assert process.stdout is not None
    return process, process.stdout.readline()


def scrape(url: str) -> tuple[float, bytes, int]:
    """Seconds, page, and bytes as sent of one scrape with the headers of Prometheus."""
    headers = {"Accept-Encoding": "gzip", "X-Prometheus-Scrape-Timeout-Seconds": f"{_TIMEOUT_SECONDS:g}"}
    start = time.perf_counter()
    answer = requests.get(url, headers=headers, timeout=_TIMEOUT_SECONDS, stream=True)
    answer.raise_for_status()
    sent = len(answer.raw.data)
    seconds = time.perf_counter() - start
    # The second scrape, unpacked by requests, only to read the page: one stream cannot be read twice.
    page = requests.get(url, headers=headers, timeout=_TIMEOUT_SECONDS).content
    return seconds, page, sent


def value(page: bytes, series: str) -> float:
    """The value of the series of this name with these labels."""
    for line in page.decode().splitlines():
        if all(part in line for part in series.split()) and not line.startswith("#"):
            return float(line.rsplit(" ", 1)[1])
    raise SystemExit(f"the page has no {series}")


def resident_mb(pid: int) -> float:
    """Resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1e3


def measure(models: int, *options: str) -> str:
    """One row of the table."""
    triton, port = started(["benchmarks.exporter", "--serve", str(models)])
    address = f"http://127.0.0.1:{port.strip()}"
    variables: Mapping[str, str] = {
        "TRITONSCOPE_SERVERS": f"t={address}",
        "TRITONSCOPE_CONFIG": os.devnull,
        "TRITONSCOPE_URL": "",
    }
    exporter, line = started(["collectors.exporter", "--port", "0", *options], **variables)
    try:
        url = line.split()[2].replace("ID", "t")
        first, page, _ = scrape(url)
        scrapes, begin = 2, time.monotonic()
        while value(page, 'tritonscope_exporter_model_configs{ "pending"') > 0:
            if time.monotonic() - begin > _LIMIT_SECONDS:
                raise SystemExit("the configurations never became known")
            page = requests.get(url, timeout=_TIMEOUT_SECONDS).content
            scrapes += 1
        steady = [scrape(url) for _ in range(_STEADY_ROUNDS)]
        seconds, page, sent = statistics.median(one[0] for one in steady), steady[-1][1], steady[-1][2]
        series = sum(1 for one in page.splitlines() if not one.startswith(b"#"))
        return (
            f"{models:7d} {series:8d} {len(page) / 1e3:9.1f} {sent / 1e3:9.1f} {first:9.3f} {seconds:9.3f} "
            f"{max(one[0] for one in steady):9.3f} {scrapes:8d} {resident_mb(exporter.pid):7.0f}"
        )
    finally:
        for process in (exporter, triton):
            process.terminate()
            process.wait(10)


def main(arguments: list[str]) -> None:
    """Print the table, without and with raw batch sizes."""
    if arguments[:1] == ["--serve"]:
        serve(int(arguments[1]))
        return
    counts = [int(argument) for argument in arguments] or list(_COUNTS)
    for options in ((), ("--raw-batch-sizes",)):
        print("raw batch sizes" if options else "histogram of batch sizes (default)")
        print(
            f"{'models':>7} {'series':>8} {'page kB':>9} {'gzip kB':>9} {'first s':>9} {'median s':>9} "
            f"{'worst s':>9} {'scrapes':>8} {'RSS MB':>7}"
        )
        for count in counts:
            print(measure(count, *options))
    print(
        "first: the first scrape of a fresh exporter; median, worst: of 5 later ones; "
        "scrapes: until every configuration is known."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
