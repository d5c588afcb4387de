"""The charts of the GPU page: asks for the GPUs' signals and hands them to `charts.gpu`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from charts import gpu as charts
from charts.spec import Spec
from signals.definition import Level
from signals.frames import filtered
from signals.memory import DeviceMemory
from telemetry.identity import ModelKey
from ui.gpu_panels import GpuCard
from ui.marks import marks
from ui.memory_view import course
from ui.view import View


@dataclass(frozen=True, slots=True)
class GpuCharts:
    """Charts of the GPUs of one view."""

    view: View
    cards: Sequence[GpuCard]

    def utilization(self) -> Spec:
        """All GPUs."""
        frame = self.view.of_level("utilization_ratio", Level.GPU)
        spec = charts.utilization(frame, self._names(), badge=self._badge(), **self._frame())
        return spec.at_now(self._now("utilization_ratio"))

    def power(self) -> Spec:
        """All GPUs, with the limit where they share one."""
        limits = {card.number_of("power_limit_watts") for card in self.cards}
        limit = limits.pop() if len(limits) == 1 else None
        frame = self.view.of_level("power_watts", Level.GPU)
        spec = charts.power(frame, self._names(), limit, badge=self._badge(), **self._frame())
        return spec.at_now(self._now("power_watts"))

    def memory(self, card: GpuCard) -> Spec:
        """One GPU by what holds its memory."""
        mine = (card.figures.key.server, card.figures.key.uuid)
        used = filtered(self.view.of_level("memory_used_bytes", Level.GPU), lambda key: key == mine)
        by_model = course(self.view, card.memory, card.memory.models)
        return charts.memory(
            used,
            by_model,
            card.number_of("memory_total_bytes"),
            {key: ModelKey(*key).label() for key in by_model.keys},
            title=f"Memory {card.name}",
            badge="simulated" if card.figures.key.simulated else "",
            **self._frame(),
        )

    def machine(self, machine: DeviceMemory) -> Spec:
        """The models' own processes on one machine."""
        frame = course(self.view, machine, machine.models)
        names = {key: ModelKey(*key).label() for key in frame.keys}
        where = f" on {machine.server}" if self.view.filters.server is None else ""
        return charts.machine_memory(frame, names, title=f"Memory of model processes{where}", **self._frame())

    def _now(self, signal: str) -> dict[str, float | None]:
        """What the head of the page says of each GPU, by its name; nothing while the past is looked at."""
        if self.view.filters.start is not None:
            return {}
        names = self._names()
        return {
            names[card.figures.key.server, card.figures.key.uuid]: card.number_of(signal)
            for card in self.cards
        }

    def _names(self) -> dict[tuple[str, ...], str]:
        several = len({card.figures.key.server for card in self.cards}) > 1
        return {
            (card.figures.key.server, card.figures.key.uuid): card.name
            + (f" on {card.figures.key.server}" if several else "")
            for card in self.cards
        }

    def _badge(self) -> str:
        return "simulated" if any(card.figures.key.simulated for card in self.cards) else ""

    def _frame(self) -> dict:
        return {"range_": self.view.range, "marks": marks(self.view)}
