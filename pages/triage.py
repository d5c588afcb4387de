"""What do I do? Findings with everything to act on, what changed, and what was done."""

from ui import incident, shell
from ui.empty import nobody_answers, silent
from ui.header import header
from ui.live import live
from ui.model_choice import choose_model, chosen_model
from ui.panel import panel
from ui.triage_answers import answers
from ui.triage_cards import cases, not_judged, nothing_wrong
from ui.triage_changes import changes_section
from ui.triage_compare import comparison, controls
from ui.triage_timeline import timeline
from ui.view import View

shell.guard()


def findings() -> None:
    view = View.take()
    verdict = view.verdict()
    header(view, verdict.sentence, verdict.level.value, tools=incident.links())
    if view.judgement.findings:
        panel(cases(view), key="cases")
    elif silent(view.coverage):
        panel(nobody_answers(view.coverage, "nothing can be judged"), key="cases")
    else:
        panel(nothing_wrong(view), key="cases")
    panel(not_judged(view), key="unjudged")


def changed() -> None:
    panel(changes_section(View.take()), key="changed")


def about() -> None:
    view = View.take()
    key = chosen_model(view)
    if key is not None:
        panel(answers(view, key), key="about")


def happened() -> None:
    panel(timeline(View.take()), key="timeline")


def compared() -> None:
    view = View.take()
    key = chosen_model(view)
    if key is not None:
        panel(comparison(view, key), key="compared")


live(findings, name="findings")
live(changed, name="changed")
choose_model()
live(about, name="about")
live(happened, name="timeline")
controls(View.take())
live(compared, name="compared")
