"""What fits, and how many instances a rate needs: the Capacity page on saved answers."""

from __future__ import annotations

import json
import re
import time

from fake_runtime import CASES, runtime_of, small_repository, text

from telemetry.memory import ServerProcesses, StubProcess
from telemetry.scrape import Scrape, Source

GIB = 2**30


def one_gpu():
    """One card of 16 GiB, 9 in use; a Python model with 2 instances holds 4 GiB of it."""
    page = "\n".join(
        line
        for line in text(CASES / "e07_idle_gpu_context.prom").splitlines()
        if "gpu_uuid" not in line or 'gpu_uuid="GPU-aaaa"' in line
    )
    config = json.loads(text(CASES / "b01.config.json"))
    config |= {
        "name": "alpha",
        "backend": "python",
        "instance_group": [{"name": "a", "kind": "KIND_GPU", "count": 2, "gpus": [0]}],
    }
    index = json.dumps([{"name": "alpha", "version": "1", "state": "READY"}])
    process = runtime_of([page + "\n"] * 2, indexes=[index], configs=[json.dumps(config)])
    uuid = process.report().gpus[0].key.uuid
    stubs = tuple(
        StubProcess(number, "alpha", "1", f"alpha_0_{number}", 50 * 2**20, {uuid: 2 * GIB})
        for number in range(2)
    )
    server = process.servers[0].id
    process.accept(
        Scrape(server, Source.PROCESSES, time.time() - 1, 0.01, payload=ServerProcesses(1, stubs=stubs))
    )
    return process


def test_a_second_instance_is_the_share_of_one_and_its_range(open_page) -> None:
    page = open_page(one_gpu(), "capacity")
    free = page.words("header")
    assert "are free: GPU" in free
    second = page.words("second")
    assert "fits 1 instance more of alpha v1" in second
    assert "Needs 2 GiB to 2.4 GiB" in second
    assert "Basis: 4 GiB (process, high confidence) / 2." in second
    held = page.words("held")
    assert "alpha v1 4 GiB process 2 processes, each with its CUDA context, high confidence · " in held
    assert "s old" in held


def test_another_model_by_its_parameters(open_page) -> None:
    page = open_page(one_gpu(), "capacity")
    # 110 million parameters in FP16 are 220 MB.
    assert "1 instance of 210 MiB weights" in page.words("another")
    assert page.words("another").startswith("fits")
    assert "weights, up to 20% for batches" in page.words("another")


def test_the_budget_is_filled_with_what_was_measured(open_page) -> None:
    page = open_page(one_gpu(), "capacity")
    words = page.words("budget")
    assert "fits 1 model together Needs 4 GiB to 4.8 GiB, 11 GiB are available" in words
    assert "framework 477 MiB" in words
    # 9 GiB are in use, 4 of them the model's.
    assert "other use 4.53 GiB" in words
    assert "available 11 GiB total - framework - other use" in words


def test_a_rate_without_traffic_of_two_sizes_is_not_answered(open_page) -> None:
    page = open_page(one_gpu(), "capacity")
    assert "not known yet" in page.words("needed")
    assert "16 at once, each 20 ms: 800 /s." in page.words("qps")


def test_instances_for_a_rate_with_what_is_assumed(open_page) -> None:
    page = open_page(small_repository(), "capacity")
    words = page.words("needed")
    assert words.startswith("1 instance 100 /s at a queue of 5 ms (there are 2 now)")
    assert "At least 1 instance: even with full batches fewer cannot serve this rate." in words
    assert "Assumed: random arrivals" in words and "delay 2 ms, preferred sizes 4, 8" in words


def test_of_a_silent_server_the_age_is_said_first(open_page) -> None:
    page = text(CASES / "e07_idle_gpu_context.prom")
    words = open_page(runtime_of([page] * 2, down=True), "capacity").words("header")
    assert re.match(r"3\d s old: 7 GiB of 16 GiB were free", words), words
    assert "its server is silent" in words


def test_without_memory_figures_nothing_is_said_to_fit(open_page) -> None:
    page = open_page(runtime_of(down=True), "capacity")
    assert page.words("header").startswith("Nothing is known about any memory yet.")
    assert "second" not in page.panels
