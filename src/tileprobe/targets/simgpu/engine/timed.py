"""The engine's loop with time: multiprocessors issue, cycle by cycle, what their warps may, and execute it then.

Multiprocessors have turns of a few cycles. Within a turn none of them depends on another: what they ask of L2 is
answered when all have had it (`timed_shared.py`), and programs are dealt out between. So threads may run several at
once, and the same launch takes the same time on however many. Cycles in which nothing can be issued are skipped.
"""

from __future__ import annotations

from tileprobe.targets.jit import borrowing, part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.bulk import finish
from tileprobe.targets.simgpu.engine.fields import splat
from tileprobe.targets.simgpu.engine.loop import start
from tileprobe.targets.simgpu.engine.numbers import SYSTEM
from tileprobe.targets.simgpu.engine.threads import look, show, take, wait_until, yielding
from tileprobe.targets.simgpu.engine.timed_caches import number
from tileprobe.targets.simgpu.engine.timed_issue import issue, pick
from tileprobe.targets.simgpu.engine.timed_requests import DUE
from tileprobe.targets.simgpu.engine.timed_shared import answer
from tileprobe.targets.simgpu.engine.timed_warps import set_ready, take_answers, wake

_SM = at.W_SPECIAL + at.ROW * at.SPECIAL.index("SR_VIRTID")


@part
def _complete(chip, sm, now):
    """Bulk loads whose time has come. OK or a fault."""
    due, last = tl.FAR, 0
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
            last = raw.i64(entry + at.ASYNC_BY)
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
            wake(chip, sm, cta, now, last)
    raw.put64(sm + tl.S_DUE, due)
    return at.OK


