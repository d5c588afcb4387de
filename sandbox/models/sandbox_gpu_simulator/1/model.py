"""sandbox_gpu_simulator: nv_gpu_* families of a simulated GPU that follows what this Triton really does.

Once a second a thread reads the server's own statistics (GET /v2/models/stats) and sets the families:
- utilization: compute time of the models on the card per second of wall clock, summed over them, at most 1;
- memory used: the context's size plus a fixed size per READY model of the card;
- power: between idle and full in proportion to the utilization; energy: power over time.
Sizes are invented, as gpu.json says them; which models are on the card is its `model_memory_mib`.
"""

import http.client
import json
import threading
import time
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

INTERVAL_S = 1.0
TIMEOUT_S = 2.0
MIB = 1024 * 1024
COMPUTE_PARTS = ("compute_input", "compute_infer", "compute_output")
# Name, kind and help text as Triton prints them with a real GPU.
FAMILIES = (
    ("nv_gpu_utilization", "GAUGE", "GPU utilization rate [0.0 - 1.0)"),
    ("nv_gpu_memory_total_bytes", "GAUGE", "GPU total memory, in bytes"),
    ("nv_gpu_memory_used_bytes", "GAUGE", "GPU used memory, in bytes"),
    ("nv_gpu_power_usage", "GAUGE", "GPU power usage in watts"),
    ("nv_gpu_power_limit", "GAUGE", "GPU power management limit in watts"),
    ("nv_energy_consumption", "COUNTER", "GPU energy consumption in joules since the Triton Server started"),
)


class TritonPythonModel:
    """Owns the families for as long as it is loaded; unloading it takes the card away."""

    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self._address = parameters["triton_http_address"]["string_value"]
        folder = Path(args["model_repository"]) / args["model_version"]
        self._card = json.loads((folder / "gpu.json").read_text())
        self._families = {}
        self._metrics = {}
        for name, kind, text in FAMILIES:
            family = pb_utils.MetricFamily(
                name=name, description=text, kind=getattr(pb_utils.MetricFamily, kind)
            )
            self._families[name] = family
            self._metrics[name] = family.Metric(labels={"gpu_uuid": self._card["gpu_uuid"]})
        self._metrics["nv_gpu_memory_total_bytes"].set(self._card["memory_total_mib"] * MIB)
        self._metrics["nv_gpu_power_limit"].set(self._card["power_limit_watts"])
        self._busy_ns = {}
        self._read_at = time.monotonic()
        self._publish(utilization=0.0, memory_bytes=self._card["context_mib"] * MIB, seconds=0.0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="gpu-simulator", daemon=True)
        self._thread.start()

    def execute(self, requests):
        utilization, memory_bytes, watts = self._reading
        return [
            pb_utils.InferenceResponse(
                output_tensors=[
                    pb_utils.Tensor("UTILIZATION", np.array([utilization], np.float64)),
                    pb_utils.Tensor("MEMORY_USED_BYTES", np.array([memory_bytes], np.int64)),
                    pb_utils.Tensor("POWER_WATTS", np.array([watts], np.float64)),
                ]
            )
            for _request in requests
        ]

    def finalize(self):
        self._ended.set()
        self._thread.join(TIMEOUT_S + INTERVAL_S)
        # Families stay on the page after the unload unless metrics and families are deleted, in this order.
        self._metrics.clear()
        self._families.clear()

    def _follow(self):
        while not self._ended.wait(INTERVAL_S):
            try:
                stats = self._statistics()
            except (OSError, http.client.HTTPException, ValueError) as error:
                # Nothing answers while the start-up models load; the last figures stand.
                pb_utils.Logger.log_verbose(f"statistics not read: {error}")
                continue
            self._update(stats)

    def _statistics(self):
        connection = http.client.HTTPConnection(self._address, timeout=TIMEOUT_S)
        try:
            connection.request("GET", "/v2/models/stats")
            return json.loads(connection.getresponse().read())["model_stats"]
        finally:
            connection.close()

    def _update(self, stats):
        now = time.monotonic()
        seconds = now - self._read_at
        sizes = self._card["model_memory_mib"]
        busy_ns = {
            (entry["name"], entry["version"]): compute_ns(entry) for entry in stats if entry["name"] in sizes
        }
        # A model that was not there before, or whose counters began anew, has worked as long as it says.
        grown = sum(
            value - before if (before := self._busy_ns.get(key, 0)) <= value else value
            for key, value in busy_ns.items()
        )
        memory_mib = self._card["context_mib"] + sum(sizes[name] for name, _version in busy_ns)
        self._busy_ns, self._read_at = busy_ns, now
        self._publish(min(1.0, grown / (seconds * 1e9)), memory_mib * MIB, seconds)

    def _publish(self, utilization, memory_bytes, seconds):
        idle, full = self._card["power_idle_watts"], self._card["power_full_watts"]
        watts = idle + (full - idle) * utilization
        # Triton reports whole percents of utilization, since DCGM counts them.
        utilization = round(utilization, 2)
        self._metrics["nv_gpu_utilization"].set(utilization)
        self._metrics["nv_gpu_memory_used_bytes"].set(memory_bytes)
        self._metrics["nv_gpu_power_usage"].set(round(watts, 3))
        self._metrics["nv_energy_consumption"].increment(watts * seconds)
        self._reading = (utilization, memory_bytes, watts)


def compute_ns(entry):
    """Nanoseconds a model's instances have spent in executions: per execution, from the batch statistics."""
    return sum(batch[part]["ns"] for batch in entry["batch_stats"] for part in COMPUTE_PARTS)
