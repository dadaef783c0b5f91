"""What a multiprocessor has asked of L2 in a turn, and whom the answers are for.

Requests stand in a list, those of one access together, and behind them whom it is for: a barrier of the warp's, its
asynchronous copies, a bulk load, or nobody. `settle` takes the answers up at the start of the next turn.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.timed_caches import number

DUE = 48  # in an entry of a program's bulk loads: when it is over


@part
def sooner(how, done):
    """When an access is over of which only a part of the time is left: `how` is when it was issued, times MOST_KEPT,
    and that part of WHOLE. 0: nothing is changed."""
    if how == 0:
        return done
    begun = how // (tl.MOST_KEPT)
    return begun + (done - begun) * (how % (tl.MOST_KEPT)) // tl.WHOLE


@part
def part_of(sm, amount):
    """For how long what is being issued holds a way, of the time that it would."""
    how = raw.i64(sm + tl.S_SOONER)
    return amount if how == 0 else amount * (how % tl.MOST_KEPT) // tl.WHOLE


@part
def _ending(sm, warp, kind):
    """A new entry at the end of the list."""
    count = raw.i64(sm + tl.S_REQUEST_COUNT)
    raw.put64(sm + tl.S_REQUEST_COUNT, count + 1)
    entry = raw.i64(sm + tl.S_REQUESTS) + tl.REQUEST * count
    raw.put64(entry + tl.Q_KIND, kind)
    raw.put64(entry + tl.Q_WARP, warp)
    raw.put64(entry + tl.Q_AGE, raw.i64(warp + tl.T_AGE))
    return entry


@part
def end_access(sm, warp, floor, what, where):
    """All that an access needs has been asked for. It is over when the last answer is there, not before `floor`."""
    entry = _ending(sm, warp, tl.END)
    raw.put64(entry + tl.Q_FLOOR, floor)
    raw.put64(entry + tl.Q_EXTRA, raw.i64(sm + tl.S_EXTRA))
    raw.put64(entry + tl.Q_FOR, what)
    raw.put64(entry + tl.Q_AT, where)
    raw.put64(entry + tl.Q_SOONER, raw.i64(sm + tl.S_SOONER))
    raw.put64(sm + tl.S_OPEN, 0)


@part
def end_group(sm, warp, now, ring, bar, done):
    """A group of copies is made, some of which are not answered yet. `bar`: a barrier that waits for it, too."""
    entry = _ending(sm, warp, tl.GROUP_END)
    raw.put64(entry + tl.Q_FLOOR, now)
    raw.put64(entry + tl.Q_EXTRA, done)
    raw.put64(entry + tl.Q_FOR, bar)
    raw.put64(entry + tl.Q_AT, ring)


@part
def bar_done(warp, bar, done, why):
    """What a barrier of a warp counts is over in a cycle."""
    place = warp + tl.T_BARS + 8 * bar
    if done > raw.i64(place):
        raw.put64(place, done)
        raw.put64(warp + tl.T_BAR_WHY + 8 * bar, why)


@part
def _bulk_done(sm, cta, mark, done):
    """A bulk load, known by its mark, will be over in a cycle."""
    queue = raw.i64(cta + at.CTA_ASYNC)
    for n in range(raw.i64(cta + at.CTA_ASYNC_COUNT)):
        place = queue + at.ASYNC * n + DUE
        if raw.i64(place) == mark:
            raw.put64(place, done)
            raw.put64(sm + tl.S_DUE, min(raw.i64(sm + tl.S_DUE), done))
            return


@part
def _ended(sm, entry, mark, last):
    """An access whose last answer came in a cycle."""
    warp, what = raw.i64(entry + tl.Q_WARP), raw.i64(entry + tl.Q_FOR)
    done = sooner(
        raw.i64(entry + tl.Q_SOONER), max(raw.i64(entry + tl.Q_FLOOR), last) + raw.i64(entry + tl.Q_EXTRA)
    )
    if what == tl.FOR_BULK:
        _bulk_done(sm, raw.i64(entry + tl.Q_AT), tl.FAR + mark, done)
    elif raw.i64(warp + tl.T_AGE) != raw.i64(entry + tl.Q_AGE):
        return  # its program has ended
    elif what == tl.FOR_BAR:
        bar_done(warp, raw.i64(entry + tl.Q_AT) & 7, done, raw.i64(entry + tl.Q_AT) >> 3)
    elif what == tl.FOR_COPIES:
        raw.put64(warp + tl.T_COPIES_DONE, max(raw.i64(warp + tl.T_COPIES_DONE), done))


@part
def _group_ended(entry):
    warp = raw.i64(entry + tl.Q_WARP)
    if raw.i64(warp + tl.T_AGE) != raw.i64(entry + tl.Q_AGE):
        return
    copies, bar = raw.i64(warp + tl.T_COPIES_DONE), raw.i64(entry + tl.Q_FOR)
    ring = warp + tl.T_RING + 8 * raw.i64(entry + tl.Q_AT)
    raw.put64(ring, max(raw.i64(entry + tl.Q_FLOOR), copies))
    if bar < tl.NO_BAR:
        bar_done(warp, bar, max(raw.i64(entry + tl.Q_EXTRA), copies), tl.LONG)


@part
def _filled(entry):
    """A line of L1 has its answer. When what was asked for is there."""
    filled, place, old = raw.i64(entry + tl.Q_FILLED), raw.i64(entry + tl.Q_PLACE), raw.i64(entry + tl.Q_OLD)
    if place:
        before = raw.i64(place + tl.FILLED)
        if old < 0:  # it was not there
            raw.put64(place + tl.FILLED, filled)
        else:
            raw.put64(place + tl.FILLED, max(old if before == tl.FAR else before, filled))
    return filled


@part
def _held_up(chip, sm, entry):
    """L2 took what was stored later than it was sent: it has first to write to DRAM what makes room. No more is sent
    before."""
    late = raw.i64(entry + tl.Q_FILLED) - number(chip, tl.M_LAT_L2_FAR) - number(chip, tl.M_STORE_AHEAD)
    raw.put64(sm + tl.S_STORE_FREE, max(raw.i64(sm + tl.S_STORE_FREE), late * tl.PARTS))


@part
def settle(chip, sm):
    """Takes up the answers of the turn before."""
    count, last = raw.i64(sm + tl.S_REQUEST_COUNT), 0
    for n in range(count):
        entry = raw.i64(sm + tl.S_REQUESTS) + tl.REQUEST * n
        kind = raw.i64(entry + tl.Q_KIND)
        if kind == tl.READ:
            last = max(last, _filled(entry))
        elif kind == tl.WRITE:
            last = max(last, raw.i64(entry + tl.Q_FILLED))
            _held_up(chip, sm, entry)
        elif kind == tl.HIT:
            last = max(last, raw.i64(raw.i64(entry + tl.Q_PLACE) + tl.FILLED))
        elif kind == tl.END:
            _ended(sm, entry, n, last)
            last = 0
        else:
            _group_ended(entry)
    raw.put64(sm + tl.S_REQUEST_COUNT, 0)
