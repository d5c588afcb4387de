"""What of an HTTP/1.1 answer a load generator needs: its status, its end, and the text of a failure."""

from __future__ import annotations

KEPT_TEXT_BYTES = 2048
"""So much of the body of a failure is kept."""
MAX_HEAD_BYTES = 65536
_OK = 200


class BadAnswer(Exception):
    """What came is no HTTP/1.1 answer."""


class Answer:
    """One answer, fed with what the socket brings until it is complete."""

    __slots__ = ("_chunked", "_missing", "_pending", "close", "status", "text")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew for the next answer on this connection."""
        self.status = 0
        self.text = b""
        self.close = False
        self._pending = b""
        self._missing = 0
        self._chunked = False

    def feed(self, data: bytes) -> bool:
        """True once the answer is complete; raises BadAnswer. Bodies of successes are not kept."""
        if self.status == 0:
            data = self._pending + data
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > MAX_HEAD_BYTES or not data.startswith(b"HTTP/1."[: len(data)]):
                    raise BadAnswer("no HTTP answer")
                self._pending = data
                return False
            self._head(data[:end])
            data, self._pending = data[end + 4 :], b""
        if self._chunked:
            self._pending += data
            return self._chunks()
        if self.status != _OK and len(self.text) < KEPT_TEXT_BYTES:
            self.text += data[: KEPT_TEXT_BYTES - len(self.text)]
        self._missing -= len(data)
        return self._missing <= 0

    def _head(self, head: bytes) -> None:
        try:
            if not head.startswith(b"HTTP/1."):
                raise ValueError
            self.status = int(head[9:12])
            # Triton writes it so; whoever stands between may write it otherwise.
            at = head.find(b"Content-Length: ")
            if at >= 0 and head.find(b"Connection: close") < 0:
                self._missing = int(
                    head[at + 16 : head.find(b"\r", at) if head.find(b"\r", at) > 0 else None]
                )
                return
            self._other_head(head)
        except ValueError:
            raise BadAnswer("no HTTP answer") from None

    def _other_head(self, head: bytes) -> None:
        fields = {}
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            fields[name.strip().lower()] = value.strip()
        self.close = fields.get(b"connection", b"").lower() == b"close"
        self._chunked = fields.get(b"transfer-encoding", b"").lower() == b"chunked"
        if not self._chunked:
            # Without a length the answer would end with the connection; Triton never does that.
            self._missing = int(fields.get(b"content-length", b"0"))

    def _chunks(self) -> bool:
        """Take complete chunks off the front; True after the last one."""
        while True:
            line, found, rest = self._pending.partition(b"\r\n")
            if not found:
                return False
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError:
                raise BadAnswer("a broken chunk") from None
            if size == 0:
                return rest.endswith(b"\r\n")
            if len(rest) < size + 2:
                return False
            if self.status != _OK and len(self.text) < KEPT_TEXT_BYTES:
                self.text += rest[: min(size, KEPT_TEXT_BYTES - len(self.text))]
            self._pending = rest[size + 2 :]
