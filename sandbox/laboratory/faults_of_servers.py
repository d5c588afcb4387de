"""Faults of whole servers: restarts, addresses, replicas, lost metrics, memory that is not given back."""

from __future__ import annotations

import re
import threading
import time

from sandbox.laboratory.clients import address_of, infer
from sandbox.laboratory.lab import Lab
from sandbox.laboratory.model_files import Model
from sandbox.laboratory.proxy import Proxy
from sandbox.laboratory.situation import Kind, Situation
from triage.rulebook import Rulebook, load_rulebook
from triage.scaled import scaled

GPU_UUID = "GPU-SIMULATED-0"
LEAK_BYTES = 300 * 1024 * 1024
MEMORY_RULE = "MemoryGrowsWithReloads"
FASTER = 144.0
"""Windows of an hour become 25 s, so that growth over reloads fits into a play."""
RELOAD_SECONDS = 3.0
SAME_RESTART_SECONDS = 31.0
"""What the event log sees within half a minute is one restart."""


# ---- restarts and addresses


def _restarts_ready(lab: Lab) -> None:
    lab.add(Model("survivor"))
    for _ in range(10):
        infer(address_of(lab.sandboxes[0].http_url), "survivor", batched=False)


def _restart(lab: Lab) -> None:
    lab.sandboxes[0].restart()
    lab.load("survivor")
    for _ in range(5):
        infer(address_of(lab.sandboxes[0].http_url), "survivor", batched=False)


def _restart_twice(lab: Lab) -> None:
    for _ in range(2):
        _restart(lab)
        time.sleep(SAME_RESTART_SECONDS)


def _two_behind_one(lab: Lab) -> None:
    lab.add(Model("twin"))
    lab.clients("twin", 2, per_second=20.0, to=(0,))
    lab.clients("twin", 2, per_second=5.0, to=(1,))
    lab.metrics_urls, lab.http_urls = lab.metrics_urls[:1], lab.http_urls[:1]


def _mix(lab: Lab) -> None:
    """The address now leads to both servers in turn: the proxy's list grows."""
    lab.proxies[0].lead_to([url.removesuffix("/metrics") for url in _metrics(lab)])


def _mixed_ready(lab: Lab) -> None:
    _two_behind_one(lab)
    proxy = Proxy(lab.metrics_urls)
    lab.keep(proxy)
    lab.proxies.append(proxy)
    lab.metrics_urls = [proxy.url]


def _metrics(lab: Lab) -> list[str]:
    return [sandbox.metrics_url for sandbox in lab.sandboxes]


# ---- GPU figures


def _gpu_ready(lab: Lab) -> None:
    lab.add(Model("visible"))
    lab.clients("visible", 1, per_second=5.0)
    proxy = Proxy(lab.metrics_urls)
    lab.keep(proxy)
    lab.proxies.append(proxy)
    lab.metrics_urls = [proxy.url]


def _without_gpu(page: str) -> str:
    return "\n".join(line for line in page.splitlines() if "nv_gpu_" not in line) + "\n"


def _lose_gpu(lab: Lab) -> None:
    lab.proxies[0].rewrite = _without_gpu


class _Leaking:
    """Makes the page as a GPU server has it, whose memory in use grows with every load of a model."""

    def __init__(self, model: str) -> None:
        self._series = re.compile(rf'^(nv_inference_count\{{)(model="{model}")', re.MULTILINE)
        self._used = re.compile(r"^(nv_gpu_memory_used_bytes\{[^}]*\} )(\S+)$", re.MULTILINE)
        self.loads = 0

    def __call__(self, page: str) -> str:
        placed = self._series.sub(rf'\1gpu_uuid="{GPU_UUID}",\2', page)
        grown = self.loads * LEAK_BYTES
        return self._used.sub(lambda found: f"{found[1]}{float(found[2]) + grown}", placed)


def _leak_ready(lab: Lab) -> None:
    _gpu_ready(lab)
    lab.add(Model("leaky"))
    lab.clients("leaky", 1, per_second=5.0)
    lab.proxies[0].rewrite = _Leaking("leaky")
    book = load_rulebook()
    lab.rulebook = Rulebook(
        tuple(scaled(rule, 1 / FASTER) if rule.name == MEMORY_RULE else rule for rule in book.rules)
    )


def _leak(lab: Lab) -> None:
    """Reloads go on until the situation ends; each leaves memory behind."""
    leaking = lab.proxies[0].rewrite
    assert isinstance(leaking, _Leaking)

    def reload(ended: threading.Event) -> None:
        while not ended.is_set():
            lab.unload("leaky")
            lab.await_state("leaky", "UNAVAILABLE")
            lab.load("leaky")
            leaking.loads += 1
            ended.wait(RELOAD_SECONDS)

    lab.aside(reload)


# ---- replicas


def _replicas(lab: Lab) -> None:
    lab.add(Model("shared", cost_us=10_000))
    lab.clients("shared", 6, per_second=30.0)


def _slow_replica(lab: Lab) -> None:
    lab.switch("shared", "slow", "0.15", server=2)


def _pinned_ready(lab: Lab) -> None:
    lab.add(Model("shared", cost_us=10_000))
    # They have been READY for longer than a new replica needs to be found by its clients.
    time.sleep(1.0)


def _pin(lab: Lab) -> None:
    lab.clients("shared", 3, per_second=20.0, to=(1,))


def _fault(name: str, text: str, **rest: object) -> Situation:
    return Situation(name, Kind.FAULT, text, **rest)  # type: ignore[arg-type]


FAULTS_OF_SERVERS = (
    _fault(
        "counters-reset", "the server is restarted for the third time; its counters begin anew",
        prepare=_restarts_ready, lead_up=_restart_twice, begin=_restart, first="ServerKeepsRestarting",
        also=frozenset({"ServerDown", "HttpNotAnswering"}),
    ),
    _fault(
        "two-servers-one-address", "an address leads to two servers in turn",
        prepare=_mixed_ready, begin=_mix, first="TwoServersBehindOneAddress", servers=2,
    ),
    _fault(
        "gpu-metrics-lost", "the metrics page loses its GPU families",
        prepare=_gpu_ready, begin=_lose_gpu, first="GpuMetricsLost", servers=0, calm_seconds=8.0,
    ),
    _fault(
        "memory-over-reloads", "GPU memory in use grows with every load (windows 144 times shorter)",
        prepare=_leak_ready, begin=_leak, first=MEMORY_RULE, model="leaky", servers=0, calm_seconds=20.0,
    ),
    _fault(
        "bad-replica", "one replica of three is slow",
        prepare=_replicas, begin=_slow_replica, first="OneBadReplica", model="shared", servers=3,
        calm_seconds=12.0,
    ),
    _fault(
        "pinned-traffic", "one replica of three gets all requests",
        prepare=_pinned_ready, begin=_pin, first="TrafficPinned", model="shared", servers=3,
    ),
)  # fmt: skip
