"""Replay: the cost of the probes, learnt by dose and taken out of the times.

The same kernel runs with each record written once, twice, three times. The time between two neighbouring
records grows by one record's cost with each dose, as much as the machine does not hide; the slope is that
cost, here and in this kernel. In come the rows of such runs; out goes a `Calibration`, and with it for every
record the ticks by which probes have delayed it.

The time that a program stands still for an asynchronous operation is not corrected: the records around the
wait only use up time that would have been waited anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.trace.layout import Layout, places

if TYPE_CHECKING:
    from tileprobe.trace.cursor import Pushed
    from tileprobe.trace.decode import Rows


@dataclass(frozen=True)
class Calibration:
    """What a record costs in a kernel: in the mean, and at each slot where that was measured."""

    cost_ticks: float = 0.0
    error_ticks: float = 0.0  # standard error of the mean cost
    slots: Mapping[int, float] = field(default_factory=dict)
    doses: tuple[int, ...] = ()

    def costs(self, layout: Layout) -> np.ndarray:
        """The cost of the record at each slot; nothing at the end of a wait."""
        costs = np.array([self.slots.get(slot.id, self.cost_ticks) for slot in layout.slots], float)
        for span in layout.spans:
            if span.kind == "wait":
                costs[span.stop] = 0.0
        return costs

    def to_json(self) -> dict[str, Any]:
        return {
            "cost_ticks": self.cost_ticks,
            "error_ticks": self.error_ticks,
            "slots": {str(slot): cost for slot, cost in self.slots.items()},
            "doses": list(self.doses),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Calibration:
        slots = {int(slot): float(cost) for slot, cost in data.get("slots", {}).items()}
        return Calibration(
            data.get("cost_ticks", 0.0), data.get("error_ticks", 0.0), slots, tuple(data.get("doses", ()))
        )


def slot_words(layout: Layout) -> np.ndarray:
    """For each word of a block the slot whose clock it holds, or -1."""
    slots = np.full(layout.block_words, -1)
    for slot in layout.slots:
        if not slot.cursor:
            slots[places(slot.base, layout.shape(slot), slot.strides)] = slot.id
    return slots


def delays(rows: Rows, calibration: Calibration) -> np.ndarray:
    """How far probes have delayed each record: the cost of all records of its program up to this one, but for
    the first, with which the program's time begins. Addresses grow in execution order."""
    layout = rows.layout
    words = slot_words(layout)
    costs = np.append(calibration.costs(layout), 0.0)[words]  # -1 picks the 0 at the end
    written = (rows.clocks >= 0) & (words >= 0)
    total = np.where(written, costs, 0.0)
    if total.shape[1]:
        first = written.argmax(axis=1)
        total[np.arange(len(total)), first] = 0.0
    return np.cumsum(total, axis=1, out=total)


def push_delays(pushed: Pushed, calibration: Calibration, layout: Layout) -> np.ndarray:
    """The same for the records of the cursor's segment, among themselves."""
    costs = calibration.costs(layout)[pushed.slot] if len(pushed.slot) else np.zeros(0)
    if not len(costs):
        return costs
    first = np.flatnonzero(np.r_[True, pushed.row[1:] != pushed.row[:-1]])
    costs[first] = 0.0
    total = np.cumsum(costs)
    return total - np.repeat(total[first], np.diff(np.r_[first, len(total)]))


def gaps(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Ticks from each record to the next in its program, and the slot of the later one."""
    words = slot_words(rows.layout)
    row, at = np.nonzero((rows.clocks >= 0) & (words >= 0))
    clock = rows.clocks[row, at]
    same = row[1:] == row[:-1]
    return np.diff(clock)[same], words[at[1:]][same]


def calibrate(doses: Mapping[int, Rows]) -> Calibration:
    """The cost of a record from runs of the same work at two or more doses (`probe-to-record{copies=...}`).

    The cost at a slot is the slope of the median gap before it over the doses. A slope is drawn towards the
    mean of all slots the less certain it is, so that noise at a rarely passed slot does not become a cost.
    """
    if len(doses) < 2:
        raise TileProbeError(f"a calibration needs runs at two doses or more, got {sorted(doses)}")
    layout = next(iter(doses.values())).layout
    medians, errors, counts = _medians(doses, len(layout.slots))
    dose = np.array(sorted(doses), float)
    known = np.isfinite(medians).all(axis=0) & (counts.min(axis=0) >= 3)
    if not known.any():
        return Calibration(doses=tuple(sorted(doses)))
    centred = dose - dose.mean()
    weights = centred / (centred**2).sum()
    slopes = weights @ medians[:, known]
    variances = (weights**2) @ errors[:, known] ** 2
    passes = counts[:, known].sum(axis=0)
    mean = float((slopes * passes).sum() / passes.sum())
    error = float(np.sqrt((variances * passes**2).sum()) / passes.sum())
    spread = max(0.0, float(np.var(slopes) - variances.mean()))
    trust = spread / (spread + variances) if spread else np.zeros(len(slopes))
    costs = np.maximum(mean + trust * (slopes - mean), 0.0)
    slots = {int(slot): float(cost) for slot, cost in zip(np.flatnonzero(known), costs)}
    return Calibration(max(mean, 0.0), error, slots, tuple(sorted(doses)))


def _medians(doses: Mapping[int, Rows], slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each dose and slot the median gap, its standard error, and how many gaps there were."""
    shape = (len(doses), slots)
    medians, errors, counts = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, int)
    for n, dose in enumerate(sorted(doses)):
        ticks, slot = gaps(doses[dose])
        order = np.argsort(slot, kind="stable")
        present, first = np.unique(slot[order], return_index=True)
        for number, part in zip(present, np.split(ticks[order], first[1:])):
            median = np.median(part)
            # 1.4826 MAD estimates the deviation of a normal sample, and sqrt(pi / 2) is what the error of a
            # median is larger than that of a mean by.
            deviation = 1.4826 * np.median(np.abs(part - median))
            medians[n, number], counts[n, number] = median, len(part)
            errors[n, number] = np.sqrt(np.pi / 2) * max(deviation, 0.5) / np.sqrt(len(part))
    return medians, errors, counts
