"""The incident for the ticket: one page of HTML that needs nothing else, without scripts, fit for paper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape

import numpy as np

from history.protocol import Grid
from signals.definition import Level
from signals.definitions import definition
from telemetry.alerts import Alert
from telemetry.identity import ModelKey
from telemetry.scrape import FloatArray
from telemetry.units import NOT_REPORTED, Unit, human, human_duration
from triage.finding import Finding, Severity
from triage.incident import Manifest
from triage.incident_replay import Opened

CHARTS = ("requests_per_second", "failures_per_second", "queue_us_mean", "batch_size_mean")
"""Signals of each model that is drawn."""
MAX_MODELS = 4
MAX_ROWS = 40
_POINTS = 180
_WIDTH, _HEIGHT = 340.0, 84.0
_WORDS = {Severity.PAGE: "Users are hurt", Severity.TICKET: "Look soon", Severity.INFO: "Worth knowing"}
_CODE = re.compile("`([^`]+)`")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root{color-scheme:light}
body{font:15px/1.5 system-ui,sans-serif;color:#1d2420;background:#fff;max-width:60rem;margin:2rem auto;
padding:0 1.25rem;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.3;margin:.2rem 0 .4rem}
h2{font-size:1.1rem;margin:2rem 0 .6rem;border-bottom:1px solid #d9dfda;padding-bottom:.25rem}
h3{font-size:1rem;margin:0 0 .3rem}
.faint{color:#5b665f;font-size:.88rem}
article{border:1px solid #d9dfda;border-left:5px solid #9aa69e;border-radius:6px;padding:.8rem 1rem;
margin:.8rem 0;break-inside:avoid}
article.page{border-left-color:#c4372b}article.ticket{border-left-color:#d38b13}
article p{margin:.35rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;margin:.5rem 0}
dt{color:#5b665f}dd{margin:0}
pre{background:#f3f6f3;padding:.6rem .8rem;border-radius:4px;white-space:pre-wrap;font-size:.85rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}
td,th{text-align:left;padding:.3rem .6rem .3rem 0;border-bottom:1px solid #e6ebe7;vertical-align:top}
td:first-child{white-space:nowrap}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:1rem;margin:0 0 1.2rem}
figure{max-width:22rem}
figure{margin:0;break-inside:avoid}figcaption{font-size:.85rem;color:#5b665f}
svg{width:100%;height:auto;display:block;background:#fafbfa;border:1px solid #e6ebe7;border-radius:4px}
@media (max-width:32rem){dl{grid-template-columns:1fr}dt{margin-top:.35rem}
table,tbody,tr,td{display:block}td{border:0;padding:0}tr{border-bottom:1px solid #e6ebe7;padding:.35rem 0}}
@media print{body{margin:0;max-width:none}}
"""


