"""Kinds of metrics pages with answers worked out by hand: resets, gaps, versions, GPUs, failures, caches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from signals.saved import SavedFile
from tests.saved_pages import batches, config, ensemble, model, report, server, statistics, texts

A = 'model="a",version="1"'
Expected = dict[str, Any]


def line(family: str, value: object, labels: str = A) -> str:
    return f"nv_inference_{family}{{{labels}}} {value}\n"


def successes(*values: object) -> tuple[str, ...]:
    """One page for each value of model a's request counter; None: the model is not there."""
    other = line("request_success", 1, 'model="other",version="1"')
    return tuple(other + ("" if one is None else line("request_success", one)) for one in values)


def of(value: int, **more: int) -> str:
    rows = {"request_success": value, **more}
    return "".join(line(family, number) for family, number in rows.items())


def reasons(**counts: int) -> str:
    return "".join(line("request_failure", n, f'{A},reason="{name}"') for name, n in counts.items())


def cache(hits: int, misses: int) -> str:
    return f"nv_cache_num_hits_per_model{{{A}}} {hits}\nnv_cache_num_misses_per_model{{{A}}} {misses}\n"


def on_gpus(first: int, second: int) -> str:
    return line("request_success", 0) + "".join(
        line("request_success", n, f'gpu_uuid="GPU-{gpu}",{A}') for gpu, n in (("x", first), ("y", second))
    )


def quantiles(**values: str) -> str:
    named = {"p50": "0.5", "p90": "0.9", "p99": "0.99"}
    return "".join(
        f'nv_inference_request_summary_us{{{A},quantile="{named[name]}"}} {text}\n'
        for name, text in values.items()
    )


@dataclass(frozen=True)
class Kind:
    """Successive pages and what model a's signals must then be."""

    name: str
    pages: tuple[str, ...]
    expected: Expected
    every: float = 10.0
    answers: dict[str, Any] = field(default_factory=dict)


