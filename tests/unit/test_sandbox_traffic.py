"""The traffic's profiles and the requests it makes."""

from __future__ import annotations

import json
import math
import random
import struct

import pytest

from sandbox import SandboxError
from sandbox.traffic import TrafficProcess, TrafficSender, profile_named
from sandbox.traffic_profiles import DEFAULT_PROFILE, PROFILES
from sandbox.traffic_requests import infer_request, known_models


def test_the_five_profiles() -> None:
    assert list(PROFILES) == ["healthy", "burst", "unbatched", "overload", "idle"]
    assert DEFAULT_PROFILE == "healthy"
    assert PROFILES["idle"].streams == ()


def test_every_stream_asks_a_model_that_requests_can_be_made_for() -> None:
    for profile in PROFILES.values():
        assert {stream.model for stream in profile.streams} <= set(known_models())
    assert {stream.model for stream in PROFILES["healthy"].streams} == set(known_models())


def test_every_stream_is_bounded() -> None:
    for profile in PROFILES.values():
        assert sum(stream.clients for stream in profile.streams) <= 64
        for stream in profile.streams:
            least, most = stream.group
            assert 1 <= least <= most <= stream.clients or stream.events_per_second is None


def test_overload_asks_for_more_rows_than_a_full_batch_holds() -> None:
    (stream,) = [one for one in PROFILES["overload"].streams if one.model == "batch_cost_model"]
    assert stream.events_per_second is None
    assert stream.clients * stream.rows > 2 * 16


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("model", known_models())
def test_a_request_holds_exactly_the_bytes_its_tensors_say(model: str, rows: int) -> None:
    request = infer_request(model, rows, random.Random(1))
    header_length = int(request.headers["Inference-Header-Content-Length"])
    inputs = json.loads(request.body[:header_length])["inputs"]
    data = request.body[header_length:]
    for tensor in inputs:
        size = tensor["parameters"]["binary_data_size"]
        part, data = data[:size], data[size:]
        assert tensor["shape"][0] == rows
        if tensor["datatype"] == "FP32":
            assert size == 4 * math.prod(tensor["shape"])
            assert all(math.isfinite(value) for value in struct.unpack(f"<{size // 4}f", part))
            continue
        texts = []
        while part:
            length = int.from_bytes(part[:4], "little")
            texts.append(part[4 : 4 + length].decode())
            part = part[4 + length :]
        assert len(texts) == rows
        assert all(texts)
    assert data == b""


def test_an_unknown_profile_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SandboxError, match="no traffic profile 'storm'; there are healthy, burst, unbatched"):
        profile_named("storm")


@pytest.mark.parametrize("url", ["", "http://", "https://127.0.0.1:8000", "ftp://host:1"])
def test_only_plain_http_addresses_are_taken(url: str) -> None:
    with pytest.raises(
        SandboxError, match=r"is not a plain HTTP address: write it like http://127\.0\.0\.1:8000"
    ):
        TrafficSender(url, PROFILES["idle"])


def test_idle_starts_no_process() -> None:
    traffic = TrafficProcess("http://127.0.0.1:1")
    traffic.start("idle")
    assert not traffic.running
    assert traffic.profile == "idle"
