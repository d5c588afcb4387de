"""holds_gpu_memory: keeps a known number of bytes on GPU 0, through the driver alone; `rehearse` in RAM."""

import ctypes
import json
import os

import triton_python_backend_utils as pb_utils

PLACES = ("", "/usr/local/nvidia/lib64/", "/usr/lib/x86_64-linux-gnu/", "/usr/lib64/", "/usr/lib/wsl/lib/")


def driver():
    """NVIDIA's driver library, wherever a container or a distribution puts it."""
    for place in PLACES:
        try:
            return ctypes.CDLL(place + "libcuda.so.1")
        except OSError:
            continue
    raise RuntimeError(f"libcuda.so.1 is in none of {PLACES}, nor where LD_LIBRARY_PATH leads")


def check(result, what):
    """Raise for any status of the driver but success."""
    if result != 0:
        raise RuntimeError(f"{what} failed with CUDA status {result}")


def hold_on_gpu(size):
    """Allocate and write so many bytes on GPU 0; returns what must be kept."""
    cuda = driver()
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size)), "cuMemAlloc")
    check(cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(1), ctypes.c_size_t(size)), "cuMemsetD8")
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    return cuda, context, memory


class TritonPythonModel:
    """Allocates and writes in initialize, echoes afterwards."""

    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        size = int(parameters["held_bytes"]["string_value"])
        if parameters.get("rehearse", {}).get("string_value") == "1":
            self._held = bytearray(os.urandom(1 << 20)) * (size >> 20)
        else:
            self._held = hold_on_gpu(size)

    def execute(self, requests):
        responses = []
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
            responses.append(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT", values)]))
        return responses