KINDS = (
    Kind("two resets", successes(100, 120, 10, 25, 5), {"requests_total": 50, "requests_per_second": 2.5}, 5),
    Kind("a reset to zero", successes(100, 0), {"requests_total": 0, "requests_per_second": 0}),
    Kind("a gap", successes(100, None, 130), {"requests_total": 30, "requests_per_second": 1.0}, 15),
    Kind("unloaded and loaded anew", successes(100, None, 4), {"requests_total": 4}),
    Kind("came late", successes(None, 5, 9), {"requests_total": 4}),
    Kind("came last", successes(None, None, 9), {"requests_total": None, "requests_per_second": None}),
    Kind("went", successes(1, 5, None), {"requests_total": None, "failures_total": None}),
    Kind("exponents", successes("1e+06", "1.0001e+06"), {"requests_total": 100}),
    Kind("a number left out in between", successes(5, -3, 9), {"requests_total": 4}),
    Kind("NaN in between", successes(5, "NaN", 9), {"requests_total": 4}),
    Kind("infinite in between", successes(5, "+Inf", 9), {"requests_total": 4}),
    Kind("infinite", successes("+Inf", "+Inf"), {"requests_total": None, "requests_per_second": None}),
    Kind("beyond 2^53", successes("9007199254740993"), {"requests_total": 2.0**53}),
    Kind(
        "400 pages",
        successes(*(i % 100 * 3 for i in range(400))),
        {"requests_total": 3 * (399 - 3), "requests_per_second": pytest.approx(3 * 396 / 798)},
        2,
    ),
    Kind(
        "one family reset alone",
        (of(100, count=400, exec_count=50), of(150, count=40, exec_count=60)),
        {"requests_total": 50, "inferences_total": 40, "executions_total": 10, "batch_size_mean": 4.0},
    ),
    Kind("a page that is none in between", (of(100), "<html>", of(130)), {"requests_per_second": 1.5}),
    Kind("one GPU's counter reset", (on_gpus(100, 50), on_gpus(10, 60)), {"requests_total": 20}),
    Kind("finished nothing", (of(7, queue_duration_us=9),) * 2, {"queue_us_mean": None, "requests_total": 0}),
    Kind(
        "failures by reason over a window",
        (
            of(100) + reasons(OTHER=0, BACKEND=2, REJECTED=5, CANCELED=1),
            of(150) + reasons(CANCELED=1, REJECTED=15, BACKEND=2, OTHER=0),
        ),
        {
            "failures_total": 10,
            "failed_ratio": pytest.approx(10 / 60),
            "failures_by_reason": {"OTHER": 0, "BACKEND": 0, "REJECTED": 10, "CANCELED": 0},
        },
    ),
    Kind(
        "failures of old, nothing asked",
        (of(100, request_failure=7),) * 2,
        {"failures_total": 0, "failed_ratio": None, "failures_by_reason": None},
    ),
    Kind(
        "everything fails, and the backend counts executions of failures",
        (of(0, count=0, exec_count=74, request_duration_us=0) + reasons(BACKEND=74, OTHER=0),),
        {"failures_total": 74, "failed_ratio": 1.0, "requests_total": 0, "executions_total": 74},
        answers={"statistics": [statistics({"name": "a", "version": "1", "execution_count": 74})]},
    ),
    Kind(
        "only hits",
        (of(100, compute_infer_duration_us=1000) + cache(100, 0),),
        {"compute_infer_us_mean": None, "cache_hit_ratio": 1.0},
    ),
    Kind("no look-up", (of(10) + cache(0, 0),), {"cache_hit_ratio": None}),
    Kind(
        "hits and misses over a window",
        (
            of(100, compute_infer_duration_us=1000) + cache(20, 80),
            of(200, compute_infer_duration_us=3000) + cache(70, 130),
        ),
        {"compute_infer_us_mean": 40.0, "cache_hit_ratio": 0.5},
    ),
    Kind(
        "some quantiles have passed",
        (of(9) + quantiles(p50="120.5", p90="Nan", p99="NaN"),),
        {"request_us_p50": 120.5, "request_us_p90": None, "request_us_p99": None, "request_us_p95": None},
    ),
    Kind("pending cannot be below zero", (of(9, pending_request_count=-1),), {"pending": None}),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
def test_signals_of_a_model(kind: Kind) -> None:
    pages = (SavedFile(f"t{i}", text) for i, text in enumerate(kind.pages))
    found = report(*pages, every=kind.every, **kind.answers)
    figures = model(found, "a").values
    assert {name: figures[name] for name in kind.expected} == kind.expected
    assert "counter_latencies" not in texts(found)


@pytest.mark.parametrize("every", [0.001, 0.033, 0.1, 2.5, 7.777, 86_400.0])
@pytest.mark.parametrize("pages", [2, 3, 5])
def test_any_interval(every: float, pages: int) -> None:
    found = report(*(SavedFile("t", of(10 * i)) for i in range(pages)), every=every)
    assert found.window_seconds == pytest.approx(every * (pages - 1))
    assert model(found, "a").number("requests_total") == 10 * (pages - 1)
    assert model(found, "a").number("requests_per_second") == pytest.approx(10 / every, rel=1e-6)


def test_a_new_version_takes_over() -> None:
    second = 'model="a",version="2"'
    pages = (of(100), of(110) + line("request_success", 3, second), line("request_success", 9, second))
    found = report(*(SavedFile("t", text) for text in pages))
    assert [(row.key.version, row.state) for row in found.models] == [("1", "GONE"), ("2", None)]
    assert model(found, "a", "2").number("requests_total") == 6
    assert set(model(found, "a", "1").values.values()) == {None}
    # What the old version answered within the window was answered by this server.
    assert server(found).number("requests_total") == 16


def test_an_ensemble_of_another_version_is_one_row_without_an_index() -> None:
    """Triton counts it under version 1, its waiting requests under version 3; all else there stays zero."""
    first, third = 'model="pipe",version="1"', 'model="pipe",version="3"'

    def at(n: int) -> SavedFile:
        rows = [("request_success", 10 * n, first), ("request_success", 0, third)]
        rows += [("pending_request_count", 0, first), ("pending_request_count", 2, third)]
        rows += [("request_success", 10 * n, A), ("queue_duration_us", 1000 * n, A)]
        return SavedFile("t", "".join(line(*row) for row in rows))

    found = report(at(1), at(2), configs=[ensemble("pipe", "a")])
    assert [(row.key.name, row.key.version) for row in found.models] == [("a", "1"), ("pipe", "3")]
    pipe = model(found, "pipe", "3")
    assert (pipe.number("requests_total"), pipe.number("queue_us_mean")) == (10, 100)
    assert pipe.number("pending") == 2 and server(found).number("requests_total") == 10


def test_an_ensemble_of_ensembles_queues_where_the_work_is_done() -> None:
    """100 us in each of two uses of a below the inner ensemble, and 50 us in b."""

    def at(n: int) -> SavedFile:
        served = {"outer": 10, "inner": 10, "a": 20, "b": 10}
        queued = {"outer": 0, "inner": 0, "a": 2000, "b": 500}
        rows = [("request_success", name, count) for name, count in served.items()]
        rows += [("queue_duration_us", name, time) for name, time in queued.items()]
        return SavedFile("t", "".join(line(f, n * v, f'model="{name}",version="1"') for f, name, v in rows))

    found = report(at(1), at(2), configs=[ensemble("outer", "inner", "b"), ensemble("inner", "a", "a")])
    assert model(found, "inner").number("queue_us_mean") == pytest.approx(200)
    assert model(found, "outer").number("queue_us_mean") == pytest.approx(250)
    assert server(found).number("requests_total") == 10


def test_an_ensemble_that_calls_itself_ends() -> None:
    found = report(SavedFile("t", of(5, queue_duration_us=50)), configs=[ensemble("a", "a")])
    assert model(found, "a").number("queue_us_mean") == 10


def test_a_version_of_any_length() -> None:
    long = "9" * 5000
    found = report(
        SavedFile("t", line("request_success", 5, f'model="a",version="{long}"')), configs=[ensemble("a")]
    )
    assert model(found, "a", long).number("requests_total") == 5


def test_a_series_that_lost_its_labels_names_no_model() -> None:
    found = report(SavedFile("t", "nv_inference_request_success 5\n" + of(3)))
    assert [row.key.name for row in found.models] == ["a"]


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ("", "GONE"),
        ("# EOF", "GONE"),
        ("nv_cpu_utilization 0.5", "GONE"),
        ("nv_inf", None),
        ("# HELP nv_in", None),
    ],
)
def test_a_model_below_the_cut_is_not_gone(ending: str, state: str | None) -> None:
    found = report(SavedFile("t0", of(5)), SavedFile("t1", "nv_cpu_memory_used_bytes 5\n" + ending))
    assert [row.state for row in found.models] == [state]
    assert set(model(found, "a").values.values()) == {None}


