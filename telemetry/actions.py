"""What can be done to a server, and the record of one doing: words alone, known also where control is off."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from telemetry.access import Right


class ActionKind(StrEnum):
    """Every write the product knows; the value is the word for it."""

    LOAD = "load"
    UNLOAD = "unload"
    RELOAD = "reload"
    OVERRIDE = "override"
    """Load with a configuration that is not the file's."""
    REVERT = "revert"
    """Back to the configuration on disk."""
    TEST_REQUEST = "test request"
    EXPERIMENT = "experiment"
    LOAD_RUN = "load run"
    LOG_LEVEL = "log level"

    @property
    def changes_repository(self) -> bool:
        """True for the actions that need --model-control-mode=explicit."""
        return self.right in (Right.LOAD, Right.OVERRIDE)

    @property
    def doing(self) -> str:
        """The word while it goes on: "loading"."""
        return _DOING[self]

    @property
    def right(self) -> Right:
        """The right it needs."""
        return _RIGHTS[self]


_DOING = {
    ActionKind.LOAD: "loading",
    ActionKind.UNLOAD: "unloading",
    ActionKind.RELOAD: "reloading",
    ActionKind.OVERRIDE: "overriding the configuration of",
    ActionKind.REVERT: "reverting",
    ActionKind.TEST_REQUEST: "sending a test request to",
    ActionKind.EXPERIMENT: "running an experiment on",
    ActionKind.LOAD_RUN: "running load on",
    ActionKind.LOG_LEVEL: "setting the log level of",
}
_RIGHTS = {
    ActionKind.LOAD: Right.LOAD,
    ActionKind.UNLOAD: Right.LOAD,
    ActionKind.RELOAD: Right.LOAD,
    ActionKind.OVERRIDE: Right.OVERRIDE,
    ActionKind.REVERT: Right.OVERRIDE,
    ActionKind.TEST_REQUEST: Right.INFER,
    ActionKind.EXPERIMENT: Right.LOAD_RUN,
    ActionKind.LOAD_RUN: Right.LOAD_RUN,
    ActionKind.LOG_LEVEL: Right.LOG,
}


LOADED_ANEW = "loaded anew: the server found its files changed"
CHANGED_IN_USE = "the changed configuration is in use"
"""Words in the outcome of a load of a READY model that took the files."""
UNCHANGED_ON_DISK = "nothing had changed on disk"
AS_UNCHANGED = "as for a model whose files have not changed"
UNTOLD = "whether files had changed cannot be told"
"""And of one that did nothing, or nothing that could be seen."""


def new_token() -> str:
    """A name for one click: the same token is never sent twice."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Action:
    """One wanted write. `version` "" means the whole model; load and unload always mean the whole model.

    `who` and `how` (single sign-on, on this machine) are set by the guard from the identity that asks.
    `token` names the click, see `new_token`. `unload_dependents` also unloads the steps that an ensemble
    brought with it; Triton keeps those that were loaded by hand. `why` is the reason a person gave.
    `parameters` are what the journal tells of it beside these: never a secret, a parameter value of a model's
    configuration or the content of a tensor. `config` is the whole effective configuration of an override.
    """

    kind: ActionKind
    server: str
    model: str
    version: str = ""
    who: str = "local"
    how: str = ""
    token: str = field(default_factory=new_token)
    unload_dependents: bool = False
    why: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] | None = None

    @property
    def target(self) -> str:
        """The model as a person names it: `resnet18 v1`."""
        return f"{self.model} v{self.version}" if self.version else self.model


class Outcome(StrEnum):
    """How an action ended."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was sent."""
    FAILED = "failed"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    """It was sent, and what became of it could not be seen."""


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Memory in use before and after an action, bytes; None where it was not reported. `where`: "GPU 0"."""

    where: str
    before_bytes: float | None
    after_bytes: float | None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The end of an action: one sentence, the raw text behind the fold, and what it yielded."""

    outcome: Outcome
    sentence: str
    detail: str | None = None
    result: object = None
    memory: tuple[MemoryChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One action in the journal. Times are unix seconds; `ended_at` and `outcome` are None while it runs.

    `stage` says what is going on now ("loading"); `sentence` is the outcome in words. `sent` is None where it
    cannot be known: the process ended between writing the action down and its outcome.
    """

    id: int
    action: Action
    started_at: float
    stage: str
    sent: bool | None = False
    ended_at: float | None = None
    outcome: Outcome | None = None
    sentence: str = ""
    detail: str | None = None
    memory: tuple[MemoryChange, ...] = ()

    @property
    def running(self) -> bool:
        """True until the outcome is known."""
        return self.outcome is None

    @property
    def took_files(self) -> bool:
        """True if no override survived it: the model was loaded from its files, or was unloaded.

        A plain load of a READY model keeps an override unless the server finds its files changed.
        """
        kind = self.action.kind
        if self.outcome is not Outcome.DONE:
            return False
        if kind is ActionKind.LOAD:
            return not any(words in self.sentence for words in (UNCHANGED_ON_DISK, AS_UNCHANGED, UNTOLD))
        if kind is ActionKind.RELOAD:
            return any(words in self.sentence for words in (LOADED_ANEW, CHANGED_IN_USE))
        return kind in (ActionKind.UNLOAD, ActionKind.REVERT)

    @property
    def without_effect(self) -> bool:
        """True if it was answered well and did nothing."""
        return self.outcome is Outcome.DONE and UNCHANGED_ON_DISK in self.sentence

    def seconds(self, now: float) -> float:
        """Seconds it took, or has taken so far at unix time `now`."""
        return max(0.0, (self.ended_at if self.ended_at is not None else now) - self.started_at)

    def summary(self, now: float) -> str:
        """One line: the outcome, or what goes on and for how long: `loading resnet18 (12 s)`."""
        if not self.running:
            return self.sentence
        return f"{self.stage} ({self.seconds(now):.0f} s)"

    def with_end(self, conclusion: Conclusion, at: float) -> Record:
        """The same record, ended."""
        return replace(
            self,
            ended_at=at,
            outcome=conclusion.outcome,
            sentence=conclusion.sentence,
            detail=conclusion.detail,
            memory=conclusion.memory,
        )
