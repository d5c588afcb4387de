"""Memory of Python models by process accounting, on the real server: sizes, loads, growth over reloads."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.exporter_families import Options, families
from collectors.exporter_http import page_text
from collectors.exporter_reading import Target
from collectors.weights import WeightReader
from history.memory_changes import MemoryChange, reload_growth
from runtime import Runtime
from sandbox import Sandbox, SandboxOptions
from sandbox.repository import FAULT_MODELS
from settings import load_settings
from signals.memory import DeviceMemory, ModelHolding
from signals.memory_sources import ServerMemoryInputs, devices_of
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind
from telemetry.identity import Server
from telemetry.memory import CPU, MemorySource, ServerProcesses
from telemetry.scrape import Source
from tests.integration.conftest import Until

pytestmark = pytest.mark.integration

SMALL_BYTES, LARGE_BYTES = 200_000_000, 500_000_000
HELD = {"small": SMALL_BYTES, "large": LARGE_BYTES}
MORE_BYTES = 50_000_000


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """An empty model beside two of known size, and one that keeps more after each load."""
    options = SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=("batch_add_model",), simulated_gpu=False
    )
    with Sandbox(options) as server:
        for name, size in HELD.items():
            server.add_model(FAULT_MODELS["holds_memory"], name=name, parameters={"held_bytes": str(size)})
        counter = tmp_path_factory.mktemp("loads") / "loads"
        server.add_model(
            FAULT_MODELS["holds_memory"],
            name="grows",
            parameters={
                "held_bytes": "20000000",
                "loads_file": str(counter),
                "more_bytes_per_load": str(MORE_BYTES),
            },
        )
        yield server


@pytest.fixture(scope="module")
def process(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """The app's process, watching the sandbox as its own."""
    state = tmp_path_factory.mktemp("state") / "state.json"
    state.write_text(
        json.dumps(
            {
                "server_id": sandbox.server_id,
                "http_url": sandbox.http_url,
                "grpc_url": sandbox.grpc_url,
                "metrics_url": sandbox.metrics_url,
            }
        )
    )
    made = Runtime(
        load_settings({"TRITONSCOPE_SANDBOX_STATE": str(state), "TRITONSCOPE_REFRESH_SECONDS": "1"})
    )
    made.start()
    yield made
    made.stop()


def act(process: Runtime, kind: ActionKind, model: str) -> None:
    assert process.control is not None
    record = process.control.perform(Action(kind, "sandbox", model), by=LOCAL).wait(60.0)
    assert record.outcome is not None and record.outcome.value == "done", record


def have_held(process: Runtime, until: Until) -> None:
    """Both models of known size were loaded by this process, once: any test may be the first one."""
    until(lambda: process.inventory().of_server("sandbox") and process.report().host, 30)
    until(lambda: process.control is not None and process.is_sandbox("sandbox"), 30)
    for name in HELD:
        if not process.memory.changes("sandbox", name):
            act(process, ActionKind.LOAD, name)
            until(functools.partial(process.memory.changes, "sandbox", name), 30)


def unloaded(process: Runtime, until: Until) -> MemoryChange:
    """What the one unload of the small model did."""
    have_held(process, until)

    def seen() -> list[MemoryChange]:
        return [one for one in process.memory.changes("sandbox", "small") if one.mark.unload]

    if not seen():
        act(process, ActionKind.UNLOAD, "small")
    return until(seen, 30)[0]


def have_grown(process: Runtime, until: Until) -> None:
    """Three loads and unloads of the model that keeps more each time."""
    have_held(process, until)
    for number in range(_loads(process), 3):
        act(process, ActionKind.LOAD, "grows")
        until(lambda least=number: _loads(process) > least, 30)
        act(process, ActionKind.UNLOAD, "grows")


def machine(process: Runtime) -> DeviceMemory:
    scrape = process.ring.last("sandbox", Source.PROCESSES)
    assert scrape is not None and isinstance(scrape.payload, ServerProcesses)
    host = next(iter(process.report().host)).signals
    inputs = ServerMemoryInputs(
        "sandbox",
        models=process.inventory().of_server("sandbox"),
        host=(host.number("memory_used_bytes"), host.number("memory_total_bytes")),
        processes=scrape.payload,
        processes_at=scrape.at,
        changes=process.memory.changes("sandbox"),
    )
    return next(one for one in devices_of(inputs) if one.device == CPU)


def held_by(process: Runtime, *names: str) -> dict[str, ModelHolding]:
    found = {one.key.name: one for one in machine(process).models}
    return found if set(names) <= set(found) else {}


