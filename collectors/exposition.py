"""Reader of a metrics page in the Prometheus text format, line by line, with memoised series keys.

One bad line costs that line. Oddities that proxies and home-made exporters produce (CRLF, tabs, blanks in
braces, a missing blank before the value, timestamps, trailing commas, OpenMetrics' exemplars, a byte order
mark) are read; what cannot be read becomes a `Notice` with its line number.
Format: https://prometheus.io/docs/instrumenting/exposition_formats/ .
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from telemetry.catalogue import CATALOGUE, Kind
from telemetry.errors import WrongContent
from telemetry.scrape import Notice, Samples, Series

SOURCE_NAME = "metrics page"
MAX_NOTICES = 20
"""Bad lines that are named one by one; the rest is counted."""

_BLANKS = " \t"
_BYTE_ORDER_MARK = "\ufeff"
_LINE = re.compile(
    r"[ \t]*([a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:[ \t]*\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}[ \t]*|[ \t]+)'
    r"([^\s{}\"]+)(?:[ \t]+([^\s#]\S*))?[ \t]*(?:#[ \t]*\{.*)?"
)
_LABEL = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,[ \t]*|$)', re.DOTALL
)
_TIMESTAMP = re.compile(r"[+-]?\d+(?:\.\d*)?", re.ASCII)
_COMMENT = re.compile(r"[ \t]*#[ \t]*(HELP|TYPE)[ \t]+([a-zA-Z_:][a-zA-Z0-9_:]*)(?:[ \t]+(.*))?", re.DOTALL)
_ESCAPE = re.compile(r'\\([\\"n])')
_ESCAPED = {"\\": "\\", '"': '"', "n": "\n"}


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family as the page declares it: name, type, help text ("" without a HELP line)."""

    name: str
    kind: Kind
    help: str


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """One page. `texts[i]` is the value of `samples.series[i]` exactly as printed (shape (n,)).

    `families` holds what HELP and TYPE lines declare, also families without samples. While a server's
    series stay the same, `samples.series` is the same tuple object from page to page. `cut_off`: it ends
    in the middle of a line, so that what is missing may have been there.
    """

    samples: Samples
    texts: Sequence[str]
    families: Mapping[str, Family]
    notices: tuple[Notice, ...] = ()
    cut_off: bool = False


class SeriesCache:
    """Raw text left of the value -> Series, so that only new series are ever parsed.

    Bounded: above `limit` entries only what the last page used is kept. One cache per collector; it is
    not for use by several threads at once.
    """

    def __init__(self, limit: int = 100_000) -> None:
        self.limit = limit
        self.raw: dict[str, Series] = {}
        self._interned: dict[Series, Series] = {}
        self._last: tuple[Series, ...] = ()

    def __len__(self) -> int:
        return len(self.raw)

    def intern(self, series: Series) -> Series:
        """The one object that stands for this series, so that `is` tells equal series."""
        return self._interned.setdefault(series, series)

    def settle(self, series: list[Series]) -> tuple[Series, ...]:
        """The page's series as a tuple (the previous one if nothing changed), pruning what grew too far."""
        if len(series) != len(self._last) or series != list(self._last):
            self._last = tuple(series)
        if max(len(self.raw), len(self._interned)) > max(self.limit, 2 * len(series)):
            used = set(map(id, series))
            self.raw = {head: one for head, one in self.raw.items() if id(one) in used}
            self._interned = {one: one for one in self._last}
        return self._last


class _BadLine(Exception):
    """Why a line is not a sample."""


def not_metrics(got: str) -> WrongContent:
    """The error for an address that serves something else; `got` says what, for example text/html."""
    return WrongContent(
        f"This address does not serve Prometheus metrics (got {got}). "
        "Triton's usual is http://host:8002/metrics."
    )


def sniff(body: str, content_type: str = "") -> str:
    """The media type of an answer that is no metrics page, from its first character, else as declared."""
    start = body.lstrip()[:1]
    if start == "<":
        return "text/html"
    if start in ("{", "["):
        return "application/json"
    return content_type.split(";")[0].strip() or "text that is not in the metrics format"


