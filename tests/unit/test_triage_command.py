"""`python -m triage` on saved answers: every public case that has files, the exit status and strict JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triage.__main__ import main

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
FIXTURES = CASES.parent


def run(capsys: pytest.CaptureFixture[str], *names: str, every: str = "10") -> tuple[int, dict[str, Any]]:
    """Exit status and the JSON of the command; the option of a file follows from its name."""
    arguments = ["--json", "--every", every]
    for name in names:
        option = "--scrape"
        if name.endswith(".json"):
            option = next(f"--{one}" for one in ("config", "index", "stats") if one in name)
        arguments += [option, str(CASES / name if (CASES / name).exists() else FIXTURES / name)]
    status = main(arguments)
    written = capsys.readouterr().out
    return status, json.loads(written, parse_constant=pytest.fail) if written else {}


def rules(data: dict[str, Any]) -> list[str]:
    return [f"{one['rule']} {one['severity']} {one['model']}" for one in data["findings"]]


def signals(data: dict[str, Any], model: str) -> dict[str, Any]:
    [row] = [row for row in data["models"] if row["model"] == model]
    return dict(row["signals"])


# ---- (a) odd pages: nothing may be made of them


@pytest.mark.parametrize(
    "pages",
    [
        ["a01_quantiles_never_used.prom"],
        ["a01_quantiles_window_expired.prom"],
        ["a02_counter_suffix.prom"],
        ["a03_families_without_samples.prom"],
        ["a04_no_gpu_families.prom"],
        ["a04_no_gpu_families.prom", "a04_no_gpu_families.prom"],
        ["a06_old_gpu_uuid_label.prom"],
        ["a07_failure_reasons.prom"],
        ["a07_failure_single_old.prom"],
        ["a10_label_escapes.prom", "a10_label_escapes.prom"],
        ["a11_crlf.prom"],
        ["a11_no_final_newline.prom"],
        ["a11_whitespace_timestamps.prom"],
        ["a12_bad_line_in_middle.prom"],
        ["a12_bad_value.prom"],
        ["a12_comment_line.prom"],
        ["a12_truncated_scrape.prom"],
        ["a12_value_1_000.prom"],
        ["a14_custom_metrics.prom", "a14_custom_stale_after_unload.prom"],
        ["a15_reset_t0.prom", "a15_reset_t1.prom", "a15_reset_t2.prom", "a15_reset_t3.prom"],
        ["a15_reset_t0.prom", "a15_gap_t1_missing.prom", "a15_reset_t2.prom"],
        ["a20_extremes.prom", "a20_extremes.prom"],
        ["b03_no_pending_family.prom", "b03_no_pending_family.prom"],
        ["b08_rejected_not_counted.prom"],
        ["e06_util_scales.prom", "e06_util_scales.prom"],
        ["e07_idle_gpu_context.prom", "e07_idle_gpu_context.prom"],
    ],
    ids=lambda pages: " ".join(pages),
)
def test_odd_pages_are_no_findings(pages: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, data = run(capsys, *pages)
    assert (status, data["findings"]) == (0, [])
    # One page says nothing about now, so nothing is called fine.
    if len(pages) == 1:
        assert data["verdict"]["level"] == "unknown"


def test_a04_that_gpus_are_not_reported_is_said_once_with_the_known_causes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, data = run(capsys, "a04_no_gpu_families.prom", "a04_no_gpu_families.prom")
    [why] = [one["why"] for one in data["unjudged"] if "GPU" in one["why"]]
    for cause in ("no GPU or driver", "MIG", "another DCGM agent", "--allow-gpu-metrics=false"):
        assert cause in why


def test_a12_the_lines_that_were_not_understood_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _, data = run(capsys, "a12_bad_line_in_middle.prom")
    assert [row["line"] for row in data["warnings"]] == [3]


@pytest.mark.parametrize("page", ["a21_html_page.txt", "a21_json_404.txt"])
def test_a21_what_is_no_metrics_page_cannot_be_read(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scrape", str(CASES / page)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("This address does not serve Prometheus metrics")


def test_a_name_that_would_steer_the_terminal_is_printed_harmlessly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = []
    for tick, pending in enumerate((0, 3)):
        page = tmp_path / f"{tick}.prom"
        lines = ("request_success{{{}}} 9", "pending_request_count{{{}}} " + str(pending))
        labels = 'model="a\x1b[2Jb\x07",version="1"'
        page.write_text("".join(f"nv_inference_{line.format(labels)}\n" for line in lines), encoding="utf-8")
        pages += ["--scrape", str(page)]
    assert main(pages) == 1
    written = capsys.readouterr().out
    assert "TICKET  a\\x1b[2Jb\\x07 has 3 waiting requests" in written
    assert not any(ord(letter) < 32 and letter != "\n" for letter in written)


# ---- (b) queue, pending, batching


def test_b01_one_request_at_a_time_pays_the_delay(capsys: pytest.CaptureFixture[str]) -> None:
    status, data = run(capsys, "b01_seq_t0.prom", "b01_seq_t1.prom", "b01.config.json")
    assert status == 1
    assert rules(data) == ["OneClientAtATime info alpha"]
    [finding] = data["findings"]
    assert finding["sentence"].startswith("Only one request at a time reaches alpha")
    assert finding["remedy"] == (
        "Send requests in parallel, or lower max_queue_delay_microseconds, now 20 ms."
    )
    assert finding["change"] == {
        "setting": "max_queue_delay_microseconds",
        "old": "20 ms",
        "new": "100 µs",
        "config_pbtxt": (
            "dynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n  max_queue_delay_microseconds: 100\n}"
        ),
    }
    assert finding["confidence"] == "high"
    values = {one["signal"]: one["value"] for one in finding["evidence"]}
    assert values["batch_size_mean"] == 1.0
    assert values["queue_us_mean"] == pytest.approx(20_275.0, abs=1.0)


def test_b03_without_the_pending_gauge_nobody_is_said_to_wait(capsys: pytest.CaptureFixture[str]) -> None:
    _, data = run(capsys, "b03_no_pending_family.prom", "b03_no_pending_family.prom")
    [why] = [one["why"] for one in data["unjudged"] if one["rule"] == "ModelHung"]
    assert "not reported by this server version" in why
    assert "wait" not in data["verdict"]["sentence"]


def test_b04_a_stuck_model_is_no_idle_one(capsys: pytest.CaptureFixture[str]) -> None:
    status, data = run(capsys, "b04_stuck_t0.prom", "b04_stuck_t1.prom")
    assert status == 1
    assert rules(data) == ["ModelHung ticket alpha"]
    [finding] = data["findings"]
    assert finding["sentence"] == "alpha has 3 waiting requests and finished none for 10 s."
    assert finding["affected"] == "clients of alpha on saved: 3 requests wait and none is answered"
    assert finding["harm_per_second"] == 3.0
    assert signals(data, "alpha")["queue_us_mean"] is None


def test_b07_overload_is_not_the_delay_setting(capsys: pytest.CaptureFixture[str]) -> None:
    status, data = run(capsys, "b07_overload_t0.prom", "b07_overload_t1.prom", "b07.config.json")
    assert status == 1
    assert rules(data) == ["QueueDominates ticket alpha"]
    [finding] = data["findings"]
    assert "overloaded" in finding["sentence"]
    assert "batches are full (4 of 4)" in finding["sentence"]
    assert "the delay setting (1 µs) is not the cause" in finding["sentence"]
    assert "Add instances" in finding["remedy"]
    assert "the batching delay: it asks for 1 µs, requests wait 1.9 s" in finding["excluded"]
    # 100 requests per second that wait 1.9 s each: so many are in the queue at any time.
    assert finding["harm_per_second"] == pytest.approx(190.0)


def test_b08_uncounted_refusals_are_not_called_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    page = "b08_rejected_not_counted.prom"
    _, data = run(capsys, page, page)
    assert data["verdict"]["sentence"] == "Nothing is wrong: 1 model seen, 0 req/s."


# ---- (c) repository, (e) devices


def test_c09_an_ensemble_that_went_with_its_step_names_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    pages = ["a03_families_without_samples.prom"] * 2
    _, data = run(capsys, *pages, "c09_ensemble.config.json", "c09_ensemble_index_after.json")
    assert rules(data) == ["EnsembleWithoutStep info pipe"]
    [finding] = data["findings"]
    assert "its step step_one is not loaded" in finding["sentence"]
    assert "comes back by itself" in finding["remedy"]


def test_broken_loads_of_a_real_index_are_all_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The index of a server whose models were broken on purpose, each in its own way."""
    status, data = run(capsys, "repository_index_broken.json")
    assert status == 1
    told = {one["model"]: one["sentence"] for one in data["findings"] if one["rule"] == "ModelLoadFailed"}
    entries = json.loads((FIXTURES / "repository_index_broken.json").read_text(encoding="utf-8"))
    failed = {
        row["name"]
        for row in entries
        if row.get("state") == "UNAVAILABLE" and row.get("reason", "unloaded") != "unloaded"
    }
    assert set(told) == failed
    assert any("no such backend" in sentence for sentence in told.values())


