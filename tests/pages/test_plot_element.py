"""What reaches the browser: the header, and the arrays at the places it names."""

from __future__ import annotations

import json
import struct

import numpy as np

from charts.spec import Draw, Spec, Trace
from telemetry.units import Unit
from ui.plot import encode


def decoded(data: bytes) -> tuple[dict, bytes]:
    (length,) = struct.unpack_from("<I", data)
    start = (4 + length + 7) // 8 * 8
    return json.loads(data[4 : 4 + length]), data[start:]


def array(place: dict, arrays: bytes) -> np.ndarray:
    ((kind, (offset, count)),) = place.items()
    assert offset % 8 == 0
    return np.frombuffer(arrays, "<f8" if kind == "$f8" else "<f4", count, offset)


def test_times_are_exact_and_values_travel_as_floats() -> None:
    times = np.array([1_796_052_853.25, 1_796_052_855.25, 1_796_052_857.25])
    trace = Trace("a", np.array([1.0, np.nan, 3.0]), "#111111")
    header, arrays = decoded(
        encode(Spec("t", Unit.PER_SECOND, times, (trace,), range=(1.0, 2.0)), "page", "/p.js")
    )
    shown = header["traces"][0]
    assert array(shown["x"], arrays).tolist() == times.tolist()
    values = array(shown["y"], arrays)
    assert values[0] == 1.0 and np.isnan(values[1]) and values[2] == 3.0
    assert (header["script"], header["group"], header["range"]) == ("/p.js", "page", [1.0, 2.0])


def test_times_shared_by_several_series_travel_once() -> None:
    times = np.arange(300, dtype=np.float64)
    traces = tuple(Trace(str(n), np.full(300, float(n)), "#111111") for n in range(4))
    header, arrays = decoded(encode(Spec("t", Unit.US, times, traces, range=(0.0, 1.0)), "page", "/p.js"))
    assert len({str(trace["x"]) for trace in header["traces"]}) == 1
    assert len(arrays) == 300 * 8 + 4 * 300 * 4


def test_an_empty_chart_sends_its_reason_and_no_series() -> None:
    spec = Spec("t", Unit.US, np.arange(3.0), (Trace("a", np.full(3, np.nan), "#111111"),)).or_empty(
        "nothing"
    )
    header, arrays = decoded(encode(spec, "page", "/p.js"))
    assert (header["empty"], header["traces"], arrays) == ("nothing", [], b"")


def test_a_stack_with_a_gap_travels_in_its_parts() -> None:
    trace = Trace("a", np.array([1.0, np.nan, 3.0]), "#111111", draw=Draw.AREA)
    header, arrays = decoded(
        encode(Spec("t", Unit.US, np.arange(3.0), (trace,), stacked=True), "page", "/p.js")
    )
    assert [array(part["x"], arrays).tolist() for part in header["traces"]] == [[0.0], [2.0]]
