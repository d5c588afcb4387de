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
    "docs/exporter.md": ("tools.exporter_file", "render"),
    "docs/metrics.md": ("tools.metrics_file", "render"),
    "docs/settings.md": ("settings", "reference"),
    "docs/signals.md": ("signals.reference", "render"),
    "prometheus/alertmanager.yml": ("tools.alertmanager_file", "render"),
    # Each grafana/board_<name>.py is a board.
    **{
        f"grafana/dashboards/{path.stem.removeprefix('board_')}.json": (f"grafana.{path.stem}", "text")
        for path in sorted((ROOT / "grafana").glob("board_*.py"))
    },
}


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
    stale = [path for path in GENERATED if _differs(path)]
    if check and stale:
        print("stale generated files (run make generate and commit):", *stale, sep="\n  ")
        return 1
    for path in stale:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(render(path), encoding="utf-8")
        print("wrote", path)
    return 0


def _differs(path: str) -> bool:
    target = ROOT / path
    return not target.exists() or target.read_text(encoding="utf-8") != render(path)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
