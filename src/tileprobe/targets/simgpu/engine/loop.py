"""The engine's loop: warps of a program take turns until all have exited, one of them fails, or none can go on.

`run` is resumable: all state lies in the program's block, so it may be left and entered again. Time is off: a warp runs
until it has to wait. An instruction executes when it is issued, so a scheduler that says when can stand where `_turn`
stands; `W_CYCLE` and `CTA_CYCLE` count issued instructions until there is one.
"""

from __future__ import annotations

from tileprobe.targets.jit import borrowing, part
from tileprobe.targets.simgpu.engine import clocks, raw
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.barriers import leave, one_less
from tileprobe.targets.simgpu.engine.bulk import complete_all
from tileprobe.targets.simgpu.engine.calls import call, execute
from tileprobe.targets.simgpu.engine.clusters import cluster_opened, open_cluster
from tileprobe.targets.simgpu.engine.control import rotate
from tileprobe.targets.simgpu.engine.copies import arrive_all
from tileprobe.targets.simgpu.engine.fields import ALL, decoded, splat
from tileprobe.targets.simgpu.engine.mbarriers import passed
from tileprobe.targets.simgpu.engine.numbers import FIRST, LEAVE, STAY, SYSTEM

_PC, _ACTIVE, _STATUS, _TABLE = at.W_PC, at.W_ACTIVE, at.W_STATUS, at.CTA_TABLE
_RUNNING, _GONE, _UOP = at.RUNNING, at.EXITED, at.UOP
_RANK = at.W_SPECIAL + at.ROW * at.SPECIAL.index("SR_CgaCtaId")
_CTAID = at.W_SPECIAL + at.ROW * at.SPECIAL.index("SR_CTAID.X")
TURN = 4096  # instructions that a warp may issue before others have their turn


@part
def guard_of(uop, warp, active):
    """The lanes that execute a micro-op, by its guard; of the uniform datapath all lanes or none."""
    code = raw.i32(uop + 4)
    mask = active & decoded(warp, code & 63)
    if code & 64 and mask:
        return ALL
    return mask


@part
def _turn(cta, warp, constants, budget):
    """Issues instructions of one warp until it waits, fails, exits, or goes back after its budget is used. Why.

    It ends at a jump backward alone (every loop has one): lanes that parted share uniform registers, which ptxas fills
    right before their use, so that other lanes of the warp must not come in between.
    """
    uops, table, scratch = raw.i64(cta + at.CTA_UOPS), raw.i64(cta + _TABLE), raw.i64(cta + at.CTA_SCRATCH)
    count = raw.i64(cta + at.CTA_UOP_COUNT)
    pc, active = raw.i32(warp + _PC), raw.u32(warp + _ACTIVE)
    issued, why, begun = 0, at.OK, raw.i64(warp + at.W_CYCLE)
    while True:
        if pc < 0 or pc >= count:
            why = at.BAD_PC
            break
        uop = uops + pc * _UOP
        op = raw.i32(uop)
        mask = guard_of(uop, warp, active)
        issued += 1
        if op < FIRST:
            if mask:
                execute(table + 8 * op, uop, warp, constants, mask, scratch)
            pc += 1
            continue
        raw.put32(warp + _PC, pc)
        raw.put64(warp + at.W_CYCLE, begun + issued)
        why = call(table + 8 * op, op, uop, warp, cta, constants, mask, pc)
        if why == at.OK:
            pc += 1
            continue
        before, pc, active = pc, raw.i32(warp + _PC), raw.u32(warp + _ACTIVE)
        if why != LEAVE:
            break
        why = at.OK
        if issued >= budget and pc <= before:
            break
    raw.put32(warp + _PC, pc)
    raw.put64(warp + at.W_STEPS, raw.i64(warp + at.W_STEPS) + issued)
    raw.put64(warp + at.W_CYCLE, begun + issued)
    raw.put64(cta + at.CTA_STEPS, raw.i64(cta + at.CTA_STEPS) + issued)
    raw.put64(cta + at.CTA_PROGRESS, raw.i64(cta + at.CTA_PROGRESS) + issued)
    return why


