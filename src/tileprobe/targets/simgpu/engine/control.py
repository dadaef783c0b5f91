"""Lanes that part and meet again: branches, convergence barriers, calls, exits.

Each lane has a place in the code. Those of the active mask are at the warp's own; the others have theirs in
`W_LANE_PC`, with what they wait for. When the active ones cannot go on, the group furthest back is taken up.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine.barriers import arrive
from tileprobe.targets.simgpu.engine.fields import ALL, field, predicate, row, splat_where
from tileprobe.targets.simgpu.engine.fields import first as lowest_lane
from tileprobe.targets.simgpu.engine.numbers import LEAVE, NUMBERS, STAY, SYSTEM, family

_PC, _ACTIVE, _EXITED, _STATUS = at.W_PC, at.W_ACTIVE, at.W_EXITED, at.W_STATUS
_LANE_PC, _LANE_WAIT, _CONVERGE = at.W_LANE_PC, at.W_LANE_WAIT, at.W_CONVERGE
_WARPSYNC_WAIT = at.WAIT_WARPSYNC
_GONE, _I0 = at.EXITED, at.I0
_BMOV_READ, _BMOV_WRITE, _NANOSLEEP = (NUMBERS[name] for name in ("BMOV_READ", "BMOV_WRITE", "NANOSLEEP"))
_BRA, _EXIT, _BSSY, _BSYNC, _BREAK, _WARPSYNC, _BAR, _NOP, _RET, _CALL_REGISTER, _LEPC = (
    NUMBERS[name]
    for name in (
        "BRA", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "BAR", "NOP", "RET", "CALL_REGISTER", "LEPC",
    )
)  # fmt: skip


@part
def park(warp, lanes, pc, wait):
    """Lanes stop here: they go on at `pc` once they need not wait."""
    for lane in range(32):
        if (lanes >> lane) & 1:
            raw.put32(warp + _LANE_PC + 4 * lane, pc)
            raw.put32(warp + _LANE_WAIT + 4 * lane, wait)


@part
def waiting(warp, wait):
    """The parked lanes that wait for one thing; 0 are those that wait for nothing."""
    away = ALL & ~(raw.u32(warp + _ACTIVE) | raw.u32(warp + _EXITED))
    found = 0
    for lane in range(32):
        if (away >> lane) & 1 and raw.i32(warp + _LANE_WAIT + 4 * lane) == wait:
            found |= 1 << lane
    return found


@part
def pick(warp):
    """Takes up the parked lanes that are furthest back; whether there were any."""
    ready = waiting(warp, 0)
    if ready == 0:
        raw.put32(warp + _ACTIVE, 0)
        return False
    lowest = 1 << 30
    for lane in range(32):
        if (ready >> lane) & 1:
            lowest = min(lowest, raw.i32(warp + _LANE_PC + 4 * lane))
    group = 0
    for lane in range(32):
        if (ready >> lane) & 1 and raw.i32(warp + _LANE_PC + 4 * lane) == lowest:
            group |= 1 << lane
    raw.put32(warp + _ACTIVE, group)
    raw.put32(warp + _PC, lowest)
    return True


@part
def rotate(warp):
    """Gives other lanes a turn, so that lanes which spin do not keep those from running that they wait for."""
    ready = waiting(warp, 0)
    if ready == 0:
        return
    active, pc = raw.u32(warp + _ACTIVE), raw.i32(warp + _PC)
    lane = 0
    while not (ready >> lane) & 1:
        lane += 1
    other = raw.i32(warp + _LANE_PC + 4 * lane)
    group = 0
    for n in range(32):
        if (ready >> n) & 1 and raw.i32(warp + _LANE_PC + 4 * n) == other:
            group |= 1 << n
    raw.put32(warp + _ACTIVE, group)
    raw.put32(warp + _PC, other)
    park(warp, active, pc, 0)


@part
def release(warp):
    """Lets lanes go on for whom the last one they waited for has come or has exited."""
    gone = raw.u32(warp + _EXITED)
    for number in range(16):
        there = waiting(warp, 1 + number)
        if there and (raw.u32(warp + _CONVERGE + 4 * number) & ~gone & ~there) == 0:
            _free(warp, there)
            raw.put32(warp + _CONVERGE + 4 * number, 0)
    there = waiting(warp, _WARPSYNC_WAIT)
    left = there
    while left:
        wanted = raw.u32(warp + at.W_LANE_MASK + 4 * lowest_lane(left)) & ~gone
        if (wanted & ~there) == 0:
            _free(warp, wanted)
        left &= ~(wanted | (left & -left))


@part
def _free(warp, lanes):
    for lane in range(32):
        if (lanes >> lane) & 1:
            raw.put32(warp + _LANE_WAIT + 4 * lane, 0)


@part
def branch(warp, mask, target, pc):
    """The lanes of `mask` go to `target`, the others to the next instruction."""
    active = raw.u32(warp + _ACTIVE)
    rest = active & ~mask
    if rest == 0:
        raw.put32(warp + _PC, target)
    elif mask == 0:
        raw.put32(warp + _PC, pc + 1)
    elif target <= pc:
        park(warp, rest, pc + 1, 0)
        raw.put32(warp + _ACTIVE, mask)
        raw.put32(warp + _PC, target)
    else:
        park(warp, mask, target, 0)
        raw.put32(warp + _ACTIVE, rest)
        raw.put32(warp + _PC, pc + 1)


@part
def branch_each(warp, mask, targets, pc):
    """Each lane goes to a place of its own: 32-bit numbers of instructions."""
    active = raw.u32(warp + _ACTIVE)
    park(warp, active & ~mask, pc + 1, 0)
    for lane in range(32):
        if (mask >> lane) & 1:
            raw.put32(warp + _LANE_PC + 4 * lane, raw.i32(targets + 4 * lane))
            raw.put32(warp + _LANE_WAIT + 4 * lane, 0)
    raw.put32(warp + _ACTIVE, 0)
    pick(warp)


@part
def _others(warp, rest, pc):
    """After lanes have left: those that waited for them may go on. Whether some lane can."""
    release(warp)
    if rest:
        raw.put32(warp + _PC, pc + 1)
        return True
    return pick(warp)


@part
def wait_for(warp, mask, pc, wait):
    """The lanes of `mask` wait; behind it they go on at the next instruction. Whether some lane can go on."""
    active = raw.u32(warp + _ACTIVE)
    rest = active & ~mask
    park(warp, mask, pc + 1, wait)
    raw.put32(warp + _ACTIVE, rest)
    return _others(warp, rest, pc)


@part
def leave(warp, mask, pc):
    """Lanes exit. Whether some lane can go on; if none is left, the warp has exited."""
    active = raw.u32(warp + _ACTIVE)
    gone = raw.u32(warp + _EXITED) | mask
    raw.put32(warp + _EXITED, gone)
    rest = active & ~mask
    raw.put32(warp + _ACTIVE, rest)
    if gone == ALL:
        raw.put32(warp + _STATUS, _GONE)
        return False
    return _others(warp, rest, pc)


@part
def leave_convergence(warp, mask, number):
    """BREAK: lanes are no longer waited for at a convergence barrier."""
    place = warp + _CONVERGE + 4 * number
    raw.put32(place, raw.u32(place) & ~mask)
    release(warp)


@part
def _moved(warp, can):
    """After lanes were parked: go on with others, or report that none is left that could."""
    if can:
        return LEAVE
    if raw.i32(warp + _STATUS) == _GONE:
        return STAY
    return at.NOT_CONVERGED


@part
def _bar(uop, warp, cta, constants, mask, pc):
    """I0: 0 sync, 1 arrive. A the number, B how many threads (0: all)."""
    number = raw.i32(row(uop, at.A, warp, constants))
    threads = raw.i32(row(uop, at.B, warp, constants))
    if number < 0 or number > 15 or threads < 0:
        return at.BAD_BARRIER
    if arrive(cta, warp, number, threads, field(uop, _I0) == 0):
        return at.OK
    raw.put32(warp + _PC, pc + 1)
    return STAY


@part
def _return(uop, warp, cta, constants, mask, pc):
    """Each lane to the instruction whose place, in bytes, its register holds."""
    places, out = row(uop, at.A, warp, constants), raw.i64(cta + at.CTA_SCRATCH)
    target = raw.u32(places + 4 * lowest_lane(mask)) >> 4
    same = True
    for lane in range(32):
        here = raw.u32(places + 4 * lane) >> 4
        raw.put32(out + 4 * lane, here)
        if (mask >> lane) & 1 and here != target:
            same = False
    if same:
        branch(warp, mask, target, pc)
    else:
        branch_each(warp, mask, out, pc)
    return LEAVE


@part
def _call_register(uop, warp, cta, constants, mask, pc):
    """A function that the driver would bring: the caller of the engine does what it does, for all lanes."""
    place = row(uop, at.A, warp, constants) + 4 * lowest_lane(mask)
    raw.put64(cta + at.CTA_ERROR_ADDRESS, raw.u32(place) | (raw.u32(place + at.ROW) << 32))
    raw.put64(cta + at.CTA_ERROR_MORE, mask)
    raw.put32(warp + _PC, pc + 1)
    return SYSTEM


@part
def _branch(uop, warp, constants, mask, pc):
    """I1: 0 each lane for itself, 1 all that are here if one goes, 2 only if lanes of A that live are elsewhere, 3 only
    if none is."""
    how, active = field(uop, at.I1), raw.u32(warp + _ACTIVE)
    if how == 1 and mask:
        mask = active
    elif how >= 2 and mask:
        wanted = raw.u32(row(uop, at.A, warp, constants) + 4 * lowest_lane(mask))
        together = (wanted & ~(active | raw.u32(warp + _EXITED))) == 0
        if together == (how == 2):
            mask = 0
    branch(warp, mask, field(uop, _I0), pc)
    return LEAVE


@part
def _warpsync(uop, warp, constants, mask, pc):
    """Lanes wait until all that they name are at such a place."""
    wanted = row(uop, at.A, warp, constants)
    for lane in range(32):
        if (mask >> lane) & 1:
            raw.put32(warp + at.W_LANE_MASK + 4 * lane, raw.u32(wanted + 4 * lane))
    return _moved(warp, wait_for(warp, mask, pc, _WARPSYNC_WAIT))


@part
def _barrier_move(op, uop, warp, constants, mask):
    """The mask of a convergence barrier, out of it (I1: and it is cleared) or into it."""
    place = warp + _CONVERGE + 4 * field(uop, _I0)
    if op == _BMOV_WRITE:
        raw.put32(place, raw.u32(row(uop, at.A, warp, constants) + 4 * lowest_lane(mask)))
        return at.OK
    splat_where(row(uop, at.D, warp, constants), raw.u32(place), mask)
    if field(uop, at.I1):
        raw.put32(place, 0)
    return at.OK


@family(
    "BMOV_READ", "BMOV_WRITE", "NANOSLEEP",
    "BRA", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "BAR", "NOP", "TRAP", "CALL_REGISTER", "RET", "LEPC",
)  # fmt: skip
def control(op, uop, warp, cta, constants, mask, pc):
    if op == _BRA:
        return _branch(uop, warp, constants, mask & predicate(uop, 0, warp), pc)
    if mask == 0 or op == _NOP:
        return at.OK
    if op == _EXIT:
        return _moved(warp, leave(warp, mask, pc))
    if op == _BSSY:
        # Lanes that came here before, and parted since, are still on their way to the barrier: all are waited for.
        place = warp + _CONVERGE + 4 * field(uop, _I0)
        raw.put32(place, raw.u32(place) | raw.u32(warp + _ACTIVE))
        return at.OK
    if op == _BSYNC:
        return _moved(warp, wait_for(warp, mask, pc, 1 + field(uop, _I0)))
    if op == _BREAK:
        leave_convergence(warp, mask & predicate(uop, 0, warp), field(uop, _I0))
        return at.OK
    if op == _WARPSYNC:
        return _warpsync(uop, warp, constants, mask, pc)
    if op in (_BMOV_READ, _BMOV_WRITE):
        return _barrier_move(op, uop, warp, constants, mask)
    if op == _NANOSLEEP:  # others have their turn
        raw.put32(warp + _PC, pc + 1)
        return STAY
    if op == _BAR:
        return _bar(uop, warp, cta, constants, mask, pc)
    if op == _RET:
        return _return(uop, warp, cta, constants, mask, pc)
    if op == _CALL_REGISTER:
        return _call_register(uop, warp, cta, constants, mask, pc)
    if op == _LEPC:
        target = row(uop, at.D, warp, constants)
        place = field(uop, _I0)
        splat_where(target, 16 * (pc if place < 0 else place), mask)
        splat_where(target + at.ROW, at.CODE_WINDOW >> 32, mask)
        return at.OK
    return at.TRAP
