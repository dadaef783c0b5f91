"""When an instruction that was just issued is over: units, the way into memory, shared memory, tensor cores, engines.

`cost` comes in behind the instruction's handler, with the cycle of its issue, and says when its results are there. It
leaves behind when units and ways are free again, and when the operands of an access to memory may be overwritten. Where
L2 has to answer first (`S_OPEN`), it says the earliest, and what comes on top of the answer (`S_EXTRA`).
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.bulk import stride, tile_bytes
from tileprobe.targets.simgpu.engine.copies import loaded_last
from tileprobe.targets.simgpu.engine.timed_caches import busy_unit, number
from tileprobe.targets.simgpu.engine.timed_memory import (
    add_bytes,
    bank_passes,
    lines_of,
    own_address,
    read_lines,
    write_lines,
)
from tileprobe.targets.simgpu.engine.timed_requests import DUE, end_access, part_of, sooner
from tileprobe.targets.simgpu.engine.timed_touched import touched_global, touched_shared, touched_tile

_PARTS = tl.PARTS
_SECOND = 512  # where the second addresses of a copy stand, behind the first


@part
def how(row, field):
    return raw.i32(row + 4 * field)


@part
def enter_queue(chip, sm, sub, now):
    """An access comes to the address unit of its sub-partition; when it leaves it."""
    free = sm + tl.S_UNITS + 8 * (tl.UNITS * sub + tl.MEMORY)
    begin = max(raw.i64(free), now * _PARTS)
    leaves = begin + part_of(sm, number(chip, tl.M_ADDRESS))
    leaves = max(leaves, raw.i64(sm + tl.S_SHARED_FREE))  # it waits there for those before it
    raw.put64(free, leaves)
    busy_unit(sm, tl.UNITS * sub + tl.MEMORY, begin, leaves)
    count = raw.i64(sm + tl.S_QUEUE_COUNT + 8 * sub)
    raw.put64(sm + tl.S_QUEUE + 64 * sub + 8 * (count & 7), leaves // _PARTS)
    raw.put64(sm + tl.S_QUEUE_COUNT + 8 * sub, count + 1)
    return leaves // _PARTS


@part
def queue_open(chip, sm, sub):
    """The cycle from which the queue before the address unit takes one more."""
    count, room = raw.i64(sm + tl.S_QUEUE_COUNT + 8 * sub), number(chip, tl.M_QUEUE)
    if count < room:
        return 0
    return raw.i64(sm + tl.S_QUEUE + 64 * sub + 8 * ((count - room) & 7))


@part
def _shared_passes(chip, sm, when, passes):
    """So many passes through the data of shared memory and L1; when the first of them begins."""
    begin = max(raw.i64(sm + tl.S_SHARED_FREE), when * _PARTS)
    end = begin + part_of(sm, max(passes * _PARTS, number(chip, tl.M_SHARED)))
    raw.put64(sm + tl.S_SHARED_FREE, end)
    busy_unit(sm, tl.SHARED_DATA, begin, end)
    return begin // _PARTS


@part
def _wide(size):
    """Cycles more that an access of 8 or 16 bytes a lane takes."""
    if size == 16:
        return 6
    return 2 if size == 8 else 0


@part
def _global(chip, sm, warp, cta, row, mask, left, kind):
    """A load, store, or atomic operation on global memory that leaves the address unit in this cycle."""
    size = how(row, tl.BYTES)
    out = raw.i64(cta + at.CTA_SCRATCH)
    count = lines_of(chip, sm, cta, out, mask, size) if mask else 0
    touched_global(chip, sm, warp, row, out, mask, size, count)
    begin = _shared_passes(chip, sm, left, max(count, 1))
    hit = begin + number(chip, tl.M_LAT_L1) - 4 + _wide(size) + max(count - 1, 0)
    if count == 0:
        return hit
    if kind == tl.STORE_GLOBAL:
        return write_lines(chip, sm, count, begin, how(row, tl.HINT))
    if kind == tl.ATOMIC_GLOBAL:
        raw.put64(sm + tl.S_EXTRA, number(chip, tl.M_LAT_ATOMIC))
        return read_lines(chip, sm, count, begin, False, how(row, tl.HINT))
    hint = how(row, tl.HINT)
    return max(hit, read_lines(chip, sm, count, begin, hint != tl.PAST_L1, hint))


@part
def _copy(chip, sm, warp, cta, row, program, mask, left):
    """LDGSTS: through L2, or L1 as well, into shared memory."""
    size = how(row, tl.BYTES)
    out = raw.i64(cta + at.CTA_SCRATCH)
    loaded = loaded_last(program) if mask else 0
    count = lines_of(chip, sm, cta, out + _SECOND, loaded, size) if mask else 0
    touched_global(chip, sm, warp, row, out + _SECOND, loaded, size, count)
    passes = bank_passes(out, mask, size)
    touched_shared(chip, row, out, mask, 32, size, passes)
    begin = _shared_passes(chip, sm, left, passes)
    if count == 0:
        return begin + number(chip, tl.M_LAT_COPY)
    raw.put64(sm + tl.S_EXTRA, number(chip, tl.M_LAT_COPY) - number(chip, tl.M_LAT_L1))
    return read_lines(chip, sm, count, begin, how(row, tl.SLOW) != 0, how(row, tl.HINT))


@part
def _shared(chip, sm, warp, cta, row, mask, left, kind):
    size = 16 if kind == tl.MATRIX_SHARED else how(row, tl.BYTES)
    count = 8 * how(row, tl.COUNT) if kind == tl.MATRIX_SHARED else 32  # lanes that give an address
    lanes = mask & ((1 << count) - 1)
    passes = bank_passes(raw.i64(cta + at.CTA_SCRATCH), lanes, size) if lanes else 1
    touched_shared(chip, row, raw.i64(cta + at.CTA_SCRATCH), lanes, count, size, passes)
    if lanes == 0xFFFFFFFF:
        raw.put64(sm + tl.S_CONFLICTS, raw.i64(sm + tl.S_CONFLICTS) + passes - max(size // 4, 1))
    if kind == tl.ATOMIC_SHARED:
        passes *= 2
    begin = _shared_passes(chip, sm, left, passes)
    return begin + number(chip, tl.M_LAT_SHARED) - 4 + passes - 1


@part
def _tile_lines(chip, sm, cta, entry):
    """The lines of global memory that the tile of a bulk copy covers, put into the list; how many."""
    place, rank = raw.i64(entry + at.ASYNC_DESCRIPTOR), raw.i32(entry + at.ASYNC_RANK)
    wide, lines = raw.u8(place + 55) + 1, 1
    element = tile_bytes(place) // wide
    for n in range(1, rank):
        lines *= raw.u8(place + 55 + n) + 1
    element //= lines
    count, origin = 0, own_address(chip, cta, raw.i64(place))
    first = max(raw.i32(entry + at.ASYNC_AT), 0)
    last = min(raw.i32(entry + at.ASYNC_AT) + wide, raw.u32(place + 32) + 1)
    for line in range(lines):
        rest, base = line, origin
        for n in range(1, rank):
            width = raw.u8(place + 55 + n) + 1
            where = raw.i32(entry + at.ASYNC_AT + 4 * n) + rest % width
            rest //= width
            if where < 0 or where > raw.u32(place + 32 + 4 * n):
                base = -1
                break
            base += where * stride(place, n - 1)
        if base >= 0 and last > first and count < tl.LINES_ROOM - 8:
            count = add_bytes(sm, count, base + first * element, (last - first) * element)
    return count


@part
def _bulk(chip, sm, warp, cta, row, now, load):
    """A tile between global and shared memory by the engine for them. A load's time is kept in its entry."""
    number_of = raw.i64(cta + at.CTA_ASYNC_COUNT) - 1 if load else at.ASYNC_ROOM
    if number_of < 0:
        return now
    entry = raw.i64(cta + at.CTA_ASYNC) + at.ASYNC * number_of
    begin = max(raw.i64(sm + tl.S_TMA_FREE), now)
    gap = part_of(sm, number(chip, tl.M_TMA_GAP))
    raw.put64(sm + tl.S_TMA_FREE, begin + gap)
    busy_unit(sm, tl.BULK, begin * _PARTS, (begin + gap) * _PARTS)
    count = _tile_lines(chip, sm, cta, entry)
    touched_tile(chip, sm, warp, row, tile_bytes(raw.i64(entry + at.ASYNC_DESCRIPTOR)), count)
    begin += number(chip, tl.M_LAT_TMA)
    done = read_lines(chip, sm, count, begin, False, 0) if load else write_lines(chip, sm, count, begin, 0)
    if raw.i64(sm + tl.S_OPEN) == 0:
        done = sooner(raw.i64(sm + tl.S_SOONER), done)
    if load and raw.i64(sm + tl.S_OPEN):
        raw.put64(entry + DUE, tl.FAR + raw.i64(sm + tl.S_REQUEST_COUNT))
        end_access(sm, warp, done, tl.FOR_BULK, cta)
    elif load:
        raw.put64(entry + DUE, done)
        raw.put64(sm + tl.S_DUE, min(raw.i64(sm + tl.S_DUE), done))
    return done


