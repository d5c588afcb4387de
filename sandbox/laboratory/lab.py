"""What a situation plays with: real servers, models with switches, clients, and the product watching."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp

from runtime import Runtime
from sandbox.errors import SandboxError
from sandbox.laboratory import golden
from sandbox.laboratory.clients import Clients, address_of
from sandbox.laboratory.model_files import Ensemble, Model
from sandbox.laboratory.proxy import Proxy
from sandbox.options import SandboxOptions
from sandbox.server import Sandbox
from settings import Settings
from telemetry.access import ALL_RIGHTS, ANY_SERVER, How, Identity
from telemetry.actions import Action, ActionKind
from telemetry.identity import Server
from telemetry.rule_choice import RuleChoice
from triage.rulebook import Rulebook

REFRESH_SECONDS = 1.0
LOAD_SECONDS = 90.0
UNLOAD_SECONDS = 10.0
WORKLOAD = "laboratory"
WHO = Identity("laboratory", How.PROCESS, {ANY_SERVER: ALL_RIGHTS})


class Servers:
    """Sandboxes that several situations use one after another; started when they are first wanted."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._running: list[Sandbox] = []
        self._simulated: Sandbox | None = None

    def __enter__(self) -> Servers:
        """Nothing is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all of them."""
        self._stack.close()

    def plain(self, count: int) -> list[Sandbox]:
        """That many servers without any model."""
        while len(self._running) < count:
            self._running.append(self._stack.enter_context(Sandbox(_options(simulated_gpu=False))))
        return self._running[:count]

    def simulated_gpu(self) -> Sandbox:
        """One server with the simulated GPU."""
        if self._simulated is None:
            self._simulated = self._stack.enter_context(Sandbox(_options(simulated_gpu=True)))
        return self._simulated


def _options(*, simulated_gpu: bool) -> SandboxOptions:
    return SandboxOptions(
        http_port=0, grpc_port=0, metrics_port=0, models=(), simulated_gpu=simulated_gpu, stop_seconds=5.0
    )


