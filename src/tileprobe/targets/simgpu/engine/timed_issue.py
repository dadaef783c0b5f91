"""An instruction is issued: which warp's, what it leaves behind, what is counted.

A sub-partition issues one instruction a cycle, of the warp that issued last if it can, else of the youngest that can. A
warp can when it need not wait (`timed_warps.py`) and the unit that its next instruction goes to is free.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.barriers import one_less
from tileprobe.targets.simgpu.engine.calls import call, execute
from tileprobe.targets.simgpu.engine.control import rotate
from tileprobe.targets.simgpu.engine.loop import guard_of
from tileprobe.targets.simgpu.engine.numbers import FIRST, LEAVE, STAY, SYSTEM
from tileprobe.targets.simgpu.engine.timed_caches import busy_unit, number
from tileprobe.targets.simgpu.engine.timed_requests import bar_done, end_access, end_group
from tileprobe.targets.simgpu.engine.timed_touched import ones
from tileprobe.targets.simgpu.engine.timed_units import cost, how, queue_open
from tileprobe.targets.simgpu.engine.timed_warps import set_ready, wake

_WINDOW = 3  # cycles in which an instruction reads its registers [HU]
_ROTATE = 1024  # instructions of a warp after which, at a jump backward, lanes that have parted have a turn


@part
def _row_of(chip, warp):
    return raw.i64(chip + tl.C_ROWS) + tl.ROW * raw.i32(raw.i64(warp + tl.T_WARP) + at.W_PC)


@part
def _free(chip, sm, sub, unit):
    """The first cycle in which a unit of a sub-partition takes an instruction."""
    if unit == tl.MEMORY:
        return queue_open(chip, sm, sub)
    return (
        raw.i64(sm + tl.S_UNITS + 8 * (tl.UNITS * sub + unit)) // tl.PARTS
    )  # what is left of a cycle is kept


@part
def _can(chip, sm, sub, warp, now):
    """The first cycle in which a warp can issue; FAR if that depends on others."""
    if raw.i64(warp + tl.T_WAITS):
        return tl.FAR
    return max(raw.i64(warp + tl.T_READY), _free(chip, sm, sub, how(_row_of(chip, warp), tl.UNIT)))


@part
def pick(chip, sm, sub, now):
    """The warp of a sub-partition that issues in this cycle, or -1; and the first cycle in which one can."""
    warps, count = raw.i64(sm + tl.S_WARPS), raw.i64(sm + tl.S_WARP_COUNT)
    last = raw.i64(sm + tl.S_LAST + 8 * sub)
    if last >= 0 and _can(chip, sm, sub, warps + tl.T_BYTES * last, now) <= now:
        return last, now
    best, age, soonest = -1, -1, tl.FAR
    for n in range(sub, count, 4):
        warp = warps + tl.T_BYTES * n
        when = _can(chip, sm, sub, warp, now)
        soonest = min(soonest, when)
        if when <= now and raw.i64(warp + tl.T_AGE) > age:
            best, age = n, raw.i64(warp + tl.T_AGE)
    return best, soonest


@part
def _account(chip, sm, sub, warp, pc, mask, now):
    """Counts an instruction with the lanes that are on, and the cycles that its warp lost before it, by reason."""
    place = raw.i64(chip + tl.C_STATISTICS) + tl.STATISTIC * pc
    raw.put64(place, raw.i64(place) + 1)
    raw.put64(place + tl.LANES, raw.i64(place + tl.LANES) + (32 if mask == 0xFFFFFFFF else ones(mask)))
    since, ready = raw.i64(warp + tl.T_SINCE), raw.i64(warp + tl.T_READY)
    if ready > since + 1:
        there = place + 8 + 8 * raw.i64(warp + tl.T_WHY)
        raw.put64(there, raw.i64(there) + ready - since - 1)
    could = max(ready, since + 1)
    if now > could:
        unit = how(raw.i64(chip + tl.C_ROWS) + tl.ROW * pc, tl.UNIT)
        free = min(max(_free(chip, sm, sub, unit), could), now)
        there = place + 8 + 8 * (tl.QUEUE if unit == tl.MEMORY else tl.PIPE)
        raw.put64(there, raw.i64(there) + free - could)
        there = place + 8 + 8 * tl.NOT_SELECTED  # another warp went first
        raw.put64(there, raw.i64(there) + now - free)
    raw.put64(warp + tl.T_SINCE, now)


@part
def _log(sm, warp, pc, since, now):
    """Notes that an instruction was issued, and what kept it from being so since the one before it."""
    count = raw.i64(sm + tl.S_LOG_COUNT)
    place = raw.i64(sm + tl.S_LOG) + tl.LOGGED * count
    raw.put64(place, now)
    raw.put32(place + 8, pc)
    raw.put32(place + 12, raw.i32(raw.i64(warp + tl.T_WARP) + at.W_NUMBER))
    raw.put64(place + 16, raw.i64(raw.i64(warp + tl.T_WORKER) + at.WORKER_NEXT))
    raw.put64(place + 24, raw.i64(warp + tl.T_BY))
    raw.put32(place + 32, max(raw.i64(warp + tl.T_READY) - since - 1, 0))
    raw.put32(place + 36, raw.i64(warp + tl.T_WHY) + 16 * raw.i64(warp + tl.T_BAR))
    raw.put64(sm + tl.S_LOG_COUNT, count + 1)


@part
def _group(sm, warp, bar, done, now):
    """The copies since the last group are one: when it is over is known, or will be when the turn is."""
    count = raw.i64(warp + tl.T_GROUPS)
    raw.put64(warp + tl.T_GROUPS, count + 1)
    ring = count & 15
    if raw.i64(warp + tl.T_PENDING) & tl.PENDING_COPIES:
        raw.put64(warp + tl.T_RING + 8 * ring, tl.FAR)
        end_group(sm, warp, now, ring, bar, done)
        if bar < tl.NO_BAR:
            raw.put64(warp + tl.T_PENDING, raw.i64(warp + tl.T_PENDING) | (1 << bar))
        return
    copies = raw.i64(warp + tl.T_COPIES_DONE)
    raw.put64(warp + tl.T_RING + 8 * ring, max(now, copies))
    if bar < tl.NO_BAR:
        bar_done(warp, bar, max(done, copies), tl.LONG)


@part
def _banks(sm, sub, row, now):
    """Registers are read in the three cycles behind issue, one a cycle from each of two banks. Cycles for which the
    sub-partition issues nothing because a bank has not been able to."""
    reads, late = how(row, tl.READS), 0
    if reads == 0:
        return 0
    for bank in range(2):
        count = (reads >> (tl.ODD_READS * bank)) & 255
        if count:
            place = sm + tl.S_BANKS + 16 * sub + 8 * bank
            over = max(raw.i64(place), now) + count
            raw.put64(place, over)
            late = max(late, over - now - _WINDOW)
    return late


@part
def _behind(chip, sm, sub, row, warp, cta, mask, now):
    """What an instruction leaves behind when it is issued: barriers, groups, and when its warp can go on."""
    kind = how(row, tl.KIND)
    done = cost(chip, sm, sub, row, warp, cta, mask, now)
    bar = how(row, tl.WRITE_BAR)
    if kind == tl.GROUP:
        _group(sm, warp, bar, done, now)
    elif raw.i64(sm + tl.S_OPEN):
        long = kind in (tl.LOAD_GLOBAL, tl.ATOMIC_GLOBAL, tl.LOCAL)
        if bar < tl.NO_BAR:
            raw.put64(warp + tl.T_PENDING, raw.i64(warp + tl.T_PENDING) | (1 << bar))
            end_access(sm, warp, done, tl.FOR_BAR, bar | ((tl.LONG if long else tl.SHORT) << 3))
        else:
            end_access(sm, warp, done, tl.FOR_NOTHING, 0)
    elif bar < tl.NO_BAR:
        long = kind in (tl.LOAD_GLOBAL, tl.ATOMIC_GLOBAL, tl.LOCAL)
        bar_done(warp, bar, done, tl.LONG if long else tl.SHORT)
    if kind == tl.PRODUCT:
        raw.put64(warp + tl.T_PRODUCT_DONE, max(raw.i64(warp + tl.T_PRODUCT_DONE), done))
        if how(row, tl.COUNT):
            count = raw.i64(warp + tl.T_PRODUCTS)
            raw.put64(warp + tl.T_PRODUCT_RING + 8 * (count & 15), raw.i64(warp + tl.T_PRODUCT_DONE))
            raw.put64(warp + tl.T_PRODUCTS, count + 1)
    stall, kept = how(row, tl.STALL), how(row, tl.KEPT)
    if kept:
        owed = raw.i64(warp + tl.T_OWED) + stall * kept
        stall = owed // tl.WHOLE
        raw.put64(warp + tl.T_OWED, owed - stall * tl.WHOLE if stall else 0)
    stall = max(stall, 1)
    if kind == tl.SLEEP:
        stall = max(stall, how(row, tl.LATENCY))
    return now + stall


@part
def issue(chip, sm, sub, n, now):
    """Issues and executes an instruction of a warp. OK, or what is wrong."""
    warp = raw.i64(sm + tl.S_WARPS) + tl.T_BYTES * n
    cta, program = raw.i64(warp + tl.T_CTA), raw.i64(warp + tl.T_WARP)
    pc, constants = raw.i32(program + at.W_PC), raw.i64(cta + at.CTA_CONSTANTS)
    if pc < 0 or pc >= raw.i64(cta + at.CTA_UOP_COUNT):
        return at.BAD_PC
    uop = raw.i64(cta + at.CTA_UOPS) + pc * at.UOP
    op, table = raw.i32(uop), raw.i64(cta + at.CTA_TABLE)
    mask = guard_of(uop, program, raw.u32(program + at.W_ACTIVE))
    row = raw.i64(chip + tl.C_ROWS) + tl.ROW * pc
    raw.put64(program + at.W_CYCLE, now)
    raw.put64(sm + tl.S_CURRENT, raw.i64(warp + tl.T_SLOT))
    if raw.i64(sm + tl.S_BUSY_ROOM):
        raw.put64(sm + tl.S_PC, pc)
        busy_unit(sm, tl.UNITS * sub + tl.ISSUE, now * tl.PARTS, (now + 1) * tl.PARTS)
    why, before = at.OK, raw.i64(cta + at.CTA_PROGRESS)
    if op < FIRST:
        if mask:
            execute(table + 8 * op, uop, program, constants, mask, raw.i64(cta + at.CTA_SCRATCH))
    else:
        why = call(table + 8 * op, op, uop, program, cta, constants, mask, pc)
    if why != at.OK and why != LEAVE and why != STAY:
        raw.put64(cta + at.CTA_ERROR, why)
        raw.put64(cta + at.CTA_ERROR_WARP, raw.i32(program + at.W_NUMBER))
        raw.put64(cta + at.CTA_ERROR_PC, pc)
        if why != SYSTEM:
            return why
    if why == at.OK:
        raw.put32(program + at.W_PC, pc + 1)
    since = raw.i64(warp + tl.T_SINCE)
    _account(chip, sm, sub, warp, pc, mask, now)
    if raw.i64(sm + tl.S_LOG_ROOM):
        _log(sm, warp, pc, since, now)
    issued = raw.i64(warp + tl.T_ISSUED) + 1
    raw.put64(warp + tl.T_ISSUED, issued)
    raw.put64(cta + at.CTA_STEPS, raw.i64(cta + at.CTA_STEPS) + 1)
    raw.put64(sm + tl.S_ISSUED, raw.i64(sm + tl.S_ISSUED) + 1)
    ready = _behind(chip, sm, sub, row, warp, cta, mask, now)
    late = _banks(sm, sub, row, now)
    if late:
        raw.put64(sm + tl.S_NEXT + 8 * sub, now + 1 + late)
        ready += late
    status = raw.i32(program + at.W_STATUS)
    if status == at.EXITED:
        raw.put64(warp + tl.T_WAITS, 2)
        one_less(cta)
    elif status != at.RUNNING:
        raw.put64(warp + tl.T_WAITS, 1)
    else:
        if how(row, tl.KIND) == tl.BARRIER:
            ready = max(ready, now + number(chip, tl.M_LAT_BARRIER))
        if issued >= _ROTATE and why == LEAVE and raw.i32(program + at.W_PC) <= pc:  # as in loop.py
            raw.put64(warp + tl.T_ISSUED, 0)
            rotate(program)
        set_ready(chip, warp, ready, tl.WAIT)
    if raw.i64(cta + at.CTA_PROGRESS) != before or status == at.EXITED:
        wake(chip, sm, cta, now, now * 64 + raw.i32(program + at.W_NUMBER))
    return SYSTEM if why == SYSTEM else at.OK
