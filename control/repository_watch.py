"""Is a load or an unload finished? Judged on the repository index, not on the return of the call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from control.triton_calls import CallState
from telemetry.actions import Conclusion, Outcome
from telemetry.facts import IndexEntry, ModelState
from telemetry.load_errors import index_error

Index = tuple[IndexEntry, ...]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an action waits for what, in seconds."""

    call_seconds: float = 600.0
    """For the answer of a load call; the load goes on without it."""
    poll_seconds: float = 0.25
    settle_seconds: float = 5.0
    """For the index to say what a finished call should have brought about."""
    index_seconds: float = 15.0
    """For the index before anything is sent, from a server that is busy."""
    unreachable_seconds: float = 30.0
    """For a server that stopped answering while the action was under way."""
    stuck_seconds: float = 120.0
    """After this a load is called perhaps stuck; it is watched further."""
    watch_seconds: float = 3600.0


def states_of(index: Index, model: str) -> frozenset[ModelState]:
    """The states of all versions of one model; empty if the index does not list it."""
    return frozenset(entry.state for entry in index if entry.name == model)


def ready_models(index: Index) -> frozenset[str]:
    """Models with at least one ready version."""
    return frozenset(entry.name for entry in index if entry.state is ModelState.READY)


def failed_entry(index: Index, model: str) -> IndexEntry | None:
    """The newest version that failed to load."""
    rows = [entry for entry in index if entry.name == model and entry.failed]
    return max(rows, key=lambda entry: (entry.version.zfill(20), entry.version), default=None)


@dataclass(slots=True)
class LoadWatch:
    """Judges a load from successive readings of the index.

    `before` is the index before the call. Times are seconds; `settled` is how long the call has been over.
    """

    model: str
    before: Index
    patience: Patience
    seen_loading: bool = False

    def judge(self, index: Index, call: CallState, settled: float) -> Conclusion | None:
        """The end of the load, None while it is under way. A refused call is judged by its own text."""
        states = states_of(index, self.model)
        if ModelState.LOADING in states:
            self.seen_loading = True
            return None
        if call is CallState.PENDING:
            return None
        if ModelState.READY in states:
            return self._ready(index, call, settled)
        failed = failed_entry(index, self.model)
        if failed is not None and self._is_news(failed, call):
            sentence = index_error(self.model, failed.version, failed.reason).sentence
            return Conclusion(Outcome.FAILED, sentence, failed.reason)
        if settled < self.patience.settle_seconds:
            return None
        return Conclusion(Outcome.UNKNOWN, self._unseen(call, bool(states)))

    def _ready(self, index: Index, call: CallState, settled: float) -> Conclusion | None:
        was_ready = ModelState.READY in states_of(self.before, self.model)
        if call is CallState.ACCEPTED or self.seen_loading or not was_ready:
            return Conclusion(Outcome.DONE, f"{self.model} is loaded")
        failed = self._failed_update(index)
        if failed is not None:
            sentence = index_error(self.model, failed.version, failed.reason).sentence
            return Conclusion(Outcome.FAILED, sentence, failed.reason)
        if settled < self.patience.settle_seconds:
            return None
        return Conclusion(
            Outcome.UNKNOWN,
            f"{self.model} was served all along, and the server gave no answer to the load call: "
            "whether it now uses the changed files is not known",
        )

    def _failed_update(self, index: Index) -> IndexEntry | None:
        """READY with a new reason: the changed files could not be loaded, the old version serves on."""
        rows = (entry for entry in index if entry.name == self.model and entry.state is ModelState.READY)
        return next((entry for entry in rows if entry.reason and entry not in self.before), None)

    def _is_news(self, failed: IndexEntry, call: CallState) -> bool:
        """After a lost call an old failure may still stand in the index before the load begins."""
        return call is CallState.ACCEPTED or self.seen_loading or failed not in self.before

    def _unseen(self, call: CallState, listed: bool) -> str:
        answer = "accepted the load" if call is CallState.ACCEPTED else "gave no answer to the load call"
        where = "does not show the model as loaded" if listed else "no longer lists the model"
        return f"The server {answer} of {self.model}, but its repository index {where}"


@dataclass(slots=True)
class UnloadWatch:
    """Judges an unload from successive readings of the index; `before` is the index before the call."""

    model: str
    before: Index
    patience: Patience

    def judge(self, index: Index, call: CallState, settled: float) -> Conclusion | None:
        """The end of the unload, None while it is under way."""
        states = states_of(index, self.model)
        if call is CallState.PENDING or ModelState.UNLOADING in states:
            return None
        if states & {ModelState.READY, ModelState.LOADING}:
            if settled < self.patience.settle_seconds:
                return None
            return Conclusion(
                Outcome.UNKNOWN,
                f"The server accepted the unload of {self.model}, but its repository index still calls it "
                f"{_named(states)}: somebody may have loaded it again",
            )
        return Conclusion(Outcome.DONE, f"{self.model} is unloaded{self._also_stopped(index)}")

    def _also_stopped(self, index: Index) -> str:
        gone = sorted(ready_models(self.before) - ready_models(index) - {self.model})
        return f"; with it stopped {', '.join(gone)}" if gone else ""


def also_started(before: Index, index: Index, model: str) -> str:
    """Models that became ready during a load of another one: the steps of an ensemble, or the ensemble."""
    new = sorted(ready_models(index) - ready_models(before) - {model})
    return f"; with it came {', '.join(new)}" if new else ""


def _named(states: Iterable[ModelState]) -> str:
    return " and ".join(sorted(state.value for state in states))