def test_e03_memory_that_is_not_reported_is_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--json", "--stats", str(CASES / "e03_stats_memory_empty.json")])
    data = json.loads(capsys.readouterr().out)
    assert (status, data["findings"]) == (0, [])
    assert signals(data, "alpha")["memory_bytes_by_device"] in (None, {})


def test_every_case_with_files_of_these_groups_is_here() -> None:
    """A case file that is added is judged as well: by name, so that it cannot be forgotten."""
    here = Path(__file__).read_text(encoding="utf-8")
    elsewhere = {"c01_control_mode_503.json", "a10_label_escapes.expected.json"}
    names = {path.name for path in CASES.glob("[abce]*") if path.name not in elsewhere}
    assert {name for name in names if name not in here} == set()


# ---- for people


def test_the_text_says_what_to_do_and_what_it_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--scrape", str(CASES / "b01_seq_t0.prom"), "--scrape", str(CASES / "b01_seq_t1.prom")]
    assert main([*files, "--config", str(CASES / "b01.config.json")]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Nothing is wrong: 1 model seen, 0.8 req/s; worth knowing: alpha gets one request")
    assert "config.pbtxt, max_queue_delay_microseconds: 20 ms -> 100 µs" in text
    assert "It is not overload" in text
    assert "Not judged: ModelLoadFailed: the repository index is not read" in text
    assert max(map(len, text.splitlines())) <= 110


def test_neither_a_server_nor_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "give either the address of a live server" in capsys.readouterr().err
