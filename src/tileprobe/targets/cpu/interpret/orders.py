"""In which order the points of a nest are visited, and whether that can matter.

An order is a sequence of blocks of points; each op of the body is done for a whole block before the next op.
Machine code does something in between: vectors along one axis, loops over the others. A correct nest gives the
same in every order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

# "op": every op for all points; "point" and "reverse": one point after another; "vector": blocks of lanes along
# the last axis; "hoisted": one point after another, with what does not vary along an axis done in front of it.
ORDERS = ("op", "point", "reverse", "vector", "hoisted")


def blocks(dims: tuple[int, ...], order: str, lanes: int) -> Iterator[np.ndarray]:
    """The numbers of the points (row-major), block by block."""
    count = prod(dims)
    points = np.arange(count)
    if order == "op":
        yield points
    elif order == "vector":
        row = dims[-1] if dims else 1
        for start in range(0, count, row):
            for lane in range(0, row, lanes):
                yield points[start + lane : start + min(lane + lanes, row)]
    else:
        for point in reversed(range(count)) if order == "reverse" else range(count):
            yield points[point : point + 1]


@dataclass(frozen=True)
class Access:
    """What one op of a body touched: an address for each of these points."""

    op: int  # its place in the body
    writes: bool
    addresses: np.ndarray
    size: int
    points: np.ndarray
    stored: np.ndarray | None = (
        None  # what a `tt.store` stored: two points in one place are the kernel's business
    )


@dataclass(frozen=True)
class Hazards:
    """`any`: the order of points can matter. `race`: points of a single store put different values in one place."""

    any: bool = False
    race: bool = False


def hazards(log: list[Access]) -> Hazards:
    """Do different points of a nest touch the same memory, or does a point read what it wrote before?"""
    if not any(access.writes and access.addresses.size for access in log):
        return Hazards()
    unit = min(access.size for access in log)
    if any((access.addresses % unit).any() for access in log):
        unit = 1
    pieces = [_units(access, unit) for access in log]
    keys, points, ops, writes, races, stored = (np.concatenate(part) for part in zip(*pieces))
    written = np.flatnonzero(np.isin(keys, keys[writes]))
    order = written[np.argsort(keys[written], kind="stable")]
    keys, points, ops, writes, races, stored = (a[order] for a in (keys, points, ops, writes, races, stored))
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))

    def least(values: np.ndarray) -> np.ndarray:
        return np.minimum.reduceat(values, starts)

    def most(values: np.ndarray) -> np.ndarray:
        return np.maximum.reduceat(values, starts)

    meet = least(points) != most(points)
    late = np.int64(1 << 30)
    read_back = least(np.where(writes, ops, late)) < most(np.where(writes, -1, ops))
    alone = (least(ops) == most(ops)) & least(races.astype(np.int8)).astype(bool)
    disagree = least(stored) != most(stored)
    return Hazards(bool(((meet & ~alone) | read_back).any()), bool((meet & alone & disagree).any()))


def _units(access: Access, unit: int) -> tuple[np.ndarray, ...]:
    """The access in pieces of `unit` bytes: key, point, op, writes, whether it is a store, and of what."""
    each = access.size // unit
    keys = (access.addresses[:, None] // unit + np.arange(each)).reshape(-1)
    count = keys.size
    stored = np.zeros(count, np.int64)
    if access.stored is not None:
        bits = np.ascontiguousarray(access.stored).view(f"i{access.stored.dtype.itemsize}")
        stored = np.repeat(bits.astype(np.int64), each)
    return (
        keys,
        np.repeat(access.points, each),
        np.full(count, access.op, np.int64),
        np.full(count, access.writes),
        np.full(count, access.stored is not None),
        stored,
    )
