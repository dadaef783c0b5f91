"""Clock domains: how the clocks of the units relate to a clock that the whole machine shares.

Each stream notes both clocks when it begins, and the shared one when it ends. The shared timer moves in coarse
steps, so every note bounds the offset of the unit's clock to an interval; all the streams of a unit together
narrow it down. In come `Rows`; out go a `Domain` for each unit and, as data, what cannot be right or is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tileprobe.ir.layout import BEGIN, GLOBAL_BEGIN, GLOBAL_END
from tileprobe.ir.machine import Clock, Domain, GlobalTimer
from tileprobe.trace.blocks import Rows
from tileprobe.trace.cursor import Pushed
from tileprobe.trace.timer import Problem


@dataclass
class Alignment:
    """A domain for each unit, by the unit's id, and contradictions."""

    domains: dict[int, Domain] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def align(
    streams: Sequence[Rows],
    pushed: Sequence[Pushed],
    clock: Clock,
    timer: GlobalTimer,
    *,
    slack_ns: float = 0.0,
    name: str = "unit {}",
) -> Alignment:
    """The domains of the units on which these streams ran. `slack_ns` is how long after the stream's own clock
    the shared one may have been read."""
    unit, low, high = (
        np.concatenate(part) for part in zip(*_bounds(streams, pushed, clock, timer, slack_ns))
    )
    found = Alignment()
    for number in np.unique(unit):
        mine = unit == number
        least, most = float(low[mine].max()), float(high[mine].min())
        if not np.isfinite(least + most):
            continue
        offset, error = (least + most) / 2, abs(most - least) / 2
        if least > most:
            # One offset cannot be right for all. Its error covers every stream's bounds.
            error = max(least - offset, offset - most)
            text = f"the clock of unit {number} drifts: its offset moves by {least - most:.0f} ns or more"
            against = int(((low[mine] > offset) | (high[mine] < offset)).sum())
            found.problems.append(Problem("drift", text, against, unit=int(number)))
        found.domains[int(number)] = Domain(name.format(number), clock.hz, offset, error)
    return found


def combined(a: Domain, b: Domain) -> Domain | None:
    """One domain of two that are the same clock, as certain as both together; None when they contradict."""
    least = max(a.offset_ns - a.error_ns, b.offset_ns - b.error_ns)
    most = min(a.offset_ns + a.error_ns, b.offset_ns + b.error_ns)
    if least > most:
        return None
    return Domain(a.name, a.hz, (least + most) / 2, (most - least) / 2)


def _bounds(
    streams: Sequence[Rows], pushed: Sequence[Pushed], clock: Clock, timer: GlobalTimer, slack_ns: float
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each stream its unit, and the least and the most that the offset of its clock can be, in ns."""
    found = []
    for rows, segment in zip(streams, pushed):
        own = rows.words[:, BEGIN].astype(np.int64)
        shared, end = (
            rows.words[:, word].astype(np.float64) * 1e9 / timer.hz for word in (GLOBAL_BEGIN, GLOBAL_END)
        )
        begin_ns = own * (1e9 / clock.hz)
        last_ns = _last(rows, segment, own) * (1e9 / clock.hz)
        both = (rows.words[:, GLOBAL_BEGIN] != 0) & (own != 0)
        low = np.where(both, shared - slack_ns - begin_ns, -np.inf)
        high = np.where(both, shared + timer.step_ns - begin_ns, np.inf)
        # The stream ended after its last record, and the timer had not gone on by then.
        ended = both & (rows.words[:, GLOBAL_END] != 0)
        high = np.where(ended, np.minimum(high, end + timer.step_ns - last_ns), high)
        found.append((rows.unit, low, high))
    return found


def _last(rows: Rows, pushed: Pushed, begin: np.ndarray) -> np.ndarray:
    """The clock of each row's last record, or of its beginning."""
    last = begin.copy()
    for slot in rows.layout.fixed_slots(rows.stream.id):
        clocks = rows.slot(slot)
        if clocks.size:
            last = np.maximum(last, clocks.max(axis=tuple(range(1, clocks.ndim))))
    np.maximum.at(last, pushed.row, pushed.clock)
    return last


def check_wraps(
    streams: Sequence[Rows],
    pushed: Sequence[Pushed],
    clock: Clock,
    timer: GlobalTimer,
    launches: np.ndarray,
) -> list[Problem]:
    """Narrow clocks unwrap from record to record. Where the shared timer says that a stream took so much longer
    than its records that a whole turn of the clock fits in, or less long than they, turns are in doubt. So they are
    where a stream of a turn or more has records of the segment between others: each kind is unwrapped for itself."""
    problems: list[Problem] = []
    bits = streams[0].bits
    if bits == 64:
        return problems
    if clock.bits < 64 and not timer.tells_turns(clock):
        text = f"a step of the shared timer is too long to tell turns of the {clock.bits}-bit clock apart"
        problems.append(Problem("wraps", text, sum(len(rows) for rows in streams)))
    for rows, segment in zip(streams, pushed):
        begin = rows.words[:, BEGIN].astype(np.int64)
        took = _last(rows, segment, begin) - begin
        first, end = (rows.words[:, word].astype(np.float64) for word in (GLOBAL_BEGIN, GLOBAL_END))
        known = (first != 0) & (end != 0)
        scale, step = clock.hz / timer.hz, timer.step * clock.hz / timer.hz
        passed = (end - first) * scale
        missing = known & (passed + step - took >= 1 << bits)
        excess = known & (took > passed + step)
        lasted = np.where(known, passed + step, took) >= 1 << bits
        mixed = lasted & (np.bincount(segment.row, minlength=len(rows)) > 0) & rows.recorded_words.any(axis=1)
        for doubt, text in (
            (missing, "took longer than its records by a turn of the clock or more: times may be too early"),
            (excess, "has records over more time than passed: its clocks were unwrapped wrongly"),
            (
                mixed & ~missing & ~excess,
                "with a `while` loop took a turn of the clock or more: the loop's times may be off by turns",
            ),
        ):
            for launch in np.unique(rows.launch[doubt]):
                count = int((rows.launch[doubt] == launch).sum())
                problems.append(Problem("wraps", f"a stream {text}", count, int(launches[launch])))
    return problems
