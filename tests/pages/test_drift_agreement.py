"""The Repository page, the finding on the Overview, the count on /metrics and an incident file name the same
models as drifted, whatever was done to them and by whom."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from drift_night import FILE, KEPT, MODEL, RELOADED, Night, config

import runtime
import server
from collectors.exposition import read_page
from replay import replayed
from runtime import Runtime
from settings import Settings
from telemetry.actions import ActionKind, Outcome
from triage.finding import Finding

RULE = "ConfigDrift"
BIG, BIGGER = config(max_batch_size=16), config(max_batch_size=32)


def overridden(night: Night) -> None:
    night.override(BIG)


def overridden_long_ago(night: Night) -> None:
    night.override(BIG)
    night.later(2 * 3600.0)


def overridden_and_reloaded_without_a_changed_file(night: Night) -> None:
    night.override(BIG)
    night.act(ActionKind.RELOAD, BIG, sentence=f"{MODEL}: {KEPT}")


def overridden_and_reverted(night: Night) -> None:
    night.override(BIG)
    night.act(ActionKind.REVERT, config())


def overridden_unloaded_and_loaded(night: Night) -> None:
    night.override(BIG)
    night.act(ActionKind.UNLOAD, None)
    night.act(ActionKind.LOAD, config())


def overridden_unloaded_and_loaded_by_somebody(night: Night) -> None:
    night.override(BIG)
    night.somebody(None)
    night.somebody(config())


def overridden_made_lasting_and_loaded_by_somebody(night: Night) -> None:
    night.override(BIG)
    night.somebody(None)
    night.somebody(BIG)


def overridden_and_unloaded(night: Night) -> None:
    night.override(BIG)
    night.somebody(None)


def overridden_and_the_server_restarted(night: Night) -> None:
    night.override(BIG)
    night.later(60.0)
    night.restart_server()


def overridden_made_lasting_and_the_server_restarted(night: Night) -> None:
    night.override(BIG)
    night.later(60.0)
    # Its file says so now: what runs is what was brought, and no drift, however long ago the restart is.
    night.restart_server(BIG)
    night.later(3 * 3600.0)


def changed_by_somebody(night: Night) -> None:
    night.somebody(BIG)


def changed_by_somebody_an_hour_ago(night: Night) -> None:
    night.somebody(BIG)
    night.later(3700.0)


def changed_by_somebody_and_the_server_restarted(night: Night) -> None:
    night.somebody(BIG)
    night.later(60.0)
    night.restart_server()


def changed_by_somebody_over_an_override(night: Night) -> None:
    night.override(BIG)
    night.later(60.0)
    night.somebody(config(response_cache={"enable": True}))


def overridden_and_taken_back_by_somebody(night: Night) -> None:
    night.override(BIG)
    night.later(60.0)
    night.somebody(config())


def file_changed_and_reloaded(night: Night) -> None:
    night.act(ActionKind.RELOAD, BIG, sentence=f"{MODEL}: {RELOADED}")


def overridden_file_changed_and_reloaded(night: Night) -> None:
    night.override(BIG)
    night.act(ActionKind.RELOAD, BIGGER, sentence=f"{MODEL}: {RELOADED}")


def overridden_made_lasting_and_reloaded(night: Night) -> None:
    night.override(BIG)
    night.act(ActionKind.RELOAD, BIG, sentence=f"{MODEL}: {RELOADED}")


def file_changed_and_polled(night: Night) -> None:
    night.somebody(config(max_batch_size=4))


def outcome_unknown_and_in_force(night: Night) -> None:
    night.override(BIG, Outcome.UNKNOWN)


def outcome_unknown_and_not_in_force(night: Night) -> None:
    night.override(BIG, Outcome.UNKNOWN, in_force=False)


def override_failed(night: Night) -> None:
    night.override(BIG, Outcome.FAILED, in_force=False)


def gated_reload_put_back(night: Night) -> None:
    policy = {"specific": {"versions": [1]}}
    night.act(ActionKind.RELOAD, config(version_policy=policy), Outcome.FAILED, "put back")


def overridden_and_the_app_restarted(night: Night) -> None:
    night.override(BIG)
    night.restart_app()


def app_killed_while_overriding(night: Night) -> None:
    control = night.process.control
    assert control is not None
    night.override(BIG, Outcome.UNKNOWN)
    night.restart_app()


def reverted_and_the_app_restarted(night: Night) -> None:
    night.override(BIG)
    night.act(ActionKind.REVERT, config())
    night.restart_app()


def the_app_restarted_and_then_the_server(night: Night) -> None:
    night.override(BIG)
    night.restart_app()
    night.restart_server()


def changed_by_somebody_and_the_app_restarted(night: Night) -> None:
    night.somebody(BIG)
    night.restart_app()


# Situation -> what the page says of the model; "" where there is no drift.
OURS = "max_batch_size 16 (its file: 8) since "
SITUATIONS: dict[Callable[[Night], None], str] = {
    overridden: OURS,
    overridden_long_ago: OURS,
    overridden_and_reloaded_without_a_changed_file: OURS,
    overridden_and_reverted: "",
    overridden_unloaded_and_loaded: "",
    overridden_unloaded_and_loaded_by_somebody: "",
    overridden_made_lasting_and_loaded_by_somebody: "",
    overridden_and_unloaded: "",
    overridden_and_the_server_restarted: "",
    overridden_made_lasting_and_the_server_restarted: "",
    changed_by_somebody: "by somebody else: preferred_batch_size 16 (was 8), max_batch_size 16 (was 8)",
    changed_by_somebody_an_hour_ago: "",
    changed_by_somebody_and_the_server_restarted: "",
    changed_by_somebody_over_an_override: "by somebody else:",
    overridden_and_taken_back_by_somebody: "",
    file_changed_and_reloaded: "",
    overridden_file_changed_and_reloaded: "",
    overridden_made_lasting_and_reloaded: "",
    file_changed_and_polled: "by somebody else: preferred_batch_size 4 (was 8), max_batch_size 4 (was 8)",
    outcome_unknown_and_in_force: OURS,
    outcome_unknown_and_not_in_force: "",
    override_failed: "",
    gated_reload_put_back: "overridden by ops",
    overridden_and_the_app_restarted: OURS,
    app_killed_while_overriding: OURS,
    reverted_and_the_app_restarted: "",
    the_app_restarted_and_then_the_server: "",
    # Nothing is left that could tell: its files cannot be read.
    changed_by_somebody_and_the_app_restarted: "",
}


def edited(night: Night) -> None:
    night.write(MODEL, FILE.replace("max_batch_size: 8", "max_batch_size: 16"))
    night.read()


def edited_and_polled(night: Night) -> None:
    edited(night)
    night.somebody(BIG)


def edited_and_reloaded(night: Night) -> None:
    edited(night)
    night.act(ActionKind.RELOAD, BIG, sentence=f"{MODEL}: {RELOADED}")


def overridden_and_made_lasting(night: Night) -> None:
    night.override(BIG)
    edited(night)


WITH_FILES: dict[Callable[[Night], None], str] = {
    overridden: OURS,
    overridden_and_reverted: "",
    overridden_and_made_lasting: "",
    changed_by_somebody: "max_batch_size 16 (its file: 8); it is lost",
    changed_by_somebody_an_hour_ago: "max_batch_size 16 (its file: 8); it is lost",
    edited: "max_batch_size 8 (its file: 16); it is lost",
    edited_and_polled: "",
    edited_and_reloaded: "",
    overridden_and_the_app_restarted: OURS,
}


def findings(process: Runtime) -> dict[str, Finding]:
    """The finding by model, also where it only follows from another."""
    found = process.judgement().findings
    rows = [one for finding in found for one in (finding, *finding.follows) if one.rule == RULE]
    return {one.model.name: one for one in rows if one.model is not None}


def counted(process: Runtime) -> float:
    """The count on /metrics."""
    page = read_page(server.own_metrics(process).decode())
    values = zip(page.samples.series, page.samples.values.tolist(), strict=True)
    return sum(
        value
        for series, value in values
        if series.name == "tritonscope_findings" and series.label("rule") == RULE
    )


def marked(markup: str) -> dict[str, str]:
    """The marks of a page's table by model: what its tooltip says."""
    found = {}
    for row in re.findall(r"<tr[^>]*>(.*?)</tr>", markup, re.DOTALL):
        mark = re.search(r'<span[^>]*data-tip="([^"]*)"[^>]*>drift</span>', row)
        name = re.search(r'class="ts-name"[^>]*>([^<]+)<', row)
        if mark and name:
            found[name[1]] = html.unescape(mark[1])
    return found


