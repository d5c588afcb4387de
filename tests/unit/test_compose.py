"""The GPU stack as far as it can be checked without docker: compose file, secrets, images, mounts, ports."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from settings import load_settings
from tests.compose_stack import (
    COMPOSE_FILE,
    EXAMPLE_FILE,
    ROOT,
    Refused,
    bind_mounts,
    example_variables,
    host_names,
    interpolate,
    load_stack,
)
from tools import environment_file

STACK = load_stack()
SERVICES = STACK["services"]
# NVIDIA ships it for root only; every capability is dropped all the same.
ROOT_INSIDE = {"dcgm-exporter"}
SECRETS = ("TRITON_ADMIN_KEY", "GRAFANA_ADMIN_PASSWORD", "GRAFANA_SECRET_KEY")


def tool(name: str) -> str:
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        pytest.skip(f"{name} is not in this environment")
    return str(path)


def test_the_file_keeps_to_the_compose_specification() -> None:
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE_FILE)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stdout


def test_variables_are_filled_in_by_the_rules_of_compose() -> None:
    text = "${A:-x} ${B-y} ${C:-http://h:${D:-1}} ${A} ${B-}"
    assert interpolate(text, {}) == "x y http://h:1  "
    assert interpolate(text, {"A": "", "B": "", "D": "2"}) == "x  http://h:2  "
    assert interpolate(text, {"A": "a", "B": "b", "C": "c"}) == "a b c a b"


@pytest.mark.parametrize("secret", SECRETS)
def test_without_a_secret_the_stack_refuses_and_says_which_and_what_to_do(secret: str) -> None:
    for variables in (
        example_variables() | {secret: ""},
        {k: v for k, v in example_variables().items() if k != secret},
    ):
        with pytest.raises(Refused, match=rf"required variable {secret} .*Run make up"):
            load_stack(variables)


def test_nothing_secret_has_a_default() -> None:
    assert set(environment_file.required_variables(COMPOSE_FILE.read_text())) == set(SECRETS)
    named = re.findall(
        r"\$\{(\w*(?:PASSWORD|SECRET|KEY|TOKEN)\w*)(?!\w)(:\?|:-|-|)", COMPOSE_FILE.read_text()
    )
    assert {name for name, kind in named if kind != ":?"} == set()


def test_every_variable_is_explained_in_the_example_and_none_is_left_over() -> None:
    used = set(re.findall(r"\$\{(\w+)", COMPOSE_FILE.read_text()))
    explained = set(re.findall(r"^#?([A-Z][A-Z_]+)=", EXAMPLE_FILE.read_text(), flags=re.MULTILINE))
    assert explained - {"COMPOSE_PROFILES"} == used - {"GRAFANA_ADMIN_USER"}


def test_the_defaults_of_the_file_are_those_of_the_example() -> None:
    bare = {name: value for name, value in example_variables().items() if name in SECRETS}
    assert load_stack(bare) == STACK


@pytest.mark.parametrize("service", SERVICES)
def test_images_are_pinned_to_a_version(service: str) -> None:
    image = SERVICES[service]["image"]
    name, _, tag = image.rpartition(":")
    if "build" in SERVICES[service]:
        assert (name.split("/")[0], tag) == ("tritonscope", "local")
    else:
        assert re.search(r"\d+\.\d+", tag), image
        assert "latest" not in tag


def test_triton_is_nvidias_and_recent_enough_for_its_security_notes() -> None:
    for name in ("triton", "triton-cpu"):
        found = re.fullmatch(r"nvcr\.io/nvidia/tritonserver:(\d+)\.(\d+)-py3", SERVICES[name]["image"])
        assert found
        # 26.05: the authentication bypass of May 2026 and the python backend's chain of 2025 are fixed.
        assert (int(found[1]), int(found[2])) >= (26, 5)


def test_images_and_packages_can_come_from_a_mirror() -> None:
    mirrored = load_stack(
        example_variables()
        | {
            "REGISTRY_PREFIX": "mirror.example/",
            "NVIDIA_REGISTRY": "mirror.example/nvidia",
            "PACKAGE_INDEX": "I",
        }
    )["services"]
    for name, service in mirrored.items():
        if "build" in service:
            assert service["build"]["args"] == {"REGISTRY_PREFIX": "mirror.example/", "PIP_INDEX_URL": "I"}
        else:
            assert service["image"].startswith("mirror.example/"), name
    hosts = re.findall(r"\b[\w-]+(?:\.[\w-]+)*\.(?:io|com|org|net)\b", COMPOSE_FILE.read_text())
    assert set(hosts) == {"nvcr.io"}


@pytest.mark.parametrize("service", SERVICES)
def test_containers_have_no_more_rights_than_they_need(service: str) -> None:
    found = SERVICES[service]
    user = found["user"].split(":")[0]
    assert (user == "0") == (service in ROOT_INSIDE)
    assert found["read_only"] is True
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "devices", "ipc"} & set(found)
    assert ("pid" in found) == (service == "exporter-host-pids")


@pytest.mark.parametrize("service", SERVICES)
def test_ports_are_published_on_the_loopback_address_only(service: str) -> None:
    for port in SERVICES[service].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


def test_no_two_services_of_a_profile_want_the_same_port() -> None:
    def published(profile: str) -> list[str]:
        return [
            port.split(":")[1]
            for service in SERVICES.values()
            if not service.get("profiles") or profile in service["profiles"] or "dcgm" in service["profiles"]
            for port in service.get("ports", ())
        ]

    for profile in ("gpu", "cpu"):
        ports = published(profile)
        assert len(ports) == len(set(ports)) == 9
    moved = load_stack(example_variables() | {"TRITONSCOPE_APP_PORT": "9999"})["services"]
    assert moved["app"]["ports"] == ["127.0.0.1:9999:8501"]
    assert moved["prometheus"]["environment"]["TRITONSCOPE_PUBLIC_URL"] == "http://127.0.0.1:9999"


def test_every_mounted_path_exists_and_is_mounted_read_only() -> None:
    mounts = bind_mounts(STACK)
    assert len(mounts) >= 8
    missing = [source for _, source, _ in mounts if not (ROOT / source).exists()]
    assert not missing
    writable = [
        v for s in SERVICES.values() for v in s.get("volumes", ()) if v.startswith("./") and v[-3:] != ":ro"
    ]
    assert not writable


def test_data_lives_in_declared_volumes() -> None:
    named = {
        v.split(":")[0] for s in SERVICES.values() for v in s.get("volumes", ()) if not v.startswith(".")
    }
    assert named == set(STACK["volumes"])
    kept = {"prometheus": "/prometheus", "alertmanager": "/alertmanager", "grafana": "/var/lib/grafana"}
    for service, path in kept.items():
        assert f"{service}-data:{path}" in SERVICES[service]["volumes"]


def test_a_repository_of_ones_own_replaces_the_examples() -> None:
    own = load_stack(example_variables() | {"TRITON_MODEL_REPOSITORY": "/srv/models"})["services"]
    assert "/srv/models:/models:ro" in own["triton"]["volumes"]
    assert "example-models:/models:ro" in SERVICES["triton"]["volumes"]


def test_triton_loads_the_example_models_by_name() -> None:
    examples = {path.parent.name for path in (ROOT / "model_repository").glob("*/config.pbtxt")}
    loaded = SERVICES["triton"]["environment"]["TRITON_LOAD_MODELS"].split(",")
    assert set(loaded) == examples
    nothing = load_stack(example_variables() | {"TRITON_LOAD_MODELS": ""})
    assert nothing["services"]["triton"]["environment"]["TRITON_LOAD_MODELS"] == ""


def test_one_triton_on_the_gpu_by_default_and_one_without_in_the_cpu_profile() -> None:
    assert example_variables()["COMPOSE_PROFILES"] == "gpu"
    assert SERVICES["triton"]["profiles"] == ["gpu"]
    assert SERVICES["triton-cpu"]["profiles"] == ["cpu"]
    [device] = SERVICES["triton"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "1", "capabilities": ["gpu"]}
    assert "deploy" not in SERVICES["triton-cpu"]
    assert SERVICES["triton"]["shm_size"] == "1gb"


def test_whoever_says_why_triton_is_down_does_not_wait_for_it() -> None:
    waiting = {name: set(service.get("depends_on", {})) for name, service in SERVICES.items()}
    assert {name: others for name, others in waiting.items() if others} == {
        "triton": {"models"},
        "triton-cpu": {"models"},
    }


def test_triton_counts_as_healthy_when_it_is_live_and_has_long_to_get_there() -> None:
    check = SERVICES["triton"]["healthcheck"]
    assert check["test"][-1].endswith("/v2/health/live")
    assert check["start_period"] == "15m"
    for name, service in SERVICES.items():
        for port in re.findall(
            r"127\.0\.0\.1(?::|', )(\d+)", " ".join(service.get("healthcheck", {}).get("test", ()))
        ):
            own = [p.split(":")[2] for p in service.get("ports", ())] or [port]
            assert port in own, name


def test_the_app_reaches_triton_and_has_its_key() -> None:
    environment = SERVICES["app"]["environment"]
    assert "./compose/tritonscope.yml:/etc/tritonscope/tritonscope.yml:ro" in SERVICES["app"]["volumes"]
    assert environment["TRITONSCOPE_CONFIG"] == "/etc/tritonscope/tritonscope.yml"
    settings = load_settings(environment, ROOT / "compose/tritonscope.yml")
    assert settings.notices == ()
    [server] = settings.servers
    assert (server.id, server.http_url, server.metrics_url) == (
        "triton",
        "http://triton:8000",
        "http://triton:8002",
    )
    assert dict(server.headers) == {"tritonscope-key": environment["TRITON_ADMIN_KEY"]}
    assert server.control is False
    assert host_names(STACK)["triton"] == "triton"
    assert SERVICES["exporter"]["environment"].items() <= environment.items()
    allowed = load_stack(example_variables() | {"TRITONSCOPE_CONTROL": "true"})["services"]["app"][
        "environment"
    ]
    assert load_settings(allowed, ROOT / "compose/tritonscope.yml").servers[0].control is True


def test_grafana_asks_for_a_password_and_asks_nothing_of_the_internet() -> None:
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ENABLED"] == "false"
    assert environment["GF_SECURITY_ADMIN_PASSWORD"] == example_variables()["GRAFANA_ADMIN_PASSWORD"]
    off = {
        name for name, value in environment.items() if name.startswith("GF_ANALYTICS") and value == "false"
    }
    assert len(off) == 4
    assert environment["GF_PLUGINS_PREINSTALL_DISABLED"] == "true"
    assert STACK["networks"]["stack"]["driver_opts"] == {
        "com.docker.network.bridge.enable_ip_masquerade": "false"
    }


def test_the_history_is_bounded_by_size() -> None:
    command = SERVICES["prometheus"]["command"]
    assert "--storage.tsdb.retention.size=8GB" in command
    assert not any("retention.time" in part for part in command)


def test_make_up_writes_random_secrets_once_for_their_owner_only(tmp_path: Path) -> None:
    for name in ("docker-compose.yml", ".env.example"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert environment_file.write_once(tmp_path) is True
    target = tmp_path / ".env"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    written = dict(re.findall(r"^(\w+)=(.*)$", target.read_text(), flags=re.MULTILINE))
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", written[name]) for name in SECRETS)
    assert len({written[name] for name in SECRETS}) == len(SECRETS)
    others = {name: value for name, value in example_variables().items() if name not in SECRETS}
    assert {name: value for name, value in written.items() if name not in SECRETS} == others
    load_stack(written)
    before = target.read_text()
    assert environment_file.write_once(tmp_path) is False
    assert target.read_text() == before


def test_an_example_without_a_demanded_secret_is_named() -> None:
    with pytest.raises(ValueError, match="no empty line for B"):
        environment_file.filled("A=\nB=preset\n", ["A", "B"])
