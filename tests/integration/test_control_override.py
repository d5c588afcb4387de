"""Overrides on the real server: what is sent, what runs afterwards, and that the files' config comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.request import urlopen

import pytest

from control.log_level import LogLevel, due_at, log_level_action, read_log_level
from control.override import Override, QueuePolicy, override_config
from history.config_book import ConfigBook
from history.drift import Drifts, KnownFrom
from history.events import EventLog
from sandbox.repository import FAULT_MODELS
from telemetry.access import LOCAL
from telemetry.actions import Action, ActionKind, Outcome, Record
from telemetry.config_diff import durable_lines
from telemetry.facts import ModelState
from tests.integration.write_lab import LIMIT_SECONDS, Lab, LabFiles, answer, floats, started_lab

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
    assert (record.outcome, record.sent) == (Outcome.DONE, False)
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


def test_drift_is_seen_where_the_file_can_be_read_also_when_somebody_else_overrode(lab: Lab) -> None:
    revision = iter(range(1000))
    files = LabFiles(lab.sandbox)
    drifts = Drifts(ConfigBook(), EventLog(), lab.control.records, files.config_text, lambda: next(revision))
    names = sorted(entry.name for entry in lab.reader.index("lab") if entry.state is ModelState.READY)
    assert MODEL in names and "ensemble_pipeline" in names
    for name in names:
        assert drifts.of("lab", name, lab.reader.config("lab", name)) is None, name
    disk = lab.reader.config("lab", MODEL)
    wanted = override_config(disk, Override(max_queue_delay_us=4000, instances=2, response_cache=True))
    body = json.dumps({"parameters": {"config": json.dumps(wanted)}}).encode()
    with urlopen(f"{lab.sandbox.http_url}/v2/repository/models/{MODEL}/load", body, LIMIT_SECONDS):
        drift = drifts.of("lab", MODEL, lab.reader.config("lab", MODEL))
    assert drift is not None and drift.source is KnownFrom.FILE
    assert {change.path: (change.before, change.after) for change in drift.changes} == {
        "dynamic_batching.max_queue_delay_microseconds": (500, 4000),
        "instance_group": ([], [{"count": 2, "kind": "KIND_CPU"}]),
        "response_cache.enable": (False, True),
    }
    assert lab.do(ActionKind.REVERT, MODEL).outcome is Outcome.DONE
    assert drifts.of("lab", MODEL, lab.reader.config("lab", MODEL)) is None


def test_the_lines_for_the_file_make_the_change_last(lab: Lab) -> None:
    disk = lab.reader.config("lab", MODEL)
    changes = Override(max_batch_size=6, preferred_batch_sizes=(3, 6), instances=2, preserve_ordering=True)
    lines = durable_lines(disk.raw, override_config(disk, changes))
    file = lab.sandbox.repository / MODEL / "config.pbtxt"
    text = before = file.read_text()
    for name in ("dynamic_batching", "max_batch_size"):
        text = re.sub(rf"^{name}(?:: \d+| \{{.*?^\}})\n", "", text, flags=re.DOTALL | re.MULTILINE)
    file.write_text(f"{text}\n{lines}\n")
    try:
        assert lab.do(ActionKind.RELOAD, MODEL).outcome is Outcome.DONE
        running = lab.reader.config("lab", MODEL)
        assert (running.max_batch_size, running.preferred_batch_sizes) == (6, (3, 6))
        assert (running.instance_count, running.max_queue_delay_us) == (2, 500)
        assert running.raw["dynamic_batching"]["preserve_ordering"] is True
    finally:
        file.write_text(before)
        assert lab.do(ActionKind.RELOAD, MODEL).outcome is Outcome.DONE
    assert lab.reader.config("lab", MODEL).raw == disk.raw


def test_a_log_level_is_set_and_set_back(lab: Lab) -> None:
    before = read_log_level(lab.server)
    wanted = LogLevel(before.info, before.warning, before.error, before.verbose + 1)
    record = lab.control.perform(log_level_action("lab", wanted, 0.001), by=LOCAL).wait(LIMIT_SECONDS)
    assert record.outcome is Outcome.DONE, record
    assert record.sentence == f"lab now logs {wanted.words()}, for 0.001 minutes, then as before"
    assert read_log_level(lab.server) == wanted
    due = lab.control.log_returns.due("lab")
    assert due is not None
    lab.control.log_returns.step(due_at(due))
    assert read_log_level(lab.server) == before
    newest = lab.control.records("lab")[0]
    assert (newest.action.kind, newest.action.who) == (ActionKind.LOG_LEVEL, "tritonscope")


def test_a_series_of_loads_shows_what_went_well_and_what_did_not(lab: Lab) -> None:
    for number in (1, 2):
        lab.sandbox.add_model(
            FAULT_MODELS["slow_load"], name=f"late_{number}", parameters={"load_seconds": "1"}
        )
    models = ("late_1", "no_such_model", "late_2")
    actions = [Action(ActionKind.LOAD, "lab", model) for model in models]
    series = lab.control.several.begin("load", actions, by=LOCAL, token="several")
    assert series.wait(LIMIT_SECONDS)
    assert series.sentence() == "2 of 3 done, 1 not"
    assert [lab.sent(model, "load") for model in models] == [1, 1, 1]
    sentences = [step.record.sentence for step in series.steps if step.record is not None]
    assert "the repository has no model of that name" in sentences[1]


def test_a_model_that_does_not_come_back_is_told(lab: Lab) -> None:
    lab.sandbox.add_model(FAULT_MODELS["slow_load"], name="broken_later", parameters={"load_seconds": "0"})
    assert lab.do(ActionKind.LOAD, "broken_later").outcome is Outcome.DONE
    (lab.sandbox.repository / "broken_later" / "1" / "model.py").write_text("raise ValueError('gone')\n")
    record = lab.do(ActionKind.REVERT, "broken_later")
    assert record.outcome is Outcome.FAILED
    assert record.sentence.startswith("broken_later was unloaded, and is not loaded again: ")
    assert record.sentence.endswith("It serves nothing now")
    assert lab.states("broken_later") == {ModelState.UNAVAILABLE}