@part
def _wakes(cta, warp):
    """Whether a warp may issue: it runs, or what it waits for has come."""
    status = raw.i32(warp + _STATUS)
    if status == at.AT_MBARRIER:
        if not passed(cta, raw.i32(warp + at.W_WAIT_AT), raw.i32(warp + at.W_WAIT_VALUE)):
            return False
    elif status == at.AT_CLUSTER:
        if not cluster_opened(cta, warp):
            return False
    else:
        return status == _RUNNING
    raw.put32(warp + _STATUS, _RUNNING)
    return True


@part
def _round(cta):
    """Gives each warp of a program a turn. FINISHED if nothing is wrong, FAULT, SYSTEM_CALL."""
    constants = raw.i64(cta + at.CTA_CONSTANTS)
    warps, size = raw.i64(cta + at.CTA_WARPS), raw.i64(cta + at.CTA_WARP_BYTES)
    for n in range(raw.i64(cta + at.CTA_WARP_COUNT)):
        warp = warps + n * size
        if not _wakes(cta, warp):
            continue
        why = _turn(cta, warp, constants, TURN)
        if raw.i32(warp + _STATUS) == _GONE:
            one_less(cta)
            leave(cta, warp)
            open_cluster(cta)
        elif why == at.OK:
            rotate(warp)
        elif why != STAY:
            raw.put64(cta + at.CTA_ERROR, why)
            raw.put64(cta + at.CTA_ERROR_WARP, n)
            raw.put64(cta + at.CTA_ERROR_PC, raw.i32(warp + _PC))
            return at.SYSTEM_CALL if why == SYSTEM else at.FAULT
    why = at.OK
    if raw.i64(cta + at.CTA_ASYNC_COUNT):
        why = complete_all(cta)
    if why == at.OK and raw.i64(cta + at.CTA_ARRIVALS):
        why = arrive_all(cta)
    if why:
        raw.put64(cta + at.CTA_ERROR, why)
        raw.put64(cta + at.CTA_ERROR_WARP, -1)
        return at.FAULT
    return at.FINISHED


@part
def _run(worker, cluster, budget):
    """Runs the programs of a cluster for so many instructions. How it ended: FINISHED, QUANTUM, DEADLOCK, FAULT,
    SYSTEM_CALL."""
    count, used = raw.i64(cluster + at.CLUSTER_SIZE), 0
    while True:
        living = moved = 0
        for n in range(count):
            cta = raw.i64(cluster + at.CLUSTER_MEMBERS + 8 * n)
            if raw.i64(cta + at.CTA_LIVE) == 0:
                continue
            steps, progress = raw.i64(cta + at.CTA_STEPS), raw.i64(cta + at.CTA_PROGRESS)
            raw.put64(worker + at.WORKER_CURRENT, n)
            how = _round(cta)
            used += raw.i64(cta + at.CTA_STEPS) - steps
            if how != at.FINISHED:
                return how
            moved += raw.i64(cta + at.CTA_PROGRESS) - progress
            living += raw.i64(cta + at.CTA_LIVE)
        if living == 0:
            return at.FINISHED
        if moved == 0:
            return at.DEADLOCK
        if used >= budget:
            return at.QUANTUM


