"""From a finding or an alert to where else an operator looks: Grafana, the logs, a silence."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import runtime
from collectors.exporter_families import instance_of
from telemetry.elsewhere import grafana_link, log_link, silence_link
from triage.finding import Finding
from triage.rule import Rule
from triage.rulebook import load_rulebook
from ui.html import Child, Html, div, link, tag
from ui.view import View

BEFORE_SECONDS = 600.0
"""Boards and logs open from this long before a finding began."""
UNKNOWN_SECONDS = 3600.0
"""The same where it began before the recording."""


@cache
def rule_named(name: str) -> Rule | None:
    """The rule of a finding; None for one that this version does not have (of an incident file)."""
    return next((rule for rule in load_rulebook().rules if rule.name == name), None)


def ways_on(finding: Finding, view: View) -> Html:
    """The row of links under a finding."""
    start, end = span_of(finding, view)
    params = view.filters.params(**{"from": f"{start:.0f}", "to": f"{end:.0f}"})
    ways: list[Child] = []
    if finding.model is not None:
        params |= {"server": finding.server, "model": finding.model.name, "version": finding.model.version}
        ways.append(link("Model at that time", "model", params))
        ways.append(link("Load or unload it", "repository", view.filters.params(model=finding.model.name)))
        del params["from"], params["to"]
        ways.append(link("Send it a test request", "test_request", params))
    return div(*ways, *outside(finding, view), class_="ts-ways")


def outside(finding: Finding, view: View) -> list[Html]:
    """Links out of the app, as far as the settings name where to."""
    elsewhere = runtime.current().settings.elsewhere
    start, end = span_of(finding, view)
    named = {
        "server": instance(finding.server),
        "model": finding.model.name if finding.model else "",
        "version": finding.model.version if finding.model else "",
    }
    found = []
    if elsewhere.grafana_url:
        found.append(
            away("Open in Grafana", grafana_link(elsewhere.grafana_url, **named, start=start, end=end))
        )
    if elsewhere.log_template:
        found.append(away("Logs", log_link(elsewhere.log_template, **named, start=start, end=end)))
    rule = rule_named(finding.rule)
    if elsewhere.alertmanager is not None and rule is not None and not rule.alert.app_only:
        labels = {"alertname": finding.rule, "instance": named["server"], "model": named["model"]}
        found.append(away("Silence its alert", silence_link(elsewhere.alertmanager.public_url, labels)))
    return found


def silence(name: str, labels: Mapping[str, str]) -> Html | None:
    """A link that silences an alert; None where no Alertmanager is known."""
    alertmanager = runtime.current().settings.elsewhere.alertmanager
    if alertmanager is None:
        return None
    kept = {key: labels[key] for key in ("instance", "model", "version", "workload") if labels.get(key)}
    return away("silence", silence_link(alertmanager.public_url, {"alertname": name, **kept}))


def away(label: str, url: str) -> Html:
    """A link out of the app, in a tab of its own; the other side is not told where it came from."""
    return tag("a", f"{label} ↗", href=url, target="_blank", rel="noopener noreferrer")


def span_of(finding: Finding, view: View) -> tuple[float, float]:
    """The time around a finding, unix seconds."""
    since = finding.since
    return (since - BEFORE_SECONDS if since is not None else view.now - UNKNOWN_SECONDS), view.now


def instance(server_id: str) -> str:
    """What Prometheus, Alertmanager and the boards call a server."""
    server = runtime.current().server(server_id)
    return instance_of(server) if server is not None else server_id
