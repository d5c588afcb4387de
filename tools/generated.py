"""Generated files: `python -m tools.generated` rewrites them, `--check` fails if one is stale.

A generated file is a row of GENERATED: path -> function that returns its text. Nothing else writes it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

GENERATED: dict[str, tuple[str, str]] = {
    # path: (module, function that returns the whole text)
    "docs/alerts.md": ("prometheus.reference", "render"),
    "docs/exporter.md": ("tools.exporter_file", "render"),
    "docs/load_errors.md": ("telemetry.load_errors", "reference"),
    "docs/metrics.md": ("tools.metrics_file", "render"),
    "docs/request_errors.md": ("control.request_errors", "reference"),
    "docs/settings.md": ("tools.settings_file", "render"),
    "docs/signals.md": ("signals.reference", "render"),
    "prometheus/alertmanager.yml": ("tools.alertmanager_file", "render"),
    # Each grafana/board_<name>.py is a board.
    **{
        f"grafana/dashboards/{path.stem.removeprefix('board_')}.json": (f"grafana.{path.stem}", "text")
        for path in sorted((ROOT / "grafana").glob("board_*.py"))
    },
}

FOLDERS: dict[str, tuple[str, str]] = {
    # folder: (module, function that returns file name -> text of every file of its kind)
    "docs/runbooks": ("triage.runbooks", "rendered"),
    "prometheus/rules": ("prometheus.builder", "files"),
}
"""Folders that hold generated files only: what is not generated any more is removed."""


def render(path: str) -> str:
    """The text that `path` should have."""
    module, function = GENERATED[path]
    text = getattr(importlib.import_module(module), function)()
    if not isinstance(text, str):
        raise TypeError(f"{module}.{function} must return the text of {path}")
    return text


def main(arguments: list[str]) -> int:
    """Rewrite or check; exit status 1 and a list of stale files when checking finds any."""
    check = arguments == ["--check"]
    wanted: dict[str, str | None] = {path: render(path) for path in GENERATED}
    wanted |= _of_folders()
    stale = [path for path, text in wanted.items() if _differs(path, text)]
    if check and stale:
        print("stale generated files (run make generate and commit):", *stale, sep="\n  ")
        return 1
    for path in stale:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        _put(ROOT / path, wanted[path])
        print("wrote" if wanted[path] is not None else "removed", path)
    return 0


def _of_folders() -> dict[str, str | None]:
    """Path -> text of the files of FOLDERS, None for one that is there and should not be."""
    wanted: dict[str, str | None] = {}
    for folder, (module, function) in FOLDERS.items():
        texts = getattr(importlib.import_module(module), function)()
        here = {path.name for path in (ROOT / folder).glob("*") if path.is_file()}
        wanted |= {f"{folder}/{name}": texts.get(name) for name in sorted({*texts, *here})}
    return wanted


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")


def _differs(path: str, text: str | None) -> bool:
    target = ROOT / path
    if text is None:
        return target.exists()
    return not target.exists() or target.read_text(encoding="utf-8") != text


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
