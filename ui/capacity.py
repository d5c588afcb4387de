"""What the Capacity page says: the device, what would fit, and the instances a target needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from history.inventory import ModelFacts
from signals.advice import Observed, batcher_of
from signals.batch_time import LEAST_EXECUTIONS, BatchTime
from signals.batcher import BatcherConfig
from signals.capacity import (
    IDLE_RATIO,
    MAX_INSTANCES,
    Answer,
    Fit,
    InstancesNeeded,
    Need,
    answer,
    need_of_instance,
    need_of_weights,
)
from signals.memory import DeviceMemory, ModelHolding
from signals.memory_sources import RESERVING_BACKENDS
from telemetry.facts import ModelState
from telemetry.identity import GpuKey
from telemetry.memory import CPU
from telemetry.units import Unit, human, human_duration, seconds_from_us, significant
from ui.format import counted
from ui.html import Html, div, span, tag
from ui.memory_bar import NO_PROCESS, bar, known, rows
from ui.model_panels import section
from ui.view import View

_CLASSES = {Fit.FITS: "ok", Fit.TIGHT: "ticket", Fit.NO: "page", Fit.UNKNOWN: ""}
MIB = 2.0**20
_NAMED = 3
_SHARING = ("enable_weight_sharing", "share_session_between_instances")
"""Parameters of PyTorch's and ONNX Runtime's backends."""


def device_name(device: DeviceMemory, *, several: bool) -> str:
    """`GPU GPU-1a2b… on gpu-1`, `machine`: as a person picks it."""
    name = "machine memory" if device.device == CPU else f"GPU {device.device.removeprefix('GPU-')}"
    if GpuKey(device.server, device.device).simulated:
        name += " (simulated)"
    return f"{name} on {device.server}" if several else name


def sentence(
    device: DeviceMemory | None, *, several: bool, stale_seconds: float | None = None
) -> tuple[str, str]:
    """The page's first line and its level: what is free where; of a silent server with its age."""
    if device is None:
        return "Nothing is known about any memory yet.", "unknown"
    name = device_name(device, several=several)
    if device.free_bytes is None:
        return f"What is free of {name} is not reported.", "unknown"
    free, total = human(device.free_bytes, Unit.BYTES), human(device.total_bytes, Unit.BYTES)
    if stale_seconds is not None:
        age = human_duration(stale_seconds)
        return f"{age} old: {free} of {total} were free ({name}); its server is silent.", "unknown"
    return f"{free} of {total} are free: {name}.", "fine"


def best_device(found: Sequence[DeviceMemory]) -> int:
    """The first GPU of which something is known, else whatever has models."""
    return next((place for place, one in enumerate(found) if one.models), 0)


def held(device: DeviceMemory, view: View) -> Html:
    """The device as it is: who holds it, and how far that is known."""
    words = "contexts, caches, other programs" if not device.others else NO_PROCESS
    if device.device == CPU:
        words = "the system, other programs"
    return section(
        "Held now",
        known(device),
        bar(device, machine=device.device == CPU),
        tag("table", rows(device, view, rest_words=words), class_="ts-facts"),
    )


def verdict(found: Answer, need: Need | None, *, title: str = "", caution: str = "") -> Html:
    """Fits, tight, does not fit, unknown; with its numbers, what they rest on and what could upset them."""
    badge = span(found.fit.value, class_=f"ts-badge {_CLASSES[found.fit]} fit-{found.fit.name.lower()}")
    basis = f"Basis: {need.basis}." if need is not None and need.basis else ""
    return div(
        div(badge, " ", span(title, class_="ts-name") if title else None, class_="ts-h"),
        div(f"{found.sentence[:1].upper()}{found.sentence[1:]}."),
        div(basis, class_="ts-faint") if basis else None,
        div(caution, class_="ts-faint") if caution else None,
        class_="ts-answer",
    )


def caution(device: DeviceMemory) -> str:
    """What may take of that which is free now, "" if nothing is known to."""
    parts = []
    growing = [one.key.label() for one in device.models if one.shown.lower_bound]
    if growing:
        names = ", ".join(growing[:_NAMED]) + (
            f" and {len(growing) - _NAMED} more" if len(growing) > _NAMED else ""
        )
        parts.append(f"{names} may still grow into it: what is known of them is a lower bound.")
    if device.device == CPU:
        parts.append("Free is the whole machine's, as Triton sees it; a container's limit may be lower.")
    return " ".join(parts)


# ---- a second instance


