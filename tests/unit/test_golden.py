"""Golden requests: one per model, for the replicas of a workload, without a retention; judged by cause."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from collectors.config import parse_config
from control.expected_answers import Mode, expected_of
from control.gated_reload import GATE, OR_REVERT, is_gated
from control.golden import GoldenRequests, judge
from control.inference import InferenceRequest, Reply, Tensor
from control.saved_requests import DAY_SECONDS, SavedRequest, SavedRequests, saved_from
from experiments.golden_prober import limited
from telemetry.access import GOLDEN, Right
from telemetry.actions import Action, ActionKind
from telemetry.errors import InvalidRequest
from telemetry.facts import ModelConfig
from telemetry.golden_choice import GoldenChoice, golden_of
from telemetry.identity import Server
from telemetry.located_yaml import read_located
from telemetry.probe import ProbeCause, ProbeResult
from triage.happenings import Probes


def floats(name: str, *values: float) -> Tensor:
    return Tensor(name, "FP32", np.array(values, dtype=np.float32))


def reply(*values: float, latency_us: float = 1000.0, error: str = "", name: str = "OUT") -> Reply:
    return Reply("alpha", "3", () if error else (floats(name, *values),), latency_us, error)


def golden(
    *values: float, server: str = "a1", mode: Mode = Mode.TOLERANCE, bound_us: float | None = None
) -> SavedRequest:
    request = InferenceRequest(server, "alpha", "3", (floats("IN", 1.0),))
    return saved_from(
        "golden", "x", (request,), expected_of((reply(*values),), mode, latency_bound_us=bound_us)
    )


def requests_in(folder: Path, workloads: dict[str, str] | None = None) -> GoldenRequests:
    return GoldenRequests(lambda _: folder, lambda server: (workloads or {}).get(server, ""))


def test_a_model_has_one_and_it_asks_for_no_version(tmp_path: Path) -> None:
    kept = requests_in(tmp_path)
    kept.keep(golden(1.0))
    kept.keep(golden(2.0))
    (only,) = kept.of("a1").values()
    assert only.version == ""
    assert only.expected is not None
    assert only.expected.replies[0][0].array is not None
    assert only.expected.replies[0][0].array.tolist() == [2.0]
    assert len(list(tmp_path.iterdir())) == 1
    kept.remove("a1", "alpha")
    assert kept.of("a1") == {}


def test_it_stands_for_the_replicas_of_its_workload_only(tmp_path: Path) -> None:
    kept = requests_in(tmp_path, {"a1": "vision", "a2": "vision", "b": "text"})
    kept.keep(golden(1.0))
    assert set(kept.of("a1")) == set(kept.of("a2")) == {"alpha"}
    assert kept.of("b") == {}
    assert kept.of("alone") == {}
    kept.keep(golden(5.0, server="a2"))
    assert kept.of("a1") == kept.of("a2")
    assert len(list(tmp_path.iterdir())) == 1


def test_no_retention_removes_it_and_that_of_saved_requests_does_not_reach_it(tmp_path: Path) -> None:
    kept = requests_in(tmp_path / "golden")
    SavedRequests(tmp_path / "golden", float("inf")).save(replace(golden(1.0), saved_at=0.0))
    saved = SavedRequests(tmp_path, 30)
    assert saved.expire(DAY_SECONDS * 365 * 100) == 0
    assert SavedRequests(tmp_path / "golden", float("inf")).expire(DAY_SECONDS * 365 * 100) == 0
    assert set(kept.of("a1")) == {"alpha"}


def test_a_file_that_changed_is_read_again_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    kept = requests_in(tmp_path)
    one = kept.keep(golden(1.0))
    assert set(kept.of("a1")) == {"alpha"}
    path = tmp_path / f"{one.id}.request.json"
    path.write_text("{")
    os.utime(path, (1.0, 1.0))
    assert kept.of("a1") == {}


def test_without_a_folder_or_an_expectation_nothing_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="golden: path"):
        GoldenRequests(lambda _: None).keep(golden(1.0))
    with pytest.raises(InvalidRequest, match="expected"):
        requests_in(tmp_path).keep(replace(golden(1.0), expected=None))
    assert not GoldenRequests(lambda _: None).kept_for("a1")


@pytest.mark.parametrize(
    ("given", "wanted", "cause"),
    [
        (reply(2.0), golden(2.0), None),
        (reply(2.5), golden(2.0), ProbeCause.WRONG_ANSWER),
        (reply(float("nan")), golden(2.0), ProbeCause.NOT_FINITE),
        (reply(float("inf")), golden(2.0, mode=Mode.SHAPE), ProbeCause.NOT_FINITE),
        (reply(float("nan")), golden(float("nan")), None),
        (reply(float("inf")), golden(float("nan")), ProbeCause.WRONG_ANSWER),
        (reply(1.0, 2.0), golden(2.0, mode=Mode.SHAPE), ProbeCause.WRONG_ANSWER),
        (reply(2.0, name="OTHER"), golden(2.0), ProbeCause.WRONG_ANSWER),
        (reply(2.0, latency_us=5001.0), golden(2.0, bound_us=5000.0), ProbeCause.SLOW),
        (reply(2.0, latency_us=4999.0), golden(2.0, bound_us=5000.0), None),
        (reply(error="something broke"), golden(2.0), ProbeCause.ERROR),
        (reply(error="Stub process 'alpha_0' is not healthy."), golden(2.0), ProbeCause.PROCESS_DEAD),
        (reply(error="Exceeds maximum queue size"), golden(2.0), ProbeCause.QUEUE_FULL),
        (
            reply(error="in ensemble 'alpha', Stub process 'beta_0' is not healthy."),
            golden(2.0),
            ProbeCause.ERROR,
        ),
    ],
)
def test_every_way_to_fail_has_its_cause(
    given: Reply, wanted: SavedRequest, cause: ProbeCause | None
) -> None:
    found = judge((given,), wanted)
    assert found.cause is cause
    assert found.version == "3"
    assert found.latency_us == given.latency_us
    assert found.result("a1", "alpha", 7.0).label == (str(cause) if cause else "ok")


def test_what_a_model_answered_is_not_told_further() -> None:
    found = judge((reply(1.5, 4.0, 7.25),), golden(1.5, 2.0, 3.0))
    assert found.sentence == "OUT differs in 2 of 3 values"


def test_models_under_a_limit_on_load_are_never_asked() -> None:
    def config(**raw: object) -> ModelConfig:
        return parse_config({"name": "alpha", **raw})

    server = Server("a1", "http://127.0.0.1:1", None)
    shared = {"resources": [{"name": "R1", "count": 4}]}
    assert limited(server, config(instance_group=[{"count": 1, "rate_limiter": {}}])) == ""
    assert "rate_limiter" in limited(server, config(instance_group=[{"rate_limiter": shared}]))
    assert "load_runs" in limited(replace(server, load_run_limit_per_second=5.0), None)


def test_the_app_may_only_send_requests_for_them() -> None:
    assert GOLDEN.on("a1") == {Right.VIEW, Right.INFER}


def test_a_reload_asks_for_the_gate_by_its_parameter_and_nothing_else_can() -> None:
    gate = {GATE: OR_REVERT}
    assert is_gated(Action(ActionKind.RELOAD, "a1", "alpha", parameters=gate))
    assert not is_gated(Action(ActionKind.UNLOAD, "a1", "alpha", parameters=gate))
    assert not is_gated(Action(ActionKind.RELOAD, "a1", "alpha"))


def test_since_goes_on_while_it_fails_and_begins_anew_after() -> None:
    probes = Probes()
    for at, ok in ((10.0, True), (20.0, False), (30.0, False), (40.0, True)):
        probes.report(ProbeResult("a1", "alpha", at, ok, "" if ok else "error"))
        if at == 30.0:
            assert probes.results()["a1", "alpha"].since == 20.0
    assert probes.results()["a1", "alpha"].since is None


def settings(text: str) -> tuple[GoldenChoice | None, list[str]]:
    root, _ = read_located(text, "tritonscope.yml")
    assert root is not None
    located = (root.entries or {})["golden"]
    choice, notices = golden_of("tritonscope.yml", located, Path("/etc/scope"))
    return choice, [f"{one.line}: {one.text}" for one in notices]


def test_settings_that_cannot_be_used_cost_themselves_only() -> None:
    assert settings("golden:\n  path: kept\n  every_minutes: 0\n") == (
        GoldenChoice(Path("/etc/scope/kept"), 0.0),
        [],
    )
    choice, notices = settings(
        "golden:\n  path: kept\n  every_minutes: 0.1\n  timeout_seconds: x\n  often: 1\n"
    )
    assert choice == GoldenChoice(Path("/etc/scope/kept"))
    assert sorted(notices) == [
        "3: golden: every_minutes must be 0 or from 1 to 1440, not 0.1: 5 is used",
        "4: golden: timeout_seconds must be from 0.1 to 300, not x: 10 is used",
        "5: golden: unknown setting often: not used",
    ]
    assert settings("golden:\n  every_minutes: 5\n") == (
        None,
        ["2: golden needs `path:`; no golden request is sent"],
    )
