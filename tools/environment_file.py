"""Write .env for docker-compose.yml if there is none: .env.example with random secrets. `make up` runs it.

The secrets are the variables that docker-compose.yml refuses to start without. An existing .env is never
touched, and no secret is printed.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECRET_BYTES = 24


def required_variables(compose: str) -> list[str]:
    """Names that a compose file's text demands with ${NAME:?sentence}, in their order, each once."""
    return list(dict.fromkeys(re.findall(r"\$\{(\w+):\?", compose)))


def filled(example: str, required: list[str]) -> str:
    """The example's text with a random value of its own behind every required `NAME=`.

    ValueError names the variables that the example does not offer as an empty line `NAME=`.
    """
    missing = [name for name in required if not re.search(rf"^{name}=$", example, flags=re.MULTILINE)]
    if missing:
        raise ValueError(f".env.example has no empty line for {', '.join(missing)}")
    for name in required:
        value = secrets.token_urlsafe(SECRET_BYTES)
        example = re.sub(rf"^{name}=$", f"{name}={value}", example, count=1, flags=re.MULTILINE)
    return example


def write_once(folder: Path) -> bool:
    """Write folder/.env, readable by its owner only; False if there is one already."""
    required = required_variables((folder / "docker-compose.yml").read_text(encoding="utf-8"))
    text = filled((folder / ".env.example").read_text(encoding="utf-8"), required)
    try:
        descriptor = os.open(folder / ".env", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def main() -> int:
    """Exit status 0; says on standard error what was done."""
    if write_once(ROOT):
        print("wrote .env with random secrets; Grafana's password for admin is in it", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
