"""What the app reports of itself on its own metrics page: name, kind, labels, meaning."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.catalogue import Kind


@dataclass(frozen=True, slots=True)
class OwnFamily:
    """One family of GET /metrics of the app. A counter's name is without `_total`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def exposed(self) -> str:
        """The name of its samples."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name


_SOURCE = ("server", "source")
ROUNDS = OwnFamily("tritonscope_poller_rounds", Kind.COUNTER, _SOURCE, "Readings of a source")
FAILURES = OwnFamily("tritonscope_poller_failures", Kind.COUNTER, _SOURCE, "Readings of a source that failed")
SUCCESS_AGE = OwnFamily(
    "tritonscope_source_success_age_seconds",
    Kind.GAUGE,
    _SOURCE,
    "Time since a source was last read successfully; absent if it never was",
)
DURATION = OwnFamily(
    "tritonscope_source_duration_seconds", Kind.GAUGE, _SOURCE, "Time the last reading of a source took"
)
SAMPLES = OwnFamily(
    "tritonscope_source_samples", Kind.GAUGE, _SOURCE, "Samples in a source's last successful reading"
)
HISTORY_BYTES = OwnFamily(
    "tritonscope_history_bytes", Kind.GAUGE, (), "Memory of the numbers kept in this process"
)
FINDINGS = OwnFamily(
    "tritonscope_findings", Kind.GAUGE, ("server", "rule", "severity"), "Present findings of triage"
)
REPORTS = OwnFamily("tritonscope_reports", Kind.COUNTER, (), "Times the signals of all models were computed")
REPORT_DURATION = OwnFamily(
    "tritonscope_report_duration_seconds",
    Kind.GAUGE,
    (),
    "Time the last computation of all signals took; absent before the first",
)
ACTIONS = OwnFamily(
    "tritonscope_actions",
    Kind.COUNTER,
    ("server", "kind", "outcome"),
    "Actions of this process that have ended; outcome: done, refused (nothing was sent; also without the "
    "right), failed, stopped, unknown. Absent while control is off",
)
ACTIONS_RUNNING = OwnFamily(
    "tritonscope_actions_running",
    Kind.GAUGE,
    ("server", "kind"),
    "Actions under way now. Absent while control is off",
)
JOURNAL_WRITABLE = OwnFamily(
    "tritonscope_journal_writable",
    Kind.GAUGE,
    (),
    "1 if this process may act; 0 while another one holds the journal or it cannot be written. "
    "Absent while control is off",
)
RESTORATIONS_OPEN = OwnFamily(
    "tritonscope_restorations_open",
    Kind.GAUGE,
    ("server",),
    "Models whose configuration a run changed and that have not got theirs back yet",
)
PROBE_SUCCESS = OwnFamily(
    "tritonscope_probe_success",
    Kind.GAUGE,
    ("server", "model", "version", "cause"),
    "1 if the model answered its newest golden request as expected (cause: ok), else 0 with the cause: "
    "wrong_answer, not_finite, slow, error, process_dead, queue_full, refused, timeout, not_ready, "
    "unreachable. Absent for a model that is not asked",
)
PROBE_TIME = OwnFamily(
    "tritonscope_probe_timestamp_seconds",
    Kind.GAUGE,
    ("server", "model", "version"),
    "Unix time of the model's newest golden request",
)

OWN_FAMILIES = (
    ROUNDS, FAILURES, SUCCESS_AGE, DURATION, SAMPLES, HISTORY_BYTES, FINDINGS, REPORTS, REPORT_DURATION,
    ACTIONS, ACTIONS_RUNNING, JOURNAL_WRITABLE, RESTORATIONS_OPEN, PROBE_SUCCESS, PROBE_TIME,
)  # fmt: skip
