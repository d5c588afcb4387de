"""Arithmetic on frames: groups matched by their labels, NaN = no value. Pure numpy, no loop over times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from history.protocol import Frame, GroupKey
from telemetry.scrape import FloatArray

IntArray = NDArray[np.int64]


def empty(times: FloatArray) -> Frame:
    """A frame without groups."""
    return Frame(times, (), np.empty((len(times), 0)))


def joined(one: Frame, other: Frame) -> tuple[tuple[GroupKey, ...], FloatArray, FloatArray]:
    """The groups both have, with their values, shape (n, k) each."""
    if one.keys is other.keys or one.keys == other.keys:
        return one.keys, one.values, other.values
    where = {key: column for column, key in enumerate(other.keys)}
    mine = [column for column, key in enumerate(one.keys) if key in where]
    theirs = [where[one.keys[column]] for column in mine]
    return tuple(one.keys[column] for column in mine), one.values[:, mine], other.values[:, theirs]


def combined(one: Frame, other: Frame, operation: Callable[[FloatArray, FloatArray], FloatArray]) -> Frame:
    """The operation on the groups both have."""
    keys, mine, theirs = joined(one, other)
    return Frame(one.times, keys, operation(mine, theirs))


def ratio(one: Frame, other: Frame) -> Frame:
    """one / other where other is above zero, no value elsewhere: never 0/0."""
    keys, above, below = joined(one, other)
    result = np.full(above.shape, np.nan)
    np.divide(above, below, out=result, where=below > 0)
    return Frame(one.times, keys, result)


def or_else(one: Frame, other: Frame) -> Frame:
    """The values of one, and those of other where one has none."""
    if not other.keys:
        return one
    if not one.keys:
        return other
    where = {key: column for column, key in enumerate(one.keys)}
    values = one.values
    shared = [(where[key], column) for column, key in enumerate(other.keys) if key in where]
    if shared:
        mine = [pair[0] for pair in shared]
        theirs = other.values[:, [pair[1] for pair in shared]]
        values = values.copy()
        values[:, mine] = np.where(np.isnan(values[:, mine]), theirs, values[:, mine])
    fresh = [column for column, key in enumerate(other.keys) if key not in where]
    if not fresh:
        return Frame(one.times, one.keys, values)
    keys = (*one.keys, *(other.keys[column] for column in fresh))
    return Frame(one.times, keys, np.concatenate((values, other.values[:, fresh]), axis=1))


def filtered(frame: Frame, keep: Callable[[GroupKey], bool]) -> Frame:
    """Only the groups for which `keep` says so."""
    columns = [column for column, key in enumerate(frame.keys) if keep(key)]
    if len(columns) == len(frame.keys):
        return frame
    return Frame(frame.times, tuple(frame.keys[column] for column in columns), frame.values[:, columns])


def regrouped(frame: Frame, key_of: Callable[[GroupKey], GroupKey | None], *, largest: bool = False) -> Frame:
    """Groups given a new key; those that get the same one are summed (or the largest kept), None drops."""
    members: dict[GroupKey, list[int]] = {}
    for column, key in enumerate(frame.keys):
        new = key_of(key)
        if new is not None:
            members.setdefault(new, []).append(column)
    if not members:
        return empty(frame.times)
    order = [column for columns in members.values() for column in columns]
    if len(order) == len(members):
        return Frame(frame.times, tuple(members), frame.values[:, order])
    sizes = np.fromiter((len(columns) for columns in members.values()), dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return Frame(frame.times, tuple(members), _reduced(frame.values[:, order], starts, largest))


def _reduced(values: FloatArray, starts: IntArray, largest: bool) -> FloatArray:
    if largest:
        reduced: FloatArray = np.fmax.reduceat(values, starts, axis=1)
        return reduced
    there = ~np.isnan(values)
    total = np.add.reduceat(np.where(there, values, 0.0), starts, axis=1)
    return np.where(np.logical_or.reduceat(there, starts, axis=1), total, np.nan)


def of_vector(times: FloatArray, vector: dict[GroupKey, float]) -> Frame:
    """A vector as a frame with the same values at every time."""
    if not vector:
        return empty(times)
    row = np.fromiter(vector.values(), dtype=np.float64, count=len(vector))
    return Frame(times, tuple(vector), np.broadcast_to(row, (len(times), len(row))))


def at_first(frame: Frame) -> dict[GroupKey, float]:
    """Values at the frame's first time; groups without a value are left out."""
    if not len(frame.times) or not frame.keys:
        return {}
    row = frame.values[0].tolist()
    return {key: value for key, value in zip(frame.keys, row, strict=True) if value == value}
