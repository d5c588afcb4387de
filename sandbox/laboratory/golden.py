"""Golden requests of the laboratory's models, for the product's own prober: one each."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from control.expected_answers import Expected, ExpectedOutput, Mode
from control.inference import InferenceRequest, Tensor
from control.saved_requests import SavedRequests, saved_from
from telemetry.golden_choice import GoldenChoice

EVERY_SECONDS = 8.0
"""Between two to a model. Settings take a minute at the least; nobody waits that long in a play."""
TIMEOUT_SECONDS = 5.0
BOUND_US = 2e6
_VALUE = 1.0


def choice(folder: Path) -> GoldenChoice:
    """The product's settings for golden requests in this folder, sent every few seconds."""
    return GoldenChoice(folder, EVERY_SECONDS / 60.0, TIMEOUT_SECONDS)


def keep(folder: Path, server: str, model: str, *, batched: bool) -> None:
    """Write the model's golden request; it answers what it is sent, within a tolerance."""
    shape = (1, 1) if batched else (1,)
    sent = np.full(shape, _VALUE, dtype=np.float32)
    request = InferenceRequest(server, model, "", (Tensor("INPUT", "FP32", sent),), TIMEOUT_SECONDS)
    output = ExpectedOutput("OUTPUT", "FP32", shape, sent)
    expected = Expected(Mode.TOLERANCE, ((output,),), latency_bound_us=BOUND_US)
    SavedRequests(folder, math.inf).save(saved_from("laboratory", "the laboratory", (request,), expected))
