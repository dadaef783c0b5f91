"""Replay: the cost of the probes, learnt by dose and taken out of the times.

The same kernel runs with each record written once, twice, three times. The time between two neighbouring
records grows by one record's cost with each dose, as much as the machine does not hide; the slope is that
cost, here and in this kernel. In come the rows of such runs; out goes a `Calibration`, and with it for every
record the ticks by which probes have delayed it.

The end of a wait for an asynchronous operation costs nothing, and a wait that stood still cancels what probes
took since the operation's issue: those records only used up time that would have been waited anyway.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Layout, Slot, places
from tileprobe.trace.blocks import Rows, fixed_loops, frames, strided
from tileprobe.trace.cursor import Pushed, in_sequence, read
from tileprobe.trace.ends import meet
from tileprobe.trace.passed import delayed_by_passed, passed_costs
from tileprobe.trace.unseen import unseen

_CUT = 50  # one in so many gaps, at either end, says nothing: more are not interrupted on a busy machine


@dataclass
class Standstill:
    """In these rows the record at `word` ends a wait for what was issued at the words `issued`."""

    word: int
    rows: np.ndarray
    issued: np.ndarray


@dataclass(frozen=True)
class Calibration:
    """What a record costs in a kernel behind another one: in the mean, and at each slot where that was measured. Where
    it stands it costs its program a `share` of that (`in_place.py`)."""

    cost_ticks: float = 0.0
    error_ticks: float = 0.0  # standard error of the mean cost
    slots: Mapping[int, float] = field(default_factory=dict)
    doses: tuple[int, ...] = ()
    passed: Mapping[int, float] = field(default_factory=dict)  # an iteration that is not kept, by loop
    share: float = 1.0
    share_error: float = 0.0  # how far off the share may be, a standard deviation
    share_noise: float = 0.0  # from one run to the next
    code: float = 1.0  # what a program takes of its time without the code around records
    code_error: float = 0.0

    def costs(self, layout: Layout) -> np.ndarray:
        """The cost of the record at each slot; nothing at the end of a wait."""
        costs = np.array([self.slots.get(slot.id, self.cost_ticks) for slot in layout.slots], float)
        for span in layout.spans:
            if span.kind in ("wait", "async"):
                costs[span.stop] = 0.0
        return costs

    def to_json(self) -> dict[str, Any]:
        """As a trace has it: what a record cost its program, how sure that is, and what doses said where it is
        another."""
        found: dict[str, Any] = {
            "cost_ticks": self.share * self.cost_ticks,
            "error_ticks": float(np.hypot(self.share * self.error_ticks, self.share_error * self.cost_ticks)),
            "slots": {str(slot): self.share * cost for slot, cost in self.slots.items()},
            "doses": list(self.doses),
            "passed": {str(loop): cost for loop, cost in self.passed.items()},
        }
        if (self.share, self.share_error) != (1.0, 0.0):
            noise = np.hypot(self.share * self.error_ticks, self.share_noise * self.cost_ticks)
            found |= {"dose_ticks": self.cost_ticks, "noise_ticks": float(noise)}
            found |= {"code_share": self.code, "code_error": self.code_error}
        return found


def delay_records(rows: Rows, pushed: Pushed, calibration: Calibration) -> None:
    """Finds how far probes have delayed each record: the cost of all records of its stream instance up to this
    one, but for the first, with which its time begins. Probes of one instance do not delay another."""
    words = rows.slot_words
    costs = np.append(calibration.costs(rows.layout), 0.0)  # -1 picks the 0 at the end
    written = (rows.clocks >= 0) & (words >= 0)
    total = np.where(written, costs[words], 0.0)
    if rows.layout.circular:
        _add_overwritten(rows, total)
    if calibration.passed:
        total += delayed_by_passed(rows, pushed, calibration.passed, calibration.cost_ticks)
    delays = _summed(total, _standstills(rows, calibration))
    if len(pushed.row):
        delays, pushed.delay = _merged(rows, pushed, delays, written, costs)
    else:
        pushed.delay = np.zeros(0)
        if delays.shape[1]:
            first = written.argmax(axis=1)
            delays -= delays[np.arange(len(delays)), first][:, None]
    rows.delays = delays


def _add_overwritten(rows: Rows, costs: np.ndarray) -> None:
    """Iterations of circular loops that were overwritten took as long as those that are left, in the mean. The
    place of the trip count, ahead of the iterations, gets their cost."""
    layout = rows.layout
    for loop in reversed(fixed_loops(layout, rows.stream.id)):
        gone = np.maximum(rows.sampling.loop(loop.id).selected(rows.trips(loop.id)) - loop.capacity, 0)
        kept = frames(costs, layout, loop).sum(axis=-1).mean(axis=-1)
        strided(costs, loop.trip_base, layout.trip_shape(loop), loop.strides)[...] = gone * kept


def _standstills(rows: Rows, calibration: Calibration) -> list[Standstill]:
    """The waits of asynchronous pairs for which this stream stood still, in execution order.

    Such a wait ends when the operation does, and that began with its issue: whatever probes took in between was
    waited anyway. A wait that is no longer than a record takes found the operation done. Where the iteration that
    issued was not kept, what probes took in the one that waits is known to have been waited."""
    layout, mine = rows.layout, rows.stream.id
    found: list[Standstill] = []
    for span in layout.spans:
        start, stop = layout.slots[span.start], layout.slots[span.stop]
        if span.kind != "async" or start.cursor or not start.stream == stop.stream == mine:
            continue
        met = meet(rows, rows, span)
        waits = [layout.slots[s.start] for s in layout.spans if s.kind == "wait" and s.stop == span.stop]
        if waits:
            waited = rows.clocks[met.stop_row, met.stop_word + (waits[0].base - stop.base)]
            stood = rows.clocks[met.stop_row, met.stop_word] - waited > calibration.cost_ticks
        else:
            stood = np.ones(len(met.stop_row), bool)
        row, at, since = met.stop_row[stood], met.stop_word[stood], met.start_word[stood]
        if rows.passed and waits and span.stop_peeled < 0 and span.start_ahead > span.stop_ahead:
            alone = _waits_alone(rows, waits[0], stop, met.stop_row, met.stop_word, calibration.cost_ticks)
            row, at, since = (np.r_[a, b] for a, b in zip((row, at, since), alone))
        order = np.argsort(at, kind="stable")
        words, first = np.unique(at[order], return_index=True)
        parts = zip(words, np.split(row[order], first[1:]), np.split(since[order], first[1:]))
        found += [Standstill(int(word), rows_of, issued) for word, rows_of, issued in parts]
    return sorted(found, key=lambda one: one.word)


def _waits_alone(
    rows: Rows, wait: Slot, stop: Slot, met_row: np.ndarray, met_word: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ends of waits that stood still for what an iteration issued that was not kept: rows, words, and the word of
    the first record of the same iteration."""
    begin = min(slot.base for slot in rows.layout.fixed_slots(stop.stream) if slot.loops == stop.loops)
    word = places(stop.base, rows.layout.shape(stop), stop.strides)
    ends, starts = rows.clocks[:, word], rows.clocks[:, word - (stop.base - wait.base)]
    stood = (ends >= 0) & (starts >= 0) & (ends - starts > least)
    row, at = np.nonzero(stood)
    at = word[at]
    size = rows.clocks.shape[1]
    new = ~np.isin(row * size + at, met_row * size + met_word)
    return row[new], at[new], at[new] - (stop.base - begin)


