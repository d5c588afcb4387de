"""compose/triton_server.sh with NVIDIA's real tritonserver: the models it loads and what its key protects."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from sandbox.environment import find_install
from sandbox.ports import free_ports
from sandbox.processes import end_group, start_bound
from tests.compose_stack import ROOT

SCRIPT = ROOT / "compose/triton_server.sh"
KEY = "integration-test-key-0123456789"
HEADERS = {"tritonscope-key": KEY}
GRPC_INDEX = """
import sys
import tritonclient.grpc as grpc
client = grpc.InferenceServerClient(sys.argv[1])
headers = {"triton-grpc-protocol-tritonscope-key": sys.argv[2]} if sys.argv[2] else None
try:
    print(",".join(model.name for model in client.get_model_repository_index(headers=headers).models))
except Exception as error:
    print(error.message())
"""

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Started:
    http_url: str
    grpc_url: str
    metrics_url: str


def argued(**environment: str) -> subprocess.CompletedProcess[str]:
    """What the script would start, or why it refuses."""
    return subprocess.run(
        ["bash", str(SCRIPT), "--last"],
        env={"PATH": "/usr/bin:/bin", "TRITON_PROGRAM": "echo", "TRITON_ADMIN_KEY": KEY} | environment,
        capture_output=True,
        text=True,
        timeout=10,
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("compose")
    shutil.copytree(ROOT / "model_repository/batch_add_model", folder / "models/batch_add_model")
    install = find_install(ROOT)
    http, grpc, metrics = free_ports(3)
    environment = install.child_environment() | {
        "TRITON_PROGRAM": str(install.server),
        "TRITON_MODELS": str(folder / "models"),
        "TRITON_LOAD_MODELS": "batch_add_model, not_in_the_repository",
        "TRITON_ADMIN_KEY": KEY,
        "TRITON_ARGUMENTS": f"--http-address=127.0.0.1 --grpc-address=127.0.0.1 --http-port={http}",
    }
    command = [
        "bash", str(SCRIPT), f"--grpc-port={grpc}", f"--metrics-port={metrics}",
        f"--backend-directory={install.place_backends(folder / 'backends')}",
        f"--cache-directory={install.caches}", "--exit-timeout-secs=3",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = start_bound(command, environment=environment, output=log)
    try:
        wait_until_live(process, f"http://127.0.0.1:{http}", folder / "log")
        yield Started(f"http://127.0.0.1:{http}", f"127.0.0.1:{grpc}", f"http://127.0.0.1:{metrics}/metrics")
    finally:
        end_group(process, 15.0)


def wait_until_live(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    retry = requests.adapters.Retry(total=60, backoff_factor=0.2, backoff_max=0.5, connect=60)
    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
    try:
        assert session.get(f"{url}/v2/health/live", timeout=5).status_code == 200
    except requests.ConnectionError:
        pytest.fail(f"no tritonserver (exit status {process.poll()}): {log.read_text()[-2000:]}")


def test_a_model_that_cannot_be_loaded_does_not_end_the_server(server: Started) -> None:
    answer = requests.post(f"{server.http_url}/v2/repository/index", headers=HEADERS, timeout=5)
    assert [(model["name"], model.get("state")) for model in answer.json()] == [("batch_add_model", "READY")]


@pytest.mark.parametrize("headers", [{}, {"tritonscope-key": "wrong"}], ids=["no key", "wrong key"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/batch_add_model/unload"),
        ("POST", "/v2/repository/models/batch_add_model/load"),
        ("GET", "/v2/logging"),
        ("POST", "/v2/logging"),
        ("GET", "/v2/trace/setting"),
    ],
)
def test_writing_needs_the_key(server: Started, method: str, path: str, headers: dict[str, str]) -> None:
    answer = requests.request(method, server.http_url + path, headers=headers, json={}, timeout=5)
    assert answer.status_code == 403
    assert "restricted" in answer.json()["error"]


def test_with_the_key_models_are_loaded_and_levels_read(server: Started) -> None:
    load = f"{server.http_url}/v2/repository/models/batch_add_model/load"
    assert requests.post(load, headers=HEADERS, timeout=30).status_code == 200
    assert (
        requests.get(f"{server.http_url}/v2/logging", headers=HEADERS, timeout=5).json()["log_info"] is True
    )


@pytest.mark.parametrize(
    "path", ["/v2", "/v2/health/ready", "/v2/models/stats", "/v2/models/batch_add_model/config"]
)
def test_reading_needs_no_key(server: Started, path: str) -> None:
    assert requests.get(server.http_url + path, timeout=5).status_code == 200


@pytest.mark.parametrize(("key", "answer"), [("", "This protocol is restricted"), (KEY, "batch_add_model")])
def test_the_key_protects_grpc_too(server: Started, key: str, answer: str) -> None:
    python = str(find_install(ROOT).python)
    said = subprocess.run(
        [python, "-c", GRPC_INDEX, server.grpc_url, key], capture_output=True, text=True, timeout=60
    )
    assert said.stdout.strip().startswith(answer), said.stderr[-500:]


def test_the_metrics_page_has_quantiles(server: Started) -> None:
    page = requests.get(server.metrics_url, timeout=5).text
    assert 'nv_inference_request_summary_us{model="batch_add_model",version="1",quantile="0.99"}' in page


def test_models_are_named_one_by_one() -> None:
    words = argued(TRITON_LOAD_MODELS="a,b c").stdout.split()
    assert [word for word in words if word.startswith("--load-model")] == [
        "--load-model=a",
        "--load-model=b",
        "--load-model=c",
    ]
    assert words[-1] == "--last"
    assert not any(word.startswith("--load-model") for word in argued(TRITON_LOAD_MODELS="").stdout.split())


def test_memory_is_tracked_with_one_pair_per_flag() -> None:
    words = argued().stdout.split()
    assert [word for word in words if "memory-tracker" in word] == [
        "--backend-config=onnxruntime,triton-backend-memory-tracker=true",
        "--backend-config=tensorrt,triton-backend-memory-tracker=true",
    ]
    assert {"--model-control-mode=explicit", "--exit-on-error=false", "--allow-gpu-metrics=true"} <= set(
        words
    )
    assert "--allow-gpu-metrics=false" in argued(TRITON_GPU_METRICS="false").stdout


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"TRITON_LOAD_MODELS": "*"}, "must name the models one by one"),
        ({"TRITON_LOAD_MODELS": "a,../b"}, "'../b' is not a model name"),
        ({"TRITON_LOAD_MODELS": "a;b"}, "'a;b' is not a model name"),
        ({"TRITON_ADMIN_KEY": ""}, "must be at least 16"),
        ({"TRITON_ADMIN_KEY": "has:a=colon,and-more"}, "must be at least 16"),
    ],
)
def test_what_would_be_dangerous_is_refused_in_a_sentence(environment: dict[str, str], sentence: str) -> None:
    answer = argued(**environment)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert sentence in answer.stderr
