"""Labels and annotations of alerts: what Alertmanager routes by, and what a person reads first."""

from __future__ import annotations

from prometheus.parameters import Parameters
from telemetry.units import Unit
from triage.conditions import Condition
from triage.finding import Severity
from triage.rulebook import Rule
from triage.template import Field, Template
from triage.vocabulary import Level

_FORMATS = {
    Unit.RATIO: "{{ $value | humanizePercentage }}",
    Unit.US: '{{ printf "%.0f" $value }} us',
    Unit.SECONDS: "{{ $value | humanizeDuration }}",
    Unit.BYTES: "{{ $value | humanize1024 }}B",
}


def labels(rule: Rule, severity: Severity, parameters: Parameters) -> dict[str, str]:
    """severity, workload (where there is none, the server) and team, beside the labels of the series."""
    found = {
        "severity": severity.value,
        "workload": f"{{{{ or $labels.{parameters.workload} $labels.{parameters.server_name} }}}}",
    }
    if rule.level is Level.MODEL and parameters.model != "model":
        found["model"] = f"{{{{ $labels.{parameters.model} }}}}"
    if parameters.team:
        found["team"] = f'{{{{ or $labels.team "{parameters.team}" }}}}'
    return found


def texts(rule: Rule, first: Condition, parameters: Parameters) -> dict[str, str]:
    """summary, value, impact, action (what to do), runbook and the link to the app's page."""
    subject = _subject(rule, parameters)
    return {
        "summary": f"{subject}: {rule.title[0].lower()}{rule.title[1:]}",
        "description": " ".join(rule.sections["Meaning"].split("\n\n")[0].split()),
        **_value(first),
        "impact": rule.impact,
        "action": plain_text(rule.sayings[-1].remedy, parameters),
        **runbook(rule.name, parameters),
        "dashboard_url": link(rule.level, parameters),
    }


def runbook(name: str, parameters: Parameters) -> dict[str, str]:
    """Where the rule is explained: an address, or the path in this project."""
    key = "runbook_url" if "://" in parameters.runbook_base else "runbook"
    return {key: f"{parameters.runbook_base.rstrip('/')}/{name}.md"}


def link(level: Level, parameters: Parameters) -> str:
    """The app's page about the subject; empty where Prometheus has no external label tritonscope_url."""
    server = f"server={{{{ $labels.{parameters.server_name} | urlquery }}}}"
    page = f"overview?{server}"
    if level is Level.MODEL:
        model = f"model={{{{ $labels.{parameters.model} | urlquery }}}}"
        version = f"version={{{{ $labels.{parameters.version} | urlquery }}}}"
        page = f"model?{server}&{model}&{version}"
    return f"{{{{ with $externalLabels.tritonscope_url }}}}{{{{ . }}}}/{page}{{{{ end }}}}"


def plain_text(template: Template, parameters: Parameters) -> str:
    """A remedy with the names of model and server; parts that may vanish and numbers are left out."""
    names = {
        "model": f"{{{{ $labels.{parameters.model} }}}}",
        "server": f"{{{{ $labels.{parameters.server_name} }}}}",
    }
    words: list[str] = []
    for part in template.parts:
        if isinstance(part, str):
            words.append(part)
        elif isinstance(part, Field):
            if part.plain not in names:
                raise ValueError(f"the general remedy must not need a number: {template.text!r}")
            words.append(names[part.plain])
    return "".join(words)


def _subject(rule: Rule, parameters: Parameters) -> str:
    server = f"{{{{ $labels.{parameters.server_name} }}}}"
    if rule.level is not Level.MODEL:
        return server
    version = f"{{{{ with $labels.{parameters.version} }}}} v{{{{ . }}}}{{{{ end }}}}"
    return f"{{{{ $labels.{parameters.model} }}}}{version} on {server}"


def _value(first: Condition) -> dict[str, str]:
    """What the alert's number is, where it is a number and not a state."""
    quantity = first.left.quantity
    if not first.left.is_signal:
        return {}
    unit = quantity.unit
    words = "" if unit in (Unit.NONE, Unit.COUNT, *_FORMATS) else f" {unit.value}"
    shown = _FORMATS.get(unit, "{{ $value | humanize }}" + words)
    return {"value": f"{quantity.help}: {shown}"}
