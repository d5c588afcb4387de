"""The laboratory's model: echoes INPUT at a price, and goes wrong while a file in its switches' folder says so.

Config parameters: `switches` (a folder), `cost_us` per execution, `row_us` per row. Switches, each a file:
load (its text: seconds that a load takes), broken (initialize raises its text), weights (read by a load: what values
are multiplied by), hang (an execution does not return), die (the process ends), slow (seconds more per execution),
raise (share of executions that raise), error (share of requests that are answered with an error response).
"""

import json
import os
import time
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

LOOK_SECONDS = 0.02


class TritonPythonModel:
    """Sleeps for its price, then echoes."""

    def initialize(self, args):
        written = json.loads(args["model_config"])["parameters"]
        given = {key: value["string_value"] for key, value in written.items()}
        self._switches = Path(given["switches"])
        self._cost_s = float(given.get("cost_us", "5000")) / 1e6
        self._row_s = float(given.get("row_us", "0")) / 1e6
        self._due = {"raise": 0.0, "error": 0.0}
        text = self._switch("broken")
        if text is not None:
            raise RuntimeError(text)
        self._weight = np.float32(self._switch("weights") or 1.0)
        # Slept on purpose: it stands for weights that are read and compiled.
        time.sleep(float(self._switch("load") or 0.0))

    def execute(self, requests):
        if self._switch("die") is not None:
            os._exit(1)
        while self._switch("hang") is not None:
            time.sleep(LOOK_SECONDS)
        values = [pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy() for request in requests]
        rows = sum(len(value) for value in values)
        # Slept, not burnt: it stands for the work of a device.
        time.sleep(self._cost_s + self._row_s * rows + float(self._switch("slow") or 0.0))
        if self._is_due("raise"):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return [self._answer(value) for value in values]

    def _answer(self, value):
        if self._is_due("error"):
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("the input could not be decoded"))
        values = value.astype(np.float32) * self._weight
        return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT", values)])

    def _switch(self, name):
        """The switch's text, None while it is off."""
        try:
            return (self._switches / name).read_text()
        except FileNotFoundError:
            return None

    def _is_due(self, name):
        """True for the share of calls that the switch says, evenly spread."""
        self._due[name] += float(self._switch(name) or 0.0)
        if self._due[name] < 1.0 - 1e-9:
            return False
        self._due[name] -= 1.0
        return True
