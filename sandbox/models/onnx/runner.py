"""Runs a model.onnx through the onnxruntime wheel inside Triton's python backend.

The embedded tritonserver has no onnxruntime backend, so the sandbox gives every ONNX model of its working copy
this file. One run serves all requests of the batch Triton formed, as the real backend would do.
"""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One onnxruntime session with one thread: instances, not threads, are what Triton scales."""

    def initialize(self, args):
        config = json.loads(args["model_config"])
        self._inputs = [entry["name"] for entry in config["input"]]
        self._outputs = [entry["name"] for entry in config["output"]]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        path = Path(args["model_repository"]) / args["model_version"] / "model.onnx"
        self._session = onnxruntime.InferenceSession(
            str(path), sess_options=options, providers=["CPUExecutionProvider"]
        )

    def execute(self, requests):
        parts = {
            name: [pb_utils.get_input_tensor_by_name(request, name).as_numpy() for request in requests]
            for name in self._inputs
        }
        rows = [len(part) for part in parts[self._inputs[0]]]
        batch = {name: np.concatenate(arrays) for name, arrays in parts.items()}
        results = self._session.run(self._outputs, batch)
        ends = np.cumsum(rows)[:-1]
        split = [np.split(result, ends) for result in results]
        return [
            pb_utils.InferenceResponse(
                output_tensors=[
                    pb_utils.Tensor(name, pieces[index]) for name, pieces in zip(self._outputs, split)
                ]
            )
            for index in range(len(requests))
        ]

    def finalize(self):
        del self._session
