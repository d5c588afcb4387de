"""The numbers of the real cases, groups (a) odd expositions, (b) queue and batching, (e) GPU and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from signals.__main__ import main

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "fixtures" / "cases"


class Run:
    """Runs the command in this process and keeps what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> dict[str, Any]:
        status, out, error = self.raw(*arguments, "--json")
        assert (status, error) == (0, "")
        report: dict[str, Any] = json.loads(out, parse_constant=_not_strict)
        return report

    def raw(self, *arguments: str | Path) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        printed = self._capsys.readouterr()
        return status, printed.out, printed.err


def _not_strict(text: str) -> float:
    raise AssertionError(f"{text} is not strict JSON")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


def scrapes(*names: str) -> list[str | Path]:
    return [part for name in names for part in ("--scrape", CASES / name)]


def model(report: dict[str, Any], name: str, version: str = "1") -> dict[str, Any]:
    (row,) = [row for row in report["models"] if (row["model"], row["version"]) == (name, version)]
    signals: dict[str, Any] = row["signals"]
    return signals


def gpu(report: dict[str, Any], uuid: str) -> dict[str, Any]:
    (row,) = [row for row in report["gpus"] if row["gpu_uuid"] == uuid]
    signals: dict[str, Any] = row["signals"]
    return signals


def warned(report: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(warning["source"], warning["line"]) for warning in report["warnings"]]


def test_a01_quantiles_of_a_model_never_used(run: Run) -> None:
    alpha = model(run(*scrapes("a01_quantiles_never_used.prom")), "alpha")
    assert alpha["requests_total"] == 0
    for name in ("request_us_p50", "request_us_p999", "request_us_mean", "queue_us_mean", "batch_size_mean"):
        assert alpha[name] is None


def test_a01_quantiles_whose_window_has_passed(run: Run) -> None:
    alpha = model(run(*scrapes("a01_quantiles_window_expired.prom")), "alpha")
    assert alpha["request_us_mean"] == 550
    assert alpha["queue_us_mean"] == 300
    assert alpha["request_us_p50"] is None and alpha["request_us_p99"] is None


def test_a02_counters_without_total_in_their_name(run: Run) -> None:
    alpha = model(run(*scrapes("a02_counter_suffix.prom")), "alpha")
    assert (alpha["batch_size_mean"], alpha["requests_total"], alpha["queue_us_mean"]) == (2.5, 20, 450)


def test_a03_families_without_samples_are_no_models(run: Run) -> None:
    report = run(*scrapes("a03_families_without_samples.prom"))
    assert report["models"] == [] and report["warnings"] == []
    assert gpu(report, "GPU-aaaa")["utilization_ratio"] == 0.12
    assert gpu(report, "GPU-aaaa")["memory_used_bytes"] is None


def test_a04_a_page_without_gpu_families(run: Run) -> None:
    report = run(*scrapes("a04_no_gpu_families.prom"))
    assert report["gpus"] == []
    (host,) = report["host"]
    assert host["signals"]["cpu_ratio"] == 0.25
    used, total = host["signals"]["memory_used_bytes"], host["signals"]["memory_total_bytes"]
    assert used / total == pytest.approx(0.100, abs=5e-4)
    assert host["signals"]["pinned_memory_used_bytes"] is None


def test_a06_counters_that_carry_gpu_uuid(run: Run) -> None:
    report = run(*scrapes("a06_old_gpu_uuid_label.prom"))
    assert len(report["models"]) == 2
    assert model(report, "alpha", "2")["requests_total"] == 231
    assert model(report, "alpha", "1")["requests_total"] == 9
    assert report["servers"][0]["signals"]["requests_total"] == 240


@pytest.mark.parametrize("name", ["a07_failure_reasons.prom", "a07_failure_single_old.prom"])
def test_a07_failures_with_and_without_reason(run: Run, name: str) -> None:
    report = run(*scrapes(name))
    for signals in (model(report, "alpha"), report["servers"][0]["signals"]):
        assert signals["failures_total"] == 7
        assert signals["failed_ratio"] == pytest.approx(7 / 107)


