"""Several actions as one wish: so many at a time, each through the one guard and with its own record."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from control.performer import Job
from telemetry.access import Identity
from telemetry.actions import Action, Outcome, Record
from telemetry.errors import ControlError

AT_A_TIME = 2
"""A load occupies one of the server's HTTP workers until it has ended: more would make it deaf."""
KEEP_SERIES = 10
_LOOK_SECONDS = 0.2

Perform = Callable[[Action, Identity], Job]


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a series. Without a record it has not begun; `refusal` says why it never will."""

    action: Action
    job: Job | None = None
    refusal: str = ""

    @property
    def record(self) -> Record | None:
        """Its record, None before it began."""
        return self.job.record if self.job is not None else None

    @property
    def over(self) -> bool:
        """True when nothing more will happen to it."""
        record = self.record
        return bool(self.refusal) or (record is not None and not record.running)

    @property
    def done(self) -> bool:
        """True if it went well."""
        record = self.record
        return record is not None and record.outcome is Outcome.DONE


class Series:
    """Actions under way or ended; any thread may look."""

    def __init__(self, title: str, actions: Sequence[Action], *, at_a_time: int, stops: bool) -> None:
        self.title = title
        self.stops = stops
        """True: after the first that does not go well none is begun."""
        self.at_a_time = at_a_time
        self._lock = threading.Lock()
        self._steps = [Step(action) for action in actions]
        self._ended = threading.Event()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The actions as they stand, in their order."""
        with self._lock:
            return tuple(self._steps)

    @property
    def running(self) -> bool:
        """True until nothing more will happen."""
        return not self._ended.is_set()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the end; False if it did not come in time."""
        return self._ended.wait(timeout_seconds)

    def sentence(self) -> str:
        """How far it is, in words: `2 of 3 done; 1 failed, 0 not begun`."""
        steps = self.steps
        done = sum(step.done for step in steps)
        bad = sum(step.over and not step.done and not self._skipped(step) for step in steps)
        skipped = sum(self._skipped(step) for step in steps)
        parts = [f"{done} of {len(steps)} done"]
        if bad:
            parts.append(f"{bad} not")
        if skipped:
            parts.append(f"{skipped} not begun")
        if self.running:
            parts.append(f"{sum(step.job is not None and not step.over for step in steps)} under way")
        return ", ".join(parts)

    @staticmethod
    def _skipped(step: Step) -> bool:
        return step.refusal == NOT_BEGUN

    def run(self, perform: Perform, by: Identity) -> None:
        """Begin one after the other, never more than so many at a time, and wait for all of them."""
        try:
            for place, step in enumerate(self.steps):
                self._wait_for_room()
                if self.stops and any(one.over and not one.done for one in self.steps[:place]):
                    self._put(place, replace(step, refusal=NOT_BEGUN))
                    continue
                try:
                    self._put(place, replace(step, job=perform(step.action, by)))
                except ControlError as error:
                    self._put(place, replace(step, refusal=error.sentence))
            for step in self.steps:
                if step.job is not None:
                    step.job.wait()
        finally:
            self._ended.set()

    def _wait_for_room(self) -> None:
        while True:
            under_way = [one.job for one in self.steps if one.job is not None and not one.over]
            if len(under_way) < self.at_a_time:
                return
            under_way[0].wait(_LOOK_SECONDS)

    def _put(self, place: int, step: Step) -> None:
        with self._lock:
            self._steps[place] = step


NOT_BEGUN = "Not begun: one before it did not go well."


class Several:
    """The series of one process, the newest last; a token begins one only once."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._lock = threading.Lock()
        self._series: OrderedDict[str, Series] = OrderedDict()

    def begin(
        self,
        title: str,
        actions: Sequence[Action],
        *,
        by: Identity,
        token: str,
        at_a_time: int = AT_A_TIME,
        stops: bool = False,
    ) -> Series:
        """Begin a series for this person and return at once; a token that was used gives its series."""
        with self._lock:
            known = self._series.get(token)
            if known is not None:
                return known
            series = Series(title, actions, at_a_time=at_a_time, stops=stops)
            self._series[token] = series
            for old in [name for name, one in self._series.items() if not one.running][:-KEEP_SERIES]:
                del self._series[old]
        threading.Thread(
            target=series.run, args=(self._perform, by), name=f"series-{token[:8]}", daemon=True
        ).start()
        return series

    def all(self) -> tuple[Series, ...]:
        """Those that are remembered, the newest first."""
        with self._lock:
            return tuple(reversed(self._series.values()))