def read_page(
    text: str,
    cache: SeriesCache | None = None,
    *,
    source: str = SOURCE_NAME,
    content_type: str = "",
) -> MetricsPage:
    """Read a whole page; `source` names it in notices.

    Of equal series the first sample counts, as Prometheus takes it. Raises WrongContent if nothing of it
    is in the metrics format: an empty answer, a sign-in page, a JSON error.
    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if not text.strip():
        raise not_metrics("an empty answer")
    if text.lstrip()[:1] == "<":
        raise not_metrics("text/html")
    page = _Reader(cache if cache is not None else SeriesCache(), source).read(text)
    if not page.samples.series and not page.families and page.notices:
        raise not_metrics(sniff(text, content_type))
    return page


def family_of(series_name: str, families: Mapping[str, Family]) -> str:
    """The family a sample belongs to: `x_bucket`, `x_sum`, `x_count` are x's if x is declared such."""
    if series_name in families:
        return series_name
    for suffix, kinds in (
        ("_bucket", (Kind.HISTOGRAM,)),
        ("_sum", (Kind.HISTOGRAM, Kind.SUMMARY)),
        ("_count", (Kind.HISTOGRAM, Kind.SUMMARY)),
    ):
        if series_name.endswith(suffix):
            base = families.get(series_name.removesuffix(suffix))
            if base is not None and base.kind in kinds:
                return base.name
    return series_name


class _Reader:
    """State of one reading."""

    def __init__(self, cache: SeriesCache, source: str) -> None:
        self._cache = cache
        self._source = source
        self._series: list[Series] = []
        self._values: list[float] = []
        self._texts: list[str] = []
        self._lines: list[int] = []
        self._kinds: dict[str, Kind] = {}
        self._helps: dict[str, str] = {}
        self._bad: list[Notice] = []
        self._cut: Notice | None = None
        self._cut_off = False

    def read(self, text: str) -> MetricsPage:
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        # Only \n ends a line: str.splitlines would also cut at U+2028 and its like inside a label.
        lines = text.split("\n")
        unfinished = lines.pop().removesuffix("\r")
        self._read_lines(lines)
        if unfinished.strip(_BLANKS):
            self._read_unfinished(unfinished, len(lines) + 1)
        self._drop_duplicates()
        # A tab next to the value survives the quick path of _read_lines.
        texts = [value.strip() for value in self._texts] if "\t" in text else self._texts
        samples = Samples(self._cache.settle(self._series), np.array(self._values, dtype=np.float64))
        return MetricsPage(samples, texts, self._families(), self._notices(), self._cut_off)

    def _read_lines(self, lines: list[str]) -> None:
        known = self._cache.raw
        add_series, add_value = self._series.append, self._values.append
        add_text, add_line = self._texts.append, self._lines.append
        for number, line in enumerate(lines, 1):
            head, _, value = line.rpartition(" ")
            series = known.get(head)
            # float() is more generous than the format: it takes 1_000 and digits of other scripts.
            if series is None or "_" in value or not value.isascii():
                self._read_odd(line, number)
                continue
            try:
                add_value(float(value))
            except ValueError:
                self._read_odd(line, number)
                continue
            add_series(series)
            add_text(value)
            add_line(number)

    def _read_odd(self, line: str, number: int) -> None:
        """A line that is no known series, one blank and a value: new, odd, a comment, or bad."""
        try:
            self._read_one(line, number)
        except _BadLine as why:
            self._bad.append(Notice(self._source, number, f"line not understood: {why}"))

    def _read_unfinished(self, line: str, number: int) -> None:
        """The last line of a page that does not end with a line break."""
        try:
            self._read_one(line, number)
            # After a comment, save the one that ends a page of OpenMetrics, samples would have come.
            self._cut_off = line.lstrip(_BLANKS).startswith("#") and line.strip() != "# EOF"
            self._cut = Notice(
                self._source, number, "perhaps cut off: the page does not end with a line break"
            )
        except _BadLine as why:
            self._cut_off = True
            self._bad.append(
                Notice(
                    self._source,
                    number,
                    f"line not understood: {why}; the page is perhaps cut off here",
                )
            )

    def _read_one(self, line: str, number: int) -> None:
        stripped = line.strip(_BLANKS)
        if not stripped:
            return
        if stripped[0] == "#":
            self._read_comment(stripped)
            return
        match = _LINE.fullmatch(line)
        if match is None:
            raise _BadLine(_shape_problem(stripped))
        name, labels, value, stamp = match.groups()
        number_value = _number(value)
        if stamp is not None and not _TIMESTAMP.fullmatch(stamp):
            raise _BadLine(f"{_short(stamp)!r} after the value is not a timestamp")
        series = self._cache.intern(Series(sys.intern(_as_triton_names_it(name)), _labels(labels or "")))
        head, _, tail = line.rpartition(" ")
        if stamp is None and tail == value:
            self._cache.raw[head] = series
        self._series.append(series)
        self._values.append(number_value)
        self._texts.append(value)
        self._lines.append(number)

    def _read_comment(self, line: str) -> None:
        match = _COMMENT.fullmatch(line)
        if match is None:
            return
        keyword, name, rest = match.groups()
        if keyword == "HELP":
            self._helps[name] = _unescape(rest or "")
        else:
            self._kinds[name] = _kind((rest or "").strip())

    def _drop_duplicates(self) -> None:
        if len(set(map(id, self._series))) == len(self._series):
            return
        seen: dict[int, int] = {}
        keep: list[int] = []
        for index, series in enumerate(self._series):
            first = seen.setdefault(id(series), self._lines[index])
            if first == self._lines[index]:
                keep.append(index)
            else:
                text = f"{series.name}: the same series is on line {first} already; the first one counts"
                self._bad.append(Notice(self._source, self._lines[index], text))
        self._series = [self._series[index] for index in keep]
        self._values = [self._values[index] for index in keep]
        self._texts = [self._texts[index] for index in keep]

    def _families(self) -> dict[str, Family]:
        names = dict.fromkeys((*self._kinds, *self._helps))
        return {
            name: Family(name, self._kinds.get(name, Kind.UNTYPED), self._helps.get(name, ""))
            for name in names
        }

    def _notices(self) -> tuple[Notice, ...]:
        bad = sorted(self._bad, key=lambda notice: notice.line or 0)
        shown, rest = bad[:MAX_NOTICES], bad[MAX_NOTICES:]
        if rest:
            shown.append(
                Notice(self._source, rest[0].line, f"{len(rest)} more lines from here on were not used")
            )
        return (*shown, self._cut) if self._cut is not None else tuple(shown)


