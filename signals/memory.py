"""Who holds the memory of each device, from every source there is, with its age and how far to trust it.

Of one model the first source in the order reported > process > backend > delta > estimate is shown. Parts are
never scaled to fit: what nobody accounts for is the unattributed rest, and parts that exceed what is in use
are said to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry.identity import ModelKey
from telemetry.memory import CPU, Confidence, MemorySource
from telemetry.units import Unit, human

DISAGREEMENT_RATIO = 0.20
ORDER = tuple(MemorySource)
"""From the most to the least trustworthy."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What one source says of one model on one device, bytes. `at` is when it was measured, unix seconds.

    `lower_bound`: it holds at least so much. `low_bytes` and `high_bytes` are the range of an estimate.
    """

    source: MemorySource
    bytes: float
    confidence: Confidence
    at: float | None
    words: str
    detail: str = ""
    """More of what it rests on, for a tooltip."""
    lower_bound: bool = False
    low_bytes: float | None = None
    high_bytes: float | None = None

    @property
    def text(self) -> str:
        """`≥ 2 GiB`, `217 MiB`, `about 1.2 GiB`."""
        size = human(self.bytes, Unit.BYTES)
        if self.lower_bound:
            return f"≥ {size}"
        return f"about {size}" if self.source is MemorySource.ESTIMATE else size


@dataclass(frozen=True, slots=True)
class ModelHolding:
    """All that is known of one model's memory on one device; `figures` are in the order of trust."""

    key: ModelKey
    device: str
    figures: tuple[Figure, ...]
    instances: int | None = None
    """Of this model on this device; None where nothing tells."""

    @property
    def shown(self) -> Figure:
        """The figure that counts."""
        return self.figures[0]

    @property
    def estimated(self) -> bool:
        """True if nothing was measured."""
        return self.shown.source is MemorySource.ESTIMATE

    @property
    def disagreement(self) -> str:
        """Words if the backend's own figure and the growth at load differ by more than 20 %, else ""."""
        by_source = {figure.source: figure for figure in self.figures}
        reported, delta = by_source.get(MemorySource.REPORTED), by_source.get(MemorySource.DELTA)
        if reported is None or delta is None or not reported.bytes:
            return ""
        off = delta.bytes / reported.bytes - 1
        if abs(off) <= DISAGREEMENT_RATIO:
            return ""
        return f"its backend reports {human(reported.bytes, Unit.BYTES)}, the card grew by {delta.text}"


@dataclass(frozen=True, slots=True)
class Part:
    """A known share of a device that is no model: bytes, and in words what it is.

    `inside_bytes` of it belong to models that live in it and are only estimated.
    """

    name: str
    bytes: float
    words: str
    inside_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """One device: `device` is "CPU", a GPU's uuid, or "GPU 0" where only its number is known.

    `used_bytes` is everybody's; None = not reported.
    `others` are parts with an owner that is no model: tritonserver's own process, other programs.
    """

    server: str
    device: str
    total_bytes: float | None
    used_bytes: float | None
    models: tuple[ModelHolding, ...] = ()
    others: tuple[Part, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """How more could be attributed, and what was left out."""
    reserved_bytes: float = 0.0
    """What the driver keeps of a card for itself, in no figure of use; 0 where it does not tell."""

    @property
    def measured_bytes(self) -> float:
        """What models hold by measurement; estimates do not count."""
        return sum(model.shown.bytes for model in self.models if not model.estimated)

    @property
    def estimated_bytes(self) -> float:
        """What models without a measurement are estimated to hold."""
        return sum(model.shown.bytes for model in self.models if model.estimated)

    @property
    def estimated_apart_bytes(self) -> float:
        """The same without what lies inside a part that is measured as a whole."""
        return max(0.0, self.estimated_bytes - sum(part.inside_bytes for part in self.others))

    @property
    def at_least(self) -> bool:
        """True if a model holds more than is counted for it: its figure is a lower bound."""
        return any(model.shown.lower_bound for model in self.models)

    @property
    def rest_bytes(self) -> float | None:
        """What is in use beyond everything measured or estimated; None without a figure of use."""
        rest = self.unattributed_bytes
        return None if rest is None else max(0.0, rest - self.estimated_apart_bytes)

    @property
    def attributed_bytes(self) -> float:
        """Measured of models and of other parts with an owner."""
        return self.measured_bytes + sum(part.bytes for part in self.others)

    @property
    def attributed_ratio(self) -> float | None:
        """Attributed of used, as measured: above 1 when the parts exceed it; None without a figure of use."""
        return self.attributed_bytes / self.used_bytes if self.used_bytes else None

    @property
    def unattributed_bytes(self) -> float | None:
        """Used minus everything measured; never below zero; None without a figure of use."""
        return None if self.used_bytes is None else max(0.0, self.used_bytes - self.attributed_bytes)

    @property
    def excess_bytes(self) -> float:
        """By how much the parts exceed what is in use: they were measured at different times or ways."""
        return max(0.0, self.attributed_bytes - self.used_bytes) if self.used_bytes is not None else 0.0

    @property
    def free_bytes(self) -> float | None:
        """Total minus used, minus what the driver keeps; None unless total and used are known."""
        if self.total_bytes is None or self.used_bytes is None:
            return None
        return max(0.0, self.total_bytes - self.used_bytes - self.reserved_bytes)


def holdings(
    device: str,
    figures: Mapping[ModelKey, Iterable[Figure]],
    instances: Mapping[ModelKey, int | None] | None = None,
) -> tuple[ModelHolding, ...]:
    """The models on a device, the largest first; of each source one figure, the newest."""
    found = []
    for key, known in figures.items():
        newest: dict[MemorySource, Figure] = {}
        for figure in sorted(known, key=lambda one: one.at or 0.0):
            newest[figure.source] = figure
        if newest:
            known_figures = tuple(newest[one] for one in ORDER if one in newest)
            found.append(ModelHolding(key, device, known_figures, (instances or {}).get(key)))
    return tuple(sorted(found, key=lambda one: (-one.shown.bytes, one.key)))


def in_order(devices: Sequence[DeviceMemory]) -> tuple[DeviceMemory, ...]:
    """GPUs as they came, each server's own memory after its GPUs."""
    return tuple(sorted(devices, key=lambda one: (one.server, one.device == CPU)))