def test_a07_failures_by_reason(run: Run) -> None:
    alpha = model(run(*scrapes("a07_failure_reasons.prom")), "alpha")
    assert alpha["failures_by_reason"] == {"BACKEND": 4, "REJECTED": 2, "CANCELED": 1, "OTHER": 0}
    old = model(run(*scrapes("a07_failure_single_old.prom")), "alpha")
    assert old["failures_by_reason"] is None


def test_a10_names_with_quotes_braces_newlines_and_unicode(run: Run) -> None:
    expected = json.loads((CASES / "a10_label_escapes.expected.json").read_text(encoding="utf-8"))
    report = run(*scrapes("a10_label_escapes.prom"))
    got = {row["model"]: row["signals"]["requests_total"] for row in report["models"]}
    assert got == expected
    assert len(got) == 12


def test_a11_odd_blanks_and_timestamps(run: Run) -> None:
    report = run(*scrapes("a11_whitespace_timestamps.prom"))
    values = sorted(row["signals"]["requests_total"] for row in report["models"])
    assert values == [11, 12, 13, 14, 15, 16, 17, 18]


@pytest.mark.parametrize("name", ["a11_crlf.prom", "a11_no_final_newline.prom"])
def test_a11_crlf_and_no_final_newline(run: Run, name: str) -> None:
    report = run(*scrapes(name))
    assert model(report, "alpha")["batch_size_mean"] == 2.5
    cut_off = [warning for warning in report["warnings"] if "cut off" in warning["text"]]
    assert bool(cut_off) == (name == "a11_no_final_newline.prom")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a12_truncated_scrape.prom", None),
        ("a12_bad_line_in_middle.prom", 3),
        ("a12_bad_value.prom", 2),
        ("a12_value_1_000.prom", 2),
    ],
)
def test_a12_one_bad_line_costs_that_line(run: Run, name: str, line: int | None) -> None:
    report = run(*scrapes(name))
    lines = [at for source, at in warned(report) if source == name and at is not None]
    assert lines == [15 if line is None else line]


def test_a12_what_is_good_is_kept(run: Run) -> None:
    middle = run(*scrapes("a12_bad_line_in_middle.prom"))
    assert model(middle, "alpha")["requests_total"] == 20
    assert model(middle, "charlie")["requests_total"] == 30
    assert model(middle, "alpha")["inferences_total"] == 50
    assert model(run(*scrapes("a12_truncated_scrape.prom")), "alpha")["batch_size_mean"] == 2.5
    assert run(*scrapes("a12_value_1_000.prom"))["gpus"] == []
    assert gpu(run(*scrapes("a12_bad_value.prom")), "GPU-bbbb")["utilization_ratio"] == 0.5


def test_a12_a_comment_is_no_bad_line(run: Run) -> None:
    report = run(*scrapes("a12_comment_line.prom"))
    assert report["warnings"] == []
    assert model(report, "alpha")["batch_size_mean"] == 2.5


def test_a14_custom_metrics_are_other(run: Run) -> None:
    report = run(*scrapes("a14_custom_metrics.prom"))
    rows = {row["family"]: row for row in report["other"]}
    assert rows["app_seen"]["value"] == 2 and rows["app_seen"]["labels"]["path"] == 'C:\\x "y"'
    assert rows["app_temp"]["value"] is None and rows["app_temp"]["text"] == "Nan"
    assert (rows["app_lat_ms"]["mean"], rows["app_lat_ms"]["value"]) == (5.0, 2)
    assert rows["app_lat_ms"]["kind"] == "histogram" and "le" not in rows["app_lat_ms"]["labels"]
    assert model(report, "alpha")["requests_total"] == 2


def test_a14_a_custom_series_is_no_model(run: Run) -> None:
    report = run(*scrapes("a14_custom_stale_after_unload.prom"))
    assert [row["model"] for row in report["models"]] == ["bravo"]
    assert [row["family"] for row in report["other"]] == ["app_seen"]


@pytest.mark.parametrize(
    ("first", "second", "rate", "batch", "queue_us"),
    [("t0", "t1", 3.0, 4.0, 1000), ("t1", "t2", 0.4, 2.0, 250), ("t2", "t3", 2.0, 4.0, 1000)],
)
def test_a15_resets(run: Run, first: str, second: str, rate: float, batch: float, queue_us: float) -> None:
    report = run(*scrapes(f"a15_reset_{first}.prom", f"a15_reset_{second}.prom"), "--every", "10")
    alpha = model(report, "alpha")
    assert report["window_seconds"] == 10.0
    assert alpha["requests_per_second"] == pytest.approx(rate)
    assert alpha["batch_size_mean"] == pytest.approx(batch)
    assert alpha["queue_us_mean"] == pytest.approx(queue_us)


