"""The fault models on the real tritonserver: what goes wrong, and what Triton counts of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from sandbox import Sandbox
from sandbox.traffic import TrafficProcess
from tests.faulty_server import GOOD, ask, faulty_server, load_fault

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def small() -> Iterator[Sandbox]:
    with faulty_server() as server:
        yield server


class TestFaults:
    def test_a_model_that_cannot_load_is_named_and_does_not_end_the_server(
        self, small: Sandbox, samples: Any
    ) -> None:
        reasons = small.not_ready()
        assert list(reasons) == ["fail_init"]
        assert "UNAVAILABLE" in reasons["fail_init"]
        assert "weights not found" in reasons["fail_init"]
        assert samples(small, "nv_gpu_utilization") == []

    def test_flaky_fails_for_exactly_its_share_and_triton_counts_it(
        self, small: Sandbox, until: Any, samples: Any
    ) -> None:
        name = load_fault(small, "flaky", "flaky_half", failure_ratio="0.5")
        answers = [ask(small, name) for _ in range(6)]
        assert answers == [200, 500, 200, 500, 200, 500]
        # Triton counts a request after it has answered it.
        until(lambda: samples(small, "nv_inference_request_failure", model=name, reason="BACKEND") == [3.0])
        until(lambda: samples(small, "nv_inference_request_success", model=name) == [3.0])

    def test_error_responses_are_counted_as_success(self, small: Sandbox, until: Any, samples: Any) -> None:
        name = load_fault(small, "response_error")
        assert [ask(small, name) for _ in range(3)] == [500, 500, 500]
        until(lambda: samples(small, "nv_inference_request_success", model=name) == [3.0])
        assert sum(samples(small, "nv_inference_request_failure", model=name)) == 0.0

    def test_hang_blocks_while_its_file_exists(
        self, small: Sandbox, until: Any, tmp_path: Path, samples: Any
    ) -> None:
        blocker = tmp_path / "block"
        blocker.touch()
        name = load_fault(small, "hang", while_file_exists=str(blocker))
        with ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(ask, small, name) for _ in range(2)]
            until(lambda: samples(small, "nv_inference_pending_request_count", model=name) == [1.0])
            assert samples(small, "nv_inference_request_success", model=name) == [0.0]
            blocker.unlink()
            assert [answer.result() for answer in answers] == [200, 200]

    def test_a_decoupled_model_is_counted_at_the_hand_over(
        self, small: Sandbox, until: Any, samples: Any
    ) -> None:
        name = load_fault(small, "decoupled_thread", responses="4", seconds="2.0")
        stream = requests.post(
            f"{small.http_url}/v2/models/{name}/generate_stream", json={"INPUT": [7]}, stream=True, timeout=30
        )
        answers = (json.loads(line[6:])["OUTPUT"] for line in stream.iter_lines() if line)
        assert next(answers) == 7.0
        # Three responses are still to come, and Triton has counted the request as done.
        until(lambda: samples(small, "nv_inference_request_success", model=name) == [1.0], 1.0)
        assert samples(small, "nv_inference_request_duration_us", model=name)[0] < 400_000
        assert list(answers) == [8.0, 9.0, 10.0]
        until(lambda: samples(small, "nv_inference_exec_count", model=name) == [1.0])


class TestTraffic:
    def test_it_outlives_absent_models_and_a_restart_without_a_flood_of_words(
        self, small: Sandbox, until: Any, samples: Any
    ) -> None:
        def answered() -> float:
            found = samples(small, "nv_inference_request_success", model=GOOD)
            return float(found[0])

        before = answered()
        words = small.run_folder / "words"
        traffic = TrafficProcess(small.http_url, rate_scale=4.0, log_path=words)
        traffic.start("healthy")
        try:
            until(lambda: answered() > before + 10)
            # The other models of the profile are not there: each is named once.
            until(lambda: words.read_text().count("answers with status") == 5)
            small.restart()
            until(lambda: answered() > 10)
            until(lambda: "the server answers again" in words.read_text(), 60)
        finally:
            traffic.stop()
        told = words.read_text()
        assert told.count("answers with status") == 5
        assert told.count("the server does not answer") == 1
        assert told.count("the server answers again") == 1
        assert GOOD in told.splitlines()[-1]
        assert "Traceback" not in told
