"""Loads of known figures, for tests of what is made of them."""

from __future__ import annotations

import base64

import numpy as np

from control.inference import InferenceRequest, Tensor
from control.server_split import ModelSplit
from experiments.figures import Asked, LoadFigures, figures
from experiments.measure import Measurement
from experiments.plan import LoadPlan
from experiments.server_side import ServerSide
from telemetry.facts import ModelConfig, TensorSpec
from telemetry.identity import Server

SERVER = Server(
    "lab", "http://lab:8000", None, headers={"Authorization": "Bearer x"}, control=True,
    load_run_limit_per_second=100.0,
)  # fmt: skip
CONFIG = ModelConfig(
    name="alpha", backend="python", platform="", max_batch_size=8, dynamic_batching=True,
    preferred_batch_sizes=(), max_queue_delay_us=0, max_queue_size=None, queue_timeout_us=None,
    instance_groups=(), ensemble_steps=(), sequence_batching=False, decoupled=False, response_cache=False,
    inputs=(TensorSpec("A", "FP32", (1,)),), outputs=(),
)  # fmt: skip
REQUEST = InferenceRequest("lab", "alpha", "", (Tensor("A", "FP32", np.ones((1, 1), dtype=np.float32)),))
QUEUE_FULL = '{"error":"[request id: <id_unknown>] Exceeds maximum queue size"}'
ASKED = Asked("http://lab:8000", "alpha", 30.0)


def packed(values: list[float]) -> str:
    return base64.b64encode(np.array(values, dtype="<f8").tobytes()).decode()


def raw(
    spans: list[tuple[float, float, float]], *, failures: list[list[object]] | None = None, seconds: float
) -> dict[str, object]:
    """A generator's result: (intended, began, ended) of each success."""
    columns = [list(column) for column in zip(*spans, strict=True)] if spans else [[], [], []]
    count = sum(int(str(row[3])) for row in failures or [])
    return {
        "intended": packed(columns[0]), "began": packed(columns[1]), "ended": packed(columns[2]),
        "failed_at": packed([seconds / 2] * count), "failures": failures or [], "seconds": seconds,
        "stopped": False, "reason": "", "unanswered": 0, "unsent": 0, "max_under_way": 1, "held_by_cap": 0,
    }  # fmt: skip


def measured(concurrency: int, count: int, wait_seconds: float) -> LoadFigures:
    spans = [(at * wait_seconds, at * wait_seconds, (at + 1) * wait_seconds)
             for at in range(count // concurrency) for _ in range(concurrency)]  # fmt: skip
    return figures(concurrency, False, raw(spans, seconds=count / concurrency * wait_seconds), ASKED)


def split(requests: int, executions: int, model: str = "alpha") -> ModelSplit:
    sizes = {requests // executions: executions}
    return ModelSplit(model, "1", requests, 0, executions, requests, 1.0, 1.0, 1.0, 1.0, 1.0, sizes)


def one(label: str, clients: LoadFigures, *rows: ModelSplit, **others: int) -> Measurement:
    server = ServerSide(rows, {"alpha": 0.5}, others) if rows else None
    plan = LoadPlan(concurrency=clients.concurrency, seconds=None, requests=max(1, clients.succeeded))
    return Measurement(label, "alpha", plan, clients, server, 0.0)