def _as_triton_names_it(name: str) -> str:
    """Proxies that follow OpenMetrics print Triton's counters with `_total`; Triton itself never does."""
    base = CATALOGUE.get(name.removesuffix("_total"))
    return name if name in CATALOGUE or base is None or base.kind is not Kind.COUNTER else base.family


def _number(text: str) -> float:
    try:
        if "_" in text or not text.isascii():
            raise ValueError(text)
        return float(text)
    except ValueError:
        raise _BadLine(f"{_short(text)!r} is not a number") from None


def _labels(body: str) -> tuple[tuple[str, str], ...]:
    labels: dict[str, str] = {}
    position, end = 0, len(body.rstrip(_BLANKS))
    while position < end:
        match = _LABEL.match(body, position)
        if match is None:
            raise _BadLine(f"labels broken at {_short(body[position:])!r}")
        name, value = match.groups()
        if name in labels:
            raise _BadLine(f"label {name} is there twice")
        labels[sys.intern(name)] = sys.intern(_unescape(value))
        position = match.end()
    return tuple(sorted(labels.items()))


def _shape_problem(line: str) -> str:
    if line.count("{") and not line.rstrip().count("}"):
        return f"labels without an end in {_short(line)!r}"
    return _short(line)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED[match[1]], text) if "\\" in text else text


def _kind(text: str) -> Kind:
    try:
        return Kind(text.lower())
    except ValueError:
        return Kind.UNTYPED


def _short(text: str, length: int = 80) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
