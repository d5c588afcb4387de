"""Ten minutes of two models, one of which becomes slow in the middle: what the tests of Triage look at."""

from __future__ import annotations

from fake_runtime import runtime_of

from runtime import Runtime

EVERY = 10.0
COUNT = 60
STEP = 30
"""The reading after which requests take 25 times as long."""


def page_after(readings: int, *, per_reading: int = 50, batch: int = 1, slow: bool = True) -> str:
    """A page of two models: 50 requests between readings; those of `alpha` take 4 ms, from STEP on 100 ms."""
    slowed = max(0, readings - STEP) * per_reading * 96_000 if slow else 0
    requests = 1000 + per_reading * readings
    lines = []
    for family, alpha, bravo in (
        ("request_success", requests, requests),
        ("count", requests, requests),
        ("exec_count", requests // batch, requests),
        ("request_duration_us", requests * 4000 + slowed, requests * 2000),
        ("queue_duration_us", requests * 100 + slowed, requests * 100),
        ("compute_infer_duration_us", requests * 3900, requests * 1900),
    ):
        lines.append(f"# TYPE nv_inference_{family} counter")
        lines.append(f'nv_inference_{family}{{model="alpha",version="1"}} {alpha}')
        lines.append(f'nv_inference_{family}{{model="bravo",version="1"}} {bravo}')
    return "\n".join(lines) + "\n"


def stepped(**environ: str) -> Runtime:
    """Ten minutes of two models; `alpha` becomes slow in the middle."""
    return runtime_of([page_after(n) for n in range(COUNT)], every_seconds=EVERY, environ=environ)
