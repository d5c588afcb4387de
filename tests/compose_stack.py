"""docker-compose.yml as docker compose reads it: variables filled in, merges resolved; without docker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
COMPOSE_FILE = ROOT / "docker-compose.yml"
EXAMPLE_FILE = ROOT / ".env.example"
SECRET = "0123456789abcdefghijklmnop"
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<kind>:-|-|:\?)(?P<rest>[^${}]*(?:\$\{[^{}]*\}[^${}]*)*))?\}")


class Refused(Exception):
    """The stack does not start; the text is what docker compose says."""


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """The text with its ${VARIABLES} replaced by the rules of compose; Refused for a missing one."""

    def value(match: re.Match[str]) -> str:
        found = variables.get(match["name"])
        kind, rest = match["kind"], match["rest"] or ""
        if kind == ":?" and not found:
            raise Refused(f"required variable {match['name']} is missing a value: {rest}")
        if kind == ":-":
            return found or interpolate(rest, variables)
        if kind == "-":
            return interpolate(rest, variables) if found is None else found
        return found or ""

    return _VARIABLE.sub(value, text)


def example_variables() -> dict[str, str]:
    """The variables of .env.example as they stand, its secrets filled in."""
    text = EXAMPLE_FILE.read_text(encoding="utf-8")
    pairs = dict(re.findall(r"^(\w+)=(.*)$", text, flags=re.MULTILINE))
    return {name: value or SECRET for name, value in pairs.items()}


def load_stack(variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The compose file with the variables of .env.example, or others."""
    chosen = example_variables() if variables is None else variables
    return _filled(yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8")), chosen)


def _filled(node: Any, variables: Mapping[str, str]) -> Any:
    # Values are filled in after the YAML has been read, as compose does: "false" stays a string.
    if isinstance(node, dict):
        return {key: _filled(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, variables) for value in node]
    return interpolate(node, variables) if isinstance(node, str) else node


def load_yaml(path: str) -> Any:
    """A YAML file of the project."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def bind_mounts(stack: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(service, path in the project, path in the container) of every mounted file or folder."""
    return [
        (name, *volume.split(":")[:2])
        for name, service in stack["services"].items()
        for volume in service.get("volumes", ())
        if volume.startswith(("./", "/"))
    ]


def host_names(stack: Mapping[str, Any]) -> dict[str, str]:
    """Every name by which a container is reached on the stack's network, with the service behind it."""
    names = {}
    for name, service in stack["services"].items():
        networks = service.get("networks", [])
        aliases = networks["stack"]["aliases"] if isinstance(networks, dict) else []
        names.update({alias: name for alias in (name, *aliases) if networks and alias not in names})
    return names