Groups = list[dict[str, Any]] | None


@pytest.mark.parametrize(
    ("groups", "instances"),
    [
        (None, None),
        ([], None),
        ([{"kind": "KIND_CPU", "count": 2}], 2),
        ([{"kind": "KIND_CPU", "count": 0}], 1),
        ([{"kind": "KIND_CPU"}], 1),
        ([{"kind": "KIND_MODEL", "count": 1}], 1),
        ([{"kind": "KIND_GPU", "count": 2, "gpus": [0, 1, 3]}], 6),
        ([{"kind": "KIND_GPU", "count": "2", "gpus": ["0", "1"]}], 4),
        ([{"kind": "KIND_GPU", "count": 2}], 2),
        ([{"kind": "KIND_GPU", "count": 1, "gpus": [0]}, {"kind": "KIND_CPU", "count": 3}], 4),
        ([{"kind": "KIND_CPU", "count": -2}], None),
    ],
)
def test_instances_by_group(groups: Groups, instances: int | None) -> None:
    none = statistics({"name": "a", "version": "1", "execution_count": 0, "batch_stats": []})
    ten = {"name": "a", "version": "1", "execution_count": 10, "batch_stats": batches(b1=(10, 100_000_000))}
    fields = {} if groups is None else {"instance_group": groups}
    found = report(
        *(SavedFile("t", of(n)) for n in (0, 10)),
        statistics=[none, statistics(ten)],
        configs=[config("a", **fields)],
    )
    # 10 executions of 3 x 0.1 s in 10 s.
    expected = None if instances is None else pytest.approx(0.3 / instances)
    assert model(found, "a").values["instance_busy_ratio"] == expected