def _summed(costs: np.ndarray, standstills: list[Standstill]) -> np.ndarray:
    """Running sums along each row, which at the end of a standstill fall back to those at the issue."""
    if not standstills:
        return np.cumsum(costs, axis=1, out=costs)
    done = 0
    for one in standstills:
        if one.word >= done:
            _add_up(costs, done, one.word + 1)
            done = one.word + 1
        costs[one.rows, one.word] = costs[one.rows, one.issued]
    _add_up(costs, done, costs.shape[1])
    return costs


def _add_up(costs: np.ndarray, first: int, end: int) -> None:
    if first:
        costs[:, first : first + 1] += costs[:, first - 1 : first]
    np.cumsum(costs[:, first:end], axis=1, out=costs[:, first:end])


def _merged(
    rows: Rows, pushed: Pushed, delays: np.ndarray, written: np.ndarray, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Records with places and those of the cursor's segment delay each other: they are put in order by clock."""
    row, at = np.nonzero(written)
    placed = _steps(delays[row, at], row)
    segment = costs[pushed.slot]
    mean = np.bincount(pushed.row, segment, len(rows)) / np.maximum(
        np.bincount(pushed.row, None, len(rows)), 1
    )
    if rows.layout.circular:  # what was overwritten cost as much as what is left, in the mean
        first = np.flatnonzero(np.r_[True, pushed.row[1:] != pushed.row[:-1]])
        segment[first] += (pushed.lost * mean)[pushed.row[first]]
    all_rows = np.r_[row, pushed.row]
    order = np.lexsort((np.r_[rows.clocks[row, at], pushed.clock], all_rows))
    total = np.cumsum(np.r_[placed, segment][order])
    first = np.flatnonzero(np.r_[True, np.diff(all_rows[order]) != 0])
    total -= np.repeat(total[first], np.diff(np.r_[first, len(total)]))
    back = np.empty(len(total))
    back[order] = total
    delays = np.zeros(delays.shape)
    delays[row, at] = back[: len(row)]
    return delays, back[len(row) :]


def _steps(sums: np.ndarray, row: np.ndarray) -> np.ndarray:
    """What each element adds to the sum before it in its row."""
    before = np.r_[0.0, sums[:-1]] if len(sums) else sums
    first = np.r_[True, row[1:] != row[:-1]] if len(row) else np.zeros(0, bool)
    return sums - np.where(first, 0.0, before)


def gaps(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ticks from each record to the next in its stream instance, the slot of the later one, and the launch. Records of
    the cursor's segment count as all others do: a gap across a `while` loop would be taken for the cost of the one
    record behind it. Where a segment has lost some, nobody knows between which records with places they were. Where
    records of iterations that are not kept take time, so does a gap across them (`passed`)."""
    pushed = _last_copies(read(rows), rows.layout.copies)
    records = in_sequence(rows, pushed)
    placed = records.order < len(records.order) - len(pushed.row)
    whole = (pushed.lost == 0)[records.row[1:]] | ~(placed[1:] | placed[:-1])
    same = (records.row[1:] == records.row[:-1]) & whole
    if rows.passed:
        same &= unseen(rows, pushed, records)[1:] == 0
    return np.diff(records.clock)[same], records.slot[1:][same], rows.launch[records.row[1:][same]]


def _last_copies(pushed: Pushed, copies: int) -> Pushed:
    """A record that is written several times has one place and keeps the last; a segment has them all."""
    if copies == 1 or not len(pushed.row):
        return pushed
    tags = (pushed.row, pushed.slot, pushed.iteration)
    fresh = np.r_[True, np.any([np.diff(tag) != 0 for tag in tags], axis=0)]
    first = np.flatnonzero(fresh)
    number = np.arange(len(fresh)) - np.repeat(first, np.diff(np.r_[first, len(fresh)]))
    last = number % copies == copies - 1
    kept = {
        name: getattr(pushed, name)[last] for name in ("row", "slot", "iteration", "clock", "value", "valued")
    }
    return replace(pushed, **kept)


def calibrate(doses: Mapping[int, Sequence[Rows]]) -> Calibration:
    """The cost of a record from runs of the same work at two or more doses (`probe-to-record{copies=...}`).

    Rows of several launches a dose, the doses taking turns, make it robust: a machine is never equally fast
    twice, and that must not be taken for a cost. The cost at a slot is the slope of the usual gap before it
    over the doses. A slope is drawn towards the mean of all slots the less certain it is, and behind long
    work it is hardly certain at all.
    """
    if len(doses) < 2:
        raise TileProbeError(f"a calibration needs runs at two doses or more, got {sorted(doses)}")
    layout = next(iter(doses.values()))[0].layout
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a slot that was never passed has no mean
        usual, errors = _usual(doses, len(layout.slots))
    dose = np.array(sorted(doses), float)
    known = np.isfinite(usual).all(axis=0)
    if not known.any():
        return Calibration(doses=tuple(sorted(doses)))
    centred = dose - dose.mean()
    weights = centred / (centred**2).sum()
    slopes = weights @ usual[:, known]
    variances = (weights**2) @ errors[:, known] ** 2
    mean, error, spread = _random_effects(slopes, variances)
    trust = spread / (spread + variances)
    costs = np.maximum(mean + trust * (slopes - mean), 0.0)
    slots = {int(slot): float(cost) for slot, cost in zip(np.flatnonzero(known), costs)}
    found = Calibration(max(mean, 0.0), error, slots, tuple(sorted(doses)))
    if not any(rows.passed for streams in doses.values() for rows in streams):
        return found
    return replace(found, passed=passed_costs(doses, found.costs(layout)))


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


def _usual(doses: Mapping[int, Sequence[Rows]], slots: int) -> tuple[np.ndarray, np.ndarray]:
    """For each dose and slot the usual gap over launches, and its standard error."""
    runs = [_launches(doses[dose], slots) for dose in sorted(doses)]
    usual = np.array([np.nanmean(m, axis=0) if len(m) else np.full(slots, np.nan) for m, _ in runs])
    within = np.array([np.sqrt(np.nanmean(e**2, axis=0) / max(len(e), 1)) for _, e in runs])
    several = [m for m, _ in runs if len(m) > 1]
    if not several:
        return usual, within
    # How much launches differ: what each slot shows, or what is usual for work of its length.
    shares = [np.nanstd(m, axis=0, ddof=1) / np.nanmean(m, axis=0) for m in several]
    mostly = float(np.nanmedian(np.concatenate(shares)))
    own = np.nanmax(np.array(shares), axis=0)
    between = usual * np.fmax(own, mostly) / np.sqrt([[max(len(m), 1)] for m, _ in runs])
    return usual, np.hypot(within, between)


def _launches(streams: Sequence[Rows], slots: int) -> tuple[np.ndarray, np.ndarray]:
    """For each launch and slot the usual gap and its standard error; NaN for fewer than three."""
    ticks, slot, launch = (np.concatenate(part) for part in zip(*(gaps(rows) for rows in streams)))
    launches = np.unique(launch)
    usual = np.full((len(launches), slots), np.nan)
    errors = usual.copy()
    key = np.searchsorted(launches, launch) * slots + slot
    order = np.argsort(key, kind="stable")
    present, first = np.unique(key[order], return_index=True)
    for number, part in zip(present, np.split(ticks[order], first[1:])):
        if len(part) >= 3:
            usual.flat[number], errors.flat[number] = _trimmed(part)
    return usual, errors


def _trimmed(ticks: np.ndarray) -> tuple[float, float]:
    """The mean without what is cut off at either end, and its standard error (Tukey and McLaughlin's, from what is left
    with its ends in place of what is cut). A median would be that of a counter that moves in steps, of 26 ticks on some
    cores: as long as a record takes. Whole ticks are never surer than half a tick."""
    cut = -(-len(ticks) // _CUT)
    held = np.sort(ticks)[cut : len(ticks) - cut].astype(float)
    winsorised = np.r_[np.full(cut, held[0]), held, np.full(cut, held[-1])]
    deviation = max(float(winsorised.std(ddof=1)), 0.5)
    return float(held.mean()), deviation * np.sqrt(len(ticks)) / len(held)
