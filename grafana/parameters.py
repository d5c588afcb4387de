"""What whoever builds the boards may choose: how labels are called in their Prometheus."""

from __future__ import annotations

from dataclasses import dataclass

MINIMUM_GRAFANA = "11.6.0"
"""The oldest Grafana whose own types accept the boards; see docs/grafana.md."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Label names. `server` = all labels that together tell servers apart; the last one is chosen by.

    With the Prometheus Operator a target label `version` turns Triton's into `exported_version`: say so here.
    """

    server: tuple[str, ...] = ("cluster", "instance")
    model: str = "model"
    version: str = "version"
    cluster: str = "cluster"
    namespace: str = "namespace"
    job: str = "job"
    workload: tuple[str, ...] = ("cluster", "namespace", "job", "workload")
    app_url: str = "http://127.0.0.1:8501"

    @property
    def instance(self) -> str:
        """The label the variable `server` chooses by."""
        return self.server[-1]
