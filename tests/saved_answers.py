"""A transport that answers from saved texts, for tests of collectors without a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from telemetry.errors import SourceError
from telemetry.identity import Server
from telemetry.transport import Answer, Transport

FIXTURES = Path(__file__).parent / "fixtures"
SERVER = Server("s1", "http://h:8000", "http://h:8002")


class SavedAnswers(Transport):
    """A transport that answers from a mapping of address -> text or error, and counts."""

    def __init__(self, answers: Mapping[str, str | SourceError]) -> None:
        super().__init__(SERVER)
        self.answers = dict(answers)
        self.asked: list[str] = []

    def get(self, url: str, *, timeout_seconds: float | None = None) -> Answer:
        self.asked.append(url)
        answer = self.answers[url]
        if isinstance(answer, SourceError):
            raise answer
        return Answer(200, "text/plain", answer)

    def post(self, url: str, body: str = "", *, timeout_seconds: float | None = None) -> Answer:
        return self.get(url)


def load(name: str) -> object:
    """The JSON of one fixture."""
    return json.loads((FIXTURES / name).read_text())
