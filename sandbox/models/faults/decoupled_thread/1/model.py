"""decoupled_thread: answers from a thread after execute has returned, as vLLM and TensorRT-LLM do."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils
from fault import parameters


class TritonPythonModel:
    """Hands each request to a thread of its own; finalize waits for the threads under way."""

    def initialize(self, args):
        given = parameters(args)
        self._responses = int(given["responses"])
        self._seconds = float(given["seconds"])
        self._threads = set()

    def execute(self, requests):
        self._threads = {thread for thread in self._threads if thread.is_alive()}
        for request in requests:
            start = float(pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()[0])
            thread = threading.Thread(target=self._respond, args=(request.get_response_sender(), start))
            self._threads.add(thread)
            thread.start()

    def _respond(self, sender, start):
        for number in range(self._responses):
            time.sleep(self._seconds / self._responses)
            value = np.array([start + number], np.float32)
            sender.send(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT", value)]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def finalize(self):
        for thread in self._threads:
            thread.join()
