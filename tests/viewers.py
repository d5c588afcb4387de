"""Viewers without a browser: each a websocket to the app that speaks Streamlit's own protocol.

They do what a tab does: run the page once, then ask for each fragment again at the interval it was given.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import requests
import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.typing import Origin, Subprotocol


def app_answers(app_url: str, seconds: float = 5.0) -> bool:
    """True once the app has read its server."""
    try:
        return bool(requests.get(f"{app_url}/healthz", timeout=seconds).json()["servers"])
    except (requests.RequestException, ValueError, KeyError):
        return False


@dataclass
class Viewer:
    """What one viewer saw: refreshes of live fragments, bytes received, exceptions shown on the page."""

    refreshes: int = 0
    received_bytes: int = 0
    exceptions: list[str] = field(default_factory=list)
    refresh_seconds: list[float] = field(default_factory=list)


async def _watch(app_url: str, page: str, until: float, seen: Viewer) -> None:
    host = urlsplit(app_url).netloc
    async with websockets.connect(
        f"ws://{host}/_stcore/stream",
        subprotocols=[Subprotocol("streamlit")],
        max_size=None,
        origin=Origin(f"http://{host}"),
    ) as socket:
        await _ask(socket, _page_run(page))
        due: dict[str, tuple[float, float]] = {}
        await _read_run(socket, seen, due)
        while time.monotonic() < until and due:
            fragment, (at, interval) = min(due.items(), key=lambda item: item[1][0])
            await asyncio.sleep(max(0.0, min(at, until) - time.monotonic()))
            began = time.monotonic()
            if began >= until:
                return
            due[fragment] = (at + interval, interval)
            await _ask(socket, _fragment_run(page, fragment))
            await _read_run(socket, seen, due)
            seen.refreshes += 1
            seen.refresh_seconds.append(time.monotonic() - began)


def _page_run(page: str) -> BackMsg:
    message = BackMsg()
    message.rerun_script.page_name = page
    message.rerun_script.query_string = ""
    return message


def _fragment_run(page: str, fragment: str) -> BackMsg:
    message = _page_run(page)
    message.rerun_script.fragment_id = fragment
    message.rerun_script.is_auto_rerun = True
    return message


async def _ask(socket: websockets.ClientConnection, message: BackMsg) -> None:
    await socket.send(message.SerializeToString())


async def _read_run(
    socket: websockets.ClientConnection, seen: Viewer, due: dict[str, tuple[float, float]]
) -> None:
    """Read until the script has finished; note each fragment's refresh interval."""
    while True:
        data = await asyncio.wait_for(socket.recv(), 30)
        assert isinstance(data, bytes)
        seen.received_bytes += len(data)
        message = ForwardMsg()
        message.ParseFromString(data)
        kind = message.WhichOneof("type")
        if kind == "auto_rerun":
            interval = message.auto_rerun.interval
            due.setdefault(message.auto_rerun.fragment_id, (time.monotonic() + interval, interval))
        elif kind == "delta" and message.delta.new_element.WhichOneof("type") == "exception":
            seen.exceptions.append(message.delta.new_element.exception.message)
        elif kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
            return


def watch(app_url: str, page: str, viewers: int, seconds: float) -> list[Viewer]:
    """`viewers` people on one page for `seconds`, spread over the first two seconds."""

    async def all_of_them() -> list[Viewer]:
        until = time.monotonic() + seconds
        people = [Viewer() for _ in range(viewers)]

        async def one(index: int, seen: Viewer) -> None:
            await asyncio.sleep(2.0 * index / max(1, viewers))
            await _watch(app_url, page, until, seen)

        await asyncio.gather(*(one(index, seen) for index, seen in enumerate(people)))
        return people

    # In a thread of its own: a browser driver may already run a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(all_of_them())).result()