@part
def start(worker, cluster, cta, rank):
    """Puts the next program into its block: warps as the template has them, their place in the grid, clean memory.
    Programs of a cluster stand side by side in the grid's first dimension."""
    number, size = raw.i64(worker + at.WORKER_NEXT), raw.i64(cluster + at.CLUSTER_SIZE)
    wide, high = raw.i64(worker + at.WORKER_X), raw.i64(worker + at.WORKER_Y)
    x, y, z = (number % wide) * size + rank, (number // wide) % high, number // (wide * high)
    raw.put64(cta + at.CTA_X, x)
    raw.put64(cta + at.CTA_Y, y)
    raw.put64(cta + at.CTA_Z, z)
    warps, each = raw.i64(cta + at.CTA_WARPS), raw.i64(cta + at.CTA_WARP_BYTES)
    count = raw.i64(cta + at.CTA_WARP_COUNT)
    template, uniform = raw.i64(cta + at.CTA_TEMPLATE), raw.i64(worker + at.WORKER_UNIFORM_BYTES)
    for n in range(count):
        warp, clean = warps + n * each, template + n * each
        raw.copy(warp, clean, at.W_SPECIAL)  # what a kernel writes, and no more: special registers stay
        raw.copy(warp + at.W_UNIFORM, clean + at.W_UNIFORM, uniform)
        raw.copy(warp + at.W_REGISTERS, clean + at.W_REGISTERS, each - at.W_REGISTERS)
        splat(warp + _CTAID, x)
        splat(warp + _CTAID + at.ROW, y)
        splat(warp + _CTAID + 2 * at.ROW, z)
        splat(warp + _RANK, rank)
    for place in (
        at.CTA_ERROR,
        at.CTA_STEPS,
        at.CTA_CYCLE,
        at.CTA_PROGRESS,
        at.CTA_EPOCH,
        at.CTA_ASYNC_COUNT,
        at.CTA_ARRIVALS,
    ):
        raw.put64(cta + place, 0)
    raw.put64(cta + at.CTA_LIVE, count)
    for n in range(16 * at.BARRIER // 8):
        raw.put64(cta + at.CTA_BARRIERS + 8 * n, 0)
    raw.fill(raw.i64(cta + at.CTA_SHARED), at.POISON, raw.i64(cta + at.CTA_SHARED_BYTES))
    if raw.i64(cta + at.CTA_CHECKS):
        raw.fill(raw.i64(cta + at.CTA_SHADOW), at.UNWRITTEN, raw.i64(cta + at.CTA_SHARED_BYTES))
    block = clocks.block_of(cta)
    if block:
        raw.put64(block + clocks.PROGRAM, number)
        clocks.begin(cta)


@part
def _steps(cluster):
    """Instructions that the programs of a cluster have issued."""
    steps = 0
    for n in range(raw.i64(cluster + at.CLUSTER_SIZE)):
        steps += raw.i64(raw.i64(cluster + at.CLUSTER_MEMBERS + 8 * n) + at.CTA_STEPS)
    return steps


@borrowing
def run(worker, budget):
    """Runs a worker's programs until all have finished, so many instructions are used up, or something is wrong."""
    cluster = raw.i64(worker + at.WORKER_CLUSTER)
    left = budget
    while left > 0:
        if raw.i64(worker + at.WORKER_BUSY) == 0:
            if raw.i64(worker + at.WORKER_NEXT) >= raw.i64(worker + at.WORKER_END):
                return at.FINISHED
            raw.put64(cluster + at.CLUSTER_ARRIVED, 0)
            for rank in range(raw.i64(cluster + at.CLUSTER_SIZE)):
                start(worker, cluster, raw.i64(cluster + at.CLUSTER_MEMBERS + 8 * rank), rank)
            raw.put64(worker + at.WORKER_BUSY, 1)
        before = _steps(cluster)
        how = _run(worker, cluster, left)
        used = _steps(cluster) - before
        left -= used
        raw.put64(worker + at.WORKER_STEPS, raw.i64(worker + at.WORKER_STEPS) + used)
        if how != at.FINISHED:
            return how
        raw.put64(worker + at.WORKER_BUSY, 0)
        raw.put64(
            worker + at.WORKER_NEXT, raw.i64(worker + at.WORKER_NEXT) + raw.i64(worker + at.WORKER_STRIDE)
        )
    return at.QUANTUM
