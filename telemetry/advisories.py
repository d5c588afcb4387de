"""What a security team would say of a server, from what it reports: an old version, an API without a key."""

from __future__ import annotations

import re
from dataclasses import dataclass

from telemetry.identity import Server

FIXED_RELEASE = "25.07"
FIXED_VERSION = (2, 59, 1)
"""Triton's own version in that release."""
KNOWN_HOLES = (
    "CVE-2025-23310 and -23311 (overflow by a chunked request), CVE-2025-23319, -23320 and -23334 (code "
    "execution through the Python backend's shared memory) are fixed in release 25.07. Later ones, such as "
    "CVE-2026-24207 (authentication bypass), need a newer release still: see NVIDIA's security bulletins."
)
KEY_ADVICE = (
    "Loading a model is running its code. Start Triton with --http-restricted-api=model-repository:K=V "
    "and --grpc-restricted-protocol, and give the key to this app with api_headers_from_env."
)

_VERSION = re.compile(r"^(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Advisory:
    """One note: a sentence, and what to know and do about it."""

    sentence: str
    detail: str


def advisories(
    server: Server, version: str, *, index_answers: bool, control_mode: str | None
) -> tuple[Advisory, ...]:
    """Notes on one server. `index_answers`: its repository API answered this app just now.

    `control_mode` is "explicit", "none or poll", or None while no answer has shown it.
    """
    found = []
    if is_old(version):
        sentence = (
            f"{server.id} runs Triton {version}, older than release {FIXED_RELEASE}: known holes are open"
        )
        found.append(Advisory(sentence, KNOWN_HOLES))
    without_key = not server.headers_for("model-repository")
    if index_answers and without_key and control_mode != "none or poll":
        doubt = "" if control_mode == "explicit" else ", if it runs in explicit mode"
        sentence = f"{server.id} takes load and unload from whoever reaches it, without a key{doubt}"
        found.append(Advisory(sentence, KEY_ADVICE))
    return tuple(found)


def is_old(version: str) -> bool:
    """True for a version before `FIXED_VERSION`; an unknown one is not called old."""
    found = _VERSION.match(version)
    return found is not None and tuple(int(part or 0) for part in found.groups()) < FIXED_VERSION
