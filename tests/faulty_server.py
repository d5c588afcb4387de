"""A real server to be ill-treated: one good model, one that cannot load, and fault models on demand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import requests

from sandbox import FAULT_MODELS, Sandbox, SandboxOptions

GOOD, BROKEN = "batch_add_model", "fail_init"
LIMIT_SECONDS = 60.0
"""For a load, and for a request that a fault model holds back."""


@contextmanager
def faulty_server() -> Iterator[Sandbox]:
    """The server, on free ports; `GOOD` is ready and `BROKEN` could not be loaded."""
    options = SandboxOptions(
        http_port=0,
        grpc_port=0,
        metrics_port=0,
        models=(GOOD,),
        extra_models=(FAULT_MODELS[BROKEN],),
        simulated_gpu=False,
    )
    with Sandbox(options) as server:
        yield server


def repository(triton: Sandbox, model: str, action: str) -> requests.Response:
    """The server's answer to `load` or `unload`."""
    url = f"{triton.http_url}/v2/repository/models/{model}/{action}"
    return requests.post(url, timeout=LIMIT_SECONDS)


def load_fault(triton: Sandbox, fault: str, name: str | None = None, **parameters: str) -> str:
    """Place a fault model with these parameters and load it; its name."""
    model = triton.add_model(FAULT_MODELS[fault], name=name, parameters=parameters)
    answer = repository(triton, model, "load")
    assert answer.status_code == 200, answer.text
    return model


def ask(triton: Sandbox, model: str) -> int:
    """One request to a fault model; its status."""
    body = {"inputs": [{"name": "INPUT", "shape": [1], "datatype": "FP32", "data": [1.0]}]}
    url = f"{triton.http_url}/v2/models/{model}/infer"
    return requests.post(url, json=body, timeout=LIMIT_SECONDS).status_code
