"""Write docs/licences.md: name, version and licence of every locked dependency, from the installed metadata.

Run it after `make setup` whenever a lock changes (`make licences`); a test compares its names with the locks.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "licences.md"
ENVIRONMENTS = (
    ("The dashboard", "app.lock", ".venv"),
    ("Development tools", "dev.lock", ".venv"),
    ("The embedded Triton and its example models", "triton.lock", ".venv-triton"),
)
READ_METADATA = """
import importlib.metadata as metadata, json, re
def licence(found):
    head = found.metadata
    declared = [c.split(" :: ")[-1] for c in head.get_all("Classifier") or [] if c.startswith("License ::")]
    text = head.get("License-Expression") or ", ".join(declared) or head.get("License") or ""
    if text:
        return text.split("\\n")[0]
    for file in found.files or []:
        if re.search("licen[cs]e", file.name, re.I):
            lines = file.read_text().strip().splitlines()
            return lines[0].strip() if lines else ""
    return ""
rows = {}
for found in metadata.distributions():
    name = re.sub("[-_.]+", "-", found.metadata["Name"]).lower()
    rows[name] = [found.metadata["Version"], licence(found)]
print(json.dumps(rows))
"""


def locked_names(lock: str) -> list[str]:
    """Package names of one lock file, normalised as the package index does."""
    text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
    names = re.findall(r"^([A-Za-z0-9._-]+)==", text, flags=re.MULTILINE)
    return sorted({re.sub(r"[-_.]+", "-", name).lower() for name in names})


def installed(environment: str) -> dict[str, tuple[str, str]]:
    """Version and licence by name, as the packages in one environment declare them."""
    python = ROOT / environment / "bin" / "python"
    answer = subprocess.run([python, "-c", READ_METADATA], capture_output=True, text=True, check=True).stdout
    return {name: (version, licence) for name, (version, licence) in json.loads(answer).items()}


def render() -> str:
    """The whole page."""
    lines = [
        "# Licences of the dependencies",
        "",
        "As the packages declare them; written by `make licences`. None is copied into this repository.",
        "Tritonscope itself is Apache-2.0. Models and weights: [licences-models.md](licences-models.md).",
    ]
    listed: set[str] = set()
    for title, lock, environment in ENVIRONMENTS:
        packages = installed(environment)
        lines += ["", f"## {title}", "", "| package | version | licence |", "|---|---|---|"]
        names = [name for name in locked_names(lock) if environment != ".venv" or name not in listed]
        listed |= set(names)
        for name in names:
            version, licence = packages.get(name, ("other platform", ""))
            lines.append(f"| {name} | {version} | {licence or 'not declared'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    print("wrote", TARGET.relative_to(ROOT))
