"""The engine's loop with time: multiprocessors issue, cycle by cycle, what their warps may, and execute it then.

A sub-partition issues one instruction a cycle, of the warp that issued last if it can, else of the youngest that can. A
warp may issue when the stall count of its last instruction is over, the barriers that its next one names are, and the
unit it goes to is free. Cycles in which nothing can be issued are skipped. Multiprocessors take turns of a few cycles,
always in the order of their numbers, so the same launch takes the same time whenever it is run.
"""

from __future__ import annotations

from tileprobe.targets.jit import borrowing, part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.barriers import one_less
from tileprobe.targets.simgpu.engine.bulk import finish
from tileprobe.targets.simgpu.engine.calls import call, execute
from tileprobe.targets.simgpu.engine.control import rotate
from tileprobe.targets.simgpu.engine.fields import splat
from tileprobe.targets.simgpu.engine.loop import guard_of, start
from tileprobe.targets.simgpu.engine.mbarriers import passed
from tileprobe.targets.simgpu.engine.numbers import FIRST, LEAVE, STAY, SYSTEM
from tileprobe.targets.simgpu.engine.timed_memory import number
from tileprobe.targets.simgpu.engine.timed_units import DUE, cost, how, queue_open

_SM = at.W_SPECIAL + at.ROW * at.SPECIAL.index("SR_VIRTID")
_STUCK = 128  # no warp can ever issue again
_ROTATE = 1024  # instructions of a warp after which, at a jump backward, lanes that have parted have a turn


@part
def _row_of(chip, warp):
    return raw.i64(chip + tl.C_ROWS) + tl.ROW * raw.i32(raw.i64(warp + tl.T_WARP) + at.W_PC)


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
def set_ready(chip, warp, earliest, why):
    """Notes from when on a warp can issue its next instruction, and what it waits for until then. Instructions that are
    free are executed on the way: nobody else sees when."""
    program, cta = raw.i64(warp + tl.T_WARP), raw.i64(warp + tl.T_CTA)
    rows, count = raw.i64(chip + tl.C_ROWS), raw.i64(cta + at.CTA_UOP_COUNT)
    _wait_for(chip, warp, earliest, why)
    while True:
        pc = raw.i32(program + at.W_PC)
        if pc < 0 or pc >= count or how(rows + tl.ROW * pc, tl.FREE) == 0:
            return
        ready = raw.i64(warp + tl.T_READY)
        if _passes(program, cta, pc, ready) != at.OK:
            return  # it is issued like any other, and says what is wrong then
        _wait_for(chip, warp, ready, raw.i64(warp + tl.T_WHY))


@part
def _wait_for(chip, warp, earliest, why):
    """From when on a warp can issue its next instruction, by its barriers and groups."""
    program = raw.i64(warp + tl.T_WARP)
    pc = raw.i32(program + at.W_PC)
    ready = earliest
    if 0 <= pc < raw.i64(raw.i64(warp + tl.T_CTA) + at.CTA_UOP_COUNT):
        row = raw.i64(chip + tl.C_ROWS) + tl.ROW * pc
        waits = how(row, tl.WAITS)
        for bar in range(6):
            if (waits >> bar) & 1 and raw.i64(warp + tl.T_BARS + 8 * bar) > ready:
                ready = raw.i64(warp + tl.T_BARS + 8 * bar)
                why = raw.i64(warp + tl.T_BAR_WHY + 8 * bar)
        kind = how(row, tl.KIND)
        if kind == tl.WAIT_GROUP:
            over = _ring_time(warp, tl.T_RING, raw.i64(warp + tl.T_GROUPS), how(row, tl.COUNT))
            if over > ready:
                ready, why = over, tl.LONG
        elif kind == tl.WAIT_PRODUCT:
            over = _ring_time(warp, tl.T_PRODUCT_RING, raw.i64(warp + tl.T_PRODUCTS), how(row, tl.COUNT))
            if over > ready:
                ready, why = over, tl.GMMA
    raw.put64(warp + tl.T_READY, ready)
    raw.put64(warp + tl.T_WHY, why)


