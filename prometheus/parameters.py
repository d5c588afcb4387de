"""Build parameters of the rules: how the labels are called, how often is scraped, where the runbooks are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from signals.evaluation import Dialect
from telemetry.objective import Objective
from telemetry.rule_choice import RuleChoice
from triage.durations import duration_text
from triage.vocabulary import Level

INTERVALS_PER_WINDOW = 4
"""A window spans at least this many scrapes."""
RUNBOOKS = "docs/runbooks"


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a set of rules is built for; the defaults suit scrapes every 15 to 60 s.

    `selector` are matchers for every series, `up_selector` those by which Triton's own `up` is told from
    others: a server that is down has no other series by which its target could be known. `server` may be
    several labels (`namespace, pod`). `workload` is only unique within `workload_scope`; its replicas differ
    in `replica_labels`. `team` is the label `team` of alerts whose series have none, "" for no label.
    `stretch` False keeps the windows of the app, `longest_for_seconds` shortens how long an alert must have
    held: both are for comparing the alerts with the app's findings.
    """

    selector: str = ""
    up_selector: str = 'job="triton"'
    server: str = "instance"
    model: str = "model"
    version: str = "version"
    workload: str = "workload"
    workload_scope: tuple[str, ...] = ("cluster", "namespace")
    scrape_interval_seconds: float = 60.0
    window_seconds: float = 300.0
    replica_labels: tuple[str, ...] = ("instance", "pod", "node")
    runbook_base: str = RUNBOOKS
    team: str = ""
    stretch: bool = True
    longest_for_seconds: float | None = None
    choices: Mapping[str, RuleChoice] = field(default_factory=dict)
    objectives: tuple[Objective, ...] = ()

    @property
    def server_labels(self) -> tuple[str, ...]:
        """Labels that together name a server."""
        return tuple(name.strip() for name in self.server.split(","))

    @property
    def server_name(self) -> str:
        """The label a person knows the server by: the last of them."""
        return self.server_labels[-1]

    @property
    def least_window_seconds(self) -> float:
        """The shortest window of a rate."""
        return INTERVALS_PER_WINDOW * self.scrape_interval_seconds

    def window(self, wanted_seconds: float | None) -> float:
        """The window that is used for one that a rule asks for (None: the usual one), seconds."""
        return max(wanted_seconds or self.window_seconds, self.least_window_seconds)

    def waiting(self, stage_seconds: float, least_seconds: float) -> float:
        """How long an alert must have held, seconds: as its stage says, or what alerts need."""
        if self.longest_for_seconds is not None:
            least_seconds = min(least_seconds, self.longest_for_seconds)
        return max(stage_seconds, least_seconds)

    def dialect(self, window_seconds: float | None = None, matchers: str = "") -> Dialect:
        """How signals are written; `matchers` besides those of the selector."""
        return Dialect(
            server=", ".join(self.server_labels),
            model=self.model,
            version=self.version,
            window=duration_text(self.window(window_seconds)),
            matchers=", ".join(filter(None, (self.selector, matchers))),
        )

    def on(self, level: Level, *, by_name: bool = False) -> str:
        """Labels by which rows of a level are matched; `by_name`: models whatever their version."""
        if level is Level.SERVER:
            return ", ".join(self.server_labels)
        if level is Level.WORKLOAD:
            scope = (*self.workload_scope, self.workload)
            return ", ".join((*scope, self.model) if by_name else scope)
        return ", ".join((*self.server_labels, self.model, *(() if by_name else (self.version,))))

    def with_workload(self, text: str) -> str:
        """The expression with a workload in every series: without one, a server is a workload of its own."""
        joined = f'label_join({text}, "of", ";", "{self.workload}", "{self.server_name}")'
        # Only where the workload is empty does the joined text begin with the separator.
        filled = f'label_replace({joined}, "{self.workload}", "$1", "of", ";(.*)")'
        return f'label_replace({filled}, "of", "", "", "")'
