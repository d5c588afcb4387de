"""A server whose configurations are overridden, reverted and changed by others, as a process sees it.

Time goes on by hand, from some hours ago; the journal, the history and all judgements are the real ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from collectors.config import parse_config
from collectors.exposition import SeriesCache, read_page
from collectors.repository import index_samples
from runtime import Runtime
from settings import Settings
from telemetry.actions import Action, ActionKind, Conclusion, Outcome
from telemetry.config_diff import journal_parameters
from telemetry.facts import IndexEntry, ModelConfig, ModelState, ServerMetadata
from telemetry.identity import Server
from telemetry.journal_choice import JournalChoice
from telemetry.scrape import Samples, Scrape, Source

MODEL, OTHER = "fast_add", "quiet_add"
SANDBOX = "tritonscope-5f3c"
RECORDED = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "small_repo" / "config_fast_add.json").read_text()
)
FILE = """
backend: "python"
max_batch_size: 8
input [ { name: "A" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "B" data_type: TYPE_FP32 dims: [ -1 ] } ]
output { name: "SUM" data_type: TYPE_FP32 dims: -1 }
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching { max_queue_delay_microseconds: 100 }
"""
RELOADED = "loaded anew: the server found its files changed, and its statistics begin at 0"
KEPT = "nothing had changed on disk, so the server kept what it had loaded"
_BATCHING = {
    "preferred_batch_size": [8], "max_queue_delay_microseconds": 100, "preserve_ordering": False,
}  # fmt: skip


def config(name: str = MODEL, **changes: Any) -> ModelConfig:
    raw = {**deepcopy(RECORDED), "name": name, "dynamic_batching": dict(_BATCHING)}
    if "max_batch_size" in changes:
        raw["dynamic_batching"]["preferred_batch_size"] = [changes["max_batch_size"]]
    return parse_config(raw | changes)


class ByHand(Runtime):
    """A process whose clock stands until it is set."""

    at = 0.0

    def clock(self) -> float:
        """Unix time as the night has it."""
        return self.at


class Night:
    """What the server has loaded, what was done to it, and the process that looks at it."""

    def __init__(self, folder: Path, *, files: bool = False) -> None:
        self.folder, self.files = folder, files
        self.now = time.time() - 4 * 3600.0
        self.running: dict[str, ModelConfig | None] = {MODEL: config(), OTHER: config(OTHER)}
        self.counted, self.life = 10, 1
        if files:
            for name in self.running:
                self.write(name, FILE)
            (folder / "state.json").write_text(json.dumps({"repository_path": str(folder / "models")}))
        self.process = self.started()
        self.read(3)

    def started(self) -> ByHand:
        """Another process on the same journal."""
        server = Server(
            "lab", "http://127.0.0.1:9", "http://127.0.0.1:9/metrics", control=True,
            expected_server_name=SANDBOX if self.files else None,
        )  # fmt: skip
        journal = JournalChoice(self.folder / "journal.jsonl")
        state = self.folder / "state.json" if self.files else None
        process = ByHand(Settings(servers=(server,), journal=journal, sandbox_state=state))
        process.at = self.now
        process._figures._clock = process.clock
        assert process.control is not None
        process.control.journal._clock = lambda: self.now
        return process

    def write(self, name: str, text: str) -> None:
        """The model's config.pbtxt says this from now on."""
        path = self.folder / "models" / name / "config.pbtxt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    # ---- time goes on

    def read(self, rounds: int = 2) -> None:
        """That many readings of everything, two seconds apart."""
        for _ in range(rounds):
            self.process.at = self.now = self.now + 2.0
            self.counted += 5
            self._page()
            entries = tuple(
                IndexEntry(name, "1", ModelState.READY)
                if running is not None
                else IndexEntry(name, "1", ModelState.UNAVAILABLE, "unloaded")
                for name, running in self.running.items()
            )
            self._accept(Source.INDEX, entries, index_samples(entries))
            name = SANDBOX if self.files else f"triton-{self.life}"
            self._accept(Source.METADATA, ServerMetadata(name, "2.51.0"))
            loaded = {name: running for name, running in self.running.items() if running is not None}
            self._accept(Source.CONFIG, loaded)

    def later(self, seconds: float) -> None:
        """Time goes on while nothing else happens."""
        self.now += seconds
        self.read()

    def _page(self) -> None:
        loaded = [name for name, running in self.running.items() if running is not None]
        rows = [
            f'nv_inference_request_success{{model="{name}",version="1"}} {self.counted}' for name in loaded
        ]
        # Failures are still told of after an unload.
        rows += [
            f'nv_inference_request_failure{{model="{name}",version="1",reason="BACKEND"}} {self.counted // 9}'
            for name in self.running
        ]
        page = read_page("\n".join([*rows, ""]), SeriesCache())
        self._accept(Source.METRICS, page, page.samples)

    def _accept(self, source: Source, payload: object, samples: Samples | None = None) -> None:
        samples = Samples.empty() if samples is None else samples
        self.process.accept(Scrape("lab", source, self.now, 0.01, samples, payload))

    # ---- what is done

    def act(
        self,
        kind: ActionKind,
        running: ModelConfig | None,
        outcome: Outcome = Outcome.DONE,
        sentence: str = "",
        parameters: Mapping[str, object] | None = None,
    ) -> None:
        """An action through this app, after which `running` is in force."""
        assert self.process.control is not None
        journal = self.process.control.journal
        action = Action(kind, "lab", MODEL, who="ops", parameters=parameters or {})
        record = journal.begin(action, kind.doing)
        journal.write_down(record.id)
        journal.progress(record.id, sent=True)
        self.now += 1.0
        self.running[MODEL] = running
        journal.end(record.id, Conclusion(outcome, sentence or f"{MODEL}: {kind.value}"))
        self.read()

    def override(
        self, wanted: ModelConfig, outcome: Outcome = Outcome.DONE, *, in_force: bool = True
    ) -> None:
        """An override through this app; `in_force`: the server took it."""
        before = self.running[MODEL]
        assert before is not None
        told = journal_parameters(before.raw, wanted.raw)
        self.act(ActionKind.OVERRIDE, wanted if in_force else before, outcome, parameters=told)

    def somebody(self, running: ModelConfig | None) -> None:
        """Somebody else loads (None: unloads) the model."""
        self.running[MODEL] = running
        self.read()

    def restart_server(self, running: ModelConfig | None = None) -> None:
        """The server comes back with what its files say: `running`, or as in the beginning."""
        self.life, self.counted = self.life + 1, 0
        self.running[MODEL] = config() if running is None else running
        self.read()

    def restart_app(self) -> None:
        """The app ends, and another one takes its journal over."""
        self.process.stop()
        self.process = self.started()
        self.read(3)