@part
def _free(chip, sm, sub, unit):
    """The first cycle in which a unit of a sub-partition takes an instruction."""
    if unit == tl.MEMORY:
        return queue_open(chip, sm, sub)
    return (raw.i64(sm + tl.S_UNITS + 8 * (tl.UNITS * sub + unit)) + tl.PARTS - 1) // tl.PARTS


@part
def _can(chip, sm, sub, warp, now):
    """The first cycle in which a warp can issue; FAR if that depends on others."""
    if raw.i64(warp + tl.T_WAITS):
        return tl.FAR
    return max(raw.i64(warp + tl.T_READY), _free(chip, sm, sub, how(_row_of(chip, warp), tl.UNIT)))


@part
def _pick(chip, sm, sub, now):
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
def wake(chip, sm, cta, now):
    """Warps of a program that waited, and need no longer."""
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
        set_ready(chip, warp, now + latency, tl.AT_BARRIER)
        woken += 1
    if woken:
        for sub in range(4):
            raw.put64(sm + tl.S_NEXT + 8 * sub, 0)


@part
def _account(chip, sm, sub, warp, pc, now):
    """Counts an instruction, and the cycles that its warp lost before it, by reason."""
    place = raw.i64(chip + tl.C_STATISTICS) + tl.STATISTIC * pc
    raw.put64(place, raw.i64(place) + 1)
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
def _log(sm, warp, pc, now):
    """Notes that an instruction was issued."""
    count = raw.i64(sm + tl.S_LOG_COUNT)
    place = raw.i64(sm + tl.S_LOG) + tl.LOGGED * count
    raw.put64(place, now)
    raw.put32(place + 8, pc)
    raw.put32(place + 12, raw.i32(raw.i64(warp + tl.T_WARP) + at.W_NUMBER))
    raw.put64(place + 16, raw.i64(raw.i64(warp + tl.T_WORKER) + at.WORKER_NEXT))
    raw.put64(sm + tl.S_LOG_COUNT, count + 1)


@part
def _behind(chip, sm, sub, row, warp, cta, mask, now):
    """What an instruction leaves behind when it is issued: barriers, groups, and when its warp can go on."""
    kind = how(row, tl.KIND)
    done = cost(chip, sm, sub, row, warp, cta, mask, now)
    bar = how(row, tl.WRITE_BAR)
    if bar < tl.NO_BAR:
        place = warp + tl.T_BARS + 8 * bar
        if kind == tl.GROUP:
            done = max(done, raw.i64(warp + tl.T_COPIES_DONE))
        if done > raw.i64(place):
            raw.put64(place, done)
            long = kind in (tl.LOAD_GLOBAL, tl.ATOMIC_GLOBAL, tl.LOCAL, tl.GROUP)
            raw.put64(warp + tl.T_BAR_WHY + 8 * bar, tl.LONG if long else tl.SHORT)
    if kind == tl.GROUP:
        count = raw.i64(warp + tl.T_GROUPS)
        raw.put64(warp + tl.T_RING + 8 * (count & 15), max(now, raw.i64(warp + tl.T_COPIES_DONE)))
        raw.put64(warp + tl.T_GROUPS, count + 1)
    elif kind == tl.PRODUCT:
        raw.put64(warp + tl.T_PRODUCT_DONE, max(raw.i64(warp + tl.T_PRODUCT_DONE), done))
        if how(row, tl.COUNT):
            count = raw.i64(warp + tl.T_PRODUCTS)
            raw.put64(warp + tl.T_PRODUCT_RING + 8 * (count & 15), raw.i64(warp + tl.T_PRODUCT_DONE))
            raw.put64(warp + tl.T_PRODUCTS, count + 1)
    stall = max(how(row, tl.STALL), 1)
    if kind == tl.SLEEP:
        stall = max(stall, how(row, tl.LATENCY))
    return now + stall


@part
def _issue(chip, sm, sub, n, now):
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
    _account(chip, sm, sub, warp, pc, now)
    if raw.i64(sm + tl.S_LOG_ROOM):
        _log(sm, warp, pc, now)
    issued = raw.i64(warp + tl.T_ISSUED) + 1
    raw.put64(warp + tl.T_ISSUED, issued)
    raw.put64(cta + at.CTA_STEPS, raw.i64(cta + at.CTA_STEPS) + 1)
    raw.put64(sm + tl.S_ISSUED, raw.i64(sm + tl.S_ISSUED) + 1)
    ready = _behind(chip, sm, sub, row, warp, cta, mask, now)
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
        wake(chip, sm, cta, now)
    return SYSTEM if why == SYSTEM else at.OK


