"""The boards compiled against Grafana's own types, of the stack's release and of the oldest one they name.

Needs node and npm, and the npm registry for the first time; the packages are kept in .tools/.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grafana.boards import BOARDS
from grafana.parameters import MINIMUM_GRAFANA
from tests.compose_stack import load_stack

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
TYPES = ROOT / "tests/fixtures/board_types.ts"
TYPESCRIPT = "5.9.3"
OPTIONS = ("--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "node", "--module", "esnext")
Json = dict[str, Any]


def releases() -> tuple[str, str]:
    """The Grafana of docker-compose.yml, and the oldest."""
    image: str = load_stack()["services"]["grafana"]["image"]
    return image.rsplit(":", 1)[1], MINIMUM_GRAFANA


class Compiler:
    """TypeScript with one release of @grafana/schema."""

    def __init__(self, folder: Path, packages: Path) -> None:
        self._folder, self._packages = folder, packages
        (folder / "node_modules").symlink_to(packages / "node_modules")
        shutil.copy(TYPES, folder / TYPES.name)

    def complaints(self, boards: dict[str, Json]) -> list[str]:
        """What the compiler says; none for boards that Grafana's types accept."""
        lines = ["import type { Board } from './board_types';"]
        for name, board in boards.items():
            document = {key: value for key, value in board.items() if key != "__requires"}
            lines.append(
                f"export const {name.removesuffix('.json')}: Board = {json.dumps(document, indent=1)};"
            )
        (self._folder / "boards.ts").write_text("\n".join(lines), encoding="utf-8")
        command = ["node", str(self._packages / "node_modules/typescript/bin/tsc"), *OPTIONS, "boards.ts"]
        done = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.stderr == ""
        return done.stdout.splitlines()


@pytest.fixture(scope="module", params=releases())
def compiler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    packages = ROOT / ".tools" / f"grafana-schema-{request.param}"
    if not (packages / "node_modules/@grafana/schema/package.json").exists():
        packages.mkdir(parents=True, exist_ok=True)
        (packages / "package.json").write_text('{"private": true}')
        wanted = [f"@grafana/schema@{request.param}", f"typescript@{TYPESCRIPT}"]
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        command = ["npm", "install", *quiet, *wanted]
        done = subprocess.run(command, cwd=packages, capture_output=True, text=True, timeout=100, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot get {wanted}: {done.stderr.strip().splitlines()[-1]}")
    yield Compiler(tmp_path_factory.mktemp("typescript"), packages)


def committed() -> dict[str, Json]:
    folder = ROOT / "grafana/dashboards"
    return {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in BOARDS}


def test_grafanas_types_accept_the_boards(compiler: Compiler) -> None:
    assert compiler.complaints(committed()) == []


def chart(board: Json) -> Json:
    found: Json = next(panel for panel in board["panels"] if panel["type"] == "timeseries")
    return found


def wrong_option(board: Json) -> None:
    chart(board)["options"]["legend"]["displayMode"] = "tabel"


def unknown_option(board: Json) -> None:
    chart(board)["options"]["ledgend"] = {}


def unknown_key(board: Json) -> None:
    board["refesh"] = "30s"


def wrong_colour_mode(board: Json) -> None:
    chart(board)["fieldConfig"]["defaults"]["custom"]["lineWidth"] = "thick"


def no_reference(board: Json) -> None:
    del chart(board)["targets"][0]["refId"]


@pytest.mark.parametrize(
    "mistake", [wrong_option, unknown_option, unknown_key, wrong_colour_mode, no_reference]
)
def test_they_refuse_a_mistake(mistake: Callable[[Json], None], compiler: Compiler) -> None:
    board = copy.deepcopy(committed()["fleet.json"])
    mistake(board)
    found = compiler.complaints({"fleet.json": board})
    assert found and re.match(r"boards\.ts\(\d+,\d+\): error TS", found[0])