class Lab:
    """One situation's own view of the servers: its models and clients end with it."""

    def __init__(self, sandboxes: Sequence[Sandbox], folder: Path | None = None) -> None:
        self.sandboxes = list(sandboxes)
        self._folder = folder or Path(mkdtemp(prefix="tritonscope-laboratory-"))
        self._stack = ExitStack()
        self._placed: dict[str, list[Sandbox]] = {}
        self.metrics_urls: list[str] = [one.metrics_url.removesuffix("/metrics") for one in self.sandboxes]
        self.http_urls: list[str] = [one.http_url for one in self.sandboxes]
        self.rulebook: Rulebook | None = None
        self.rules: dict[str, RuleChoice] = {}
        self._golden_folder = self._folder / "golden-requests"
        self._has_golden = False
        self.watched: Runtime | None = None
        self.proxies: list[Proxy] = []
        self.away: set[str] = set()
        """Addresses that a balancer does not lead to now."""

    def close(self) -> None:
        """End clients and the watching; take the models away, so that the next situation has none."""
        with contextlib.suppress(FileNotFoundError):
            for switch in self._folder.glob("*/*"):
                switch.unlink()
        self._stack.close()
        if self.watched is not None:
            self.watched.stop()
        for name, sandboxes in self._placed.items():
            for sandbox in sandboxes:
                self._forget(sandbox, name)
        shutil.rmtree(self._folder, ignore_errors=True)

    # ---- the product

    def watch(self) -> Runtime:
        """The product's poller, history and triage on these servers, one reading a second."""
        several = len(self.metrics_urls) > 1
        servers = tuple(
            Server(
                f"server{number}",
                self.http_urls[number],
                self.metrics_urls[number],
                workload=WORKLOAD if several else "",
                expected_server_name=self.sandboxes[number].server_id,
            )
            for number in range(len(self.metrics_urls))
        )
        settings = Settings(
            servers=servers,
            refresh_seconds=REFRESH_SECONDS,
            rules=self.rules,
            golden=golden.choice(self._golden_folder) if self._has_golden else None,
        )
        self.watched = Runtime(settings, rulebook=self.rulebook)
        self.watched.start()
        return self.watched

    @property
    def runtime(self) -> Runtime:
        """What watches; SandboxError before `watch`."""
        if self.watched is None:
            raise SandboxError("The laboratory does not watch yet.")
        return self.watched

    def keep_golden(self, *models: str, batched: bool = False) -> None:
        """Give models of the first server a golden request, which the product sends while it watches."""
        self._has_golden = True
        for model in models:
            golden.keep(self._golden_folder, "server0", model, batched=batched)

    def from_afar(self) -> None:
        """The product reaches the first server through a proxy, as one on another machine."""
        for urls in (self.http_urls, self.metrics_urls):
            proxy = Proxy(urls[:1])
            self.keep(proxy)
            self.proxies.append(proxy)
            urls[0] = proxy.url

    def act(self, kind: ActionKind, model: str) -> None:
        """Do something to a model through the product's own write side, and wait for its end."""
        control = self.runtime.control
        if control is None:
            raise SandboxError("The product has no write side for the laboratory's servers.")
        self._until(lambda: self.runtime.is_sandbox("server0"), 20.0)
        job = control.perform(Action(kind, "server0", model), by=WHO)
        self._until(lambda: not job.record.running, LOAD_SECONDS)

    # ---- models

    def place(self, model: Model | Ensemble, *, on: Sequence[int] | None = None) -> str:
        """Write a model's folder, on all servers or the ones named; nothing is loaded."""
        for number in range(len(self.sandboxes)) if on is None else on:
            sandbox = self.sandboxes[number]
            model.write(sandbox.repository, self.switches(model.name, number))
            self._placed.setdefault(model.name, []).append(sandbox)
        return model.name

    def add(self, *models: Model | Ensemble) -> None:
        """Write and load models on all servers."""
        for model in models:
            self.place(model)
            for number in range(len(self.sandboxes)):
                self.load(model.name, number)

    def load(self, name: str, server: int = 0, body: Mapping[str, object] | None = None) -> int:
        """A load call as any tool sends it; its HTTP status."""
        return self._call(server, f"/v2/repository/models/{name}/load", body, LOAD_SECONDS)

    def load_aside(self, name: str, server: int = 0) -> None:
        """A load call that is not waited for."""
        thread = threading.Thread(target=self.load, args=(name, server), daemon=True)
        thread.start()
        self._stack.callback(thread.join, LOAD_SECONDS)

    def unload(self, name: str, server: int = 0) -> int:
        """An unload call; its HTTP status."""
        return self._call(server, f"/v2/repository/models/{name}/unload", None, 10.0)

    def switches(self, name: str, server: int = 0) -> Path:
        """The folder of a model's switches on a server."""
        return self._folder / f"{name}-{server}"

    def switch(self, name: str, what: str, text: str = "", server: int = 0) -> None:
        """Turn a switch on."""
        (self.switches(name, server) / what).write_text(text, encoding="utf-8")

    def switch_off(self, name: str, what: str, server: int = 0) -> None:
        """Turn a switch off."""
        (self.switches(name, server) / what).unlink(missing_ok=True)

    def touch(self, name: str, server: int = 0) -> None:
        """Make the model's file newer, so that a load loads it anew."""
        (self.sandboxes[server].repository / name / "1" / "model.py").touch()

    def state(self, name: str, server: int = 0) -> str:
        """The model's state by the index, "" without one."""
        for row in self._index(self.sandboxes[server]):
            if row["name"] == name:
                return str(row.get("state", ""))
        return ""

    def await_state(self, name: str, state: str, server: int = 0) -> None:
        """Wait until the index says so, 30 s at most."""
        self._until(lambda: self.state(name, server) == state, 30.0)

    # ---- clients

    def clients(
        self,
        model: str,
        count: int,
        *,
        per_second: float | None = None,
        batched: bool = False,
        pause_seconds: float = 0.0,
        to: Sequence[int] | None = None,
        alive: Callable[[str], bool] = lambda url: True,
        hang_up_seconds: float = 20.0,
    ) -> Clients:
        """Clients that send until the situation ends."""
        urls = [self.sandboxes[number].http_url for number in (to or range(len(self.sandboxes)))]
        found = Clients(
            urls,
            model,
            count,
            per_second=per_second,
            batched=batched,
            pause_seconds=pause_seconds,
            alive=alive,
            hang_up_seconds=hang_up_seconds,
        )
        found.start()
        self._stack.callback(found.stop)
        return found

    def aside(self, work: Callable[[threading.Event], None]) -> None:
        """Do something beside until the situation ends; the event says when."""
        ended = threading.Event()
        thread = threading.Thread(target=work, args=(ended,), daemon=True)
        thread.start()
        self._stack.callback(thread.join, 30.0)
        self._stack.callback(ended.set)

    def keep(self, manager: contextlib.AbstractContextManager[object]) -> None:
        """Enter something that ends with the situation."""
        self._stack.enter_context(manager)

    # ---- calls

    def _call(self, server: int, path: str, body: Mapping[str, object] | None, seconds: float) -> int:
        return _call(self.sandboxes[server], path, body, seconds)[0]

    def _index(self, sandbox: Sandbox) -> list[dict[str, str]]:
        status, data = _call(sandbox, "/v2/repository/index", None, 10.0)
        rows: list[dict[str, str]] = json.loads(data) if status == http.HTTPStatus.OK else []
        return rows

    def _forget(self, sandbox: Sandbox, name: str) -> None:
        """Unload it and remove its folder, so that the index does not list it any more."""
        if not sandbox.running:
            return
        self._until(lambda: self._state_of(sandbox, name) != "LOADING", LOAD_SECONDS)
        _call(sandbox, f"/v2/repository/models/{name}/unload", None, 10.0)
        # A model whose process is dead may stay UNLOADING for long; without its folder it is not listed.
        self._until(lambda: self._state_of(sandbox, name) not in ("READY", "UNLOADING"), UNLOAD_SECONDS)
        shutil.rmtree(sandbox.repository / name, ignore_errors=True)

    def _state_of(self, sandbox: Sandbox, name: str) -> str:
        found = [row.get("state", "") for row in self._index(sandbox) if row["name"] == name]
        return found[0] if found else ""

    def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.1)


def _call(
    sandbox: Sandbox, path: str, body: Mapping[str, object] | None, seconds: float
) -> tuple[int, bytes]:
    """POST; status 0 where nobody answers in time."""
    connection = http.client.HTTPConnection(*address_of(sandbox.http_url), timeout=seconds)
    try:
        connection.request("POST", path, json.dumps(body) if body is not None else "")
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()