@part
def _complete(chip, sm, now):
    """Bulk loads whose time has come. OK or a fault."""
    due = tl.FAR
    workers = raw.i64(sm + tl.S_WORKERS)
    for n in range(raw.i64(sm + tl.S_SLOTS)):
        worker = raw.i64(workers + 8 * n)
        if raw.i64(worker + at.WORKER_BUSY) == 0:
            continue
        cta = raw.i64(raw.i64(worker + at.WORKER_CLUSTER) + at.CLUSTER_MEMBERS)
        queue, k = raw.i64(cta + at.CTA_ASYNC), 0
        before = raw.i64(cta + at.CTA_ASYNC_COUNT)
        while k < raw.i64(cta + at.CTA_ASYNC_COUNT):
            entry = queue + at.ASYNC * k
            if raw.i64(entry + DUE) > now:
                due = min(due, raw.i64(entry + DUE))
                k += 1
                continue
            why = finish(cta, entry)
            if why:
                raw.put64(sm + tl.S_CURRENT, n)
                raw.put64(cta + at.CTA_ERROR, why)
                raw.put64(cta + at.CTA_ERROR_WARP, -1)
                return why
            count = raw.i64(cta + at.CTA_ASYNC_COUNT) - 1
            if k != count:
                raw.copy(entry, queue + at.ASYNC * count, at.ASYNC)
            raw.put64(cta + at.CTA_ASYNC_COUNT, count)
        if raw.i64(cta + at.CTA_ASYNC_COUNT) != before:
            wake(chip, sm, cta, now)
    raw.put64(sm + tl.S_DUE, due)
    return at.OK


@part
def _begin(chip, sm, slot, now):
    """Puts the chip's next program into a slot."""
    worker = raw.i64(raw.i64(sm + tl.S_WORKERS) + 8 * slot)
    cluster = raw.i64(worker + at.WORKER_CLUSTER)
    cta = raw.i64(cluster + at.CLUSTER_MEMBERS)
    following = raw.i64(chip + tl.C_NEXT)
    raw.put64(worker + at.WORKER_NEXT, following)
    raw.put64(chip + tl.C_NEXT, following + 1)
    raw.put64(cluster + at.CLUSTER_ARRIVED, 0)
    start(worker, cluster, cta, 0)
    raw.put64(worker + at.WORKER_BUSY, 1)
    raw.put64(sm + tl.S_LIVE, raw.i64(sm + tl.S_LIVE) + 1)
    each = raw.i64(sm + tl.S_PER_SLOT)
    for n in range(each):
        warp = raw.i64(sm + tl.S_WARPS) + tl.T_BYTES * (slot * each + n)
        raw.fill(warp, 0, tl.T_BYTES)
        raw.put64(warp + tl.T_WARP, raw.i64(cta + at.CTA_WARPS) + n * raw.i64(cta + at.CTA_WARP_BYTES))
        raw.put64(warp + tl.T_CTA, cta)
        raw.put64(warp + tl.T_WORKER, worker)
        raw.put64(warp + tl.T_AGE, following * 64 + n)
        raw.put64(warp + tl.T_SLOT, slot)
        raw.put64(warp + tl.T_SINCE, now)
        splat(raw.i64(warp + tl.T_WARP) + _SM, raw.i64(sm + tl.S_NUMBER))
        set_ready(chip, warp, now + 1, tl.WAIT)
    for sub in range(4):
        raw.put64(sm + tl.S_NEXT + 8 * sub, 0)


@part
def _end(chip, sm, slot, now):
    """A program has ended: the next one comes, if there is one."""
    worker = raw.i64(raw.i64(sm + tl.S_WORKERS) + 8 * slot)
    raw.put64(worker + at.WORKER_BUSY, 0)
    raw.put64(sm + tl.S_LIVE, raw.i64(sm + tl.S_LIVE) - 1)
    raw.put64(sm + tl.S_ENDED, now)
    if raw.i64(chip + tl.C_NEXT) < raw.i64(chip + tl.C_END):
        _begin(chip, sm, slot, now)


