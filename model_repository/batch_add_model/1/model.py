"""batch_add_model: OUTPUT_SUM = INPUT_A + INPUT_B, row by row."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Answers each request of the batch Triton formed; the log says how many there were (verbose level 1)."""

    def execute(self, requests):
        pb_utils.Logger.log_verbose(f"batch_add_model: one execution for {len(requests)} requests")
        return [self._add(request) for request in requests]

    def _add(self, request):
        a = pb_utils.get_input_tensor_by_name(request, "INPUT_A").as_numpy()
        b = pb_utils.get_input_tensor_by_name(request, "INPUT_B").as_numpy()
        total = pb_utils.Tensor("OUTPUT_SUM", (a + b).astype(np.float32))
        return pb_utils.InferenceResponse(output_tensors=[total])