def test_two_models_of_known_size_are_measured_within_a_tenth(process: Runtime, until: Until) -> None:
    have_held(process, until)
    found = until(lambda: held_by(process, "batch_add_model", *HELD), 30)
    empty = found["batch_add_model"].shown.bytes
    for name, size in HELD.items():
        figure = found[name].shown
        print(f"{name}: {size / 1e6:g} MB held, {figure.bytes / 1e6:.1f} MB by its process, "
              f"{(figure.bytes - empty) / 1e6:.1f} MB above an empty one")  # fmt: skip
        assert figure.source is MemorySource.PROCESS
        # The whole process with its interpreter, and what it holds above a process without a load of its own.
        assert figure.bytes == pytest.approx(size, rel=0.10)
        assert figure.bytes - empty == pytest.approx(size, rel=0.02)
    whole = machine(process)
    assert whole.used_bytes is not None and whole.unattributed_bytes is not None
    # What is in use beyond the models and tritonserver is shown as what it is: nobody's.
    assert whole.attributed_bytes > SMALL_BYTES + LARGE_BYTES
    assert whole.unattributed_bytes == pytest.approx(whole.used_bytes - whole.attributed_bytes)


def test_before_and_after_of_a_load_and_of_an_unload(process: Runtime, until: Until) -> None:
    change = unloaded(process, until)
    loaded = process.memory.changes("sandbox", "small")[0]
    assert loaded.mark.ours and loaded.mark.what == "load"
    assert loaded.held[CPU].before is None
    assert loaded.held[CPU].after == pytest.approx(SMALL_BYTES, rel=0.10)
    # Two readings of one process: a few pages may have come or gone between them.
    assert change.held[CPU].before == pytest.approx(loaded.held[CPU].after, rel=0.01)
    assert change.held[CPU].after is None


def test_the_record_of_an_action_holds_memory_before_and_after(process: Runtime, until: Until) -> None:
    unloaded(process, until)
    assert process.control is not None
    unload = process.control.records("sandbox", "small")[0]
    rows = {one.where: (one.before_bytes, one.after_bytes) for one in unload.memory}
    before, after = rows["small itself on CPU"]
    assert before == pytest.approx(SMALL_BYTES, rel=0.10) and after is None


def test_growth_over_reloads_is_found(process: Runtime, until: Until) -> None:
    have_grown(process, until)
    (found,) = reload_growth(process.memory.changes("sandbox"))
    assert (found.model, found.device, found.loads) == ("grows", CPU, 3)
    assert found.grown_bytes == pytest.approx(2 * MORE_BYTES, rel=0.05)


def test_what_loads_did_is_known_after_a_restart_of_the_app(process: Runtime, until: Until) -> None:
    """The journal brings the old actions back; none of them gets the memory of now as its "after"."""
    unloaded(process, until)
    have_grown(process, until)
    # Whoever unloaded it last is settled too: three loads, three unloads.
    before = until(lambda: _changed(process, 6), 30)
    assert process.settings.journal.path is not None
    process.stop()
    again = Runtime(process.settings)
    again.start()
    try:
        assert again.memory.changes("sandbox") == before
        until(lambda: again.records("sandbox") and again.report().host, 30)
        settled = again.now() + 8.0
        until(lambda: again.now() > settled, 30)
        assert again.memory.changes("sandbox") == before
        (found,) = reload_growth(again.memory.changes("sandbox"))
        assert (found.model, found.loads) == ("grows", 3)
    finally:
        again.stop()
        process.start()


def _changed(process: Runtime, count: int) -> tuple[MemoryChange, ...]:
    """All changes, once so many of the model `grows` are there."""
    done = process.memory.changes("sandbox", "grows")
    return process.memory.changes("sandbox") if len(done) == count else ()


def _loads(process: Runtime) -> int:
    return sum(not one.mark.unload for one in process.memory.changes("sandbox", "grows"))


def test_the_exporter_publishes_what_processes_hold(sandbox: Sandbox, process: Runtime, until: Until) -> None:
    have_held(process, until)
    target = Target(Server("lab", sandbox.http_url, sandbox.metrics_url))
    text = page_text(families(target.read(5.0), Options())).decode()
    target.close()
    lines = [line for line in text.splitlines() if line.startswith("tritonscope_model_memory_bytes{")]
    large = next(line for line in lines if 'model="large"' in line)
    assert 'source="process"' in large and 'kind="CPU"' in large and 'version="1"' in large
    assert float(large.rpartition(" ")[2]) == pytest.approx(LARGE_BYTES, rel=0.10)
    assert 'tritonscope_exporter_source_success{instance="' in text and 'source="processes"} 1.0' in text


def test_a_server_elsewhere_has_no_processes_here() -> None:
    target = Target(Server("far", "http://192.0.2.1:8000", None))
    assert target.read(0.5).processes is None
    target.close()


def test_weights_are_the_files_of_a_version_that_are_no_code(tmp_path: Path) -> None:
    version = tmp_path / "models" / "net" / "3"
    (version / "parts").mkdir(parents=True)
    (version / "model.onnx").write_bytes(b"w" * 1000)
    (version / "parts" / "rest.bin").write_bytes(b"w" * 500)
    (version / "model.py").write_text("code")
    (tmp_path / "models" / "code_only" / "1").mkdir(parents=True)
    (tmp_path / "models" / "code_only" / "1" / "model.py").write_text("code")
    arguments = ["tritonserver", f"--model-repository={tmp_path / 'models'}"]
    assert WeightReader().read(os.getpid(), arguments) == {("net", "3"): 1500}
