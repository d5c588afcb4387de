"""The shape of the house, as far as import-linter and ruff do not already keep it."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tools.licences import locked_names

ROOT = Path(__file__).resolve().parents[2]
PROJECT_MODULES = {
    "app", "server", "settings", "runtime", "pages", "ui", "charts", "triage", "experiments", "signals",
    "history", "collectors", "control", "signin", "telemetry", "sandbox", "replay",
}  # fmt: skip
MAY_IMPORT = {
    "settings": {"telemetry"},
    "runtime": PROJECT_MODULES - {"app", "server", "pages", "ui", "sandbox", "runtime", "signin"},
    "replay": {"runtime", "settings", "triage", "collectors", "history", "telemetry"},
    "server": {"runtime", "settings", "signin", "telemetry"},
    "app": {"server", "ui"},
}
MAX_LINES = 400


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    return [ROOT / name for name in listed if name and (ROOT / name).exists()]


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("module", sorted(MAY_IMPORT))
def test_the_single_modules_import_only_what_lies_below_them(module: str) -> None:
    imports = imported_modules(ROOT / f"{module}.py") & PROJECT_MODULES
    assert imports <= MAY_IMPORT[module], f"{module}.py may not import {sorted(imports - MAY_IMPORT[module])}"


def test_the_environment_is_read_in_settings_and_the_sandbox_only() -> None:
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in tracked("*.py")
        if re.search(r"os\.environ|os\.getenv|import environ", path.read_text(encoding="utf-8"))
    ]
    outside = [
        name
        for name in readers
        if not name.startswith(("sandbox/", "tests/", "tools/", "benchmarks/")) and name != "settings.py"
    ]
    assert not outside, f"read it in settings.py and hand it in: {outside}"


def test_no_python_file_is_longer_than_400_lines() -> None:
    long = {
        path.relative_to(ROOT).as_posix(): count
        for path in tracked("*.py")
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long, f"split by what they know: {long}"


def test_nothing_names_the_path_of_one_machine() -> None:
    pattern = re.compile(r"(?<![A-Za-z0-9_.])/(?:work|root|home/[a-z]+)/")
    texts = (
        path for path in tracked("*") if path.suffix in {".py", ".md", ".toml", ".yml", ".yaml", ".sh", ""}
    )
    offenders = [
        path.relative_to(ROOT).as_posix()
        for path in texts
        if path.is_file()
        and path != Path(__file__).resolve()
        and pattern.search(path.read_text(errors="replace"))
    ]
    assert not offenders


def test_names_that_say_nothing_are_not_used() -> None:
    forbidden = {"utils", "common", "helpers", "manager", "triton", "tritonserver", "misc"}
    parts = {
        path.relative_to(ROOT).as_posix()
        for path in tracked("*.py")
        if forbidden & {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}
    }
    assert not parts


def test_the_tests_need_nothing_outside_the_project() -> None:
    offenders = [
        path.relative_to(ROOT).as_posix()
        for path in tracked("tests/**/*.py")
        if path != Path(__file__).resolve()
        and re.search(r"\.\./shared|/shared/", path.read_text(encoding="utf-8"))
    ]
    assert not offenders


@pytest.mark.parametrize("lock", ["app.lock", "dev.lock", "grpc.lock", "triton.lock"])
def test_the_licence_of_every_locked_package_is_listed(lock: str) -> None:
    listed = set(
        re.findall(r"^\| ([a-z0-9-]+) \|", (ROOT / "docs/licences.md").read_text(), flags=re.MULTILINE)
    )
    missing = sorted(set(locked_names(lock)) - listed)
    assert not missing, f"run make licences: {missing}"


def test_grpc_is_one_package_more_than_the_app_and_nothing_else() -> None:
    assert set(locked_names("grpc.lock")) - set(locked_names("app.lock")) == {"grpcio"}
    pinned = [
        set(re.findall(r"^[a-z0-9-]+==\S+", (ROOT / "requirements" / name).read_text(), flags=re.MULTILINE))
        for name in ("app.lock", "grpc.lock")
    ]
    assert pinned[0] < pinned[1]
    assert len(pinned[1]) == len(pinned[0]) + 1