@part
def cost(chip, sm, sub, row, warp, cta, mask, now):
    """When what was issued in this cycle is over. `warp`: the warp's times."""
    kind = how(row, tl.KIND)
    unit = sm + tl.S_UNITS + 8 * (tl.UNITS * sub + how(row, tl.UNIT))
    raw.put64(sm + tl.S_OPEN, 0)
    raw.put64(sm + tl.S_EXTRA, 0)
    kept = how(row, tl.KEPT)
    left_over = tl.MOST_KEPT * now + kept if kept else 0
    raw.put64(sm + tl.S_SOONER, left_over)
    if how(row, tl.UNIT) != tl.MEMORY:
        begin = max(raw.i64(unit), now * _PARTS)
        raw.put64(unit, begin + how(row, tl.INTERVAL))
        if how(row, tl.UNIT) != tl.CONTROL:
            busy_unit(sm, tl.UNITS * sub + how(row, tl.UNIT), begin, begin + how(row, tl.INTERVAL))
        if kind == tl.PRODUCT:
            return sooner(left_over, max(raw.i64(unit) // _PARTS, now) + number(chip, tl.M_LAT_PRODUCT))
        return now + how(row, tl.LATENCY)
    if kind == tl.BULK_LOAD or kind == tl.BULK_STORE:
        return _bulk(chip, sm, warp, cta, row, now, kind == tl.BULK_LOAD) if mask else now
    left = enter_queue(chip, sm, sub, now)
    bar = how(row, tl.READ_BAR)
    if bar < tl.NO_BAR:
        place = warp + tl.T_BARS + 8 * bar
        held = sooner(left_over, left + number(chip, tl.M_HOLD))
        raw.put64(place, max(raw.i64(place), held))
        raw.put64(warp + tl.T_BAR_WHY + 8 * bar, tl.SHORT)
    if kind == tl.COPY:
        done = _copy(chip, sm, warp, cta, row, raw.i64(warp + tl.T_WARP), mask, left)
        if raw.i64(sm + tl.S_OPEN):
            end_access(sm, warp, done, tl.FOR_COPIES, 0)
            raw.put64(warp + tl.T_PENDING, raw.i64(warp + tl.T_PENDING) | tl.PENDING_COPIES)
        else:
            done = sooner(left_over, done + raw.i64(sm + tl.S_EXTRA))
            raw.put64(warp + tl.T_COPIES_DONE, max(raw.i64(warp + tl.T_COPIES_DONE), done))
        return left + number(chip, tl.M_HOLD)
    if kind in (tl.LOAD_GLOBAL, tl.STORE_GLOBAL, tl.ATOMIC_GLOBAL):
        done = _global(chip, sm, warp, cta, row, mask, left, kind)
        return done if raw.i64(sm + tl.S_OPEN) else sooner(left_over, done + raw.i64(sm + tl.S_EXTRA))
    if kind in (tl.LOAD_SHARED, tl.STORE_SHARED, tl.MATRIX_SHARED, tl.ATOMIC_SHARED):
        return sooner(left_over, _shared(chip, sm, warp, cta, row, mask, left, kind))
    if kind == tl.MBARRIER:
        return sooner(left_over, _shared_passes(chip, sm, left, 1) + number(chip, tl.M_LAT_ARRIVE))
    return sooner(left_over, _shared_passes(chip, sm, left, 1) + how(row, tl.LATENCY))
