"""Faults of one server: loading, batching, queues, failing and hanging models, ensembles."""

from __future__ import annotations

import json

from sandbox.laboratory.clients import address_of, infer
from sandbox.laboratory.lab import Lab
from sandbox.laboratory.model_files import Batching, Ensemble, Model
from sandbox.laboratory.situation import Kind, Situation
from telemetry.actions import ActionKind

SLOW_LOAD_SECONDS = 40.0
USED_REQUESTS = 25
ASKED_SECONDS = 12.0
"""Within this time before the onset every golden request was answered once, rightly."""


def _served(lab: Lab, model: str, requests: int = USED_REQUESTS) -> None:
    """Some requests one after another, so that the model counts as used."""
    for _ in range(requests):
        infer(address_of(lab.sandboxes[0].http_url), model, batched=False)


# ---- execution


def _hang_ready(lab: Lab) -> None:
    lab.add(Model("hanging"))
    lab.clients("hanging", 4, per_second=8.0)


def _hang(lab: Lab) -> None:
    lab.switch("hanging", "hang")


def _dead_ready(lab: Lab) -> None:
    lab.add(Model("mortal"))
    lab.clients("mortal", 3, per_second=6.0)


def _die(lab: Lab) -> None:
    lab.switch("mortal", "die")


def _flaky_ready(lab: Lab) -> None:
    lab.add(Model("flaky"))
    lab.clients("flaky", 4, per_second=20.0)


def _raise(lab: Lab) -> None:
    lab.switch("flaky", "raise", "0.25")


def _errors_ready(lab: Lab) -> None:
    lab.add(Model("polite"))
    lab.clients("polite", 3, per_second=10.0)
    lab.keep_golden("polite")


def _answer_errors(lab: Lab) -> None:
    lab.switch("polite", "error", "1.0")


def _weights_ready(lab: Lab) -> None:
    lab.add(Model("scoring"))
    lab.clients("scoring", 2, per_second=10.0)
    lab.keep_golden("scoring")


def _wrong_weights(lab: Lab) -> None:
    """Somebody puts other weights there and loads them: status 200, no failure, no error in the log."""
    lab.switch("scoring", "weights", "0.5")
    lab.touch("scoring")
    lab.load("scoring")


def _unused_ready(lab: Lab) -> None:
    """Nobody but the golden request asks for it, and its processes cannot be seen from here."""
    lab.add(Model("seldom"))
    lab.keep_golden("seldom")
    lab.from_afar()


def _die_unused(lab: Lab) -> None:
    lab.switch("seldom", "die")


# ---- loading


def _slow_load_ready(lab: Lab) -> None:
    lab.add(Model("large"))
    lab.clients("large", 2, per_second=20.0)


def _slow_load(lab: Lab) -> None:
    lab.switch("large", "load", str(SLOW_LOAD_SECONDS))
    lab.unload("large")
    lab.load_aside("large")


def _neighbour(lab: Lab) -> None:
    lab.add(Model("neighbour"))
    lab.clients("neighbour", 1, per_second=5.0)


def _fail_init(lab: Lab) -> None:
    lab.place(Model("broken"))
    lab.switch("broken", "broken", "weights not found: /models/broken/1/weights.bin")
    lab.load("broken")


def _missing_backend(lab: Lab) -> None:
    lab.place(Model("foreign", backend="tensorrt_llm"))
    lab.load("foreign")


def _bad_config(lab: Lab) -> None:
    lab.place(Model("garbled", text='name: "garbled"\nbackend: "python"\nmax_batch_size: lots\n'))
    lab.act(ActionKind.LOAD, "garbled")


def _wrong_version(lab: Lab) -> None:
    lab.place(Model("misplaced", version="v1"))
    lab.act(ActionKind.LOAD, "misplaced")


# ---- queues and batches


def _serial(lab: Lab) -> None:
    lab.add(Model("patient", max_batch_size=8, batching=Batching(delay_us=20_000), cost_us=8_000))


def _serial_client(lab: Lab) -> None:
    lab.clients("patient", 1, batched=True)


def _overload_ready(lab: Lab) -> None:
    lab.add(Model("popular", max_batch_size=4, batching=Batching(delay_us=1), cost_us=40_000))


def _overload(lab: Lab) -> None:
    lab.clients("popular", 24, batched=True)


def _delay_ready(lab: Lab) -> None:
    lab.add(Model("hesitant", max_batch_size=32, batching=Batching(delay_us=300_000), cost_us=5_000))


def _delay(lab: Lab) -> None:
    lab.clients("hesitant", 16, per_second=20.0, batched=True)


def _queue_ready(lab: Lab) -> None:
    lab.add(Model("narrow", max_batch_size=1, batching=Batching(queue_size=4), cost_us=60_000))


def _fill_queue(lab: Lab) -> None:
    lab.clients("narrow", 12, batched=True)


def _timeout_ready(lab: Lab) -> None:
    lab.add(Model("strict", max_batch_size=1, batching=Batching(timeout_us=100_000), cost_us=60_000))


def _time_out(lab: Lab) -> None:
    lab.clients("strict", 12, batched=True)


def _policy_ready(lab: Lab) -> None:
    lab.add(Model("drowsy", max_batch_size=16, batching=Batching(queue_size=500), cost_us=10_000))


def _doze(lab: Lab) -> None:
    """All clients wait for their answers: when the batcher misses the idle instance, nobody wakes it."""
    lab.clients("drowsy", 16, batched=True)


# ---- ensembles and configurations


