"""Units of signals as Grafana calls them: the only place that maps them."""

from __future__ import annotations

from telemetry.units import Unit

GRAFANA_UNIT: dict[Unit, str] = {
    Unit.US: "µs",
    Unit.NS: "ns",
    Unit.MS: "ms",
    Unit.SECONDS: "s",
    Unit.BYTES: "bytes",
    Unit.RATIO: "percentunit",
    Unit.WATTS: "watt",
    Unit.JOULES: "joule",
    Unit.REQUESTS: "short",
    Unit.INFERENCES: "short",
    Unit.EXECUTIONS: "short",
    Unit.PER_SECOND: "suffix:/s",
    Unit.BATCH: "short",
    Unit.COUNT: "short",
    Unit.NONE: "none",
}
"""`bytes` is in powers of 1024, `percentunit` shows 0..1 as percent, `short` shortens large numbers."""

CELSIUS = "celsius"
MEGAHERTZ = "suffix:MHz"
TOKENS_PER_SECOND = "suffix:tokens/s"
