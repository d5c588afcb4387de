"""Overrides: what is made of the running configuration, what may differ from it, and what is refused."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from collectors.config import parse_config
from control.override import (
    GroupWish,
    Override,
    QueuePolicy,
    VersionPolicy,
    check_override,
    override_config,
)
from telemetry.config_diff import FieldChange, changes_between, durable_lines, in_words, journal_parameters
from telemetry.errors import InvalidRequest

RECORDED = Path(__file__).parents[1] / "fixtures" / "small_repo" / "config_fast_add.json"


@pytest.fixture
def running() -> dict[str, Any]:
    """The effective configuration of a Python model with dynamic batching, max_batch_size 8."""
    config: dict[str, Any] = json.loads(RECORDED.read_text())
    config["dynamic_batching"] = {
        "preferred_batch_size": [2, 4, 8],
        "max_queue_delay_microseconds": 500,
        "preserve_ordering": False,
        "priority_levels": 0,
        "default_priority_level": 0,
        "priority_queue_policy": {},
    }
    return config


def test_the_override_is_the_whole_configuration_with_the_changes(running: dict[str, Any]) -> None:
    before = deepcopy(running)
    wanted = override_config(parse_config(running), Override(max_batch_size=4, max_queue_delay_us=2000))
    assert running == before
    assert wanted["max_batch_size"] == 4
    assert wanted["dynamic_batching"]["max_queue_delay_microseconds"] == 2000
    # 8 is above the new maximum: Triton would refuse the model.
    assert wanted["dynamic_batching"]["preferred_batch_size"] == [2, 4]
    filled = running | {"dynamic_batching": {"preferred_batch_size": [8]}}
    assert override_config(filled, Override(max_batch_size=16))["dynamic_batching"] == {
        "preferred_batch_size": []
    }
    same = set(running) - {"max_batch_size", "dynamic_batching"}
    assert {key: wanted[key] for key in same} == {key: running[key] for key in same}


def test_batching_goes_off_and_on_and_instances_change(running: dict[str, Any]) -> None:
    off = override_config(running, Override(dynamic_batching=False, instances=3))
    assert "dynamic_batching" not in off
    assert [group["count"] for group in off["instance_group"]] == [3]
    on = override_config(
        off, Override(preferred_batch_sizes=(4,), queue_policy=QueuePolicy(max_queue_size=9))
    )
    assert on["dynamic_batching"]["preferred_batch_size"] == [4]
    assert on["dynamic_batching"]["default_queue_policy"]["max_queue_size"] == 9
    groups = override_config(running, Override(instance_groups=(GroupWish(1, "KIND_CPU"), GroupWish(2))))
    assert groups["instance_group"][0]["name"] == running["instance_group"][0]["name"]
    assert groups["instance_group"][1] == {"kind": "KIND_AUTO", "count": 2, "gpus": []}
    cached = override_config(running, Override(response_cache=True, version_policy=VersionPolicy(latest=2)))
    assert cached["response_cache"] == {"enable": True}
    assert cached["version_policy"] == {"latest": {"num_versions": 2}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (Override(preferred_batch_sizes=(2, 16)), "A preferred batch size of 16 is above max_batch_size 8"),
        (Override(instances=0), "instance_group count must be 1 to 256, it is 0"),
        (Override(max_queue_delay_us=-1), "max_queue_delay_microseconds must be 0 to 60,000,000, it is -1"),
        (Override(queue_policy=QueuePolicy(max_queue_size=-1)), "max_queue_size must be 0 to"),
        (Override(queue_policy=QueuePolicy("DROP")), "timeout_action must be one of REJECT, DELAY"),
        (Override(max_batch_size=0), "max_batch_size cannot go from 8 to 0"),
        (Override(max_batch_size=-4), "max_batch_size must be 0 to 65,536, it is -4"),
        (Override(instance_groups=(GroupWish(1, "KIND_CPU", (0,)),)), "KIND_CPU takes no list of GPUs"),
        (Override(instance_groups=(GroupWish(1, "KIND_GPU", (1, 1)),)), "names a GPU twice"),
        (Override(version_policy=VersionPolicy(latest=0)), "num_versions must be 1 to"),
        (Override(dynamic_batching=False, max_queue_delay_us=5), "leave one of them out"),
        (Override(max_batch_size=True), "max_batch_size must be a whole number, it is True"),
        (Override(max_batch_size=4.0), "max_batch_size must be a whole number, it is 4.0"),  # type: ignore[arg-type]
    ],
)
def test_what_triton_would_refuse_is_said_before(
    running: dict[str, Any], changes: Override, said: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        override_config(running, changes)
    assert said in refusal.value.sentence


def test_fields_that_do_not_apply_are_refused(running: dict[str, Any]) -> None:
    sequence = running | {"sequence_batching": {"direct": {}}}
    del sequence["dynamic_batching"]
    with pytest.raises(InvalidRequest, match="does not apply to a model that keeps sequences"):
        override_config(sequence, Override(max_queue_delay_us=5))
    ensemble = running | {"platform": "ensemble", "instance_group": []}
    del ensemble["dynamic_batching"]
    for changes in (Override(instances=2), Override(dynamic_batching=True)):
        with pytest.raises(InvalidRequest, match="does not apply to an ensemble"):
            override_config(ensemble, changes)
    with pytest.raises(InvalidRequest, match="does not work with decoupled models"):
        override_config(
            running | {"model_transaction_policy": {"decoupled": True}}, Override(response_cache=True)
        )
    unbatched = running | {"max_batch_size": 0}
    with pytest.raises(InvalidRequest, match="this model takes no batches"):
        override_config(unbatched, Override(preferred_batch_sizes=(2,)))


SMUGGLED: tuple[tuple[str, Any, str], ...] = (
    ("file:1/model.py", "aW1wb3J0IG9z", "file:1/model.py"),
    ("backend", "python2", "backend"),
    ("platform", "tensorrt_plan", "platform"),
    ("runtime", "../../evil.so", "runtime"),
    ("default_model_filename", "../../../tmp/model.py", "default_model_filename"),
    ("parameters", {"EXECUTION_ENV_PATH": {"string_value": "/tmp/env.tar.gz"}}, "parameters"),
    ("model_warmup", [{"name": "x", "input_data_file": "/etc/passwd"}], "model_warmup"),
    ("cc_model_filenames", {"7.5": "other"}, "cc_model_filenames"),
    ("metric_tags", {"a": "b"}, "metric_tags"),
    ("model_operations", {"op_library_filename": ["/tmp/evil.so"]}, "model_operations"),
    ("model_repository_agents", {"agents": [{"name": "x"}]}, "model_repository_agents"),
    ("optimization", {"execution_accelerators": {}}, "optimization"),
    ("never_heard_of", 1, "never_heard_of"),
)


@pytest.mark.parametrize(("key", "value", "named"), SMUGGLED)
def test_whatever_can_mean_code_is_refused_outside_the_sandbox(
    running: dict[str, Any], key: str, value: Any, named: str
) -> None:
    wanted = override_config(running, Override(max_batch_size=4)) | {key: value}
    with pytest.raises(InvalidRequest) as refusal:
        check_override(running, wanted)
    assert f"may not change {named}" in refusal.value.sentence
    check_override(running, wanted, code_allowed=True)


def _into(config: dict[str, Any], *path: str | int, value: Any) -> dict[str, Any]:
    changed = deepcopy(config)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("instance_group", 0, "host_policy"), "evil"),
        (("instance_group", 0, "name"), "other"),
        (("instance_group", 0, "file:x"), "code"),
        (("instance_group", 0, "secondary_devices"), [{"kind": "KIND_NVDLA"}]),
        (("dynamic_batching", "priority_queue_policy"), {"1": {"max_queue_size": 1}}),
        (("dynamic_batching", "file:1/model.py"), "code"),
        (("dynamic_batching", "default_queue_policy"), {"parameters": {"a": 1}}),
        (("response_cache",), {"enable": True, "file:1/model.py": "code"}),
        (("version_policy", "latest"), {"num_versions": 1, "backend": "x"}),
        (("version_policy",), {"latest": {"num_versions": 1}, "all": {}}),
        (("version_policy",), {"backend": {}}),
        (("input", 0, "dims"), [1]),
        (("optimization", "gather_kernel_buffer_threshold"), False),
    ],
)
def test_hidden_in_a_block_it_is_refused_too(
    running: dict[str, Any], path: tuple[str | int, ...], value: Any
) -> None:
    with pytest.raises(InvalidRequest):
        check_override(running, _into(running, *path, value=value))


def test_a_new_group_or_block_holds_nothing_but_what_may_change(running: dict[str, Any]) -> None:
    group = {"count": 1, "kind": "KIND_CPU", "gpus": [], "host_policy": "evil"}
    with pytest.raises(InvalidRequest, match=r"may not change instance_group\[1\]\.host_policy"):
        check_override(running, running | {"instance_group": [*running["instance_group"], group]})
    without = {key: value for key, value in running.items() if key != "instance_group"}
    with pytest.raises(InvalidRequest, match=r"may not change instance_group\[0\]\.host_policy"):
        check_override(without, without | {"instance_group": [group]})
    unbatched = {key: value for key, value in running.items() if key != "dynamic_batching"}
    with pytest.raises(InvalidRequest, match=r"dynamic_batching\.priority_levels"):
        check_override(unbatched, unbatched | {"dynamic_batching": {"priority_levels": 2}})


def test_another_name_or_no_json_is_refused_everywhere(running: dict[str, Any]) -> None:
    for allowed in (False, True):
        with pytest.raises(InvalidRequest, match="is called 'other' and the model 'fast_add'"):
            check_override(running, running | {"name": "other"}, code_allowed=allowed)
        with pytest.raises(InvalidRequest, match="cannot be written as JSON"):
            check_override(running, running | {"max_batch_size": float("nan")}, code_allowed=allowed)


def test_the_difference_in_words_in_lines_and_in_the_journal(running: dict[str, Any]) -> None:
    wanted = override_config(running, Override(max_batch_size=4, max_queue_delay_us=2000, instances=3))
    changes = changes_between(running, wanted)
    assert in_words(changes) == (
        "max_queue_delay_microseconds 2000 (was 500), preferred_batch_size 2, 4 (was 2, 4, 8), "
        "instances 3 (was 2), max_batch_size 4 (was 8)"
    )
    assert durable_lines(running, wanted) == (
        "dynamic_batching {\n"
        "  preferred_batch_size: [ 2, 4 ]\n"
        "  max_queue_delay_microseconds: 2000\n"
        "}\n"
        "instance_group [\n"
        "  { count: 3 kind: KIND_CPU }\n"
        "]\n"
        "max_batch_size: 4"
    )
    # What an earlier override changed must be written as well, or the file would not give what runs.
    drifted = (FieldChange("instance_group[0].count", 1, 2),)
    again = override_config(running, Override(max_batch_size=16))
    assert durable_lines(running, again, drifted) == (
        "max_batch_size: 16\ninstance_group [\n  { count: 2 kind: KIND_CPU }\n]"
    )
    assert durable_lines(running, running, drifted) == ""
    off = override_config(running, Override(dynamic_batching=False))
    assert durable_lines(running, off) == "# remove the block dynamic_batching"
    told = journal_parameters(running, wanted | {"parameters": {"token": {"string_value": "secret"}}})
    assert told["changes"]["max_batch_size"] == {"before": 8, "after": 4}
    assert told["other_fields"] == ["parameters.token"]
    assert "secret" not in json.dumps(told)
