"""Replay: the cost of the probes, learnt by dose and taken out of the times.

The same kernel runs with each record written once, twice, three times. The time between two neighbouring
records grows by one record's cost with each dose, as much as the machine does not hide; the slope is that
cost, here and in this kernel. In come the rows of such runs; out goes a `Calibration`, and with it for every
record the ticks by which probes have delayed it.

The time that a program stands still for an asynchronous operation is not corrected: the records around the
wait only use up time that would have been waited anyway.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Layout, places

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


def gaps(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ticks from each record to the next in its program, the slot of the later one, and the launch."""
    words = slot_words(rows.layout)
    row, at = np.nonzero((rows.clocks >= 0) & (words >= 0))
    clock = rows.clocks[row, at]
    same = row[1:] == row[:-1]
    return np.diff(clock)[same], words[at[1:]][same], rows.launch[row[1:]][same]


def calibrate(doses: Mapping[int, Rows]) -> Calibration:
    """The cost of a record from runs of the same work at two or more doses (`probe-to-record{copies=...}`).

    Rows of several launches a dose, the doses taking turns, make it robust: a machine is never equally fast
    twice, and that must not be taken for a cost. The cost at a slot is the slope of the median gap before it
    over the doses. A slope is drawn towards the mean of all slots the less certain it is, and behind long
    work it is hardly certain at all.
    """
    if len(doses) < 2:
        raise TileProbeError(f"a calibration needs runs at two doses or more, got {sorted(doses)}")
    layout = next(iter(doses.values())).layout
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a slot that was never passed has no mean
        medians, errors = _medians(doses, len(layout.slots))
    dose = np.array(sorted(doses), float)
    known = np.isfinite(medians).all(axis=0)
    if not known.any():
        return Calibration(doses=tuple(sorted(doses)))
    centred = dose - dose.mean()
    weights = centred / (centred**2).sum()
    slopes = weights @ medians[:, known]
    variances = (weights**2) @ errors[:, known] ** 2
    mean, error, spread = _random_effects(slopes, variances)
    trust = spread / (spread + variances)
    costs = np.maximum(mean + trust * (slopes - mean), 0.0)
    slots = {int(slot): float(cost) for slot, cost in zip(np.flatnonzero(known), costs)}
    return Calibration(max(mean, 0.0), error, slots, tuple(sorted(doses)))


def _random_effects(slopes: np.ndarray, variances: np.ndarray) -> tuple[float, float, float]:
    """Mean, its standard error, and how much the slopes truly differ (a variance): the estimate of
    DerSimonian and Laird for studies of unequal certainty."""
    w = 1.0 / variances
    fixed = (w * slopes).sum() / w.sum()
    excess = (w * (slopes - fixed) ** 2).sum() - (len(slopes) - 1)
    room = w.sum() - (w**2).sum() / w.sum()
    spread = max(0.0, float(excess / room)) if room > 0 else 0.0
    w = 1.0 / (variances + spread)
    return float((w * slopes).sum() / w.sum()), float(1.0 / np.sqrt(w.sum())), spread


def _medians(doses: Mapping[int, Rows], slots: int) -> tuple[np.ndarray, np.ndarray]:
    """For each dose and slot the median gap over launches, and its standard error."""
    runs = [_launch_medians(doses[dose], slots) for dose in sorted(doses)]
    medians = np.array([np.nanmean(m, axis=0) if len(m) else np.full(slots, np.nan) for m, _ in runs])
    within = np.array([np.sqrt(np.nanmean(e**2, axis=0) / max(len(e), 1)) for _, e in runs])
    several = [m for m, _ in runs if len(m) > 1]
    if not several:
        return medians, within
    # How much launches differ: what each slot shows, or what is usual for work of its length.
    shares = [np.nanstd(m, axis=0, ddof=1) / np.nanmean(m, axis=0) for m in several]
    usual = float(np.nanmedian(np.concatenate(shares)))
    own = np.nanmax(np.array(shares), axis=0)
    between = medians * np.fmax(own, usual) / np.sqrt([[max(len(m), 1)] for m, _ in runs])
    return medians, np.hypot(within, between)


def _launch_medians(rows: Rows, slots: int) -> tuple[np.ndarray, np.ndarray]:
    """For each launch and slot the median gap and its standard error; NaN for fewer than three."""
    ticks, slot, launch = gaps(rows)
    launches = np.unique(launch)
    medians = np.full((len(launches), slots), np.nan)
    errors = medians.copy()
    key = np.searchsorted(launches, launch) * slots + slot
    order = np.argsort(key, kind="stable")
    present, first = np.unique(key[order], return_index=True)
    for number, part in zip(present, np.split(ticks[order], first[1:])):
        if len(part) < 3:
            continue
        median = np.median(part)
        # 1.4826 MAD estimates the deviation of a normal sample, and sqrt(pi / 2) is what the error of a
        # median is larger than that of a mean by. Whole ticks are never surer than half a tick.
        deviation = max(1.4826 * np.median(np.abs(part - median)), 0.5)
        medians.flat[number] = median
        errors.flat[number] = np.sqrt(np.pi / 2) * deviation / np.sqrt(len(part))
    return medians, errors