def _pipeline(lab: Lab) -> None:
    lab.add(Model("first_step"), Model("second_step"), Ensemble("pipeline", ("first_step", "second_step")))
    _served(lab, "pipeline", 60)
    lab.clients("pipeline", 1, pause_seconds=0.05)


def _slow_step(lab: Lab) -> None:
    lab.switch("second_step", "slow", "0.4")


def _unload_step(lab: Lab) -> None:
    lab.unload("second_step")


def _drift_ready(lab: Lab) -> None:
    lab.add(Model("tuned", max_batch_size=8, batching=Batching(delay_us=100)))
    lab.clients("tuned", 2, per_second=10.0, batched=True)


def _drift(lab: Lab) -> None:
    config = {
        "name": "tuned",
        "backend": "python",
        "max_batch_size": 16,
        "input": [{"name": "INPUT", "data_type": "TYPE_FP32", "dims": [1]}],
        "output": [{"name": "OUTPUT", "data_type": "TYPE_FP32", "dims": [1]}],
        "dynamic_batching": {"max_queue_delay_microseconds": 100},
        "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
        "parameters": {"switches": {"string_value": str(lab.switches("tuned"))}},
    }
    lab.load("tuned", body={"parameters": {"config": json.dumps(config)}})


def _fault(name: str, text: str, **rest: object) -> Situation:
    return Situation(name, Kind.FAULT, text, **rest)  # type: ignore[arg-type]


_QUEUE = frozenset({"QueueDominates"})
FAULTS = (
    _fault(
        "hung-execution", "an execution does not return while requests come",
        prepare=_hang_ready, begin=_hang, first="ModelHung", model="hanging",
    ),
    _fault(
        # Until the processes are looked at, all that is known is that requests fail.
        "dead-stub", "the Python process of a READY model ends",
        prepare=_dead_ready, begin=_die, first="PythonProcessDead", model="mortal",
        also=frozenset({"RequestsFailing"}),
    ),
    _fault(
        "slow-load", "a model in use is loaded anew and takes 40 s",
        prepare=_slow_load_ready, begin=_slow_load, first="LoadTakesLong", model="large",
    ),
    _fault(
        "failing-initialize", "initialize raises",
        prepare=_neighbour, begin=_fail_init, first="ModelLoadFailed", model="broken",
    ),
    _fault(
        "missing-backend", "the config names a backend this server has not",
        prepare=_neighbour, begin=_missing_backend, first="ModelLoadFailed", model="foreign",
    ),
    _fault(
        "bad-config", "config.pbtxt cannot be read",
        prepare=_neighbour, begin=_bad_config, first="LoadRefused", model="garbled",
    ),
    _fault(
        "wrong-version-folder", "the version folder is called v1",
        prepare=_neighbour, begin=_wrong_version, first="LoadRefused", model="misplaced",
    ),
    _fault(
        "serial-clients", "one client after the other on a model with a batching delay of 20 ms",
        prepare=_serial, begin=_serial_client, first="OneClientAtATime", model="patient",
    ),
    _fault(
        "overload", "more requests than full batches can serve",
        prepare=_overload_ready, begin=_overload, first="QueueDominates", model="popular",
    ),
    _fault(
        "delay-too-long", "a batching delay of 300 ms before executions of 5 ms",
        prepare=_delay_ready, begin=_delay, first="BatchingDelayTooLong", model="hesitant",
    ),
    _fault(
        "queue-limit", "a queue of four refuses what comes on top",
        prepare=_queue_ready, begin=_fill_queue, first="QueueFull", model="narrow", also=_QUEUE,
    ),
    _fault(
        "queue-timeouts", "requests time out in the queue",
        prepare=_timeout_ready, begin=_time_out, first="RequestsFailing", model="strict", also=_QUEUE,
    ),
    _fault(
        "sleeping-batcher", "a queue policy lets the batcher sleep beside its only, idle instance",
        prepare=_policy_ready, begin=_doze, first="QueueDominates", model="drowsy",
    ),
    _fault(
        "exceptions", "every fourth execution raises",
        prepare=_flaky_ready, begin=_raise, first="RequestsFailing", model="flaky",
    ),
    _fault(
        "errors-as-responses", "errors are returned as responses, which count as successes",
        prepare=_errors_ready, begin=_answer_errors, first="ProbeFailing", model="polite",
        calm_seconds=ASKED_SECONDS,
    ),
    _fault(
        "wrong-weights", "a load brings other weights: every request is answered, with other values",
        prepare=_weights_ready, begin=_wrong_weights, first="ProbeFailing", model="scoring",
        calm_seconds=ASKED_SECONDS,
    ),
    _fault(
        "dead-stub-unused", "the Python process of a READY model ends that nobody asks, on another machine",
        prepare=_unused_ready, begin=_die_unused, first="ProbeFailing", model="seldom",
        calm_seconds=ASKED_SECONDS,
    ),
    _fault(
        "slow-step", "one step of an ensemble becomes 80 times slower",
        prepare=_pipeline, begin=_slow_step, first="EnsembleSlowStep", model="pipeline",
    ),
    _fault(
        "step-unloaded", "a step of an ensemble in use is unloaded",
        prepare=_pipeline, begin=_unload_step, first="EnsembleWithoutStep", model="pipeline",
    ),
    _fault(
        "override-drift", "somebody loads a model with another configuration",
        prepare=_drift_ready, begin=_drift, first="ConfigDrift", model="tuned",
    ),
)  # fmt: skip