@part
def _advance(chip, sm, limit):
    """Runs a multiprocessor up to a cycle. OK, or what is wrong."""
    now = raw.i64(sm + tl.S_NOW)
    while now < limit and raw.i64(sm + tl.S_LIVE):
        if raw.i64(sm + tl.S_DUE) <= now:
            why = _complete(chip, sm, now)
            if why:
                raw.put64(sm + tl.S_NOW, now)
                return why
        soonest = raw.i64(sm + tl.S_DUE)
        for sub in range(4):
            if raw.i64(sm + tl.S_NEXT + 8 * sub) > now:
                soonest = min(soonest, raw.i64(sm + tl.S_NEXT + 8 * sub))
                continue
            n, when = _pick(chip, sm, sub, now)
            if n < 0:
                raw.put64(sm + tl.S_NEXT + 8 * sub, when)
                soonest = min(soonest, when)
                continue
            raw.put64(sm + tl.S_LAST + 8 * sub, n)
            raw.put64(sm + tl.S_NEXT + 8 * sub, now + 1)
            why = _issue(chip, sm, sub, n, now)
            soonest = now + 1
            if why:
                raw.put64(sm + tl.S_NOW, now)
                return why
            warp = raw.i64(sm + tl.S_WARPS) + tl.T_BYTES * n
            if raw.i64(warp + tl.T_WAITS) == 2 and raw.i64(raw.i64(warp + tl.T_CTA) + at.CTA_LIVE) == 0:
                _end(chip, sm, raw.i64(warp + tl.T_SLOT), now)
        for sub in range(4):  # something may have woken them within this cycle
            soonest = min(soonest, raw.i64(sm + tl.S_NEXT + 8 * sub))
        if soonest >= tl.FAR:
            raw.put64(sm + tl.S_NOW, now)
            return _STUCK
        now = max(now + 1, soonest)
    raw.put64(sm + tl.S_NOW, now)
    return at.OK


@part
def _open_slots(chip):
    """Deals the first programs out: one to each multiprocessor, then a second one, and so on."""
    for slot in range(raw.i64(raw.i64(raw.i64(chip + tl.C_SMS)) + tl.S_SLOTS)):
        for n in range(raw.i64(chip + tl.C_COUNT)):
            sm = raw.i64(raw.i64(chip + tl.C_SMS) + 8 * n)
            if raw.i64(chip + tl.C_NEXT) < raw.i64(chip + tl.C_END):
                _begin(chip, sm, slot, raw.i64(sm + tl.S_NOW))


@borrowing
def run_timed(chip, quanta):
    """Runs a chip for so many turns of all multiprocessors. FINISHED, QUANTUM, DEADLOCK, FAULT, SYSTEM_CALL."""
    sms, count = raw.i64(chip + tl.C_SMS), raw.i64(chip + tl.C_COUNT)
    if raw.i64(chip + tl.C_LIMIT) == 0:
        _open_slots(chip)
        raw.put64(chip + tl.C_LIMIT, raw.i64(chip + tl.C_QUANTUM))
    for _ in range(quanta):
        limit, living = raw.i64(chip + tl.C_LIMIT), 0
        for n in range(count):
            sm = raw.i64(sms + 8 * n)
            if raw.i64(sm + tl.S_LIVE) == 0 or raw.i64(sm + tl.S_NOW) >= limit:
                living += raw.i64(sm + tl.S_LIVE)
                continue
            why = _advance(chip, sm, limit)
            living += raw.i64(sm + tl.S_LIVE)
            if why:
                raw.put64(chip + tl.C_FAULT_SM, n)
                if why == SYSTEM:
                    return at.SYSTEM_CALL
                return at.DEADLOCK if why == _STUCK else at.FAULT
            room = raw.i64(sm + tl.S_LOG_ROOM)
            if room and raw.i64(sm + tl.S_LOG_COUNT) >= room:
                return at.QUANTUM  # to be emptied; the others of this turn come next time
        if living == 0:
            return at.FINISHED
        raw.put64(chip + tl.C_LIMIT, limit + raw.i64(chip + tl.C_QUANTUM))
    return at.QUANTUM
