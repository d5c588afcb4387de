"""Saved answers of one server, replayed into a ring as if they had just been read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from collectors.config import parse_config
from collectors.exposition import MetricsPage, SeriesCache, read_page
from collectors.repository import index_samples, parse_index
from collectors.statistics import parse_statistics, statistics_samples
from history.inventory import Inventory
from history.ring import Ring
from signals.evaluate import evaluate
from signals.report import Report
from telemetry.errors import SourceError, WrongContent
from telemetry.facts import ModelConfig
from telemetry.scrape import Notice, Samples, Scrape, Sink, Source

SERVER = "saved"
"""Id of the server whose answers were saved."""
_BEGIN = 1_000_000_000.0
"""Unix time given to the first answer; only differences matter."""


@dataclass(frozen=True, slots=True)
class SavedFile:
    """One saved answer: how it is called in warnings, and its text; `problem` says why there is none."""

    name: str
    text: str
    problem: str = ""
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedAnswers:
    """Answers of one server in the order in which they were saved, `every_seconds` apart.

    If there are fewer statistics or indexes than metrics pages, the last ones belong together. Of two
    configurations of the same model the later one was saved after the earlier.
    """

    every_seconds: float
    pages: Sequence[SavedFile] = ()
    statistics: Sequence[SavedFile] = ()
    indexes: Sequence[SavedFile] = ()
    configs: Sequence[SavedFile] = ()


@dataclass(slots=True)
class Replay:
    """A filled ring, the moment of the newest answer, the window between first and last, and notices.

    `steps` is how many pages came after the first one that could be read: the window begins there. None
    without one.
    """

    ring: Ring
    at: float
    window_seconds: float | None
    notices: list[Notice] = field(default_factory=list)
    readable: int = 0
    steps: int | None = None
    also: Sequence[Sink] = ()

    @property
    def since(self) -> float | None:
        """The time of the first page that could be read."""
        return None if self.steps is None else self.at - (self.window_seconds or 0.0)

    def accept(self, scrape: Scrape) -> None:
        """Take one answer."""
        self.ring.accept(scrape)
        for sink in self.also:
            sink.accept(scrape)

    def inventory(self) -> Inventory:
        """The models in the last answers."""
        return Inventory.of(self.ring, (SERVER,))

    def report(self) -> Report:
        """The report over all saved answers."""
        page = self.ring.last(SERVER, Source.METRICS)
        pages = {SERVER: page.payload} if page is not None and isinstance(page.payload, MetricsPage) else {}
        notices = (*self.notices, *self.ring.notices(SERVER))
        return evaluate(
            self.ring, self.inventory(), self.at, self.window_seconds, pages=pages, notices=notices
        )


_Parsed = tuple[object, Samples, tuple[Notice, ...]]


def replay(answers: SavedAnswers, also: Sequence[Sink] = ()) -> Replay:
    """Fill a ring with saved answers; each also goes to `also`, one source after the other.

    Raises WrongContent if not one of them can be read.
    """
    count = len(answers.pages) or max(len(answers.statistics), len(answers.indexes), 1)
    last = _BEGIN + (count - 1) * answers.every_seconds
    window = (count - 1) * answers.every_seconds if count > 1 else None
    # Every page counts, however many there are: nothing may be thinned out.
    kept = max(3600.0, 2 * (window or 0.0))
    result = Replay(Ring(retention_seconds=kept, full_rate_seconds=kept), last, window, also=also)
    cache = SeriesCache()
    _feed(result, answers, Source.METRICS, answers.pages, lambda file: _page(file, cache))
    _feed(result, answers, Source.STATISTICS, answers.statistics, _statistics)
    _feed(result, answers, Source.INDEX, answers.indexes, _index)
    _feed_configs(result, answers)
    if result.steps is not None:
        result.window_seconds = result.steps * answers.every_seconds or None
    if not result.readable:
        raise WrongContent(result.notices[0].text if result.notices else "no saved answer was given")
    return result


def _feed(
    result: Replay,
    answers: SavedAnswers,
    source: Source,
    files: Sequence[SavedFile],
    parse: Callable[[SavedFile], _Parsed],
) -> None:
    for back, file in zip(reversed(range(len(files))), files, strict=True):
        at = result.at - back * answers.every_seconds
        result.notices += file.notices
        try:
            payload, samples, notices = parse(_readable(file))
        except SourceError as error:
            result.notices.append(Notice(file.name, None, error.sentence))
            result.accept(Scrape(SERVER, source, at, 0.0, error=error))
            continue
        result.readable += 1
        result.notices += notices
        if source is Source.METRICS and result.steps is None:
            result.steps = back
        result.accept(Scrape(SERVER, source, at, 0.0, samples, payload, notices))


def _feed_configs(result: Replay, answers: SavedAnswers) -> None:
    rounds: list[dict[str, ModelConfig]] = [{}]
    for file in answers.configs:
        result.notices += file.notices
        try:
            rows = _config_rows(_json(_readable(file)))
        except SourceError as error:
            result.notices.append(Notice(file.name, None, error.sentence))
            continue
        for row in rows:
            try:
                config = parse_config(row, who=file.name)
            except SourceError as error:
                result.notices.append(Notice(file.name, None, error.sentence))
                continue
            if config.name in rounds[-1]:
                rounds.append({})
            rounds[-1][config.name] = config
            result.readable += 1
    known: dict[str, ModelConfig] = {}
    for back, configs in zip(reversed(range(len(rounds))), rounds, strict=True):
        known = known | configs
        if known:
            at = result.at - back * answers.every_seconds
            result.accept(Scrape(SERVER, Source.CONFIG, at, 0.0, payload=known))


def _page(file: SavedFile, cache: SeriesCache) -> _Parsed:
    page = read_page(file.text, cache, source=file.name)
    return page, page.samples, page.notices


def _statistics(file: SavedFile) -> _Parsed:
    rows, notices = parse_statistics(_json(file), who=file.name, source=file.name)
    return rows, statistics_samples(rows), notices


def _index(file: SavedFile) -> _Parsed:
    entries, notices = parse_index(_json(file), who=file.name, source=file.name)
    return entries, index_samples(entries), notices


def _config_rows(data: object) -> Sequence[object]:
    """One configuration as the server answers it, or several in a list or by name; what is empty is one."""
    if isinstance(data, dict) and not isinstance(data.get("name"), str):
        data = list(data.values())
    return data if isinstance(data, list) and data else [data]


def _readable(file: SavedFile) -> SavedFile:
    if file.problem:
        raise WrongContent(file.problem)
    return file


def _json(file: SavedFile) -> object:
    try:
        return json.loads(file.text)
    except (ValueError, RecursionError) as error:
        raise WrongContent(f"{file.name} is not JSON: {error}") from error