def summary_page(opened: Opened) -> str:
    """The whole page. Everything that came from a server is escaped."""
    judgement = opened.judgement()
    verdict = opened.verdict(judgement)
    body = "".join(
        (
            _head(opened, verdict.sentence),
            _section("Findings", "".join(_finding(one) for one in judgement.findings) or _nothing(opened)),
            _section("Figures of the range", _charts(opened)),
            _section("What happened", _timeline(opened)),
            _section("What was looked at", _servers(opened)),
        )
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>Incident of {_time(opened.clock())}</title><style>{_STYLE}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def _head(opened: Opened, sentence: str) -> str:
    manifest = opened.incident.manifest
    covered = human_duration(manifest.captured_at - manifest.start)
    return (
        f'<p class="faint">Tritonscope incident, captured {_time(manifest.captured_at)}, '
        f"with the {covered} before it</p><h1>{escape(sentence)}</h1>"
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _nothing(opened: Opened) -> str:
    return f"<p>Nothing is wrong by the {opened.judgement().rules} rules that were checked.</p>"


def _finding(finding: Finding) -> str:
    rows = [
        ("Since", _began(finding)),
        ("Server", finding.server),
        ("Affected", finding.affected),
        ("Numbers", " · ".join(f"{one.label} {human(one.value, one.unit)}" for one in finding.evidence)),
        ("What to do", finding.remedy),
        ("It is not", "; ".join(finding.excluded)),
        ("Confidence", f"{finding.confidence.value} ({finding.rule})"),
    ]
    change = finding.change
    lines = (
        ""
        if change is None
        else f"<p>{escape(change.setting)}: {escape(change.old)} → {escape(change.new)}</p>"
        f"<pre>{escape(change.snippet)}</pre>"
    )
    follows = "".join(f"<li>{escape(one.sentence)}</li>" for one in finding.follows)
    return (
        f'<article class="{finding.severity.value}"><h3>{escape(finding.sentence)}</h3>'
        f'<p class="faint">{_WORDS[finding.severity]}. {_inline(finding.impact)}</p>'
        f"{_terms(rows)}{lines}"
        + (f"<p>Follows from it:</p><ul>{follows}</ul>" if follows else "")
        + (f"<pre>{escape(finding.detail)}</pre>" if finding.detail else "")
        + "</article>"
    )


def _began(finding: Finding) -> str:
    if finding.since is not None:
        return _time(finding.since)
    known = [one.since for one in finding.follows if one.since is not None]
    return f"{_time(min(known))} or before" if known else "before the record begins"


def _inline(text: str) -> str:
    """Text of a rule, in which backquotes stand around code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _terms(rows: Iterable[tuple[str, str]]) -> str:
    shown = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in rows if text)
    return f"<dl>{shown}</dl>"


def _timeline(opened: Opened) -> str:
    """Events, actions, changed configurations, alerts and when each finding began, the newest last."""
    manifest, facts = opened.incident.manifest, opened.incident.facts
    rows = [(one.at, one.text) for one in facts.events.events if one.at >= manifest.start]
    for record in facts.records:
        action = record.action
        who = f" by {action.who}" if action.who else ""
        what = f"{action.kind.value} of {action.target} on {action.server}{who}"
        rows.append((record.started_at, f"{what}: {record.summary(opened.clock())}"))
    told = {(one.model, round(one.at)) for one in facts.events.events}
    rows += [
        (one.since, f"begins: {one.sentence}")
        for one in opened.judgement().findings
        if one.since is not None and (one.model, round(one.since)) not in told
    ]
    rows += _changed(opened)
    rows += [(one.starts_at, _alert(one)) for one in facts.alerts.alerts if _held(one, manifest)]
    left_out = len(rows) - MAX_ROWS
    rows = sorted(rows)[-MAX_ROWS:]
    if not rows:
        return "<p>No load, unload, restart, reset, action or alert in this time.</p>"
    shown = "".join(f"<tr><td>{_time(at)}</td><td>{escape(text)}</td></tr>" for at, text in rows)
    before = f'<p class="faint">{left_out:,} earlier lines are in the file.</p>' if left_out > 0 else ""
    return f"{before}<table><tbody>{shown}</tbody></table>"


def _changed(opened: Opened) -> Iterator[tuple[float, str]]:
    """Configurations that became others, whoever did it."""
    start = opened.incident.manifest.start
    for (server, model), changes in opened.configs.changes(start).items():
        for one in changes:
            yield one.at, f"{model} on {server} runs with another configuration: {one.words()}"


def _held(alert: Alert, manifest: Manifest) -> bool:
    return alert.starts_at <= manifest.captured_at and (
        alert.ends_at is None or alert.ends_at >= manifest.start
    )


def _alert(alert: Alert) -> str:
    about = " ".join(filter(None, (alert.name, f"for {alert.model}" if alert.model else "")))
    where = f" on {alert.server}" if alert.server else ""
    over = f", until {_time(alert.ends_at)}" if alert.ends_at is not None else ""
    return f"alert {about}{where} ({alert.state.value}{over}), by {alert.source}"


def _servers(opened: Opened) -> str:
    manifest = opened.incident.manifest
    rows = []
    for one in opened.coverage():
        version = f"Triton {manifest.triton[one.server]}" if one.server in manifest.triton else NOT_REPORTED
        state = "answered" if one.answering else one.sentence or "did not answer"
        rows.append(
            f"<tr><td>{escape(one.server)}</td><td>{escape(version)}</td><td>{escape(state)}</td></tr>"
        )
    unjudged = dict.fromkeys(one.why for one in opened.judgement().unjudged)
    notes = [*manifest.notes, *(f"not judged: {why}" for why in unjudged)]
    said = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f"<table><tbody>{''.join(rows)}</tbody></table>"
        f'<p class="faint">Figures over the last {human_duration(manifest.window_seconds)}, read every '
        f"{human_duration(manifest.interval_seconds)}; rules {escape(manifest.rules)}, "
        f'Tritonscope {escape(manifest.tritonscope)}.</p><ul class="faint">{said}</ul>'
    )


# ---- charts


def _charts(opened: Opened) -> str:
    """The models the findings name, or those with most requests."""
    manifest = opened.incident.manifest
    step = max(2.0, round((manifest.captured_at - manifest.start) / _POINTS))
    now = opened.now()
    grid = Grid(now - (now - manifest.start) // step * step, now, step)
    parts = []
    for key in _models(opened):
        figures = "".join(_chart(opened, name, key, grid) for name in CHARTS)
        if figures:
            place = f" on {key.server}" if len(opened.servers) > 1 else ""
            name = escape(key.label() + place)
            parts.append(f'<h3>{name}</h3><div class="charts">{figures}</div>')
    if not parts:
        return "<p>No model had figures in this time.</p>"
    range_ = f"{_time(grid.start)} to {_clock(grid.end)}"
    return f'<p class="faint">{range_}; what stood at 0 all the time is not drawn.</p>{"".join(parts)}'


def _models(opened: Opened) -> list[ModelKey]:
    found = opened.judgement().findings
    keys = [one.model for one in (*found, *(two for one in found for two in one.follows)) if one.model]
    rows = [row for row in opened.report().models if row.signals.number("requests_per_second")]
    rows.sort(key=lambda row: -(row.signals.number("requests_per_second") or 0.0))
    return list(dict.fromkeys((*keys, *(row.key for row in rows))))[:MAX_MODELS]


def _chart(opened: Opened, name: str, key: ModelKey, grid: Grid) -> str:
    row = definition(name, Level.MODEL)
    frame = opened.signal_range(
        name, grid, level=Level.MODEL, server=key.server, model=key.name, version=key.version
    )
    values = frame.values[:, 0] if frame.keys else np.empty(0)
    if name == "batch_size_mean":
        # Below 1 executions failed: they are counted, the inferences in them are not.
        values = np.where(values >= 1, values, np.nan)
    known = values[np.isfinite(values)]
    if not known.size or (known.max() == 0 and name != CHARTS[0]):
        return ""
    caption = f"{row.title}: last {_human(values, row.unit)}, highest {human(float(known.max()), row.unit)}"
    return (
        f"<figure>{_svg(values, float(known.max()), caption)}"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _human(values: FloatArray, unit: Unit) -> str:
    last = float(values[-1])
    return human(last if np.isfinite(last) else None, unit)


def _svg(values: FloatArray, top: float, label: str) -> str:
    """A line from the bottom (0) to the top (the highest value); where there is no value, a gap."""
    lines = "".join(
        f'<polyline points="{points}" fill="none" stroke="#2f7fd1" stroke-width="1.6"/>'
        for points in _runs(values, top or 1.0)
    )
    return f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{escape(label)}">{lines}</svg>'


def _runs(values: FloatArray, top: float) -> Iterator[str]:
    width = _WIDTH / max(1, len(values) - 1)
    run: list[str] = []
    for place, value in enumerate([*values.tolist(), float("nan")]):
        if np.isfinite(value):
            height = _HEIGHT - 4.0 - (_HEIGHT - 8.0) * min(1.0, max(0.0, value / top))
            run.append(f"{place * width:.1f},{height:.1f}")
        elif run:
            yield " ".join(run if len(run) > 1 else [run[0], run[0]])
            run = []


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%d %b %Y %H:%M:%S} UTC"


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"
