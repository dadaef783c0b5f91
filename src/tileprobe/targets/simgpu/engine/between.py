"""Global memory that several programs touch, or several warps of one, with nothing that orders them.

Each piece of the tensors of a launch (as many bytes as the kernel's narrowest access) has two words: who wrote it last,
and who read it last. A word holds the place in the code (16 bits), warp (5), the warp's clock (11; the highest number
says that it is not known any more), program (22), a stamp of the launch (9; words with another one are old), and one
bit: of writers, that it was an atomic; of readers, that there are several.

Programs are ordered by atomics only. Those that did atomics on the same places, also by way of others, are taken for
ordered: no kernel with locks or counters is blamed, and a race beside its atomics may stay hidden. Writing what stands
there already is no race.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, findings, raw, runs
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.shadow import READ, STRONG_READ, WRITE

# A span of memory: first byte, end, words of writers, words of readers, whether nobody has written it before the launch
SPAN, _START, _END, _WRITERS, _READERS, _FRESH = 40, 0, 8, 16, 24, 32
CODES, PROGRAMS, STAMPS = 1 << 16, 1 << 22, 1 << 9
_WARP, _TIME, _PROGRAM, _STAMP, _FLAG = 16, 21, 32, 54, 63
_LATE = 2047
_WHO = (CODES * 32 - CODES) | ((PROGRAMS - 1) << _PROGRAM)
SLOTS = 1024  # places that atomics are told apart by


@part
def _stamp(word):
    return (word >> _STAMP) & (STAMPS - 1)


@part
def _program(word):
    return (word >> _PROGRAM) & (PROGRAMS - 1)


@part
def _mine(block, warp):
    number, program = raw.i32(warp + at.W_AGENT), raw.i64(block + clocks.PROGRAM)
    time = min(clocks.now(block, number), _LATE)
    head = raw.i32(warp + at.W_PC) | (number << _WARP) | (time << _TIME)
    return head | (program << _PROGRAM) | (raw.i64(block + clocks.STAMP) << _STAMP)


@part
def _root(table, slot):
    while raw.i32(table + 4 * slot) != slot:
        slot = raw.i32(table + 4 * slot)
    return slot


@part
def _meet(block, address):
    """The program does an atomic at this address."""
    table = raw.i64(block + clocks.ATOMICS)
    if table == 0:
        return
    place = table + 4 * (SLOTS + raw.i64(block + clocks.PROGRAM))
    slot = _root(table, (address >> 2) & (SLOTS - 1))
    if raw.i32(place) == 0:
        raw.put32(place, slot + 1)
    else:
        raw.put32(table + 4 * slot, _root(table, raw.i32(place) - 1))


@part
def _ordered(block, word, mine):
    """Whether what a word says lies behind the access of `mine`."""
    other, own = _program(word), _program(mine)
    if other != own:
        table = raw.i64(block + clocks.ATOMICS)
        if table == 0:
            return False
        first, second = raw.i32(table + 4 * (SLOTS + other)), raw.i32(table + 4 * (SLOTS + own))
        return first != 0 and second != 0 and _root(table, first - 1) == _root(table, second - 1)
    warp, time = (word >> _WARP) & 31, (word >> _TIME) & _LATE
    number = (mine >> _WARP) & 31
    return warp == number or time == _LATE or clocks.known(block, number, warp) >= time


@part
def _note(block, kind, word, mine, address, size, lane):
    findings.note(
        block, kind, word & (CODES - 1), (word >> _WARP) & 31, _program(word), mine & (CODES - 1),
        (mine >> _WARP) & 31, address, size, lane,
    )  # fmt: skip


@part
def _span(block, address, end):
    """The span that holds these bytes, or 0."""
    spans, last = raw.i64(block + clocks.SPANS), raw.i64(block + clocks.LAST_SPAN)
    span = spans + SPAN * last
    if address >= raw.i64(span + _START) and end <= raw.i64(span + _END):
        return span
    for n in range(raw.i64(block + clocks.SPAN_COUNT)):
        span = spans + SPAN * n
        if address >= raw.i64(span + _START) and end <= raw.i64(span + _END):
            raw.put64(block + clocks.LAST_SPAN, n)
            return span
    return 0


@part
def _held_by_many(read, mine):
    """Whether warps of this program read the place with one instruction: each has a copy of a small tile, and what a
    warp reads late, when one of them has stored the result, is used by nobody."""
    return (
        (read ^ mine) & (CODES - 1) == 0 and _program(read) == _program(mine) and _stamp(read) == _stamp(mine)
    )


@part
def _many(read, mine):
    """Whether several warps of this program, perhaps the writing one among them, have read a place, with one
    instruction."""
    return read < 0 and _program(read) == _program(mine)


@part
def _keep_reader(block, place, mine, strong):
    """Which reader is remembered. One that nothing orders before this one stays: who reads and then writes would
    otherwise be the last reader itself, and others that read the place were forgotten. Reads in an order that all see
    (`strong`) count as those of several warps: whoever of the program writes then may do so."""
    before = raw.i64(place)
    if _stamp(before) == _stamp(mine):
        same = (before ^ mine) & _WHO == 0
        alike = (before ^ mine) & (CODES - 1) == 0 and _program(before) == _program(mine)
        if alike and (before < 0 or not same):
            raw.put64(place, mine | (1 << _FLAG))
            return
        if (before < 0 and same) or not _ordered(block, before, mine):
            return
    raw.put64(place, mine | (1 << _FLAG) if strong else mine)


@part
def _read(block, span, mine, address, size, lane, atomic):
    shift, stamp = raw.i64(block + clocks.GLOBAL_SHIFT), _stamp(mine)
    offset = address - raw.i64(span + _START)
    for n in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
        wrote = raw.i64(raw.i64(span + _WRITERS) + 8 * n)
        if _stamp(wrote) != stamp:
            if raw.i64(span + _FRESH):
                _note(block, findings.GLOBAL_UNWRITTEN, mine, mine, address, size, lane)
        elif not (atomic and wrote < 0) and not _ordered(block, wrote, mine):
            if not _held_by_many(raw.i64(raw.i64(span + _READERS) + 8 * n), mine):
                _note(block, findings.GLOBAL_READ_WRITTEN, wrote, mine, address, size, lane)
        _keep_reader(block, raw.i64(span + _READERS) + 8 * n, mine, atomic)


@part
def _write(block, span, mine, address, size, lane, same, atomic):
    shift, stamp = raw.i64(block + clocks.GLOBAL_SHIFT), _stamp(mine)
    offset = address - raw.i64(span + _START)
    for n in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
        place = raw.i64(span + _WRITERS) + 8 * n
        wrote, read = raw.i64(place), raw.i64(raw.i64(span + _READERS) + 8 * n)
        if _stamp(wrote) == stamp and not (atomic and wrote < 0) and not _ordered(block, wrote, mine):
            if same:
                continue
            _note(block, findings.GLOBAL_WROTE_WRITTEN, wrote, mine, address, size, lane)
        if _stamp(read) == stamp and not same and not _many(read, mine) and not _ordered(block, read, mine):
            _note(block, findings.GLOBAL_WROTE_READ, read, mine, address, size, lane)
        raw.put64(place, mine | (1 << _FLAG) if atomic else mine)


@part
def holds(address, source, size):
    """Whether a lane's registers, a row for each four bytes, hold what stands at an address."""
    if size < 4:
        there = raw.u8(address) if size == 1 else raw.u16(address)
        return there == raw.u32(source) & ((1 << (8 * size)) - 1)
    same = True
    for n in range(size // 4):
        same = same and raw.u32(address + 4 * n) == raw.u32(source + at.ROW * n)
    return same


@part
def _one(block, span, mine, address, size, lane, how, source):
    if how == READ:
        _read(block, span, mine, address, size, lane, False)
    elif how == WRITE:
        _write(block, span, mine, address, size, lane, holds(address, source + 4 * lane, size), False)
    else:  # in an order that all see: programs are ordered by it
        _meet(block, address)
        if how == STRONG_READ:
            _read(block, span, mine, address, size, lane, True)
        else:
            _write(block, span, mine, address, size, lane, False, True)


@part
def _fresh_to_all(words, first, last, stamp):
    """Whether no word from the first up to the last is of this launch."""
    old = True
    for n in range(first, last):
        old = old & (((raw.i64(words + 8 * n) >> _STAMP) & (STAMPS - 1)) != stamp)
    return old


@part
def _fill(words, first, last, mine):
    for n in range(first, last):
        raw.put64(words + 8 * n, mine)


@part
def _at_once(block, span, mine, address, size, how):
    """What nobody has touched in this launch needs no closer look. Whether that was so."""
    shift, stamp = raw.i64(block + clocks.GLOBAL_SHIFT), _stamp(mine)
    offset = address - raw.i64(span + _START)
    first, last = offset >> shift, ((offset + size - 1) >> shift) + 1
    writers, readers = raw.i64(span + _WRITERS), raw.i64(span + _READERS)
    if how > WRITE or raw.i64(span + _FRESH) or not _fresh_to_all(writers, first, last, stamp):
        return False
    if not _fresh_to_all(readers, first, last, stamp):
        if how == WRITE:
            return False
        for n in range(first, last):
            _keep_reader(block, readers + 8 * n, mine, False)
        return True
    _fill(readers if how == READ else writers, first, last, mine)
    return True


@part
def touch(cta, warp, out, mask, size, how, source):
    block = raw.i64(cta + at.CTA_RACES)
    if raw.i64(block + clocks.SPAN_COUNT) == 0:
        return at.OK
    mine, count = _mine(block, warp), runs.find(cta, out, mask, size, 0)
    for n in range(count):
        run = runs.place_of(cta) + runs.RUN * n
        first, bytes_, lane = raw.i64(run + runs.OFFSET), raw.i64(run + runs.BYTES), raw.i64(run + runs.LANE)
        span = _span(block, first, first + bytes_)
        if span and _at_once(block, span, mine, first, bytes_, how):
            continue
        for k in range(lane, lane + raw.i64(run + runs.LANES)):
            address = raw.i64(out + 8 * k)
            span = _span(block, address, address + size)
            if span:
                _one(block, span, mine, address, size, k, how, source)
    return at.OK


@part
def line(cta, pc, address, size, load, same):
    """An asynchronous engine reads or writes a line of a tile; which warp and when is not followed."""
    block = raw.i64(cta + at.CTA_RACES)
    span = _span(block, address, address + size) if raw.i64(block + clocks.SPAN_COUNT) else 0
    if span == 0:
        return at.OK
    program, stamp = raw.i64(block + clocks.PROGRAM), raw.i64(block + clocks.STAMP)
    mine = pc | (_LATE << _TIME) | (program << _PROGRAM) | (stamp << _STAMP)
    if load:
        _read(block, span, mine, address, size, 0, False)
    else:
        _write(block, span, mine, address, size, 0, same != 0, False)
    return at.OK
