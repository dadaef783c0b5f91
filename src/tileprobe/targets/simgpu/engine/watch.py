"""The checks of memory as one family, which `shadow` calls: what was written, what is under way, who races with whom.

A byte for each byte of a program's shared memory says whether it was written and whether an asynchronous copy to it is
under way; `races` knows who did it, `between` knows about global memory. Offsets count from the start of the program's
shared memory. What was never written is noted and read as it is: if somebody writes it later, that is the race.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import between, clocks, findings, races, raw, runs, shadow
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.fields import first
from tileprobe.targets.simgpu.engine.numbers import family
from tileprobe.targets.simgpu.engine.shadow import mark

_CODE = 0x7FFFFF
_ALL_WRITTEN = 0x0101010101010101 * at.WRITTEN


@part
def _look(cta, warp, lane, offset, size):
    """OK if all bytes hold a value, or if what nobody has written is noted; else the fault, noted with its place."""
    place, n = raw.i64(cta + at.CTA_SHADOW) + offset, 0
    while n + 8 <= size and raw.i64(place + n) == _ALL_WRITTEN:
        n += 8
    while n < size:
        state, block = raw.u8(place + n), raw.i64(cta + at.CTA_RACES)
        if state == at.UNWRITTEN and block:
            pc, number = raw.i32(warp + at.W_PC), raw.i32(warp + at.W_AGENT)
            program = raw.i64(block + clocks.PROGRAM)
            findings.note(block, findings.UNWRITTEN, pc, number, program, pc, number, offset + n, size, lane)
            return at.OK
        if state in (at.UNWRITTEN, at.UNDER_WAY):
            raw.put64(cta + at.CTA_ERROR_LANE, lane)
            raw.put64(cta + at.CTA_ERROR_ADDRESS, offset + n)
            raw.put64(cta + at.CTA_ERROR_MORE, size)
            return at.UNINITIALISED if state == at.UNWRITTEN else at.TOO_EARLY
        n += 1
    return at.OK


@part
def _is_barrier(cta, offset):
    return raw.u8(raw.i64(cta + at.CTA_SHADOW) + offset) == at.BARRIER_WORD


@part
def _load(cta, warp, lane, offset, size):
    wrong = _look(cta, warp, lane, offset, size)
    block = raw.i64(cta + at.CTA_RACES)
    if wrong == at.OK and block and _is_barrier(cta, offset):  # a wait looks at it
        races.use(block, warp, offset, size, lane)
        clocks.acquire(cta, raw.i32(warp + at.W_AGENT), clocks.in_memory(block, offset))
    elif wrong == at.OK and block:
        races.read(block, warp, offset, size, lane)
    return wrong


@part
def _loads(cta, warp, out, mask, size):
    count = runs.find(cta, out, mask, size, raw.i64(cta + at.CTA_SHARED_BASE))
    for n in range(count):
        run = runs.place_of(cta) + runs.RUN * n
        lane, offset = raw.i64(run + runs.LANE), raw.i64(run + runs.OFFSET)
        wrong = _load(cta, warp, lane, offset, raw.i64(run + runs.BYTES))
        if wrong:
            return wrong
    return at.OK


@part
def _store(cta, warp, lane, offset, size, same, atomic):
    place, block = raw.i64(cta + at.CTA_SHADOW) + offset, raw.i64(cta + at.CTA_RACES)
    if block:
        if raw.u8(place) == at.UNDER_WAY:
            races.disturb(block, findings.WROTE_UNDER_WAY, warp, offset, size, lane)
        races.write(block, warp, offset, size, lane, same, atomic)
    raw.fill(place, at.WRITTEN, size)


@part
def _last_to(out, mask, lane):
    """The last lane that stores to where a lane does: its value is what stays."""
    last, address = lane, raw.i64(out + 8 * lane)
    for n in range(lane + 1, 32):
        if (mask >> n) & 1 and raw.i64(out + 8 * n) == address:
            last = n
    return last


@part
def _stores(cta, warp, out, mask, size, source):
    start, memory, block = (
        raw.i64(cta + at.CTA_SHARED_BASE),
        raw.i64(cta + at.CTA_SHARED),
        clocks.block_of(cta),
    )
    if block == 0:
        for lane in range(32):
            if (mask >> lane) & 1:
                mark(cta, raw.i64(out + 8 * lane) - start, size, at.WRITTEN)
        return at.OK
    count = runs.find(cta, out, mask, size, start)
    for n in range(count):
        run = runs.place_of(cta) + runs.RUN * n
        lane, offset, bytes_ = raw.i64(run + runs.LANE), raw.i64(run + runs.OFFSET), raw.i64(run + runs.BYTES)
        if races.undisputed(block, warp, offset, bytes_):
            _store(cta, warp, lane, offset, bytes_, False, False)
            continue
        for k in range(lane, lane + raw.i64(run + runs.LANES)):  # is it the same value?
            here, last = raw.i64(out + 8 * k) - start, _last_to(out, mask, k)
            _store(cta, warp, k, here, size, between.holds(memory + here, source + 4 * last, size), False)
    if size == 8 and mask & (mask - 1) == 0:
        lane = first(mask)
        if _counts(raw.u32(source + 4 * lane), raw.u32(source + at.ROW + 4 * lane)):
            mark(cta, raw.i64(out + 8 * lane) - start, 8, at.BARRIER_WORD)
    return at.OK


@part
def _counts(low, high):
    """Whether these words are a fresh barrier of sm_80: a number below 2**30 and 2**31 (`mbarriers`). As data they
    would be a float near 2 and NaN."""
    count = (1 << 30) - low
    return high - low == 1 << 30 and 1 <= count < 1 << 20


@part
def _atomics(cta, warp, out, mask, size, arrives):
    start, block = raw.i64(cta + at.CTA_SHARED_BASE), clocks.block_of(cta)
    for lane in range(32):
        if (mask >> lane) & 1:
            offset = raw.i64(out + 8 * lane) - start
            wrong = _look(cta, warp, lane, offset, size)
            if wrong:
                return wrong
            if block and _is_barrier(cta, offset):
                races.use(block, warp, offset, size, lane)
            else:
                _store(cta, warp, lane, offset, size, False, True)
            if arrives and block:
                clocks.release(cta, warp, clocks.in_memory(block, offset))
    return at.OK


@part
def _copies(cta, warp, out, mask, size):
    count = runs.find(cta, out, mask, size, raw.i64(cta + at.CTA_SHARED_BASE))
    for n in range(count):
        run = runs.place_of(cta) + runs.RUN * n
        lane, offset = raw.i64(run + runs.LANE), raw.i64(run + runs.OFFSET)
        _copy(cta, warp, lane, offset, raw.i64(run + runs.BYTES))
    return at.OK


@part
def _copy(cta, warp, lane, offset, size):
    block = raw.i64(cta + at.CTA_RACES)
    if block:
        if raw.u8(raw.i64(cta + at.CTA_SHADOW) + offset) == at.UNDER_WAY:
            races.disturb(block, findings.COPIED_TWICE, warp, offset, size, lane)
        races.begin_copy(block, warp, offset, size, lane)
    mark(cta, offset, size, at.UNDER_WAY)
    return at.OK


@part
def _copied(cta, warp, out, mask, size, pc, time):
    count = runs.find(cta, out, mask, size, raw.i64(cta + at.CTA_SHARED))
    block, number = raw.i64(cta + at.CTA_RACES), raw.i32(warp + at.W_AGENT)
    for n in range(count):
        run = runs.place_of(cta) + runs.RUN * n
        offset, bytes_ = raw.i64(run + runs.OFFSET), raw.i64(run + runs.BYTES)
        mark(cta, offset, bytes_, at.WRITTEN)
        if block:
            when = time if time else clocks.now(block, number)
            races.end_copy(block, number, when, pc, offset, bytes_)
    return at.OK


@part
def _loaded(cta, barrier, offset, size, pc):
    mark(cta, offset, size, at.WRITTEN)
    block = raw.i64(cta + at.CTA_RACES)
    if block:
        time = clocks.arrived(block, barrier)
        races.end_copy(block, clocks.copy_agent(block, barrier), time, pc & _CODE, offset, size)
    return at.OK


@part
def _engine_reads(cta, warp, kind, offset, size):
    wrong = _look(cta, warp, 0, offset, size)
    block = raw.i64(cta + at.CTA_RACES)
    if wrong == at.OK and block:
        races.engine_read(block, warp, kind, offset, size)
    return wrong


@family("WATCH")
def watch(which, a, warp, cta, b, c, d):
    """What `a` to `d` are is in `shadow`, where each check has its name."""
    if which == shadow.LOADS:
        return _loads(cta, warp, a, b, c)
    if which == shadow.STORES:
        return _stores(cta, warp, a, b, c, d)
    if which == shadow.GLOBAL:
        return between.touch(cta, warp, a, b, c & 0xFF, c >> 8, d)
    if which == shadow.STORE:
        _store(cta, warp, a, b, c, d != 0, False)
        return at.OK
    if which == shadow.COPIES:
        return _copies(cta, warp, a, b, c)
    if which == shadow.COPY:
        return _copy(cta, warp, a, b, c)
    if which == shadow.COPIED:
        return _copied(cta, warp, a, b, c, d & 0xFFFFFFFF, d >> 32)
    if which == shadow.LOADED:
        return _loaded(cta, a, b, c, d)
    if which == shadow.ENGINE:
        return _engine_reads(cta, warp, a, b, c)
    if which == shadow.ATOMICS:
        return _atomics(cta, warp, a, b, c, False)
    if which == shadow.ARRIVES:
        return _atomics(cta, warp, a, b, c, True)
    return between.line(cta, a, b, c, d & 1, d & 2)
