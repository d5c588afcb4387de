"""Kinds of saved files: cut off, wrongly encoded, of another kind, missing; what the command then prints."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectors.exposition import read_page
from signals.__main__ import main
from telemetry.errors import WrongContent

FIXTURES = Path(__file__).parents[1] / "fixtures"
PAGE = '# TYPE nv_inference_request_success counter\nnv_inference_request_success{model="a",version="1"} 20\n'
Printed = tuple[int, str, str]
Command = Callable[..., Printed]


def _not_strict(text: str) -> float:
    raise AssertionError(f"{text} is not strict JSON")


def parsed(printed: Printed) -> dict[str, Any]:
    """The report of a run that succeeded and printed nothing else."""
    status, out, error = printed
    assert (status, error) == (0, "")
    report: dict[str, Any] = json.loads(out, parse_constant=_not_strict)
    return report


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command; keyword arguments are options with the content of their file (None: no file)."""

    def run(*options: str, **files: str | bytes | None) -> Printed:
        arguments = list(options)
        for option, content in files.items():
            path = tmp_path / f"saved_{option}"
            if content is not None:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
            arguments += [f"--{option.split('_')[0]}", str(path)]
        try:
            status = main(arguments)
        except SystemExit as ending:
            status = int(str(ending.code))
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def requests(report: dict[str, Any]) -> dict[str, float | None]:
    return {row["model"]: row["signals"]["requests_total"] for row in report["models"]}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_page_cut_off_at_any_byte_keeps_every_whole_line(ending: str) -> None:
    text = (FIXTURES / "small_repo" / "summary_3_after_load_metrics.txt").read_text(encoding="utf-8")
    kept = text.split("\n")
    data = ending.join([*kept[:30], *kept[-25:]])
    for cut in range(len(data) + 1):
        lines = data[:cut].split("\n")
        whole = [line for line in lines[:-1] if line.strip() and not line.startswith("#")]
        try:
            page = read_page(data[:cut])
        except WrongContent:
            assert not whole and cut < len("# HELP x")
            continue
        assert len(whole) <= len(page.samples.series) <= len(whole) + 1
        assert [notice.line for notice in page.notices] == ([len(lines)] if lines[-1].strip() else [])


@pytest.mark.parametrize(
    "content",
    [
        PAGE.encode("utf-8-sig"),
        PAGE.encode("utf-16"),
        PAGE.replace("\n", "\r\n").encode("utf-16"),
        PAGE.replace("\n", "\r\n\r\n").encode(),
        (PAGE + "# EOF\n").encode(),
        (PAGE.replace("request_success{", "request_success_total{") + "# EOF\n").encode(),
        PAGE.replace("request_success", "request_success_total").encode(),
        ("\n\n" + PAGE + PAGE.splitlines()[0] + "\n# HELP nv_inference_request_success late\n").encode(),
        PAGE.replace("} 20", '} 20 # {trace_id="x"} 0.5 1700000000.5').encode(),
    ],
    ids=[
        "utf-8 mark",
        "utf-16",
        "utf-16 crlf",
        "blank lines",
        "EOF",
        "OpenMetrics",
        "_total",
        "HELP late",
        "exemplar",
    ],
)
def test_pages_that_are_read_without_a_word(command: Command, content: bytes) -> None:
    report = parsed(command("--json", scrape=content))
    assert requests(report) == {"a": 20} and report["warnings"] == []


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (PAGE + 'x{a="1"} 5\0\n', 3),
        (PAGE + 'x{a="' + "y" * 1_000_000 + "\n", 3),
        (PAGE + 'x{a="1",a="2"} 5\n', 3),
        (PAGE + "x 5 then more\n", 3),
        (PAGE + "x 1_000\n", 3),
        (PAGE + "x \u0665\n", 3),
        (PAGE + PAGE, 4),
        (b"\n" + PAGE.encode() + 'x{a="\xe9"} 5\n'.encode("latin-1"), 4),
        (PAGE[:-1], 2),
        (PAGE + 'nv_inference_count{model="a",ver', 3),
    ],
    ids=[
        "NUL",
        "long",
        "label twice",
        "words",
        "underscore",
        "digits",
        "series twice",
        "latin-1",
        "end",
        "cut",
    ],
)
def test_one_odd_line_is_named(command: Command, content: str | bytes, line: int) -> None:
    report = parsed(command("--json", scrape=content))
    assert requests(report) == {"a": 20}
    assert [(one["source"], one["line"]) for one in report["warnings"]] == [("saved_scrape", line)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "an empty answer"),
        (b" \n\n", "an empty answer"),
        (gzip.compress(PAGE.encode()), "compressed (gzip)"),
        (PAGE.encode("utf-16-le"), "does not serve Prometheus metrics"),
        (b"\xef\xbb\xbf<html>", "text/html"),
        (b'\xef\xbb\xbf{"error": "x"}', "application/json"),
        (b"\x00\x01\x02", "does not serve Prometheus metrics"),
        (None, "cannot be read: No such file"),
    ],
    ids=["empty", "blank", "gzip", "utf-16 without mark", "html", "json", "binary", "missing"],
)
def test_nothing_readable_is_status_2_with_one_sentence(
    command: Command, content: bytes | None, says: str
) -> None:
    status, out, error = command("--json", scrape=content)
    assert (status, out) == (2, "")
    assert says in error and error.count("\n") == 1 and "Traceback" not in error


