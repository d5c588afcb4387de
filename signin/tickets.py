"""Sealed notes of this process to itself: what a cookie or a header says is believed only with the seal."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

KEEP_ENDED = 10_000
KEEP_READ = 256
MAX_LETTERS = 32_768
"""No note is so long; what a client sends is not even kept."""


class Tickets:
    """Seals and opens notes with a key that never leaves the process. Safe to use from many threads."""

    def __init__(self, key: bytes | None = None, clock: Callable[[], float] = time.time) -> None:
        self._key = key or secrets.token_bytes(32)
        self._clock = clock
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._read = lru_cache(KEEP_READ)(self._checked)

    def seal(self, note: Mapping[str, object], seconds: float, *, purpose: str) -> str:
        """The note as text with its seal; it opens for `seconds` and this purpose only."""
        body = json.dumps({**note, "until": self._clock() + seconds}, separators=(",", ":")).encode()
        text = base64.urlsafe_b64encode(body).rstrip(b"=")
        return f"{text.decode()}.{self._seal(text, purpose)}"

    def open(self, sealed: str, *, purpose: str) -> Mapping[str, object] | None:
        """The note; None without the right seal, after its time, or if its session was ended."""
        note = self._read(sealed, purpose) if len(sealed) <= MAX_LETTERS else None
        if note is None or note["until"] <= self._clock():
            return None
        return None if self.has_ended(str(note.get("session", ""))) else note

    def end(self, session: str) -> None:
        """Notes of this session open no more: somebody signed out."""
        with self._lock:
            self._ended[session] = None
            while len(self._ended) > KEEP_ENDED:
                self._ended.popitem(last=False)

    def has_ended(self, session: str) -> bool:
        """True after `end`."""
        with self._lock:
            return session in self._ended

    def _checked(self, sealed: str, purpose: str) -> Mapping[str, Any] | None:
        """What a seal says does not change: pages ask for the same one at every drawing."""
        text, _, seal = sealed.partition(".")
        raw = text.encode("latin-1", errors="replace")
        if not hmac.compare_digest(self._seal(raw, purpose).encode(), seal.encode(errors="replace")):
            return None
        note = json.loads(base64.urlsafe_b64decode(raw + b"=" * (-len(raw) % 4)))
        return MappingProxyType(note) if isinstance(note, dict) else None

    def _seal(self, text: bytes, purpose: str) -> str:
        return hmac.new(self._key, purpose.encode() + b"\0" + text, hashlib.sha256).hexdigest()


PROCESS_TICKETS = Tickets()
"""Those of this process: the gate seals with them, the pages open with them."""
