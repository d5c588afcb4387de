"""Situations in which nothing may alarm."""

from __future__ import annotations

import threading
import time

from sandbox.laboratory.clients import address_of, infer
from sandbox.laboratory.lab import Lab
from sandbox.laboratory.model_files import Batching, Ensemble, Model
from sandbox.laboratory.situation import Kind, Situation
from telemetry.rule_choice import RuleChoice

RELOAD_SECONDS = 8.0
ON_DEMAND_SECONDS = 20.0


def _models(lab: Lab) -> None:
    lab.add(
        Model("single"),
        Model("batching", max_batch_size=8, batching=Batching(delay_us=2_000), cost_us=8_000, row_us=300),
        Model("last_step"),
        Ensemble("pipeline", ("single", "last_step")),
    )


def _gentle(lab: Lab) -> None:
    lab.clients("single", 2, per_second=4.0)
    lab.clients("batching", 4, per_second=6.0, batched=True)
    lab.clients("pipeline", 1, per_second=1.0)


def _full(lab: Lab) -> None:
    """As many under way as one batch takes: it is always full, and nobody waits longer than he is served."""
    lab.clients("batching", 8, batched=True)


def _restarted(lab: Lab) -> None:
    sandbox = lab.sandboxes[0]
    lab.add(Model("single"))
    sandbox.restart()
    lab.load("single")
    for _ in range(5):
        infer(address_of(sandbox.http_url), "single", batched=False)
    lab.clients("single", 2, per_second=5.0)


def _reloads(lab: Lab) -> None:
    lab.clients("single", 2, per_second=10.0)

    def reload(ended: threading.Event) -> None:
        while not ended.wait(RELOAD_SECONDS):
            lab.touch("single")
            lab.load("single")

    lab.aside(reload)


def _reload_asked(lab: Lab) -> None:
    """Reloads and unloads by somebody else fall between two golden requests, or upon one."""

    def reload(ended: threading.Event) -> None:
        while not ended.wait(RELOAD_SECONDS):
            lab.touch("single")
            lab.load("single")
            lab.unload("batching")
            if not ended.wait(RELOAD_SECONDS):
                lab.load("batching")

    lab.aside(reload)


def _replicas(lab: Lab) -> None:
    lab.add(Model("shared", cost_us=10_000))
    lab.away = set()
    lab.clients("shared", 6, per_second=15.0, alive=lambda url: url not in lab.away)


def _roll(lab: Lab) -> None:
    """One replica after the other is taken out of the balancer, restarted, loaded and put back."""

    def roll(ended: threading.Event) -> None:
        for number, sandbox in enumerate(lab.sandboxes):
            lab.away.add(sandbox.http_url)
            # Requests under way end first.
            ended.wait(1.0)
            sandbox.restart()
            lab.load("shared", number)
            lab.away.discard(sandbox.http_url)
            if ended.wait(6.0):
                return

    lab.aside(roll)


def _on_demand(lab: Lab) -> None:
    lab.place(Model("seldom"))
    lab.switch("seldom", "load", str(ON_DEMAND_SECONDS))
    lab.add(Model("single"))
    lab.clients("single", 1, per_second=3.0)


def _load_on_demand(lab: Lab) -> None:
    def demand(ended: threading.Event) -> None:
        while not ended.is_set():
            lab.load("seldom")
            for _ in range(3):
                infer(address_of(lab.sandboxes[0].http_url), "seldom", batched=False)
            lab.unload("seldom")
            ended.wait(5.0)

    lab.aside(demand)


def _offline(lab: Lab) -> None:
    """The settings say that this model is meant to queue."""
    lab.rules = {"QueueDominates": RuleChoice("QueueDominates", None, ("offline_*",))}
    lab.add(Model("offline_scoring", max_batch_size=8, batching=Batching(delay_us=100), cost_us=30_000))


def _fill(lab: Lab) -> None:
    lab.clients("offline_scoring", 32, batched=True)


def _cancelling_ready(lab: Lab) -> None:
    lab.add(Model("single", cost_us=150_000), Model("steady"))
    lab.clients("steady", 2, per_second=5.0)


def _cancel(lab: Lab) -> None:
    """Half of the clients hang up before their answer comes."""
    lab.clients("single", 1, per_second=1.0, hang_up_seconds=0.05)
    lab.clients("single", 1, per_second=1.0)


def _golden_ready(lab: Lab) -> None:
    """One model with clients, one that waits for batches and one that only its golden request asks for."""
    _models(lab)
    lab.keep_golden("single", "pipeline")
    lab.keep_golden("batching", batched=True)
    lab.clients("single", 2, per_second=4.0)


def _wait(lab: Lab) -> None:
    time.sleep(0.5)


def _healthy(name: str, text: str, **rest: object) -> Situation:
    return Situation(name, Kind.HEALTHY, text, **rest)  # type: ignore[arg-type]


HEALTHY = (
    _healthy("idle", "loaded models and no request", prepare=_models, begin=_wait),
    _healthy("gentle", "a few requests to each model", prepare=_models, begin=_gentle),
    _healthy("full", "one full batch always under way", prepare=_models, begin=_full),
    _healthy("just-restarted", "watched from right after a restart", prepare=_restarted),
    _healthy(
        "reload-under-traffic", "a model is loaded anew while it is used", prepare=_models, begin=_reloads
    ),
    _healthy(
        "rolling-replacement", "three replicas are restarted one after the other",
        prepare=_replicas, begin=_roll, servers=3, calm_seconds=8.0,
    ),
    _healthy(
        "on-demand", "a model is loaded for 20 s, used three times and unloaded, again and again",
        prepare=_on_demand, begin=_load_on_demand,
    ),
    _healthy(
        "offline-job", "a job fills its queue on purpose, and the settings say so",
        prepare=_offline, begin=_fill,
    ),
    _healthy(
        "golden-requests", "golden requests are sent, also to models nobody else asks, and through reloads",
        prepare=_golden_ready, begin=_reload_asked,
    ),
    _healthy(
        "clients-cancelling", "clients hang up before the answer", prepare=_cancelling_ready, begin=_cancel
    ),
)  # fmt: skip
