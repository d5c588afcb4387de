"""The journal on the page Repository: what each person sees of it, how it is searched and taken along."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from pathlib import Path

import pytest

import runtime
from control.journal import Journal
from control.journal_export import as_csv, as_json_lines
from control.journal_file import JournalFile
from control.restoration import Restoration
from telemetry.access import How, Identity, Right
from telemetry.actions import Action, ActionKind, Conclusion, MemoryChange, Outcome
from telemetry.errors import Unreachable
from telemetry.scrape import Scrape, Source
from tests.pages.write_side import NotingControl, install, open_page, panel

VIEWER = Identity("vic", How.PASSWORD, {"lab": frozenset({Right.VIEW})})


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def did(
    control: NotingControl, model: str, conclusion: Conclusion, *, kind: ActionKind = ActionKind.LOAD,
    sent: bool = True, **more: object,
) -> None:  # fmt: skip
    action = Action(kind, "lab", model, who="alice", why="new weights", **more)  # type: ignore[arg-type]
    journal = control.journal
    record = journal.begin(action, f"{kind.doing} {model}")
    journal.write_down(record.id)
    journal.progress(record.id, sent=sent)
    journal.end(record.id, conclusion)


@pytest.fixture
def control() -> NotingControl:
    made = install()
    memory = (MemoryChange("GPU 0", 1024.0**3, None),)
    did(made, "fast_add", Conclusion(Outcome.DONE, "fast_add is loaded", memory=memory))
    did(
        made, "pipeline", Conclusion(Outcome.FAILED, "pipeline not loaded: no", "Traceback of the server"),
        kind=ActionKind.UNLOAD, parameters={"count": 3},
    )  # fmt: skip
    return made


def test_who_what_why_outcome_memory_and_the_servers_own_text(control: NotingControl) -> None:
    shown = panel(open_page("repository"), "journal")
    assert re.fullmatch(
        r"FAILED pipeline not loaded: no unload of pipeline on lab · by alice · because: new weights · "
        r"took [\d.]+ [mµ]?s \d\d:\d\d:\d\d the server&#x27;s text with count: 3 Traceback of the server "
        r"DONE fast_add is loaded load of fast_add on lab · by alice · because: new weights · "
        r"took [\d.]+ [mµ]?s "
        r"GPU 0: 1 GiB before, not reported after \d\d:\d\d:\d\d",
        words(shown),
    ), words(shown)


def test_a_viewer_sees_what_was_done_and_neither_who_nor_why_nor_details(
    control: NotingControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(open_page("repository").get("download_button")) == 2
    monkeypatch.setattr("ui.journal.me", lambda: VIEWER)
    page = open_page("repository")
    shown = words(panel(page, "journal"))
    assert "pipeline not loaded: no" in shown and "fast_add is loaded" in shown
    for hidden in ("alice", "new weights", "Traceback", "count"):
        assert hidden not in shown
    assert len(page.get("download_button")) == 0


def test_an_unknown_outcome_stands_beside_what_the_server_says_now(control: NotingControl) -> None:
    did(control, "fast_add", Conclusion(Outcome.UNKNOWN, "Outcome unknown: ..."))
    shown = words(panel(open_page("repository"), "journal"))
    assert shown.startswith("UNKNOWN Outcome unknown: ... The server&#x27;s index now says: READY.")
    # What the index said before an outage is not what it says now.
    process = runtime.current()
    error = Unreachable("lab is not reachable")
    for source in (Source.METRICS, Source.STATISTICS, Source.INDEX):
        process.accept(Scrape("lab", source, time.time(), 0.01, error=error))
    shown = words(panel(open_page("repository"), "journal"))
    assert "The server does not answer now: the model&#x27;s state cannot be told." in shown


def test_filters_come_with_the_number_of_actions(control: NotingControl) -> None:
    assert "journal_find" not in [one.key for one in open_page("repository").text_input]
    for number in range(20):
        did(control, f"m{number}", Conclusion(Outcome.DONE, f"m{number} is loaded"))
    page = open_page("repository")
    assert words(panel(page, "journal")).endswith("and 10 older actions: search, or download them")
    page.text_input(key="journal_find").set_value("ALICE pipeline").run()
    assert words(panel(page, "journal")).startswith("FAILED pipeline not loaded")
    assert panel(page, "journal").count('role="article"') == 1
    page.text_input(key="journal_find").set_value("").run()
    page.selectbox(key="journal_end").set_value("failed").run()
    assert panel(page, "journal").count('role="article"') == 1
    page.selectbox(key="journal_kind").set_value("load").run()
    assert words(panel(page, "journal")) == "No action fits."


def test_what_an_earlier_process_left_changed_is_a_banner(control: NotingControl, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    earlier = Journal(store=JournalFile(path))
    earlier.intend(Restoration("lab", "fast_add", None, "the comparison of 14:02"))
    earlier.close()
    control.journal = Journal(store=JournalFile(path))
    shown = words(panel(open_page("repository"), "banners"))
    assert shown == (
        "LEFT OVER fast_add on lab must get back the configuration on disk: the comparison of 14:02 was not "
        "ended. It is put back as soon as the server answers."
    )


def test_the_files_that_are_taken_along(control: NotingControl) -> None:
    did(control, "=HYPERLINK(1)", Conclusion(Outcome.REFUSED, "no"), sent=False)
    lines = control.journal.lines()
    assert [json.loads(line) for line in as_json_lines(lines).splitlines()] == lines
    rows = list(csv.DictReader(io.StringIO(as_csv(lines).decode("utf-8-sig"))))
    assert [(row["model"], row["what"], row["outcome"], row["sent"], row["who"]) for row in rows] == [
        ("fast_add", "load", "done", "yes", "alice"),
        ("pipeline", "unload", "failed", "yes", "alice"),
        ("'=HYPERLINK(1)", "load", "refused", "no", "alice"),
    ]
    assert json.loads(rows[0]["memory"]) == [
        {"where": "GPU 0", "before_bytes": 1024.0**3, "after_bytes": None}
    ]
    assert rows[1]["parameters"] == '{"count": 3}'


def test_c04_memory_that_an_unload_does_not_give_back_is_told_and_not_called_a_leak() -> None:
    made = install()
    memory = (
        MemoryChange("all in use on GPU-1", 9_234_179_686, 8_482_560_410),
        MemoryChange("all in use on CPU", 3.0 * 1024**3, 2.0 * 1024**3),
    )
    did(
        made,
        "fast_add",
        Conclusion(Outcome.DONE, "fast_add is unloaded", memory=memory),
        kind=ActionKind.UNLOAD,
    )
    shown = words(panel(open_page("repository"), "journal"))
    assert "all in use on GPU-1: 8.6 GiB before, 7.9 GiB after (-0.7 GiB)" in shown
    assert "all in use on CPU: 3 GiB before, 2 GiB after (-1 GiB)" in shown
    assert shown.count("The framework may keep memory of a GPU until the server restarts.") == 1
    for word in ("freed", "leak"):
        assert word not in shown.lower()


def test_a_load_and_what_is_no_gpu_say_nothing_of_frameworks(control: NotingControl) -> None:
    gpu = (MemoryChange("all in use on GPU-1", 1024.0**3, 3 * 1024.0**3),)
    did(control, "fast_add", Conclusion(Outcome.DONE, "fast_add is loaded", memory=gpu))
    machine = (MemoryChange("all in use on CPU", 2 * 1024.0**3, 1024.0**3),)
    done = Conclusion(Outcome.DONE, "fast_add is unloaded", memory=machine)
    did(control, "fast_add", done, kind=ActionKind.UNLOAD)
    shown = words(panel(open_page("repository"), "journal"))
    assert "all in use on GPU-1: 1 GiB before, 3 GiB after (+2 GiB)" in shown
    assert "framework" not in shown
