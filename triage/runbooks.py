"""Runbook pages generated from the rules: `python -m triage.runbooks` rewrites docs/runbooks/.

`--check` only says which pages are stale (exit status 1).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from telemetry.units import human_duration
from triage.conditions import Condition
from triage.rulebook import HEADINGS, Rule, Rulebook, Saying, load_rulebook

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "runbooks"
_NOTE = "<!-- generated from triage/rules/{path}: edit that file and run `python -m triage.runbooks` -->"


def pages(rulebook: Rulebook) -> Mapping[str, str]:
    """File name -> text of every runbook page, the index README.md included."""
    texts = {f"{rule.name}.md": page(rule) for rule in rulebook.rules}
    texts["README.md"] = _index(rulebook)
    return texts


def rendered() -> Mapping[str, str]:
    """`pages` of the rules as they are."""
    return pages(load_rulebook())


def page(rule: Rule) -> str:
    """One rule's page: when it fires, then its headings, then what is said and proposed for each cause."""
    blocks = [
        _NOTE.format(path=rule.path),
        f"# {rule.name}",
        f"{rule.title}. Judged for each {rule.level.value}.",
        "## When",
        _list([f"`{condition.text}`" for condition in rule.when]),
        *_unless(rule.unless),
        _stages(rule),
    ]
    for heading in HEADINGS:
        blocks += [f"## {heading}", rule.sections[heading]]
    blocks += ["## Causes it tells apart", _causes(rule)]
    blocks += _folds(rule)
    if rule.needs:
        blocks += ["## When it cannot be judged", _list([need.why for need in rule.needs])]
    blocks += _alert(rule)
    return "\n\n".join(blocks) + "\n"


def _folds(rule: Rule) -> list[str]:
    """What goes under it or is not judged."""
    if rule.hides:
        return [
            "## What it hides",
            "The figures of the server's models, and what would be concluded from them.",
        ]
    if not rule.explains:
        return []
    names = ", ".join(f"[{name}]({name}.md)" for name in rule.explains)
    return ["## What follows from it", f"Of the same model these go under it: {names}."]


def _alert(rule: Rule) -> list[str]:
    """What differs in Prometheus."""
    form, lines = rule.alert, []
    if form.app_only:
        return ["## As an alert of Prometheus", f"There is none. {' '.join(form.app_only.split())}"]
    if not rule.enabled:
        lines.append("It is off unless `rules:` in the settings switches it on, here and there.")
    if form.for_seconds:
        lines.append(f"It must have held for {human_duration(form.for_seconds)}.")
    lines += [f"Besides, `{condition.text}`." for condition in form.when]
    lines += [f"Not when `{condition.text}`." for condition in form.unless]
    lines += [f"Not asked there: `{text}`." for text in form.without]
    lines += [
        f"Where it says {human_duration(short)} here, it is {human_duration(long)} there."
        for short, long in form.windows.items()
    ]
    if form.note:
        lines.append(" ".join(form.note.split()))
    return ["## As an alert of Prometheus", _list(lines)] if lines else []


def _index(rulebook: Rulebook) -> str:
    rows = [
        f"| [{rule.name}]({rule.name}.md) | {rule.title} | {rule.level.value} | {_severities(rule)} |"
        for rule in rulebook.rules
    ]
    table = "\n".join(["| rule | what it says | level | severity |", "|---|---|---|---|", *rows])
    return f"<!-- generated: run `python -m triage.runbooks` -->\n\n# Runbooks\n\n{table}\n"


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _unless(conditions: tuple[Condition, ...]) -> list[str]:
    if not conditions:
        return []
    return ["Not when one of these holds:", _list([f"`{condition.text}`" for condition in conditions])]


def _severities(rule: Rule) -> str:
    return ", ".join(dict.fromkeys(stage.severity.value for stage in rule.stages))


def _stages(rule: Rule) -> str:
    rows = ["| severity | for | and | not when |", "|---|---|---|---|"]
    for stage in rule.stages:
        lasting = human_duration(stage.for_seconds) if stage.for_seconds else "at once"
        rows.append(
            f"| {stage.severity.value} | {lasting} | {_inline(stage.when)} | {_inline(stage.unless)} |"
        )
    return "\n".join(rows)


def _inline(conditions: tuple[Condition, ...]) -> str:
    return ", ".join(f"`{condition.text}`" for condition in conditions) or "–"


def _causes(rule: Rule) -> str:
    lines = []
    for saying in rule.sayings:
        told = [f"`{condition.text}`" for condition in saying.when]
        told += [f"not `{condition.text}`" for condition in saying.unless]
        about = " and ".join(told) or "otherwise"
        lines.append(f"{about}: {saying.remedy.text}{_sureness(saying)}")
    return _list(lines)


def _sureness(saying: Saying) -> str:
    told = f" Confidence {saying.confidence.value}."
    if saying.change is not None:
        told += f" It proposes another `{saying.change.setting.name}`."
    return told


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    """Rewrite the pages, or with `--check` list the stale ones and return 1."""
    wanted = pages(load_rulebook())
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    stale = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    if arguments == ["--check"]:
        if stale:
            print("stale runbooks (run python -m triage.runbooks):", *stale)
        return 1 if stale else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8")
        else:
            (folder / name).unlink()
        print("wrote" if name in wanted else "removed", name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