def agreed(night: Night, open_page, tmp_path: Path) -> tuple[dict[str, str], dict[str, Finding]]:
    """What everybody says, after it was seen to be the same."""
    process = night.process
    runtime.install(process)
    marks = marked(open_page(process, "repository").panels["models"])
    told = findings(process)
    assert set(marks) == set(told)
    assert counted(process) == len(told)
    overview = open_page(process, "overview")
    assert set(marked(overview.panels["models"])) == set(told)
    for one in told.values():
        assert one.sentence in html.unescape(overview.words("findings"))
    night.process.capture(tmp_path / "incident.zip")
    there = replayed(tmp_path / "incident.zip", Settings())
    again = findings(there)
    assert {name: (one.sentence, one.since) for name, one in again.items()} == {
        name: (one.sentence, one.since) for name, one in told.items()
    }
    if night.files:
        # There they cannot be read any more.
        assert set(marked(open_page(there, "repository").panels["models"])) == set(told)
    return marks, told


def check(night: Night, open_page, tmp_path: Path, words: str) -> None:
    marks, told = agreed(night, open_page, tmp_path)
    assert set(told) == ({MODEL} if words else set())
    if words:
        assert words in marks[MODEL]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_everybody_says_the_same_where_files_cannot_be_read(
    situation: Callable[[Night], None], open_page, tmp_path: Path
) -> None:
    night = Night(tmp_path)
    situation(night)
    check(night, open_page, tmp_path, SITUATIONS[situation])


@pytest.mark.parametrize("situation", WITH_FILES, ids=lambda one: one.__name__)
def test_everybody_says_the_same_where_files_are_read(
    situation: Callable[[Night], None], open_page, tmp_path: Path
) -> None:
    night = Night(tmp_path, files=True)
    situation(night)
    check(night, open_page, tmp_path, WITH_FILES[situation])