@part
def _begin(chip, sm, slot, now):
    """Puts the chip's next program into a slot, not before those that were dealt out before it."""
    dealt = max(raw.i64(chip + tl.C_DEALT), now * tl.PARTS)
    raw.put64(chip + tl.C_DEALT, dealt + number(chip, tl.M_PROGRAM))
    now = dealt // tl.PARTS
    worker = raw.i64(raw.i64(sm + tl.S_WORKERS) + 8 * slot)
    cluster = raw.i64(worker + at.WORKER_CLUSTER)
    cta = raw.i64(cluster + at.CLUSTER_MEMBERS)
    following, take = raw.i64(chip + tl.C_NEXT), raw.i64(chip + tl.C_TAKE)
    raw.put64(worker + at.WORKER_NEXT, following // take * raw.i64(chip + tl.C_OF) + following % take)
    noted = raw.i64(chip + tl.C_PROGRAMS) + tl.PROGRAM * following
    raw.put64(noted + tl.BEGUN, now)
    raw.put64(noted + tl.WHERE, raw.i64(sm + tl.S_NUMBER) * raw.i64(sm + tl.S_SLOTS) + slot)
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
    """A program has ended. If there are more the multiprocessor stops, to be given one."""
    worker = raw.i64(raw.i64(sm + tl.S_WORKERS) + 8 * slot)
    raw.put64(worker + at.WORKER_BUSY, 0)
    raw.put64(sm + tl.S_LIVE, raw.i64(sm + tl.S_LIVE) - 1)
    raw.put64(sm + tl.S_ENDED, now)
    warp = raw.i64(sm + tl.S_WARPS) + tl.T_BYTES * slot * raw.i64(sm + tl.S_PER_SLOT)
    noted = raw.i64(chip + tl.C_PROGRAMS) + tl.PROGRAM * (raw.i64(warp + tl.T_AGE) // 64)
    raw.put64(noted + tl.ENDED, now)
    main = raw.i64(chip + tl.C_MAIN)
    return tl.STOP_PROGRAM if raw.i64(main + tl.C_NEXT) < raw.i64(main + tl.C_END) else at.OK


@part
def _cycle(chip, sm, now):
    """One cycle of the sub-partitions. Why to stop, or OK; and the first cycle in which something can be issued."""
    soonest, stop = raw.i64(sm + tl.S_DUE), at.OK
    for sub in range(4):
        if raw.i64(sm + tl.S_NEXT + 8 * sub) > now:
            continue
        n, when = pick(chip, sm, sub, now)
        if n < 0:
            raw.put64(sm + tl.S_NEXT + 8 * sub, when)
            continue
        raw.put64(sm + tl.S_LAST + 8 * sub, n)
        raw.put64(sm + tl.S_NEXT + 8 * sub, now + 1)  # `issue` may say later
        why = issue(chip, sm, sub, n, now)
        if why:
            return why, now
        warp = raw.i64(sm + tl.S_WARPS) + tl.T_BYTES * n
        if raw.i64(warp + tl.T_WAITS) == 2 and raw.i64(raw.i64(warp + tl.T_CTA) + at.CTA_LIVE) == 0:
            stop = max(stop, _end(chip, sm, raw.i64(warp + tl.T_SLOT), now))
    for sub in range(4):  # something may have woken them within this cycle
        soonest = min(soonest, raw.i64(sm + tl.S_NEXT + 8 * sub))
    return stop, soonest


@part
def _advance(chip, sm, limit):
    """Runs a multiprocessor up to a cycle. OK, or why it stopped before."""
    now = raw.i64(sm + tl.S_NOW)
    while now < limit and raw.i64(sm + tl.S_LIVE):
        if raw.i64(sm + tl.S_DUE) <= now:
            why = _complete(chip, sm, now)
            if why:
                raw.put64(sm + tl.S_NOW, now)
                return why
        if raw.i64(sm + tl.S_REQUEST_COUNT) >= raw.i64(sm + tl.S_REQUEST_ROOM):
            raw.put64(sm + tl.S_NOW, now)
            return tl.STOP_ROOM
        why, soonest = _cycle(chip, sm, now)
        if why:
            raw.put64(sm + tl.S_NOW, now + 1 if why == tl.STOP_PROGRAM else now)
            return why
        if raw.i64(sm + tl.S_REQUEST_COUNT):
            soonest = min(soonest, limit)  # an answer may come first
        elif soonest >= tl.FAR and raw.i64(sm + tl.S_LIVE):
            raw.put64(sm + tl.S_NOW, now)
            return tl.STOP_STUCK
        now = max(now + 1, soonest)
    raw.put64(sm + tl.S_NOW, now)
    return at.OK


@part
def _turn(chip):
    """Multiprocessors that nobody has taken in this turn, one after another, up to its end."""
    main = raw.i64(chip + tl.C_MAIN)
    count = raw.i64(main + tl.C_COUNT)
    while True:
        n = take(main + tl.C_TAKEN, 1)
        if n >= count:
            return
        sm, limit = raw.i64(raw.i64(main + tl.C_SMS) + 8 * n), raw.i64(main + tl.C_LIMIT)
        if raw.i64(main + tl.C_ANSWERED):
            take_answers(chip, sm)
        if raw.i64(sm + tl.S_LIVE) and raw.i64(sm + tl.S_NOW) < limit:
            raw.put64(sm + tl.S_STOP, _advance(chip, sm, limit))
        take(main + tl.C_DONE, 1)


@part
def _all(chip):
    """A turn of all multiprocessors. Threads that are late for it are not waited for, but what they have taken is."""
    show(chip + tl.C_DONE, 0)
    show(chip + tl.C_TAKEN, 0)
    _turn(chip)
    wait_until(chip + tl.C_DONE, raw.i64(chip + tl.C_COUNT))
    raw.put64(chip + tl.C_ANSWERED, 0)


@part
def _open_slots(chip):
    """Deals the first programs out: one to each multiprocessor, then a second one, and so on."""
    for slot in range(raw.i64(raw.i64(raw.i64(chip + tl.C_SMS)) + tl.S_SLOTS)):
        for n in range(raw.i64(chip + tl.C_COUNT)):
            sm = raw.i64(raw.i64(chip + tl.C_SMS) + 8 * n)
            if raw.i64(chip + tl.C_NEXT) < raw.i64(chip + tl.C_END):
                _begin(chip, sm, slot, raw.i64(sm + tl.S_NOW))


@part
def _refill(chip, sm):
    """Programs for the slots of a multiprocessor in which one has ended."""
    for slot in range(raw.i64(sm + tl.S_SLOTS)):
        worker = raw.i64(raw.i64(sm + tl.S_WORKERS) + 8 * slot)
        if raw.i64(worker + at.WORKER_BUSY) == 0 and raw.i64(chip + tl.C_NEXT) < raw.i64(chip + tl.C_END):
            _begin(chip, sm, slot, raw.i64(sm + tl.S_ENDED))


@part
def _deal(chip):
    """Programs for multiprocessors that stopped for one: who was first has the first."""
    sms, count = raw.i64(chip + tl.C_SMS), raw.i64(chip + tl.C_COUNT)
    while True:
        first = -1
        for n in range(count):
            sm = raw.i64(sms + 8 * n)
            if raw.i64(sm + tl.S_STOP) == tl.STOP_PROGRAM and (
                first < 0 or raw.i64(sm + tl.S_ENDED) < raw.i64(raw.i64(sms + 8 * first) + tl.S_ENDED)
            ):
                first = n
        if first < 0:
            return
        sm = raw.i64(sms + 8 * first)
        raw.put64(sm + tl.S_STOP, at.OK)
        _refill(chip, sm)


@part
def _stopped(chip):
    """Why multiprocessors have stopped: OK if none has; what is wrong with the first; STOP_ROOM, STOP_PROGRAM."""
    reason = at.OK
    for n in range(raw.i64(chip + tl.C_COUNT)):
        sm = raw.i64(raw.i64(chip + tl.C_SMS) + 8 * n)
        why = raw.i64(sm + tl.S_STOP)
        if why == tl.STOP_PROGRAM:
            reason = max(reason, why)
            continue
        raw.put64(sm + tl.S_STOP, at.OK)
        if why == tl.STOP_ROOM:
            reason = why
        elif why:
            raw.put64(chip + tl.C_FAULT_SM, n)
            return why
    return reason


@part
def _to_limit(chip):
    """All multiprocessors up to the end of a turn. OK, or what is wrong with one: then it may be called again, and says
    what is wrong with the next before anything runs."""
    begun, had = raw.i64(chip + tl.C_LIMIT) - raw.i64(chip + tl.C_QUANTUM), False
    while True:
        why = _stopped(chip)
        if why != at.OK and why != tl.STOP_PROGRAM and why != tl.STOP_ROOM:
            return why
        if why == tl.STOP_ROOM or (had and why == at.OK):
            answer(chip, begun)
            raw.put64(chip + tl.C_ANSWERED, 1)
        if had and why == at.OK:
            return at.OK
        _deal(chip)
        _all(chip)
        had = True


@part
def _between(chip):
    """Programs that live, and whether what was noted has to be taken away."""
    living, full = 0, False
    for n in range(raw.i64(chip + tl.C_COUNT)):
        sm = raw.i64(raw.i64(chip + tl.C_SMS) + 8 * n)
        living += raw.i64(sm + tl.S_LIVE)
        room = raw.i64(sm + tl.S_LOG_ROOM)
        full = full or (room > 0 and raw.i64(sm + tl.S_LOG_COUNT) >= room)
        room = raw.i64(sm + tl.S_BUSY_ROOM)
        full = full or (room > 0 and raw.i64(sm + tl.S_BUSY_COUNT) >= room)
    room = raw.i64(chip + tl.C_BUSY_ROOM)
    return living, full or (room > 0 and raw.i64(chip + tl.C_BUSY_COUNT) >= room)


@part
def _lead(chip, quanta):
    for _ in range(quanta):
        why = _to_limit(chip)
        if why == SYSTEM:
            return at.SYSTEM_CALL
        if why:
            return at.DEADLOCK if why == tl.STOP_STUCK else at.FAULT
        living, full = _between(chip)
        if living == 0:
            return at.FINISHED
        raw.put64(chip + tl.C_LIMIT, raw.i64(chip + tl.C_LIMIT) + raw.i64(chip + tl.C_QUANTUM))
        if full:
            return at.QUANTUM
    return at.QUANTUM


@borrowing
def run_timed(chip, quanta):
    """Runs a chip for so many turns of all multiprocessors. FINISHED, QUANTUM, DEADLOCK, FAULT, SYSTEM_CALL."""
    if raw.i64(chip + tl.C_LIMIT) == 0:
        _open_slots(chip)
        raw.put64(chip + tl.C_LIMIT, raw.i64(chip + tl.C_QUANTUM))
    how = _lead(chip, quanta)
    show(chip + tl.C_OVER, 1)
    return how


@borrowing
def help_timed(chip):
    """Takes part in the turns of a chip until there are no more. `chip`: a copy with statistics of its own."""
    main, idle = raw.i64(chip + tl.C_MAIN), 0
    while look(main + tl.C_OVER) == 0:
        if look(main + tl.C_TAKEN) < raw.i64(main + tl.C_COUNT):
            _turn(chip)
            idle = 0
        else:
            idle = yielding(idle)
    return 0
