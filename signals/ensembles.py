"""Expressions about ensembles and their steps; part of the algebra of `signals.expression`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from history.protocol import By, Frame, GroupKey
from signals import frames
from signals.evaluation import MODEL, NAME, Dialect, Evaluation, Expression
from signals.facts import FactFamily
from telemetry.scrape import FloatArray

_ENSEMBLE_VERSION = "1"
"""Triton's series of an ensemble say version 1, whatever its version is."""


@dataclass(frozen=True, slots=True)
class OverSteps(Expression):
    """For each ensemble the sum over its steps of an expression by (server, model), times their uses.

    Only for ensembles whose `served`, by (server, model), is above zero. The result is by MODEL (under the
    version under which the ensemble is shown; in PromQL the one of Triton's own series) or by NAME.
    `leaves`: a step that is an ensemble stands for its own steps (in PromQL for itself).
    """

    of: Expression
    served: Expression
    by: By = MODEL
    leaves: bool = False

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """A step without a value adds nothing; an ensemble none of whose steps has one is absent."""
        facts, frame = evaluation.facts, evaluation.of(self.of)
        served = evaluation.of(self.served)
        columns: dict[GroupKey, FloatArray] = {}
        for name, steps in facts.steps.items():
            called = served.column(name)
            asked = facts.leaves(name) if self.leaves else steps
            parts = [(uses, frame.column((name[0], step))) for step, uses in asked.items()]
            known = [uses * column for uses, column in parts if column is not None]
            if called is not None and known:
                stack = np.stack(known)
                total = np.where(np.isnan(stack).all(axis=0), np.nan, np.nansum(stack, axis=0))
                key = name if self.by == NAME else (*name, facts.ensemble_version.get(name, ""))
                columns[key] = np.where(called > 0, total, np.nan)
        if not columns:
            return frames.empty(evaluation.times)
        return Frame(evaluation.times, tuple(columns), np.stack(list(columns.values()), axis=1))

    def promql(self, dialect: Dialect) -> str:
        """Joined over `tritonscope_ensemble_step{model, step}`, under the version Triton gives ensembles."""
        step = dialect.gauge(str(FactFamily.ENSEMBLE_STEP))
        server, model = dialect.label("server"), dialect.label("model")
        by_step = f'label_replace({self.of.promql(dialect.of_any_model())}, "step", "$1", "{model}", "(.*)")'
        by_step = f"sum by ({server}, step) ({by_step})"
        total = f"sum by ({server}, {model}) ({step} * on ({server}, step) group_left () {by_step})"
        served = f"({total} and on ({server}, {model}) ({self.served.promql(dialect)} > 0))"
        if self.by == NAME:
            return served
        return f'label_replace({served}, "{dialect.label("version")}", "{_ENSEMBLE_VERSION}", "", "")'


@dataclass(frozen=True, slots=True)
class UnderOneVersion(Expression):
    """An expression of ensembles by MODEL, summed under one version of each: a history has it so already."""

    of: Expression

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """The same values."""
        return evaluation.of(self.of)

    def promql(self, dialect: Dialect) -> str:
        """`label_replace(sum without (version) (...), "version", "1", "", "")`."""
        version = dialect.label("version")
        total = f"sum without ({version}) ({self.of.promql(dialect)})"
        return f'label_replace({total}, "{version}", "{_ENSEMBLE_VERSION}", "", "")'


@dataclass(frozen=True, slots=True)
class TimesSteps(Expression):
    """An expression of ensembles times the number of requests each of theirs makes to steps."""

    of: Expression

    def evaluate(self, evaluation: Evaluation) -> Frame:
        """Ensembles only."""
        steps = evaluation.facts.steps
        frame = frames.filtered(evaluation.of(self.of), lambda key: (key[0], key[1]) in steps)
        factors = np.array([float(sum(steps[key[0], key[1]].values())) for key in frame.keys])
        return Frame(frame.times, frame.keys, frame.values * factors)

    def promql(self, dialect: Dialect) -> str:
        """`(... * on (server, model) group_left () sum by (server, model) (tritonscope_ensemble_step))`."""
        names = dialect.labels(NAME)
        steps = f"sum by ({names}) ({dialect.gauge(str(FactFamily.ENSEMBLE_STEP))})"
        return f"({self.of.promql(dialect)} * on ({names}) group_left () {steps})"
