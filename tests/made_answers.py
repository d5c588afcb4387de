"""Saved answers of one server made by hand for tests of triage, and what it makes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from signals.saved import SavedAnswers, SavedFile
from triage.command import Judged, judged_answers
from triage.finding import Finding

Counts = dict[str, float]
FAMILIES = {
    "success": "request_success",
    "count": "count",
    "exec": "exec_count",
    "request": "request_duration_us",
    "queue": "queue_duration_us",
    "input": "compute_input_duration_us",
    "infer": "compute_infer_duration_us",
    "output": "compute_output_duration_us",
    "pending": "pending_request_count",
}
REASONS = ("OTHER", "REJECTED", "CANCELED", "BACKEND")


def lines(model: str, version: str = "1", **values: float) -> list[str]:
    """Series of one model on a page; families that are not named are not on it."""
    return [
        f'nv_inference_{FAMILIES[name]}{{model="{model}",version="{version}"}} {value}'
        for name, value in values.items()
    ]


def failed(model: str, version: str = "1", **reasons: float) -> list[str]:
    return [
        f'nv_inference_request_failure{{model="{model}",reason="{reason}",version="{version}"}} '
        f"{reasons.get(reason, 0)}"
        for reason in REASONS
    ]


def work(n: float, *, batch: float = 1, queue_us: float = 100, infer_us: float = 5_000) -> Counts:
    """Counters after `n` requests of one row each."""
    return {
        "success": n,
        "count": n,
        "exec": n / batch,
        "request": n * (queue_us + infer_us),
        "queue": n * queue_us,
        "infer": n * infer_us,
    }


def plus(one: Counts, other: Counts) -> Counts:
    return {name: value + other.get(name, 0) for name, value in one.items()}


def config(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "backend": "python", **fields}


def ensemble(name: str, *steps: str) -> dict[str, Any]:
    rows = [{"model_name": step, "model_version": -1} for step in steps]
    return config(name, platform="ensemble", max_batch_size=8, ensemble_scheduling={"step": rows})


def judged(
    pages: Sequence[Sequence[str]],
    configs: Sequence[dict[str, Any]] = (),
    *,
    indexes: Sequence[list[dict[str, Any]]] = (),
    statistics: Sequence[list[dict[str, Any]]] = (),
    every: float = 10.0,
) -> Judged:
    def files(name: str, answers: Sequence[Any]) -> list[SavedFile]:
        return [SavedFile(name, json.dumps(answer)) for answer in answers]

    return judged_answers(
        SavedAnswers(
            every,
            [SavedFile("page", "\n".join([*page, ""])) for page in pages],
            statistics=files("stats", [{"model_stats": rows} for rows in statistics]),
            indexes=files("index", indexes),
            configs=files("config", configs),
        )
    )


def found(one: Judged) -> list[str]:
    return [
        f"{finding.rule} {finding.severity.value} {finding.model.name if finding.model else finding.server}"
        for finding in one.judgement.findings
    ]


def first(one: Judged) -> Finding:
    return one.judgement.findings[0]


def evidence(finding: Finding) -> dict[str, float | None]:
    return {one.label: one.value for one in finding.evidence}