@dataclass(frozen=True, slots=True)
class Instance:
    """A model that could get another instance on this device."""

    holding: ModelHolding
    facts: ModelFacts
    instances: int

    @property
    def label(self) -> str:
        """As a person picks it."""
        return self.holding.key.label()

    @property
    def need(self) -> Need:
        """One more instance: the share of one of those there are; of an estimate its own range."""
        figure = self.holding.shown
        basis = f"({figure.source.value}, {figure.confidence.value} confidence)"
        if reserves(self.facts):
            share = figure.bytes / self.instances
            words = f"{human(figure.bytes, Unit.BYTES)} {basis}"
            words += f" / {self.instances}" if self.instances > 1 else ""
            return Need(share, share, f"{words}; a reservation, which another one takes again")
        need = need_of_instance(
            figure.bytes,
            self.instances,
            lower_bound=figure.lower_bound,
            basis=basis,
            shares_weights=self.holding.device != CPU and shares_weights(self.facts),
        )
        if figure.high_bytes is None:
            return need
        return replace(need, high_bytes=max(need.high_bytes, figure.high_bytes / self.instances))


def instances(device: DeviceMemory, view: View) -> list[Instance]:
    """Models of the device whose instances on it are known."""
    found = []
    for holding in device.models:
        facts = view.facts(holding.key)
        if facts is not None and holding.instances:
            found.append(Instance(holding, facts, holding.instances))
    return found


def second_instance(one: Instance, more: int, device: DeviceMemory) -> Html:
    """Do so many more instances fit?"""
    words = f"{counted(more, 'instance')} more of {one.label}"
    if reserves(one.facts) and not _fixed_share(one.facts):
        told = (
            "this backend takes a share of what is free at its start, whatever the model needs: what it "
            "holds is a reservation, and another one takes its share of the rest"
        )
        return verdict(Answer(Fit.UNKNOWN, told), None, title=words)
    need = one.need.times(more)
    found = answer(need, device.free_bytes)
    if reserves(one.facts) and found.fit is not Fit.FITS:
        told = f"{found.sentence}, unless the share is made smaller for all of them (gpu_memory_utilization)"
        found = Answer(found.fit, told)
    return verdict(found, need, title=words, caution=caution(device))


def reserves(facts: ModelFacts | None) -> bool:
    """True for backends that preallocate a share of the card."""
    return facts is not None and facts.config is not None and facts.config.backend in RESERVING_BACKENDS


def _fixed_share(facts: ModelFacts) -> bool:
    """vLLM takes a share of the whole card (gpu_memory_utilization), TensorRT-LLM one of what is free."""
    return facts.config is not None and facts.config.backend == "vllm"


def shares_weights(facts: ModelFacts) -> bool:
    """Whether instances on one card use the same weights: TensorRT's engine, and where settings say so."""
    config = facts.config
    if config is None:
        return False
    values = {
        name.lower(): str(one.get("string_value", "")).lower()
        for name, one in (config.raw.get("parameters") or {}).items()
        if isinstance(one, dict)
    }
    return config.backend == "tensorrt" or any(values.get(name) == "true" for name in _SHARING)


# ---- another model


def another_model(weights_bytes: float, count: int, own_process: bool, device: DeviceMemory) -> Html:
    """Does a model with weights of so many bytes an instance fit?"""
    if weights_bytes <= 0:
        return verdict(answer(None, device.free_bytes), None, caution=caution(device))
    on_card = own_process and device.device != CPU
    need = need_of_weights(weights_bytes, own_process=on_card).times(count)
    words = f"{counted(count, 'instance')} of {human(weights_bytes, Unit.BYTES)} weights"
    return verdict(answer(need, device.free_bytes), need, title=words, caution=caution(device))


# ---- instances for a rate


def batching_models(view: View) -> dict[str, ModelFacts]:
    """Ready models whose queue is Triton's, by what a person picks them by."""
    found = [
        facts
        for facts in view.inventory.models
        if facts.state in (None, ModelState.READY)
        and facts.config is not None
        and batcher_of(facts.config) is not None
    ]
    several = len({facts.key.server for facts in found}) > 1
    return {facts.key.label() + (f" on {facts.key.server}" if several else ""): facts for facts in found}


def untimed(config: BatcherConfig) -> str:
    """What is missing before a rate can be answered."""
    words = "The time of an execution by batch size is not known yet: it needs "
    if config.dynamic:
        return f"{words}traffic of two batch sizes, each executed {LEAST_EXECUTIONS} times."
    return f"{words}{LEAST_EXECUTIONS} executions."


