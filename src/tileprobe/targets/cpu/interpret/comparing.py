"""Where two runs of a launch left different tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tileprobe.targets.cpu import narrow_floats
from tileprobe.targets.cpu.interpret.launching import Launch
from tileprobe.targets.cpu.tensors import DType

# How far results may lie apart, as a part of the tensor's largest number: sums in another order, exponentials of
# another library. Wrong schedules and wrong code are mostly off by far more.
_TOLERANCE = {"float64": 1e-11, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
_FLOAT8_TOLERANCE = 0.15


@dataclass(frozen=True)
class Mismatch:
    """The first element in which two runs differ."""

    tensor: str
    index: tuple[int, ...]
    found: float
    expected: float
    count: int

    def __str__(self) -> str:
        place = ", ".join(map(str, self.index))
        more = f" ({self.count} elements differ)" if self.count > 1 else ""
        return f"{self.tensor}[{place}] is {self.found:.9g} instead of {self.expected:.9g}{more}"


def first_mismatch(
    launch: Launch, found: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float | None
) -> Mismatch | None:
    """The first tensor and element that differ, in the order of the arguments."""
    for extent, kind, a, b in zip(launch.extents, launch.kinds, found, expected):
        if np.array_equal(a, b):
            continue
        skip = (extent.first - extent.begin) % kind.itemsize
        x, y = _values(a, skip, kind), _values(b, skip, kind)
        bad = _differ(x, y, kind, tolerance)
        if not bad.any():
            continue
        place = int(np.argmax(bad))
        number = place - (extent.first - extent.begin) // kind.itemsize
        index: tuple[int, ...] = (number,)
        if int(np.prod(extent.shape)) == x.size:
            index = tuple(int(i) for i in np.unravel_index(number, extent.shape))
        return Mismatch(extent.name, index, float(x[place]), float(y[place]), int(bad.sum()))
    return None


def _values(data: np.ndarray, skip: int, kind: DType) -> np.ndarray:
    count = (data.size - skip) // kind.itemsize
    raw = data[skip : skip + count * kind.itemsize].copy().view(kind.numpy)
    return narrow_floats.decode(raw, kind.name) if kind.name in narrow_floats.FORMATS else raw


def _differ(x: np.ndarray, y: np.ndarray, kind: DType, tolerance: float | None) -> np.ndarray:
    if not kind.is_floating_point:
        return x != y
    if tolerance is None:
        tolerance = _TOLERANCE.get(kind.name, _FLOAT8_TOLERANCE)
    a, b = x.astype(np.float64), y.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    scale = np.abs(b[finite]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        close = finite & (np.abs(a - b) <= tolerance * scale)
    return ~(same | close)