def test_a_folder_is_no_file(command: Command, tmp_path: Path) -> None:
    status, out, error = command("--json", "--scrape", str(tmp_path))
    assert (status, out) == (2, "") and "Is a directory" in error


def test_a_file_that_is_missing_costs_itself(command: Command) -> None:
    report = parsed(command("--json", scrape_one=PAGE, scrape_two=None, scrape_three=PAGE, stats=None))
    assert requests(report) == {"a": 0} and report["window_seconds"] == 20
    assert [one["source"] for one in report["warnings"]] == ["saved_scrape_two", "saved_stats"]


@pytest.mark.parametrize("value", ["0", "-5", "nan", "inf", "soon", "", "1e-5", "1e12"])
@pytest.mark.parametrize("option", ["--every", "--window"])
def test_an_interval_must_be_a_time(command: Command, option: str, value: str) -> None:
    status, out, error = command("--json", option, value, scrape=PAGE)
    assert (status, out) == (2, "")
    assert f"argument {option}: '{value}' is not a number of seconds" in error and "_seconds" not in error


@pytest.mark.parametrize("option", ["stats", "index", "config"])
@pytest.mark.parametrize(
    "content",
    ["", "{", "<html>", "null", "5", '"x"', "NaN", '{"error": "x"}', '{"model_stats": 5}', "[" * 9_999, None],
)  # fmt: skip
def test_another_kind_of_json_costs_itself_and_is_told(
    command: Command, option: str, content: str | None
) -> None:
    report = parsed(command("--json", **{"scrape": PAGE, option: content}))
    assert requests(report) == {"a": 20}
    assert [one["source"] for one in report["warnings"]] == [f"saved_{option}"]


@pytest.mark.parametrize(
    "number", ['"--5"', '"x"', "1e999", "NaN", "9" * 400, f'"{"9" * 5000}"', "[1]", "true"]
)
def test_a_count_that_is_none_is_not_reported(command: Command, number: str) -> None:
    row = f'{{"name": "a", "version": "1", "execution_count": {number}, "inference_count": 3}}'
    report = parsed(command("--json", scrape=PAGE, stats=f'{{"model_stats": [{row}]}}'))
    assert report["models"][0]["signals"]["executions_total"] is None


@pytest.mark.parametrize("content", ["{}", "[]", "[{}]"])
def test_an_empty_configuration_is_told(command: Command, content: str) -> None:
    report = parsed(command("--json", scrape=PAGE, config=content))
    assert [one["source"] for one in report["warnings"]] == ["saved_config"]