@pytest.mark.parametrize("sizes", [[], [{"batch_size": 1, "compute_infer": {"count": "many"}}]])
def test_executions_without_readable_batch_sizes_are_not_idle(sizes: list[dict[str, Any]]) -> None:
    stats = [
        statistics({"name": "a", "version": "1", "execution_count": n, "batch_stats": sizes}) for n in (5, 25)
    ]
    group = config("a", instance_group=[{"kind": "KIND_CPU", "count": 1}])
    found = report(*(SavedFile("t", of(n)) for n in (0, 10)), statistics=stats, configs=[group])
    assert model(found, "a").values["instance_busy_ratio"] is None


NAMES = (
    "z/\u00fc", "a b", "x{y}", "a,b=c", "<b>x</b>", "\\n", "tab\tx", 'quo"te', "line\u2028end", "nan", "null",
    "-", "1", "very" * 80, "\U0001f4a5",
)  # fmt: skip


def test_names_are_kept_as_they_are() -> None:
    def escaped(name: str) -> str:
        return name.replace("\\", "\\\\").replace('"', '\\"')

    rows = (line("request_success", i, f'model="{escaped(n)}",version="1"') for i, n in enumerate(NAMES))
    found = report(SavedFile("t", "".join(rows)))
    assert {row.key.name for row in found.models} == set(NAMES)
    for i, name in enumerate(NAMES):
        assert model(found, name).number("requests_total") == i


def test_pages_in_another_order_are_the_same() -> None:
    lines = (of(100, count=400, exec_count=50) + reasons(OTHER=1, BACKEND=2)).splitlines(keepends=True)
    one, other = (report(SavedFile("t", "".join(some))) for some in (lines, lines[::-1]))
    assert model(one, "a").values == model(other, "a").values


@pytest.mark.parametrize("grpc", [False, True], ids=["http", "grpc"])
def test_statistics_over_grpc_write_strings_and_leave_zeros_out(grpc: bool) -> None:
    """As http writes them, and as protobuf's JSON does: the answers are the same."""

    def written(**counts: int) -> dict[str, Any]:
        return {name: str(n) if grpc else n for name, n in counts.items() if n or not grpc}

    size = {
        **written(batch_size=4),
        "compute_input": written(count=10, ns=0),
        "compute_infer": written(count=10, ns=5_000),
        "compute_output": written(count=10, ns=0),
    }
    memory = [{"type": "GPU", **written(id=0, byte_size=2**31)}]
    busy = {**written(execution_count=10), "batch_stats": [size], "memory_usage": memory}
    idle = {**written(execution_count=0), "inference_stats": {"success": written(count=0, ns=0)}}
    busy, idle = ({"name": name, "version": "1", **row} for name, row in (("a", busy), ("idle", idle)))
    found = report(SavedFile("t", of(40)), statistics=[statistics(busy, idle)])
    figures = model(found, "a")
    assert figures.number("executions_total") == 10
    assert figures.mapping("executions_by_batch_size") == {"4": 10}
    assert figures.mapping("memory_bytes_by_device") == {"GPU 0": 2**31}
    assert model(found, "idle").number("executions_total") == 0