def test_a15_over_all_four_the_reset_counts_from_zero(run: Run) -> None:
    report = run(*scrapes(*(f"a15_reset_t{i}.prom" for i in range(4))), "--every", "10")
    alpha = model(report, "alpha")
    assert report["window_seconds"] == 30.0
    assert (alpha["requests_total"], alpha["inferences_total"], alpha["executions_total"]) == (54, 108, 29)


def test_a15_a_model_missing_from_the_last_page_is_gone(run: Run) -> None:
    report = run(*scrapes("a15_reset_t0.prom", "a15_gap_t1_missing.prom"))
    states = {row["model"]: row["state"] for row in report["models"]}
    assert states == {"alpha": "GONE", "bravo": None}
    assert set(model(report, "alpha").values()) == {None}
    back = run(*scrapes("a15_reset_t0.prom", "a15_gap_t1_missing.prom", "a15_reset_t2.prom"))
    assert {row["model"]: row["state"] for row in back["models"]} == {"alpha": None, "bravo": "GONE"}
    assert model(back, "alpha")["requests_total"] == 4


def many_models(count: int) -> str:
    """A page of many models of which model i served i + 1 requests; only the last one has one waiting."""
    parts = ("count", "exec_count", "request_duration_us", "queue_duration_us", "compute_infer_duration_us")
    lines: list[str] = []
    for family in ("request_success", *parts):
        lines.append(f"# TYPE nv_inference_{family} counter")
        times = 100 if family.endswith("_us") else 1
        lines += [
            f'nv_inference_{family}{{model="tenant{i:05d}_model",version="1"}} {(i + 1) * times}'
            for i in range(count)
        ]
    lines.append("# TYPE nv_inference_pending_request_count gauge")
    lines += [
        f'nv_inference_pending_request_count{{model="tenant{i:05d}_model",version="1"}} {int(i == count - 1)}'
        for i in range(count)
    ]
    return "\n".join(lines) + "\n"


