"""promtool itself: rule files of some parameters, tests in its notation, and what it says of them."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from prometheus.builder import ALERTS_GROUP, SIGNALS_GROUP, text
from prometheus.parameters import Parameters
from tests.prometheus_server import PROMTOOL
from tests.rules.promtool import Case
from triage.rulebook import load_rulebook

Groups = list[dict[str, Any]]

ENVIRONMENT = os.environ | {"GOGC": "400"}
"""promtool collects its garbage more seldom: it lives for seconds."""
LIMIT_SECONDS = 300.0


def rules_of(parameters: Parameters) -> str:
    """The rule file as it is built for these parameters."""
    return text(load_rulebook(), parameters)


@functools.lru_cache(maxsize=8)
def groups_of(rules: str) -> Groups:
    """The groups of a rule file."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: Groups = yaml.load(rules, Loader=loader)["groups"]
    return found


def only(groups: Groups, alert: str) -> Groups:
    """The groups with one alert and what it stands on: an hour of the others costs a minute each."""
    rows = [row for group in groups for row in group["rules"]]
    kept = [row for row in rows if row.get("alert") == alert]
    for row in kept:  # grows meanwhile: recordings stand on recordings
        kept += [one for one in rows if "record" in one and one["record"] in row["expr"] and one not in kept]
    found = [{**group, "rules": [row for row in group["rules"] if row in kept]} for group in groups]
    return [group for group in found if group["rules"]]


def run(folder: Path, rules: str, cases: Sequence[Case], evaluation_seconds: float, alert: str = "") -> str:
    """promtool's verdict on the cases with these rules: "" if all hold, else what it says.

    `alert`: with this alert alone.
    """
    folder.mkdir(exist_ok=True)
    groups = only(groups_of(rules), alert) if alert else groups_of(rules)
    # JSON is YAML, and written many times faster.
    (folder / "rules.yml").write_text(json.dumps({"groups": groups}) if alert else rules, encoding="utf-8")
    names = [group["name"] for group in groups]
    tests = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": f"{round(evaluation_seconds * 1e3)}ms",
        "group_eval_order": [name for name in (SIGNALS_GROUP, ALERTS_GROUP) if name in names],
        "tests": [case.row() for case in cases],
    }
    (folder / "tests.yml").write_text(json.dumps(tests), encoding="utf-8")
    assert PROMTOOL.exists(), "promtool is missing: run bash tools/prometheus.sh"
    answer = subprocess.run(
        [str(PROMTOOL), "test", "rules", "tests.yml"],
        cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT_SECONDS,
    )  # fmt: skip
    return "" if answer.returncode == 0 else answer.stdout + answer.stderr
