"""batch_cost_model: OUTPUT_MEAN = mean of INPUT's four numbers; a cost per execution and one per row."""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Runs one execution for all requests of the batch, so that its fixed cost is paid once."""

    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self._execution_cost_s = int(parameters["execution_cost_us"]["string_value"]) / 1e6
        self._row_cost_s = int(parameters["row_cost_us"]["string_value"]) / 1e6

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy() for request in requests]
        rows = np.concatenate(inputs)
        # Slept on purpose: it stands for the launch and the work of a GPU kernel, see config.pbtxt.
        time.sleep(self._execution_cost_s + self._row_cost_s * len(rows))
        means = rows.mean(axis=1, keepdims=True, dtype=np.float32)
        ends = np.cumsum([len(part) for part in inputs])[:-1]
        return [
            pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT_MEAN", part)])
            for part in np.split(means, ends)
        ]