def test_one_bad_configuration_costs_itself(command: Command) -> None:
    rows = [{"name": "b"}, {"x": 1}, {"name": "a", "backend": "vllm"}]
    report = parsed(command("--json", scrape=PAGE, config=json.dumps(rows)))
    assert "did not answer with a model configuration" in report["warnings"][0]["text"]
    assert "queues by itself" in report["warnings"][1]["text"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_index_of_http_and_of_grpc(command: Command, wrapped: bool) -> None:
    rows = [{"name": "a", "version": "1", "state": "READY"}, {"name": "b"}, {"name": "c", "state": "ODD"}]
    report = parsed(command("--json", scrape=PAGE, index=json.dumps({"models": rows} if wrapped else rows)))
    states = {row["model"]: row["state"] for row in report["models"]}
    assert states == {"a": "READY", "b": "NEVER_LOADED", "c": "UNKNOWN"}


def test_every_key_is_there_even_when_nothing_is_reported(command: Command) -> None:
    full = parsed(command("--json", scrape=(FIXTURES / "metrics_SYNTHETIC_gpu_26x.txt").read_bytes()))
    bare = parsed(command("--json", scrape='nv_gpu_utilization{gpu_uuid="G"} NaN\n' + PAGE))
    assert bare.keys() == full.keys()
    for rows in ("servers", "models", "gpus", "host"):
        assert bare[rows][0].keys() == full[rows][0].keys()
        assert bare[rows][0]["signals"].keys() == full[rows][0]["signals"].keys()


def test_names_the_terminal_cannot_print(command: Command) -> None:
    stats = r'{"model_stats": [{"name": "\ud800", "version": "1", "execution_count": 5}]}'
    status, out, error = command(scrape=PAGE, stats=stats)
    assert (status, error) == (0, "") and "\\ud800 v1" in out


def others(command: Command, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parsed(command("--json", scrape=text))["other"]
    return [{key: row[key] for key in ("family", "kind", "labels", "value", "mean", "text")} for row in rows]


def row(
    family: str, kind: str, value: float | None, text: str, mean: float | None = None, **labels: str
) -> Any:
    return {"family": family, "kind": kind, "labels": labels, "value": value, "mean": mean, "text": text}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("app 9007199254740993\n", [row("app", "untyped", 2.0**53, "9007199254740993")]),
        ("# TYPE app counter\napp_total 5.0\n", [row("app_total", "counter", 5, "5.0")]),
        ("# TYPE app gauge\napp -1e-300\n", [row("app", "gauge", -1e-300, "-1e-300")]),
        ('app{a="\\\\x \\"y\\"\\n"} +Inf\n', [row("app", "untyped", None, "+Inf", a='\\x "y"\n')]),
        ("# TYPE h histogram\nh_bucket{le='1'} 1\nh_bucket{le='+Inf'} 2\n".replace("'", '"'),
         [row("h", "histogram", 2, "2")]),
        (
            "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 9\nh_count 2\nlast 1\n",
            [row("h", "histogram", 2, "2", 4.5), row("last", "untyped", 1, "1")],
        ),
        ("# TYPE h histogram\nh_sum 0\nh_count 0\n", [row("h", "histogram", 0, "0")]),
        ("# TYPE h histogram\nh_sum NaN\nh_count 2\n", [row("h", "histogram", 2, "2")]),
        (
            "# TYPE s summary\ns{quantile=\"0.5\"} Nan\ns_sum 10\ns_count 4\n",
            [row("s", "summary", None, "Nan", quantile="0.5"), row("s", "summary", 4, "4", 2.5)],
        ),
        ("h_sum 10\nh_count 4\n", [row("h_sum", "untyped", 10, "10"), row("h_count", "untyped", 4, "4")]),
        ('nv_inference_request_summary_us_count{model="a",version="1"} 4\n', []),
        ('nv_inference_first_response_histogram_ms_bucket{le="5",model="a",version="1"} 4\n', []),
        ("nv_inference_unheard_of 4\n", [row("nv_inference_unheard_of", "untyped", 4, "4")]),
    ],
)  # fmt: skip
def test_other_families_as_printed(command: Command, text: str, expected: list[dict[str, Any]]) -> None:
    assert others(command, text) == expected
