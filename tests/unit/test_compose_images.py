"""The Dockerfile as far as it can be checked without docker: what it copies, installs and runs as."""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
import sys
from pathlib import Path

import pytest

from settings import load_settings
from telemetry.access import ROLES
from tests.compose_stack import ROOT, load_stack

DOCKERFILE = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
SERVICES = load_stack()["services"]
STAGES = dict(re.findall(r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM |\Z)", DOCKERFILE, flags=re.M | re.S))
FINAL = ("models", "app")


def copied(stage: str) -> list[str]:
    """Paths of the build context that a stage copies."""
    lines = re.findall(r"^COPY (?!--from)(.*)$", STAGES[stage], flags=re.MULTILINE)
    return [source.rstrip("/") for line in lines for source in line.split()[:-1]]


def let_through(path: str) -> bool:
    """Whether .dockerignore leaves a path in the build context: the last pattern that matches decides."""
    let = True
    lines = (line.strip() for line in (ROOT / ".dockerignore").read_text().splitlines())
    for line in (line for line in lines if line and not line.startswith("#")):
        pattern = line.removeprefix("!").rstrip("/")
        parents = [path, *(str(parent) for parent in Path(path).parents)]
        if any(fnmatch.fnmatch(part, pattern) for part in parents):
            let = line.startswith("!")
    return let


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


def files_of(name: str) -> list[Path]:
    folder = ROOT / name
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [ROOT / f"{name.removesuffix('.py')}.py"]


def needed_by(*start: str) -> set[str]:
    """Top-level files and folders of the project that these import, through any number of steps."""
    found: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for module in set().union(*(imported(file) for file in files_of(name))):
            if (ROOT / module).is_dir() and any((ROOT / module).glob("*.py")):
                waiting.append(module)
            elif (ROOT / f"{module}.py").exists():
                waiting.append(f"{module}.py")
    return found


def test_the_linter_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("hadolint is not in this environment")
    answer = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stdout) == (0, "")


def test_the_services_are_built_from_stages_that_exist() -> None:
    targets = {service["build"]["target"] for service in SERVICES.values() if "build" in service}
    assert targets == set(FINAL) <= set(STAGES)
    assert list(STAGES)[-1] == "app", "the default target"


def test_the_base_image_is_pinned_and_can_come_from_a_mirror() -> None:
    bases = set(re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE)) - set(STAGES)
    [base] = bases
    assert re.fullmatch(r"\$\{REGISTRY_PREFIX\}python:3\.12\.\d+-slim-\w+", base)
    assert DOCKERFILE.index("ARG REGISTRY_PREFIX=\n") < DOCKERFILE.index("FROM ")


@pytest.mark.parametrize("stage", ["models-build", "app-build"])
def test_packages_are_installed_by_hash_from_a_lock_file(stage: str) -> None:
    [install] = re.findall(r"^RUN .*pip install.*$", STAGES[stage], flags=re.MULTILINE)
    assert "--require-hashes" in install
    assert "--only-binary :all:" in install
    [lock] = re.findall(r"-r (\S+)", install)
    assert [lock] == [path for path in copied(stage) if path.endswith(".lock")]
    assert "ARG PIP_INDEX_URL=\n" in STAGES[stage]
    pinned = re.findall(r"^[\w.-]+(\S*)", (ROOT / lock).read_text(), flags=re.MULTILINE)
    assert len(pinned) >= 5
    assert all(version.startswith("==") for version in pinned)


def test_the_models_are_made_with_the_versions_of_the_sandbox() -> None:
    def versions(lock: str) -> dict[str, str]:
        return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / lock).read_text(), flags=re.M))

    assert versions("models.lock").items() <= versions("triton.lock").items()


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_copied_exists_and_is_in_the_build_context(stage: str) -> None:
    for path in copied(stage):
        assert (ROOT / path).exists(), path
        assert let_through(path), path


def test_secrets_and_caches_stay_out_of_the_build_context() -> None:
    for path in (".env", ".git/config", ".venv/bin/python", "tritonscope.yml", ".streamlit/secrets.toml"):
        assert not let_through(path), path
    assert not let_through("ui/__pycache__/shell.cpython-312.pyc")


def test_the_app_image_holds_what_the_app_imports() -> None:
    needed = needed_by("app.py", "pages", "collectors")
    assert {"runtime.py", "settings.py", "telemetry", "signals"} <= needed
    assert needed <= set(copied("app"))
    assert not set(copied("app")) & {"sandbox", "tests", "tools"}


@pytest.mark.parametrize("stage", FINAL)
def test_the_images_do_not_run_as_root(stage: str) -> None:
    [user] = re.findall(r"^USER (\S+)$", STAGES[stage], flags=re.MULTILINE)
    assert user == "10001:10001"
    for name, service in SERVICES.items():
        if service.get("build", {}).get("target") == stage:
            assert service["user"] == user, name
    assert "useradd --uid 10001" in STAGES["python"]


def test_the_volumes_folders_belong_to_the_user_that_writes_them() -> None:
    assert "example-models:/models" in SERVICES["models"]["volumes"]
    assert "install -d -o tritonscope -g tritonscope /models" in STAGES["models"]
    [data] = [volume for volume in SERVICES["app"]["volumes"] if volume.startswith("app-data:")]
    assert f"install -d -o tritonscope -g tritonscope {data.split(':')[1]}" in STAGES["app"]


def test_the_app_listens_where_the_stack_looks_for_it() -> None:
    [command] = re.findall(r"^CMD (\[.*\])$", STAGES["app"], flags=re.MULTILINE)
    assert ast.literal_eval(command) == ["python", "app.py"]
    environment = dict(re.findall(r"^ENV (\w+)=(\S+)$", STAGES["app"], flags=re.MULTILINE))
    settings = load_settings(
        {**environment, **SERVICES["app"]["environment"]}, ROOT / "compose/tritonscope.yml"
    )
    assert (settings.app_host, settings.app_port) == ("0.0.0.0", 8501)
    assert settings.access.anonymous().on("triton") == ROLES["viewer"]
