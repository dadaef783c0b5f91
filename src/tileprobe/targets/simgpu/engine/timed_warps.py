"""Warps that wait: from when on each can issue its next instruction, and who is woken.

A warp may issue when the stall count of its last instruction is over and the barriers that its next one names are. What
depends on an answer of L2 is known when the turn is over.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.calls import call, execute
from tileprobe.targets.simgpu.engine.loop import guard_of
from tileprobe.targets.simgpu.engine.mbarriers import passed
from tileprobe.targets.simgpu.engine.numbers import FIRST
from tileprobe.targets.simgpu.engine.timed_caches import number
from tileprobe.targets.simgpu.engine.timed_requests import settle
from tileprobe.targets.simgpu.engine.timed_units import how


@part
def _ring_time(warp, ring, count, pending):
    """When all groups but the newest `pending` are over."""
    if count - pending <= 0:
        return 0
    return raw.i64(warp + ring + 8 * ((count - pending - 1) & 15))


@part
def _passes(program, cta, pc, now):
    """Executes an instruction that takes no time at all, and goes on behind it. OK, or what is wrong."""
    uop = raw.i64(cta + at.CTA_UOPS) + pc * at.UOP
    op, table, constants = raw.i32(uop), raw.i64(cta + at.CTA_TABLE), raw.i64(cta + at.CTA_CONSTANTS)
    mask = guard_of(uop, program, raw.u32(program + at.W_ACTIVE))
    raw.put64(program + at.W_CYCLE, now)
    raw.put64(cta + at.CTA_STEPS, raw.i64(cta + at.CTA_STEPS) + 1)
    why = at.OK
    if op < FIRST:
        if mask:
            execute(table + 8 * op, uop, program, constants, mask, raw.i64(cta + at.CTA_SCRATCH))
    else:
        why = call(table + 8 * op, op, uop, program, cta, constants, mask, pc)
    if why == at.OK:
        raw.put32(program + at.W_PC, pc + 1)
    return why


@part
def _takes_nothing(warp, row):
    """Whether an instruction is over at once: it takes no time, or what is left of its time is less than a cycle, with
    what such ones before it took. Those whose end is waited for by a barrier are issued, and so are branches."""
    if how(row, tl.FREE):
        return True
    kept, unit = how(row, tl.KEPT), how(row, tl.UNIT)
    if kept == 0 or unit == tl.MEMORY or unit == tl.CONTROL:
        return False
    if (
        how(row, tl.KIND) != tl.FIXED
        or how(row, tl.WRITE_BAR) < tl.NO_BAR
        or how(row, tl.READ_BAR) < tl.NO_BAR
    ):
        return False
    return raw.i64(warp + tl.T_OWED) + how(row, tl.STALL) * kept < tl.WHOLE


@part
def set_ready(chip, warp, earliest, why):
    """Notes from when on a warp can issue its next instruction, and what it waits for until then. Instructions that are
    free are executed on the way: nobody else sees when. So are those of which only a part of a cycle is left, until
    these are a whole one."""
    program, cta = raw.i64(warp + tl.T_WARP), raw.i64(warp + tl.T_CTA)
    rows, count = raw.i64(chip + tl.C_ROWS), raw.i64(cta + at.CTA_UOP_COUNT)
    _wait_for(chip, warp, earliest, why)
    while True:
        pc = raw.i32(program + at.W_PC)
        if pc < 0 or pc >= count or not _takes_nothing(warp, rows + tl.ROW * pc):
            return
        ready = raw.i64(warp + tl.T_READY)
        if ready >= tl.FAR:
            return  # until an answer is there
        if _passes(program, cta, pc, ready) != at.OK:
            return  # it is issued like any other, and says what is wrong then
        row = rows + tl.ROW * pc
        if how(row, tl.FREE) == 0:
            raw.put64(warp + tl.T_OWED, raw.i64(warp + tl.T_OWED) + how(row, tl.STALL) * how(row, tl.KEPT))
        _wait_for(chip, warp, ready, raw.i64(warp + tl.T_WHY))


@part
def _wait_for(chip, warp, earliest, why):
    """From when on a warp can issue its next instruction, by its barriers and groups."""
    program = raw.i64(warp + tl.T_WARP)
    pc = raw.i32(program + at.W_PC)
    ready, longest = earliest, tl.NO_ONE
    raw.put64(warp + tl.T_EARLY, earliest)
    raw.put64(warp + tl.T_EARLY_WHY, why)
    if 0 <= pc < raw.i64(raw.i64(warp + tl.T_CTA) + at.CTA_UOP_COUNT):
        row = raw.i64(chip + tl.C_ROWS) + tl.ROW * pc
        waits = how(row, tl.WAITS)
        if waits & raw.i64(warp + tl.T_PENDING):
            ready = tl.FAR
        bar = 0
        while waits:
            if waits & 1 and raw.i64(warp + tl.T_BARS + 8 * bar) > ready:
                ready = raw.i64(warp + tl.T_BARS + 8 * bar)
                why, longest = raw.i64(warp + tl.T_BAR_WHY + 8 * bar), bar
            waits >>= 1
            bar += 1
        kind = how(row, tl.KIND)
        if kind == tl.WAIT_GROUP:
            over = _ring_time(warp, tl.T_RING, raw.i64(warp + tl.T_GROUPS), how(row, tl.COUNT))
            if over > ready:
                ready, why, longest = over, tl.LONG, tl.A_GROUP
        elif kind == tl.WAIT_PRODUCT:
            over = _ring_time(warp, tl.T_PRODUCT_RING, raw.i64(warp + tl.T_PRODUCTS), how(row, tl.COUNT))
            if over > ready:
                ready, why, longest = over, tl.GMMA, tl.A_PRODUCT
    raw.put64(warp + tl.T_BAR, longest)
    raw.put64(warp + tl.T_READY, ready)
    raw.put64(warp + tl.T_WHY, why)


@part
def wake(chip, sm, cta, now, by):
    """Warps of a program that waited, and need no longer, because of what an instruction did (as T_BY says)."""
    woken = 0
    for n in range(raw.i64(sm + tl.S_WARP_COUNT)):
        warp = raw.i64(sm + tl.S_WARPS) + tl.T_BYTES * n
        if raw.i64(warp + tl.T_CTA) != cta or raw.i64(warp + tl.T_WAITS) != 1:
            continue
        program = raw.i64(warp + tl.T_WARP)
        status, latency = raw.i32(program + at.W_STATUS), number(chip, tl.M_LAT_BARRIER)
        if status == at.AT_MBARRIER:
            if passed(cta, raw.i32(program + at.W_WAIT_AT), raw.i32(program + at.W_WAIT_VALUE)) == 0:
                continue
            raw.put32(program + at.W_STATUS, at.RUNNING)
            latency = number(chip, tl.M_LAT_WAIT)
        elif status != at.RUNNING:
            continue
        raw.put64(warp + tl.T_WAITS, 0)
        raw.put64(warp + tl.T_BY, by)
        set_ready(chip, warp, now + latency, tl.AT_BARRIER)
        woken += 1
    if woken:
        for sub in range(4):
            raw.put64(sm + tl.S_NEXT + 8 * sub, 0)


@part
def take_answers(chip, sm):
    """At the start of a turn: what L2 has answered, and the warps that can go on by it."""
    if raw.i64(sm + tl.S_REQUEST_COUNT) == 0:
        return
    settle(chip, sm)
    for n in range(raw.i64(sm + tl.S_WARP_COUNT)):
        warp = raw.i64(sm + tl.S_WARPS) + tl.T_BYTES * n
        if raw.i64(warp + tl.T_PENDING) == 0:
            continue
        raw.put64(warp + tl.T_PENDING, 0)
        if raw.i64(warp + tl.T_WAITS) == 0:
            set_ready(chip, warp, raw.i64(warp + tl.T_EARLY), raw.i64(warp + tl.T_EARLY_WHY))
    for sub in range(4):
        raw.put64(sm + tl.S_NEXT + 8 * sub, 0)