def test_a18_three_thousand_models(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "many.prom"
    page.write_text(many_models(3000), encoding="utf-8")
    report = run("--scrape", page)
    totals = {row["model"]: row["signals"]["requests_total"] for row in report["models"]}
    assert sum(totals.values()) == 4_501_500 == report["servers"][0]["signals"]["requests_total"]
    assert max(totals, key=lambda name: totals[name]) == "tenant02999_model"
    waiting = [row["model"] for row in report["models"] if row["signals"]["pending"] == 1]
    assert waiting == ["tenant02999_model"] and report["servers"][0]["signals"]["pending"] == 1


def test_a20_values_that_are_not_finite(run: Run) -> None:
    report = run(*scrapes("a20_extremes.prom"))
    rows = {row["labels"]["k"]: row for row in report["other"]}
    assert len(rows) == 11
    assert {key for key, row in rows.items() if row["value"] is None} == {
        "pinf", "ninf", "nan", "nan2", "nan3", "over",
    }  # fmt: skip
    assert rows["int53"]["text"] == "9007199254740993"
    assert (rows["small"]["value"], rows["big"]["value"], rows["plus"]["value"]) == (5e-324, 1e308, 5)
    assert any("app_gauge" in warning["text"] for warning in report["warnings"])


@pytest.mark.parametrize(
    ("name", "kind"), [("a21_html_page.txt", "text/html"), ("a21_json_404.txt", "application/json")]
)
def test_a21_something_else_than_metrics(run: Run, name: str, kind: str) -> None:
    status, out, error = run.raw(*scrapes(name), "--json")
    assert (status, out) == (2, "")
    assert "does not serve Prometheus metrics" in error and kind in error
    assert error.count("\n") == 1 and "Traceback" not in error


def test_b01_one_request_at_a_time(run: Run) -> None:
    report = run(*scrapes("b01_seq_t0.prom", "b01_seq_t1.prom"), "--config", CASES / "b01.config.json")
    alpha = model(report, "alpha")
    assert alpha["batch_size_mean"] == 1.0
    assert alpha["queue_us_mean"] == pytest.approx(162201 / 8)
    assert alpha["request_us_mean"] == pytest.approx(600868 / 8)
    assert alpha["compute_infer_us_mean"] == pytest.approx(435766 / 8)
    assert alpha["compute_input_us_mean"] is None
    assert alpha["queue_ratio"] == pytest.approx(162201 / 600868)


def test_b03_no_pending_family(run: Run) -> None:
    assert model(run(*scrapes("b03_no_pending_family.prom")), "alpha")["pending"] is None


def test_b04_a_stuck_model(run: Run) -> None:
    alpha = model(run(*scrapes("b04_stuck_t0.prom", "b04_stuck_t1.prom")), "alpha")
    assert (alpha["pending"], alpha["requests_total"], alpha["requests_per_second"]) == (3, 0, 0)
    assert alpha["queue_us_mean"] is None and alpha["batch_size_mean"] is None


def test_b07_overload(run: Run) -> None:
    report = run(
        *scrapes("b07_overload_t0.prom", "b07_overload_t1.prom"), "--config", CASES / "b07.config.json"
    )
    alpha = model(report, "alpha")
    assert alpha["queue_us_mean"] == 1_900_000
    assert (alpha["batch_size_mean"], alpha["requests_per_second"]) == (4.0, 100.0)
    assert alpha["compute_infer_us_mean"] == 40_000


def test_b08_refusals_are_not_counted(run: Run) -> None:
    alpha = model(run(*scrapes("b08_rejected_not_counted.prom")), "alpha")
    assert (alpha["failures_total"], alpha["failed_ratio"], alpha["requests_total"]) == (0, 0, 3)


def test_e01_fraction_and_percent(run: Run) -> None:
    report = run(*scrapes("e06_util_scales.prom"))
    assert [row["gpu_uuid"] for row in report["gpus"]] == ["GPU-aaaa"]
    assert gpu(report, "GPU-aaaa")["utilization_ratio"] == 0.87


def test_e01_percent_alone_is_converted(run: Run, tmp_path: Path) -> None:
    lines = (CASES / "e06_util_scales.prom").read_text(encoding="utf-8").splitlines()
    page = tmp_path / "dcgm.prom"
    page.write_text("\n".join(line for line in lines if "nv_gpu" not in line) + "\n", encoding="utf-8")
    assert gpu(run("--scrape", page), "GPU-aaaa")["utilization_ratio"] == pytest.approx(0.87)


def test_e03_memory_by_model(run: Run) -> None:
    report = run("--stats", CASES / "e03_stats_memory_empty.json")
    assert report["window_seconds"] is None
    assert model(report, "alpha")["memory_bytes_by_device"] is None
    assert model(report, "bravo")["memory_bytes_by_device"] == {"GPU 0": 2147483648, "CPU 0": 1048576}
    assert model(report, "alpha")["executions_total"] == 8


def test_e06_memory_of_an_idle_gpu(run: Run) -> None:
    report = run(*scrapes("e07_idle_gpu_context.prom"))
    assert gpu(report, "GPU-aaaa")["memory_used_ratio"] == 0.5625
    assert gpu(report, "GPU-bbbb")["memory_used_ratio"] == pytest.approx(0.0275, abs=5e-5)
    assert gpu(report, "GPU-bbbb")["memory_used_bytes"] == 450 * 2**20


def test_e07_cpu_is_that_of_the_whole_machine(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "cpu.prom"
    page.write_text("# TYPE nv_cpu_utilization gauge\nnv_cpu_utilization 0.25\n", encoding="utf-8")
    assert run("--scrape", page)["host"][0]["signals"]["cpu_ratio"] == 0.25


def test_as_a_process_it_prints_strict_json_and_says_when_nothing_is_readable() -> None:
    command = [sys.executable, "-m", "signals", "--json", "--scrape"]
    good = subprocess.run(
        [*command, str(CASES / "a02_counter_suffix.prom")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(good.stdout, parse_constant=_not_strict)["models"][0]["server"] == "saved"
    bad = subprocess.run(
        [*command, str(CASES / "a21_html_page.txt")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert bad.returncode == 2 and bad.stdout == "" and "Traceback" not in bad.stderr
