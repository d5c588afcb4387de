"""holds_gpu_memory: keeps a known number of bytes on GPU 0, through the driver alone."""

import ctypes
import json

import triton_python_backend_utils as pb_utils


def check(result, what):
    """Raise for any status of the driver but success."""
    if result != 0:
        raise RuntimeError(f"{what} failed with CUDA status {result}")


class TritonPythonModel:
    """Allocates and writes in initialize, echoes afterwards."""

    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        size = ctypes.c_size_t(int(parameters["held_bytes"]["string_value"]))
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, self._context, self._memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        check(self._cuda.cuInit(0), "cuInit")
        check(self._cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
        retained = self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device)
        check(retained, "cuDevicePrimaryCtxRetain")
        check(self._cuda.cuCtxSetCurrent(self._context), "cuCtxSetCurrent")
        check(self._cuda.cuMemAlloc_v2(ctypes.byref(self._memory), size), "cuMemAlloc")
        check(self._cuda.cuMemsetD8_v2(self._memory, ctypes.c_ubyte(1), size), "cuMemsetD8")
        check(self._cuda.cuCtxSynchronize(), "cuCtxSynchronize")

    def execute(self, requests):
        responses = []
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
            responses.append(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT", values)]))
        return responses
