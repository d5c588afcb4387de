"""Queries of the boards: signals compiled with the boards' variables in every selector."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from grafana.families import labels_of
from grafana.parameters import Parameters
from history.protocol import Matchers
from signals.definition import Definition, Level
from signals.definitions import definition
from signals.devices import as_dcgm_has_it, as_triton_has_it
from signals.evaluation import MODEL, NAME, SERVER, Dialect, Expression

NOT_NAN = ">= 0"
"""Behind a quantile: without requests it is NaN, which is no point of a chart."""
WINDOW, RANGE = "$__rate_interval", "$__range"


@dataclass(frozen=True, slots=True)
class BoardDialect(Dialect):
    """Every selector carries the variables that its family has labels for.

    `by_model` False: of whole servers, whichever models are chosen. `mig` True: the instances of MIG GPUs in
    place of whole GPUs (DCGM only).
    """

    parameters: Parameters = field(default_factory=Parameters)
    by_model: bool = True
    by_gpu: bool = False
    mig: bool = False

    def selector(self, family: str, where: Matchers = (), *more: str) -> str:
        """A family with its own matchers and those of the variables. `more` = further matchers as text."""
        own = [f'{self.label(name)}="{value}"' for name, value in where]
        return f"{family}{{{', '.join([*own, *more, *self.matchers_of(family)])}}}"

    def matchers_of(self, family: str) -> list[str]:
        """Matchers of the variables; those of labels that a series does not have match ".*"."""
        names = self.parameters
        chosen = [(names.cluster, "cluster")]
        if family.startswith("DCGM_"):
            whole = 'GPU_I_ID!=""' if self.mig else 'GPU_I_ID=""'
            gpus = [("UUID", "gpu")] if self.by_gpu else []
            return [*map(_matcher, [*chosen, *gpus]), whole]
        chosen.append((names.namespace, "namespace"))
        if family == "ALERTS":
            return [*map(_matcher, chosen)]
        chosen.append((names.job, "exporter_job" if family.startswith("tritonscope_") else "job"))
        chosen.append((names.instance, "server"))
        labels = labels_of(family)
        if self.by_model:
            chosen += [(self.label(name), name) for name in ("model", "version") if name in labels]
        if self.by_gpu and "gpu_uuid" in labels:
            chosen.append(("gpu_uuid", "gpu"))
        return [*map(_matcher, chosen)]

    def of_any_model(self) -> Dialect:
        """Steps of the chosen ensembles are models that need not be chosen themselves."""
        return replace(self, by_model=False)


def _matcher(chosen: tuple[str, str]) -> str:
    label, variable = chosen
    return f'{label}=~"${variable}"'


@dataclass(frozen=True, slots=True)
class Queries:
    """PromQL text of signals for one board."""

    parameters: Parameters
    by_gpu: bool = False

    @property
    def models(self) -> BoardDialect:
        """For figures of the chosen models."""
        names = self.parameters
        return BoardDialect(
            server=", ".join(names.server),
            model=names.model,
            version=names.version,
            window=WINDOW,
            parameters=names,
            by_gpu=self.by_gpu,
        )

    @property
    def servers(self) -> BoardDialect:
        """For figures of the chosen servers, with all their models."""
        return replace(self.models, by_model=False)

    def of(self, name: str, level: Level = Level.MODEL) -> str:
        """A signal, one series per row of its level."""
        return definition(name, level).promql(self._dialect(level))

    def group(self, name: str, level: Level, by: Iterable[str] = (), *, chosen: bool = False) -> str:
        """A signal of all rows that share the labels `by`: sums over sums, the largest of quantiles.

        `chosen` True: a signal of servers made of the chosen models alone.
        """
        dialect = self.models if chosen else self._dialect(level)
        return definition(name, level).promql_of_group(by, dialect)

    def top(self, name: str, level: Level = Level.MODEL, more: str = "") -> str:
        """A signal of the `$top` models (or servers) that stand out most over the whole range shown.

        Chosen once for the range (`@ end()`): ranking at each point would draw any number of lines.
        """
        row, dialect = definition(name, level), self._dialect(level)
        ranked = row.promql(replace(dialect, window=RANGE, whole_range=True))
        names = dialect.labels(NAME if level is Level.MODEL else SERVER)
        return f"({row.promql(dialect)}{more}) and on ({names}) topk($top, {ranked})"

    def busiest(self, text: str, by: Expression) -> str:
        """What `text` says of the `$top` models with the largest `by` over the whole range shown."""
        ranked = by.promql(replace(self.models, window=RANGE, whole_range=True))
        return f"({text}) and on ({self.models.labels(NAME)}) topk($top, {ranked})"

    def gpu(self, name: str) -> str:
        """A GPU's figure as Triton reports it: the device's, so the largest over all servers that see it."""
        return f"max by (gpu_uuid) ({self._triton(name)})"

    def dcgm(self, name: str) -> str:
        """A GPU's figure as DCGM has it, for the GPUs that the chosen servers see.

        Where none of them reports GPUs (MIG, --allow-gpu-metrics=false): for all GPUs of the cluster.
        `max by` because DCGM has a series for each pod that uses or used the GPU.
        """
        other = as_dcgm_has_it(definition(name, Level.GPU))
        if other is None:
            raise ValueError(f"DCGM has no {name}")
        return self.seen_by_triton(other.promql(self.servers))

    def dcgm_family(self, family: str, factor: str = "") -> str:
        """A family of DCGM that no signal uses, for the GPUs that the chosen servers see."""
        text = f"{factor}{self.servers.selector(family)}"
        return self.seen_by_triton(f'label_replace({text}, "gpu_uuid", "$1", "UUID", "(.*)")')

    def seen_by_triton(self, text: str) -> str:
        """`max by (gpu_uuid)` of what has that label, joined with the GPUs that Triton reports."""
        value, seen = f"max by (gpu_uuid) ({text})", self.gpu("memory_total_bytes")
        return f"({value} and on (gpu_uuid) {seen}) or ({value} unless on () {seen})"

    def reported_gpus(self) -> str:
        """The GPUs to choose from: those that Triton reports, else those of DCGM."""
        total = as_dcgm_has_it(definition("memory_total_bytes", Level.GPU))
        if total is None:
            raise ValueError("DCGM has no memory_total_bytes")
        everywhere = _of_every_gpu(self.servers)
        seen = f"max by (gpu_uuid) ({self._triton_with('memory_total_bytes', everywhere)})"
        return f"{seen} or (max by (gpu_uuid) ({total.promql(everywhere)}) unless on () {seen})"

    def _triton(self, name: str) -> str:
        return self._triton_with(name, self.servers)

    def _triton_with(self, name: str, dialect: Dialect) -> str:
        return as_triton_has_it(definition(name, Level.GPU)).promql(dialect)

    def _dialect(self, level: Level) -> BoardDialect:
        return self.models if level is Level.MODEL else self.servers

    def row(self, labels: Iterable[str], text: str) -> str:
        """`text` with these labels only, so that the columns of a table find their rows."""
        return f"max by ({', '.join(labels)}) ({text})"

    @property
    def server_labels(self) -> tuple[str, ...]:
        """Labels that tell servers apart, and those a reader looks for."""
        names = self.parameters
        return _unique(names.cluster, names.namespace, names.job, *names.server)

    @property
    def model_labels(self) -> tuple[str, ...]:
        """Labels of one row of a table of models."""
        names = self.parameters
        return _unique(names.cluster, names.namespace, *names.server, names.model, names.version)

    @property
    def model_match(self) -> str:
        """Labels of one model version, for `on (...)`."""
        return self.models.labels(MODEL)


def _of_every_gpu(dialect: BoardDialect) -> Dialect:
    return replace(dialect, by_gpu=False)


def _unique(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def shown(name: str, level: Level = Level.MODEL) -> Definition:
    """The signal a panel shows: its title, unit and formula."""
    return definition(name, level)
