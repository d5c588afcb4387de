"""The page Triage: cards to act on, what changed and why, the timeline, answers in words."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from fake_runtime import SMALL, case, runtime_of, small_repository, text
from triage_pages import COUNT, EVERY, STEP, page_after, stepped

from collectors.config import parse_config
from collectors.exposition import SeriesCache, read_page
from history.alerts import AlertWatch
from runtime import Runtime
from settings import load_settings
from telemetry.alerts import Alert, AlertState
from telemetry.scrape import Scrape, Source
from ui.markdown import markdown

SETTINGS = """
alertmanager: {url: "127.0.0.1:9", public_url: "https://alerts.example.com"}
grafana: {url: "https://grafana.example.com"}
logs: {url_template: "https://logs.example.com/?q={server}+{model}&f={from}&t={to_iso}"}
"""


def elsewhere(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "tritonscope.yml"
    file.write_text(SETTINGS, encoding="utf-8")
    return {"TRITONSCOPE_CONFIG": str(file)}


def reconfigured(process: Runtime, seconds_before_the_step: float) -> None:
    """The configuration of `alpha` becomes another one so long before it becomes slow."""
    server = process.servers[0].id
    at = process.now() - (COUNT - 1 - STEP) * EVERY - seconds_before_the_step
    for when, count in ((at - 60.0, 4), (at, 1)):
        answer = {"name": "alpha", "instance_group": [{"count": count, "kind": "KIND_CPU"}]}
        process.accept(Scrape(server, Source.CONFIG, when, 0.01, payload={"alpha": parse_config(answer)}))


# ---- findings


def test_a_card_has_everything_to_act_on(open_page) -> None:
    page = open_page(small_repository(), "triage")
    first, second = page.panels["cases"].split('role="article"')[1:3]
    assert page.words("header").startswith("Users are hurt: flaky fails 33.1 % of its requests")
    words = " ".join(re.sub(r"<[^>]*>", " ", first).split())
    for part in (
        "FAILING users are hurt since before the recording",
        "flaky fails 33.1 % of its requests: the model itself reports errors (BACKEND)",
        "failed 33.1 % failed per second 1.23 /s failed in 5 min 49",
        "What to do Send one test request to read the error text",
        "Confidence high: the numbers show this cause.",
        "Affected: clients of flaky",
        "It is not a process that is dead for all: requests succeed besides",
        "runbook RequestsFailing: Requests fail Meaning",
        "Mitigation Send one test request and read the error.",
    ):
        assert part in words, part
    assert re.search(r'href="model\?[^"]*from=\d+&amp;to=\d+[^"]*model=flaky', first)
    assert re.search(r'href="test_request\?[^"]*model=flaky[^"]*"[^>]*>Send it a test request<', first)
    assert "from=" not in re.search(r'href="test_request[^"]*"', first)[0]
    assert "slow_add" in second
    # Without settings nothing leads out of the app.
    assert "target=" not in page.panels["cases"]


def test_a_proposed_setting_is_shown_old_and_new_and_can_be_copied(open_page) -> None:
    config = {
        "name": "alpha", "max_batch_size": 8, "dynamic_batching": {},
        "instance_group": [{"count": 2, "kind": "KIND_GPU"}],
    }  # fmt: skip
    # Full batches of 3.9 ms that keep both instances busy nine tenths of the time.
    pages = [page_after(n, per_reading=36_800, batch=8) for n in range(COUNT)]
    process = runtime_of(pages, configs=[json.dumps(config)], every_seconds=EVERY)
    card = open_page(process, "triage").panels["cases"]
    assert card.count("ts-spark-fill") == 3, "each of the three numbers has its course"
    assert "<code>instance_group.count</code>: 2 → <b>4</b>" in card
    snippet = re.search(r'data-copy="([^"]*)"', card)
    assert snippet is not None and "count: 4 kind: KIND_GPU" in snippet[1]


def test_links_lead_to_grafana_logs_and_a_silence_where_the_settings_name_them(
    open_page, tmp_path: Path
) -> None:
    process = runtime_of(
        [
            text(SMALL / f"summary_{moment}_metrics.txt")
            for moment in ("1_idle", "2_under_load", "3_after_load")
        ],
        environ=elsewhere(tmp_path),
    )
    card = open_page(process, "triage").panels["cases"].split('role="article"')[1]
    links = re.findall(r'href="(https://[^"]*)"', card)
    assert [link.split("/")[2].split(".")[0] for link in links] == ["grafana", "logs", "alerts"]
    instance = process.servers[0].id.replace(":1", "%3A8002")
    assert f"/d/tritonscope-model?var-server={instance}&amp;var-model=flaky&amp;var-version=1" in links[0]
    assert f"q={instance}+flaky&amp;f=" in links[1]
    assert "/#/silences/new?filter=%7Balertname%3D%22RequestsFailing%22" in links[2]
    assert card.count('rel="noopener noreferrer"') == 3


def test_nothing_found_says_by_how_many_rules_and_what_could_not_be_judged_once(open_page) -> None:
    page = open_page(case("a02_counter_suffix.prom"), "triage")
    words = page.words("cases")
    assert re.fullmatch(r"Nothing is wrong by the \d\d rules checked at \d\d:\d\d \.", words), words
    assert re.search(r"\d+ checks? could not be judged", page.words("unjudged"))
    reasons = re.findall(r"<li", page.panels["unjudged"])
    assert 1 <= len(reasons) <= 6


def test_a_silent_server_is_not_called_fine(open_page) -> None:
    page = open_page(runtime_of(down=True), "triage")
    assert page.words("cases").startswith("No server answers, so nothing can be judged.")
    assert "Nothing is wrong" not in page.markup


# ---- what changed


def test_a_step_is_told_with_its_numbers_its_time_and_what_was_done_just_before(open_page) -> None:
    process = stepped()
    reconfigured(process, 40.0)
    words = open_page(process, "triage").words("changed")
    assert re.search(
        r"\d\d:\d\d alpha v1 latency rose from 4 ms to 100 ms; queue rose from 100 µs to 96", words
    )
    assert re.search(
        r"Just before: \d\d:\d\d:\d\d alpha runs with another configuration: instances 1 \(was 4\)", words
    )
    assert "bravo" not in words
    card = open_page(process, "triage").words("cases")
    assert re.search(r"What changed: \d\d:\d\d latency rose from 4 ms to 100 ms;", card)
    assert "Just before: " in card


def test_a_step_without_anything_done_says_so_and_how_clients_send(open_page) -> None:
    page = open_page(stepped(), "triage", model="alpha")
    told = "Nothing was done in the 3 min before, and clients send as before (5 /s → 5 /s)."
    assert told in page.words("changed")
    assert told in page.words("about")
    other = open_page(stepped(), "triage", model="bravo")
    assert "What changed before? Nothing: no lasting step in its figures" in other.words("about")


def replicas(tmp_path: Path, *, alike: bool) -> Runtime:
    """Two replicas; `r1` gets another configuration and becomes slow, `r2` only if they behave `alike`."""
    file = tmp_path / "tritonscope.yml"
    file.write_text(
        "servers:\n"
        "  - {id: r1, url: '127.0.0.1:1', workload: search}\n"
        "  - {id: r2, url: '127.0.0.1:2', workload: search}\n",
        encoding="utf-8",
    )
    process = Runtime(load_settings({"TRITONSCOPE_REFRESH_SECONDS": "10"}, path=file))
    now = time.time() // 10.0 * 10.0
    for server in ("r1", "r2"):
        cache = SeriesCache()
        for n in range(COUNT):
            page = page_after(n, slow=alike or server == "r1")
            read = read_page(page, cache, source="metrics")
            at = now - (COUNT - 1 - n) * EVERY
            process.accept(Scrape(server, Source.METRICS, at, 0.01, read.samples, read, read.notices))
    reconfigured(process, 40.0)
    return process


@pytest.mark.parametrize("alike", [False, True])
def test_replicas_with_and_without_the_change_stand_side_by_side(
    open_page, tmp_path: Path, alike: bool
) -> None:
    words = open_page(replicas(tmp_path, alike=alike), "triage").words("changed")
    assert "r1 (something was done) 4 ms → 100 ms, r2 4 ms → " + ("100 ms" if alike else "4 ms") in words
    assert ("only where something was done it changed: that is likely why." in words) == (not alike)
    assert ("it changed alike where nothing was done: that is not why." in words) == alike


# ---- answers


def test_the_questions_of_the_night_are_answered_in_words(open_page) -> None:
    words = open_page(small_repository(), "triage", model="flaky").words("about")
    assert "It is the server: 33.1 % of the requests fail in it, 100 % of them because the model" in words
    assert "May I unload it? No, it is in use: 1.65 requests/s now on" in words
    assert "What fits in the memory that is left?" in words
    step = open_page(small_repository(), "triage", model="fast_add").words("about")
    assert "pipeline uses this model and will stop too" in step
    broken = open_page(small_repository(), "triage", model="broken_init").words("about")
    assert "It is not loaded on 127.0.0.1:1: there is nothing to unload." in broken


# ---- timeline


class Told:
    def __init__(self, now: float) -> None:
        labels = {"instance": "127.0.0.1:8002", "model": "alpha", "severity": "ticket"}
        self._alerts = (
            Alert(
                "QueueDominates", labels, now - 240, None, AlertState.FIRING, "Alertmanager", "<b>waits</b>"
            ),
            Alert(
                "ServerDown", {"instance": "127.0.0.1:8002"}, now - 600, now - 480, AlertState.RESOLVED, "P"
            ),
            Alert("ModelGone", {"instance": "127.0.0.1:8002"}, now - 60, None, AlertState.SILENCED, "A"),
            Alert("DiskFull", {"instance": "elsewhere:9100"}, now - 60, None, AlertState.FIRING, "A"),
        )

    def alerts(self) -> tuple[Alert, ...]:
        return self._alerts


def test_the_timeline_has_actions_changes_findings_and_alerts_with_a_way_to_silence(
    open_page, tmp_path: Path
) -> None:
    process = stepped(**elsewhere(tmp_path))
    reconfigured(process, 40.0)
    process.alerts = AlertWatch(None, Told(process.now()))
    process.alerts.read()
    page = open_page(process, "triage")
    rows = re.findall(r"<li data-key=[^>]*>(.*?)</li>", page.panels["timeline"], re.DOTALL)
    kinds = [re.search(r'class="ts-badge[^"]*">(\w+)<', row)[1] for row in rows]
    assert kinds.index("alert") == 0
    assert {"alert", "config", "finding"} == set(kinds)
    words = page.words("timeline")
    assert "ModelGone fires, silenced: nobody is told" in words
    assert "QueueDominates for alpha fires: &lt;b&gt;waits&lt;/b&gt; by Alertmanager silence" in words
    assert re.search(r"ServerDown fired until \d\d:\d\d \(2 min\)", words)
    assert "DiskFull" not in words, "an alert about something else"
    assert "alerts.example.com/#/silences/new?filter=%7Balertname%3D%22QueueDominates" in page.markup


def test_a_failed_load_stands_in_the_timeline_once_and_amber(open_page) -> None:
    bad = {"name": "bad", "version": "1"}
    states = ({"state": "LOADING"}, {"state": "UNAVAILABLE", "reason": "Internal: weights not found"})
    process = runtime_of(
        [page_after(n) for n in range(COUNT)],
        indexes=[json.dumps([bad | state]) for state in states],
        every_seconds=EVERY,
    )
    page = open_page(process, "triage")
    assert "bad failed to load" in page.words("cases")
    rows = re.findall(r"<li data-key=[^>]*>.*?</li>", page.panels["timeline"], re.DOTALL)
    about = [row for row in rows if "bad " in row]
    assert len(about) == 1 and 'class="ts-badge ticket">failed' in about[0]


def test_an_alert_is_as_red_as_its_severity(open_page) -> None:
    process = small_repository()
    now = process.now()
    named = {"instance": process.servers[0].id, "severity": "ticket"}
    told = {
        "QueueDominates": Alert("QueueDominates", named, now - 60, None, AlertState.FIRING, "Prometheus"),
        "RequestsFailing": Alert(
            "RequestsFailing",
            {"instance": named["instance"]},
            now - 50,
            None,
            AlertState.FIRING,
            "Prometheus",
        ),
        "Custom": Alert(
            "Custom", {"instance": named["instance"]}, now - 40, now - 20, AlertState.RESOLVED, "x"
        ),
    }
    source = Told(now)
    source._alerts = tuple(told.values())
    process.alerts = AlertWatch(None, source)
    process.alerts.read()
    rows = re.findall(
        r"<li data-key=[^>]*>.*?</li>", open_page(process, "triage").panels["timeline"], re.DOTALL
    )
    tones = {
        name: re.search(r'class="ts-badge([^"]*)">alert', row)[1].strip()  # type: ignore[index]
        for name in told
        for row in rows
        if f"{name} " in row and ">alert<" in row
    }
    assert tones == {"QueueDominates": "ticket", "RequestsFailing": "page", "Custom": ""}


def test_without_alerts_in_the_settings_that_is_said_quietly(open_page) -> None:
    words = open_page(stepped(), "triage").words("timeline")
    assert "Alerts are not shown: the settings name neither" in words


def test_markdown_of_runbooks_is_escaped() -> None:
    assert markdown("One `a<b` and **two**\nlines.\n\n1. first\n   more\n2. [x](javascript:y)") == (
        "<p>One <code>a&lt;b</code> and <b>two</b> lines.</p><ol><li>first more</li><li>x</li></ol>"
    )


def test_a_card_of_overview_leads_here(open_page) -> None:
    findings = open_page(small_repository()).panels["findings"]
    assert re.search(r'href="triage\?[^"]*model=flaky[^"]*"[^>]*>look<', findings)
