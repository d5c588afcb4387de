"""filetype: the content type of each row's bytes, by Magika."""

import numpy as np
import triton_python_backend_utils as pb_utils
from magika import Magika


class TritonPythonModel:
    """One Magika classifier per instance."""

    def initialize(self, args):
        self._magika = Magika()

    def execute(self, requests):
        return [self._classify(request) for request in requests]

    def _classify(self, request):
        rows = pb_utils.get_input_tensor_by_name(request, "DATA").as_numpy().ravel()
        results = [self._magika.identify_bytes(bytes(row)) for row in rows]
        labels = np.array([[result.output.label.encode()] for result in results], dtype=np.object_)
        scores = np.array([[result.score] for result in results], dtype=np.float32)
        return pb_utils.InferenceResponse(
            output_tensors=[pb_utils.Tensor("LABEL", labels), pb_utils.Tensor("SCORE", scores)]
        )

    def finalize(self):
        del self._magika