def needed(
    found: InstancesNeeded, config: BatcherConfig, time: BatchTime, rate: float, queue_ms: float
) -> Html:
    """How many instances, what they would give, and what it rests on."""
    target = f"{human(rate, Unit.PER_SECOND)} at a queue of {significant(queue_ms)} ms"
    if found.instances is None:
        return div(
            div(
                span("not reachable", class_="ts-badge page"),
                " ",
                span(target, class_="ts-name"),
                class_="ts-h",
            ),
            div(_unreachable(found)),
            div(_assumed(config, time), class_="ts-faint"),
            class_="ts-answer",
        )
    now = config.instances
    change = f"there {'is' if now == 1 else 'are'} {now} now"
    if found.instances == now:
        change = "as now"
    outcome = found.outcome
    gives = (
        f"Simulated: mean queue {human(outcome.queue_us_mean, Unit.US)}, 95 % within "
        f"{human(outcome.queue_us_p95, Unit.US)}, batches of {significant(outcome.batch_size_mean)}, "
        f"instances {human(outcome.busy_ratio, Unit.RATIO)} busy."
        if outcome is not None
        else ""
    )
    return div(
        div(
            span(counted(found.instances, "instance"), class_="ts-badge ok"),
            " ",
            span(f"{target} ({change})", class_="ts-name"),
            class_="ts-h",
        ),
        div(gives),
        div(_bound(found, config), class_="ts-faint"),
        div(_assumed(config, time), class_="ts-faint"),
        class_="ts-answer",
    )


def _unreachable(found: InstancesNeeded) -> str:
    """Why no number of instances that was tried reaches the target."""
    if found.at_least > MAX_INSTANCES:
        return f"It takes at least {found.at_least} instances; more than {MAX_INSTANCES} are not simulated."
    if found.outcome is None:
        return f"Even with {MAX_INSTANCES} instances the queue grows without end."
    queue = human(found.outcome.queue_us_mean, Unit.US)
    if found.outcome.busy_ratio < IDLE_RATIO:
        return (
            f"No number of instances reaches it: with idle instances the mean queue is still {queue}, the "
            "delay of the batcher."
        )
    return f"Even with {MAX_INSTANCES} instances the mean queue is {queue}."


def _bound(found: InstancesNeeded, config: BatcherConfig) -> str:
    least = counted(found.at_least, "instance")
    if config.dynamic:
        return f"At least {least}: even with full batches fewer cannot serve this rate."
    return f"At least {least} without dynamic batching: fewer would be busy all the time."


def _assumed(config: BatcherConfig, time: BatchTime) -> str:
    took = human(time.fixed_us, Unit.US)
    if time.per_row_us > 0:
        took += f" + {human(time.per_row_us, Unit.US)}·b"
    largest = max(1, config.max_batch_size) if config.dynamic else time.largest
    beyond = (
        f" (sizes beyond {time.largest} were never executed: extrapolated)" if largest > time.largest else ""
    )
    return (
        f"Assumed: random arrivals, requests alike, T(b) = {took}{beyond}, instances that do not slow each "
        f"other down (on one GPU they do), {_words(config)}."
    )


def _words(config: BatcherConfig) -> str:
    if not config.dynamic:
        return "no dynamic batching"
    sizes = ", ".join(map(str, config.sizes))
    return f"delay {human(config.delay_us, Unit.US)}, preferred sizes {sizes}"


def memory_of_more(
    found: InstancesNeeded,
    config: BatcherConfig,
    facts: ModelFacts,
    known_: Sequence[DeviceMemory],
    view: View,
) -> Html | None:
    """Whether the instances that are needed beyond those of now go into the memory that is free."""
    more = (found.instances or 0) - config.instances
    if more <= 0:
        return None
    lines = []
    for device in known_:
        mine = next((one for one in instances(device, view) if one.holding.key == facts.key), None)
        if mine is None:
            continue
        where = device_name(device, several=False)
        told = answer(mine.need.times(more), device.free_bytes)
        lines.append(f"{counted(more, 'instance')} more on {where}: {told.fit.value} ({told.sentence}).")
    words = lines or [
        f"Whether {counted(more, 'instance')} more fit is not known: nothing tells what one holds."
    ]
    return div([div(line) for line in words])


def qps_now(facts: ModelFacts, seen: Observed | None) -> Html | None:
    """The same check on what is measured: requests under way = requests per second × time of one."""
    if seen is None:
        return None
    rate, each = seen.requests_per_second, seen.request_us_mean
    under_way = human(rate * seconds_from_us(each), Unit.NONE)
    took = f"{human(rate, Unit.PER_SECOND)}, each {human(each, Unit.US)} in the server"
    return div(f"{facts.key.label()} now: {took}: {under_way} at once on average.", class_="ts-faint")
