"""Overrides on the real server: what is sent, what runs afterwards, and that the files' config comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from control.override import Override, QueuePolicy, override_config
from sandbox.repository import FAULT_MODELS
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome, Record
from telemetry.facts import ModelState
from tests.integration.write_lab import LIMIT_SECONDS, Lab, answer, floats, started_lab

pytestmark = pytest.mark.integration
MODEL = "batch_add_model"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with started_lab(MODEL, "ensemble_pipeline") as started:
        yield started


def load_with(lab: Lab, model: str, config: Mapping[str, Any]) -> Record:
    action = Action(ActionKind.OVERRIDE, "lab", model, config=config)
    return lab.control.perform(action, by=LOCAL).wait(LIMIT_SECONDS)


def test_the_model_runs_with_the_override_and_reverting_brings_back_its_files(lab: Lab) -> None:
    disk = lab.reader.config("lab", MODEL)
    changes = Override(
        max_batch_size=8, max_queue_delay_us=1500, instances=2, queue_policy=QueuePolicy(max_queue_size=50)
    )
    record = load_with(lab, MODEL, override_config(disk, changes))
    assert record.outcome is Outcome.DONE, record
    assert record.sentence.startswith(f"{MODEL} runs with ")
    assert "max_batch_size 8 (was 4)" in record.sentence
    assert "it is lost when the model is unloaded or the server restarts" in record.sentence
    assert "Not as asked for" not in record.sentence
    running = lab.reader.config("lab", MODEL)
    assert (running.max_batch_size, running.max_queue_delay_us, running.instance_count) == (8, 1500, 2)
    assert running.max_queue_size == 50
    # An override replaces: what was not changed was sent along.
    assert running.inputs == disk.inputs
    assert record.action.parameters["changes"]["max_batch_size"] == {"before": 4, "after": 8}  # type: ignore[index]
    answer(lab.ask(MODEL, floats("INPUT_A", 1.0), floats("INPUT_B", 2.0)))

    # Load again keeps the override: no file has changed.
    record = lab.do(ActionKind.RELOAD, MODEL)
    assert record.outcome is Outcome.DONE
    assert lab.reader.config("lab", MODEL).max_batch_size == 8

    record = lab.do(ActionKind.REVERT, MODEL)
    assert record.outcome is Outcome.DONE, record
    assert record.sentence.startswith(f"{MODEL} runs from its files again (")
    assert "max_batch_size 4 (was 8)" in record.sentence
    assert "it was not served for" in record.sentence
    assert lab.reader.config("lab", MODEL).raw == disk.raw


def test_batching_is_really_off_without_its_block(lab: Lab) -> None:
    disk = lab.reader.config("lab", MODEL)
    record = load_with(lab, MODEL, override_config(disk, Override(dynamic_batching=False)))
    assert record.outcome is Outcome.DONE, record
    assert not lab.reader.config("lab", MODEL).dynamic_batching
    assert lab.do(ActionKind.REVERT, MODEL).outcome is Outcome.DONE
    assert lab.reader.config("lab", MODEL).dynamic_batching


def test_reverting_a_step_waits_for_its_ensemble(lab: Lab) -> None:
    disk = lab.reader.config("lab", "label_head")
    record = load_with(lab, "label_head", override_config(disk, Override(instances=2)))
    assert record.outcome is Outcome.DONE, record
    record = lab.do(ActionKind.REVERT, "label_head")
    assert record.outcome is Outcome.DONE, record
    assert "Not ready again" not in record.sentence
    assert lab.states("ensemble_pipeline") == {ModelState.READY}
    assert lab.reader.config("lab", "label_head").raw == disk.raw


def test_code_in_an_override_is_refused_without_a_byte_sent(lab: Lab) -> None:
    disk = lab.reader.config("lab", MODEL)
    loads = lab.sent(MODEL, "load")
    smuggled = (
        {**disk.raw, "file:1/model.py": "cHJpbnQoMSk="},
        {**disk.raw, "default_model_filename": "other.py"},
        {**disk.raw, "parameters": {"EXECUTION_ENV_PATH": {"string_value": "/tmp/env"}}},
        {"max_batch_size": 8},
    )
    for config in smuggled:
        record = load_with(lab, MODEL, config)
        assert (record.outcome, record.sent) == (Outcome.REFUSED, False), record
    record = load_with(lab, MODEL, disk.raw)
    assert record.sentence == f"{MODEL} already runs with this configuration. Nothing was sent."
    record = load_with(lab, "not_there", disk.raw)
    assert record.outcome is Outcome.REFUSED
    assert lab.sent(MODEL, "load") == loads
    # The values of a parameter are in no record.
    assert "EXECUTION_ENV_PATH" not in json.dumps(
        [dict(one.action.parameters) for one in lab.control.records()]
    ).replace("parameters.EXECUTION_ENV_PATH", "")


def test_an_override_that_does_not_load_leaves_the_old_configuration(lab: Lab) -> None:
    disk = lab.reader.config("lab", MODEL)
    wanted = override_config(disk, Override(max_batch_size=16))
    wanted["instance_group"] = [{**wanted["instance_group"][0], "kind": "KIND_GPU", "gpus": [7]}]
    record = load_with(lab, MODEL, wanted)
    assert record.outcome is Outcome.FAILED, record
    assert record.sentence.endswith("The version loaded before stays READY and serves on")
    assert lab.reader.config("lab", MODEL).max_batch_size == 4


def test_a_model_that_does_not_come_back_is_told(lab: Lab) -> None:
    lab.sandbox.add_model(FAULT_MODELS["slow_load"], name="broken_later", parameters={"load_seconds": "0"})
    assert lab.do(ActionKind.LOAD, "broken_later").outcome is Outcome.DONE
    (lab.sandbox.repository / "broken_later" / "1" / "model.py").write_text("raise ValueError('gone')\n")
    record = lab.do(ActionKind.REVERT, "broken_later")
    assert record.outcome is Outcome.FAILED
    assert record.sentence.startswith("broken_later was unloaded, and is not loaded again: ")
    assert record.sentence.endswith("It serves nothing now")
    assert lab.states("broken_later") == {ModelState.UNAVAILABLE}
