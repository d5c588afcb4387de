"""The sandbox on the real tritonserver: its models, its simulated GPU, its traffic, its end."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import requests
import tritonclient.http as triton_http

from sandbox import Sandbox
from sandbox.options import PROJECT_ROOT
from sandbox.traffic import TrafficProcess
from tests.faulty_server import repository

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
GPU = json.loads((PROJECT_ROOT / "sandbox/models/sandbox_gpu_simulator/1/gpu.json").read_text())
PORT_QUESTION = "Which port serves the metrics?"
PORT_TEXT = (
    "HTTP is served on port 8000. Prometheus metrics are exposed on port 8002. It starts in two seconds."
)
SHELL_SCRIPT = '#!/bin/bash\nset -e\nfor f in *.txt; do\n  echo "$f"\ndone\nexit 0\n'


def infer(triton: Sandbox, model: str, **inputs: Any) -> dict[str, Any]:
    """The outputs of one request by name; str lists become BYTES tensors."""
    client = triton_http.InferenceServerClient(triton.http_url.removeprefix("http://"))
    try:
        tensors = []
        for name, value in inputs.items():
            text = isinstance(value[0][0], str)
            array = np.array(value, dtype=np.object_ if text else np.float32)
            tensors.append(triton_http.InferInput(name, list(array.shape), "BYTES" if text else "FP32"))
            tensors[-1].set_data_from_numpy(array)
        result = client.infer(model, tensors)
        return {
            output["name"]: result.as_numpy(output["name"]) for output in result.get_response()["outputs"]
        }
    finally:
        client.close()


def states(triton: Sandbox) -> dict[str, str | None]:
    index = requests.post(f"{triton.http_url}/v2/repository/index", timeout=5).json()
    return {entry["name"]: entry.get("state") for entry in index}


class TestModels:
    def test_every_model_is_ready_and_the_server_answers_with_its_own_id(self, triton: Sandbox) -> None:
        assert triton.not_ready() == {}
        expected = {
            "batch_add_model",
            "batch_cost_model",
            "resnet18",
            "label_head",
            "ensemble_pipeline",
            "bert_qa",
            "filetype",
            "sandbox_gpu_simulator",
        }
        assert {name for name, state in states(triton).items() if state == "READY"} == expected
        assert requests.get(f"{triton.http_url}/v2", timeout=5).json()["name"] == triton.server_id
        assert triton.server_id.startswith("tritonscope-")

    @pytest.mark.parametrize(
        ("a", "b", "total"), [(10.5, 20.3, 30.8), (15.0, 25.0, 40.0), (30.0, 40.0, 70.0)]
    )
    def test_the_seeds_sums(self, triton: Sandbox, a: float, b: float, total: float) -> None:
        answer = infer(triton, "batch_add_model", INPUT_A=[[a]], INPUT_B=[[b]])["OUTPUT_SUM"]
        assert answer.shape == (1, 1)
        assert answer[0, 0] == pytest.approx(total, rel=1e-6)

    def test_concurrent_requests_form_batches_on_the_batching_model(self, triton: Sandbox) -> None:
        def ask(number: int) -> float:
            row = [[number, number + 1, number + 2, number + 5]]
            return float(infer(triton, "batch_cost_model", INPUT=row)["OUTPUT_MEAN"][0, 0])

        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(ask, range(64))) == [number + 2.0 for number in range(64)]
        stats = requests.get(f"{triton.http_url}/v2/models/batch_cost_model/stats", timeout=5).json()
        entry = stats["model_stats"][0]
        assert max(batch["batch_size"] for batch in entry["batch_stats"]) > 1
        assert entry["execution_count"] < entry["inference_count"]

    def test_the_ensemble_answers_with_the_largest_score_of_its_first_step(self, triton: Sandbox) -> None:
        images = np.random.default_rng(1).uniform(-2, 2, (2, 3, 224, 224)).astype(np.float32)
        scores = infer(triton, "resnet18", input=images)["output"]
        assert scores.shape == (2, 1000)
        labels = infer(triton, "ensemble_pipeline", IMAGE=images)["LABEL"]
        assert labels.dtype == np.int64
        assert labels.tolist() == scores.argmax(axis=1, keepdims=True).tolist()
        # A row's answer does not depend on its neighbours in the batch.
        alone = infer(triton, "resnet18", input=images[1:])["output"]
        np.testing.assert_allclose(alone[0], scores[1], rtol=1e-3, atol=1e-3)

    def test_bert_qa_finds_the_sentence(self, triton: Sandbox) -> None:
        answer = infer(triton, "bert_qa", QUESTION=[[PORT_QUESTION]], CONTEXT=[[PORT_TEXT]])
        assert answer["ANSWER"][0, 0] == b"Prometheus metrics are exposed on port 8002."
        assert answer["SCORE"][0, 0] == pytest.approx(0.63, abs=0.05)

    def test_filetype_names_a_shell_script(self, triton: Sandbox) -> None:
        answer = infer(triton, "filetype", DATA=[[SHELL_SCRIPT]])
        assert answer["LABEL"][0, 0] == b"shell"
        assert answer["SCORE"][0, 0] > 0.9


class TestSimulatedGpu:
    def test_families_are_on_the_real_metrics_page_under_a_simulated_uuid(
        self, triton: Sandbox, samples: Any
    ) -> None:
        page = requests.get(triton.metrics_url, timeout=5).text
        assert "# TYPE nv_energy_consumption counter" in page
        assert "# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)" in page
        uuid = GPU["gpu_uuid"]
        assert uuid.startswith("GPU-SIMULATED-")
        assert samples(triton, "nv_gpu_memory_total_bytes", gpu_uuid=uuid) == [GPU["memory_total_mib"] * MIB]
        assert samples(triton, "nv_gpu_power_limit", gpu_uuid=uuid) == [150.0]

    def test_memory_follows_what_is_loaded(self, triton: Sandbox, until: Any, samples: Any) -> None:
        sizes = GPU["model_memory_mib"]
        full = (GPU["context_mib"] + sum(sizes.values())) * MIB
        until(lambda: samples(triton, "nv_gpu_memory_used_bytes") == [full])
        assert repository(triton, "filetype", "unload").status_code == 200
        try:
            until(lambda: samples(triton, "nv_gpu_memory_used_bytes") == [full - sizes["filetype"] * MIB])
        finally:
            assert repository(triton, "filetype", "load").status_code == 200
        until(lambda: samples(triton, "nv_gpu_memory_used_bytes") == [full])

    def test_traffic_makes_counters_and_utilization_rise(
        self, triton: Sandbox, until: Any, samples: Any
    ) -> None:
        def count() -> float:
            return float(sum(samples(triton, "nv_inference_request_success", model="batch_cost_model")))

        until(lambda: samples(triton, "nv_gpu_utilization") == [0.0])
        energy = samples(triton, "nv_energy_consumption")[0]
        before = count()
        traffic = TrafficProcess(triton.http_url, log_path=triton.run_folder / "traffic_test.log")
        traffic.start("overload")
        try:
            assert traffic.running
            assert traffic.profile == "overload"
            until(lambda: count() > before + 50)
            until(lambda: samples(triton, "nv_gpu_utilization")[0] > 0.5)
        finally:
            traffic.stop()
        assert not traffic.running
        until(lambda: samples(triton, "nv_gpu_utilization") == [0.0])
        assert samples(triton, "nv_gpu_power_usage") == [GPU["power_idle_watts"]]
        assert samples(triton, "nv_energy_consumption")[0] > energy + GPU["power_idle_watts"]
