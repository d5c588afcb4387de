"""The charts of the model page: asks for the signals of one model and hands them to `charts.model`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from charts import model as charts
from charts.spec import Spec
from history.protocol import Frame
from telemetry.facts import ModelConfig, ModelState
from telemetry.identity import ModelKey
from telemetry.units import human_duration
from ui.format import clock
from ui.marks import marks
from ui.model_rows import STATES
from ui.slo import latency_line
from ui.view import View

QUANTILES = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9"}
"""Suffix of the signal -> how people call it."""
_NOW = {
    "queue": "queue_us_mean",
    "input": "compute_input_us_mean",
    "infer": "compute_infer_us_mean",
    "output": "compute_output_us_mean",
    "answered": "requests_per_second",
    "mean batch": "batch_size_mean",
    "pending": "pending",
    "busy": "instance_busy_ratio",
}
"""Name in a legend -> the signal that the page's headline and the tables take their figures from."""


@dataclass(frozen=True, slots=True)
class ModelCharts:
    """The charts of one model over the time shown."""

    view: View
    key: ModelKey
    config: ModelConfig | None

    def latency_budget(self) -> Spec:
        """Where the time of a request goes."""
        return self._explained(
            charts.latency_budget(
                self._of("queue_us_mean"),
                self._of("compute_input_us_mean"),
                self._of("compute_infer_us_mean"),
                self._of("compute_output_us_mean"),
                range_=self.view.range,
                max_queue_delay_us=self.config.max_queue_delay_us if self.config else None,
                objective=latency_line(self.key),
                marks=marks(self.view, self.key),
            )
        )

    def throughput(self) -> Spec:
        """Requests answered and failed."""
        return self._explained(
            charts.throughput(
                self.key.name,
                self._of("requests_per_second"),
                self._of("failures_per_second"),
                **self._frame(),
            )
        )

    def batch_size(self) -> Spec:
        """Mean batch size with what is allowed and preferred."""
        config = self.config
        return self._explained(
            charts.batch_size(
                self.key.name,
                self._of("batch_size_mean"),
                max_batch_size=config.max_batch_size if config else None,
                preferred=config.preferred_batch_sizes if config else (),
                **self._frame(),
            )
        )

    def pending(self) -> Spec:
        """Requests that wait."""
        limit = self.config.max_queue_size if self.config else None
        return self._explained(
            charts.pending(self.key.name, self._of("pending"), max_queue_size=limit, **self._frame())
        )

    def busy(self) -> Spec:
        """Share of the time its instances execute."""
        ensemble = self.config is not None and self.config.ensemble
        return self._explained(
            charts.busy(self.key.name, self._of("instance_busy_ratio"), ensemble=ensemble, **self._frame())
        )

    def quantiles(self) -> Spec:
        """Quantiles of the request time."""
        frames = {shown: self._of(f"request_us_{name}") for name, shown in QUANTILES.items()}
        return charts.quantiles(frames, objective=latency_line(self.key), **self._frame())

    def histogram(self) -> Spec:
        """Batch sizes that formed over the time shown, and what an inference cost at each."""
        rates = self.view.over_range("executions_per_second_by_batch_size", self.key)
        return self._explained(
            charts.batch_histogram(
                self._counts(rates),
                self.view.over_range("compute_us_by_batch_size", self.key),
                window=f"last {human_duration(self.view.shown_seconds)}",
                max_batch_size=self.config.max_batch_size if self.config else None,
            )
        )

    def failures_by_reason(self) -> dict[str, float]:
        """Failures over the time shown by Triton's reason; {} where none are reported."""
        return self._counts(self.view.over_range("failures_per_second_by_reason", self.key))

    def _counts(self, rates: dict[str, float]) -> dict[str, float]:
        """How many over the time shown, from how many per second."""
        return {name: rate * self.view.shown_seconds for name, rate in rates.items()}

    def _explained(self, spec: Spec) -> Spec:
        """The chart; without data, the reason known of this model instead of the chart's general one."""
        why = self._why_empty()
        return replace(spec, empty=why) if spec.empty and why else self._at_now(spec)

    def _at_now(self, spec: Spec) -> Spec:
        """Legends and headline say the same; while the past is looked at, legends say the last of it."""
        figures = self.view.figures(self.key)
        if self.view.filters.start is not None or figures is None:
            return spec
        known = figures.signals.values
        return spec.at_now({shown: known.get(signal) for shown, signal in _NOW.items()})

    def _why_empty(self) -> str:
        """Why nothing can be drawn whatever the figure; "" where only the figure itself is missing."""
        facts = self.view.facts(self.key)
        if self.view.before_the_record:
            return f"Nothing was recorded then: the oldest figures are of {clock(self.view.oldest or 0.0)}."
        if facts is None or (facts.config is not None and facts.config.ensemble):
            return ""
        if facts.failed:
            return "The model failed to load: it serves nothing."
        if facts.state is not None and facts.state is not ModelState.READY:
            return f"The model is {STATES[facts.state][0]}: it serves nothing."
        if facts.queues_itself:
            return "The backend queues and batches by itself: Triton's figures do not show its work."
        return ""

    def _of(self, signal: str) -> Frame:
        return self.view.of_model(signal, self.key)

    def _frame(self) -> dict:
        return {"range_": self.view.range, "marks": marks(self.view, self.key)}
