"""Test requests on the real server: exact values, the server's split, and every fault as a sentence."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from control.facade import Control
from control.inference import InferenceRequest, Tensor, Way, check_request
from control.test_requests import send_one, test_request_work
from experiments.fresh_reader import FreshReader
from sandbox.repository import FAULT_MODELS
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome
from telemetry.errors import InvalidRequest, Restricted, SourceError
from telemetry.facts import ModelConfig
from telemetry.identity import Server
from tests.integration.request_lab import find_grpc
from tests.integration.write_lab import LIMIT_SECONDS, Lab, answer, floats, started_lab

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab("batch_add_model", extra=("short_queue",)) as started:
        yield started


class TestRequests:
    def test_the_sum_is_right_and_the_server_tells_where_the_time_went(self, lab: Lab) -> None:
        found = answer(lab.ask("batch_add_model", floats("INPUT_A", 1.5), floats("INPUT_B", 2.0)))
        (output,) = found.reply.outputs
        assert (output.name, output.datatype, output.shape) == ("OUTPUT_SUM", "FP32", (1, 1))
        assert output.array.tolist() == [[3.5]]
        row = found.split.of("batch_add_model")
        assert row is not None and row.requests == 1
        assert found.split.sentence == "This request alone: the server counted no other in between."
        parts = (row.queue_us, row.compute_input_us, row.compute_infer_us, row.compute_output_us)
        known = [part for part in parts if part is not None]
        assert len(known) == 4 and all(part > 0 for part in known)
        assert row.request_us is not None
        assert sum(known) <= row.request_us <= found.reply.latency_us
        assert row.executions_by_batch_size == {1: 1}

    def test_ten_requests_from_ten_threads_all_come_back_right(self, lab: Lab) -> None:
        # One client per action, made and closed in its thread: a shared one fails or hangs.
        jobs = [
            lab.ask("batch_add_model", floats("INPUT_A", float(number)), floats("INPUT_B", 0.5))
            for number in range(10)
        ]
        sums = [answer(job).reply.outputs[0].array.item() for job in jobs]
        assert sums == [number + 0.5 for number in range(10)]

    def test_requests_leave_no_open_files_behind(self, lab: Lab) -> None:
        def open_files() -> int:
            return len(list(Path("/proc/self/fd").iterdir()))

        answer(lab.ask("batch_add_model", floats("INPUT_A", 1.0), floats("INPUT_B", 2.0)))
        before = open_files()
        for _ in range(20):
            answer(lab.ask("batch_add_model", floats("INPUT_A", 1.0), floats("INPUT_B", 2.0)))
        # The proxy's own connections come and go; two per request would be 40.
        assert open_files() < before + 20

    def test_a_decoupled_model_and_too_many_rows_are_refused_without_a_byte_sent(self, lab: Lab) -> None:
        config = lab.reader.config("lab", "batch_add_model")
        before = len(lab.proxy.passed("POST", "/infer"))
        five = Tensor("INPUT_A", "FP32", np.zeros((5, 1), dtype=np.float32))
        with pytest.raises(InvalidRequest, match=r"^At most 4 rows per request \(got 5\)$"):
            lab.ask("batch_add_model", five, Tensor("INPUT_B", "FP32", five.array))
        lab.sandbox.add_model(FAULT_MODELS["decoupled_thread"])
        assert lab.do(ActionKind.LOAD, "decoupled_thread").outcome is Outcome.DONE
        with pytest.raises(InvalidRequest, match=r"^This model streams \(decoupled\)"):
            lab.ask("decoupled_thread", Tensor("INPUT", "FP32", np.zeros(1, dtype=np.float32)))
        assert len(lab.proxy.passed("POST", "/infer")) == before
        check_request(
            config,
            InferenceRequest("lab", "batch_add_model", "", (floats("INPUT_A", 1), floats("INPUT_B", 1))),
        )

    def test_a_full_queue_is_called_a_full_queue(self, lab: Lab) -> None:
        jobs = [lab.ask("short_queue", floats("IN", 1.0)) for _ in range(6)]
        records = [job.wait(LIMIT_SECONDS) for job in jobs]
        refused = [record for record in records if record.outcome is Outcome.FAILED]
        assert 1 <= len(refused) <= 4
        assert {record.sentence for record in refused} == {
            "Queue full: short_queue has as many waiting requests as it accepts (503). Send fewer at a "
            "time, or raise max_queue_size or the number of instances"
        }
        assert sum(record.outcome is Outcome.DONE for record in records) == 6 - len(refused)

    def test_a_model_that_was_unloaded_meanwhile_is_said_to_be_not_loaded(self, lab: Lab) -> None:
        config = lab.reader.config("lab", "short_queue")
        lab.do(ActionKind.UNLOAD, "short_queue")
        work = test_request_work(
            lab.reader, config, InferenceRequest("lab", "short_queue", "", (floats("IN", 1.0),))
        )
        record = lab.control.perform(
            Action(ActionKind.TEST_REQUEST, "lab", "short_queue"), work, by=LOCAL
        ).wait(10)
        assert (record.outcome, record.sentence) == (
            Outcome.FAILED,
            "short_queue has no version that is ready. Load it first, on the page Repository, or wait if it "
            "is being loaded",
        )
        assert lab.do(ActionKind.LOAD, "short_queue").outcome is Outcome.DONE

    def test_network_faults_are_four_plain_sentences(self, lab: Lab, tmp_path: Path) -> None:
        held = tmp_path / "held"
        held.touch()
        lab.sandbox.add_model(FAULT_MODELS["hang"], parameters={"while_file_exists": str(held)})
        lab.do(ActionKind.LOAD, "hang")
        began = time.monotonic()
        record = lab.ask("hang", Tensor("INPUT", "FP32", np.zeros(1, np.float32)), timeout_seconds=1.0).wait(
            20
        )
        assert 1.0 <= time.monotonic() - began < 5.0
        assert "within 1 s (the server may still run the request)" in record.sentence
        held.unlink()
        config = lab.reader.config("lab", "batch_add_model")
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            refusing = f"http://127.0.0.1:{unused.getsockname()[1]}"
            grpc = f"http://{lab.sandbox.grpc_url}"
            tls = lab.sandbox.http_url.replace("http", "https", 1)
            found = {
                url: fault(url, config, lab.reader) for url in (refusing, grpc, lab.sandbox.metrics_url, tls)
            }
        assert found[refusing].endswith("is not reachable (refused)")
        assert found[grpc].endswith("does not speak HTTP: is it the gRPC port?")
        assert found[tls].endswith("failed: wrong scheme, or a certificate that is not trusted")
        assert "is it the metrics port?" in found[lab.sandbox.metrics_url]
        assert all("Traceback" not in sentence for sentence in found.values())


class NoStatistics:
    """A reader of statistics that never answers, so that only the request itself speaks."""

    def statistics(self, server_id: str) -> tuple[()]:
        raise SourceError("not read")


def fault(url: str, config: ModelConfig, reader: FreshReader) -> str:
    server = Server("odd", url, None, control=True)
    control = Control(lambda: (server,), reader, lambda server_id: False)
    request = InferenceRequest("odd", config.name, "", (floats("INPUT_A", 1.0), floats("INPUT_B", 1.0)), 2.0)
    work = test_request_work(NoStatistics(), config, request)
    record = control.perform(Action(ActionKind.TEST_REQUEST, "odd", config.name), work, by=LOCAL).wait(20)
    assert record.outcome is Outcome.FAILED
    return record.sentence


def test_a_restricted_server_is_called_restricted_and_the_header_opens_everything(tmp_path: Path) -> None:
    apis = "inference,model-repository,statistics,model-config"
    restricted = (
        f"--http-restricted-api={apis}:admin-key=open",
        "--grpc-restricted-protocol=inference:admin-key=open",
    )
    has_grpc = find_grpc(tmp_path)
    with started_lab("batch_add_model", extra_args=restricted) as lab:
        tensors = (floats("INPUT_A", 1.5), floats("INPUT_B", 2.0))
        record = lab.do(ActionKind.UNLOAD, "batch_add_model")
        assert record.outcome is Outcome.REFUSED
        assert (
            "restricts its model-repository API (HTTP 403, it expects the header admin-key)"
            in record.sentence
        )
        lab.server = replace(lab.server, headers={"admin-key": "open"})
        config = lab.reader.config("lab", "batch_add_model")
        assert answer(lab.ask("batch_add_model", *tensors)).reply.outputs[0].array.tolist() == [[3.5]]
        if has_grpc:
            found = answer(lab.ask("batch_add_model", *tensors, way=Way.GRPC))
            assert found.reply.outputs[0].array.tolist() == [[3.5]]
            without = InferenceRequest("lab", "batch_add_model", "", tensors, way=Way.GRPC)
            with pytest.raises(Restricted, match="it expects the header triton-grpc-protocol-admin-key"):
                list(send_one(replace(lab.server, headers={}), config, without))
        assert lab.do(ActionKind.UNLOAD, "batch_add_model").outcome is Outcome.DONE
        assert lab.do(ActionKind.LOAD, "batch_add_model").outcome is Outcome.DONE
        lab.server = replace(lab.server, headers={})
        work = test_request_work(
            NoStatistics(), config, InferenceRequest("lab", "batch_add_model", "", tensors)
        )
        record = lab.control.perform(
            Action(ActionKind.TEST_REQUEST, "lab", "batch_add_model"), work, by=LOCAL
        ).wait(10)
        assert record.outcome is Outcome.FAILED
        assert "restricts its inference API (HTTP 403, it expects the header admin-key)" in record.sentence
        assert "open" not in str(record)
