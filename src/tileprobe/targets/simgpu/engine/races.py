"""Accesses to a program's shared memory that nothing orders: what each piece of it remembers, and what is compared.

A piece is as many bytes as the narrowest access of the kernel has. It remembers who wrote it last and when, when each
warp read it last, and the last asynchronous engine that read it. `clocks` says whether that lies behind an access.
Several warps that write the same value are no race (tiles that warps hold copies of are stored by each of them).
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, findings, raw
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.clocks import fenced, known

# Fields of a piece, with a mask of the warps that read it last; then two for each warp: when, and where in the code
_WROTE, _WROTE_BY, _ENGINE_READ, _ENGINE_BY, _READERS, _READ = 0, 4, 8, 12, 16, 24
_CODE, _AGENT, _ATOMIC = 0x7FFFFF, 23, 1 << 31  # of _BY: place in the code, agent, whether it was an atomic
_COPIES_HELD = 255  # in place of an agent: several warps wrote the same; their mask is in place of the time
ENTRY = 24


def entry_bytes(warps: int) -> int:
    return ENTRY + 8 * warps


@part
def _piece(block, offset):
    return raw.i64(block + clocks.SHADOW) + raw.i64(block + clocks.ENTRY) * (
        offset >> raw.i64(block + clocks.SHIFT)
    )


@part
def _by(agent, pc, atomic):
    return pc | (agent << _AGENT) | (_ATOMIC if atomic else 0)


@part
def _agent(by):
    return (by >> _AGENT) & 255


@part
def _behind(block, number, agent, time):
    return agent == number or known(block, number, agent) >= time


@part
def _note(block, kind, by, warp, offset, size, lane):
    findings.note(
        block, kind, by & _CODE, _agent(by), raw.i64(block + clocks.PROGRAM), raw.i32(warp + at.W_PC),
        raw.i32(warp + at.W_AGENT), offset, size, lane,
    )  # fmt: skip


@part
def _after_write(block, piece, number):
    """Whether the last write of a piece lies behind a warp."""
    time, by = raw.u32(piece + _WROTE), raw.u32(piece + _WROTE_BY)
    if time == 0:
        return True
    agent = _agent(by)
    return agent == _COPIES_HELD or _behind(block, number, agent, time)


@part
def read(block, warp, offset, size, lane):
    """A warp reads."""
    number, shift = raw.i32(warp + at.W_AGENT), raw.i64(block + clocks.SHIFT)
    piece, each, bit = _piece(block, offset), raw.i64(block + clocks.ENTRY), 1 << number
    now, mine = clocks.now(block, number), 8 * number + _READ
    stamp = now | (raw.i32(warp + at.W_PC) << 32)
    seen_by, seen_until = -1, 0  # the writer looked up last
    for _ in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
        time, by = raw.u32(piece + _WROTE), raw.u32(piece + _WROTE_BY)
        if time and (_agent(by) != seen_by or time > seen_until):
            if not _after_write(block, piece, number):
                _note(block, findings.READ_WRITTEN, by, warp, offset, size, lane)
            elif _agent(by) != _COPIES_HELD:
                seen_by, seen_until = _agent(by), time
        raw.put64(piece + mine, stamp)
        raw.put32(piece + _READERS, raw.u32(piece + _READERS) | bit)
        piece += each


@part
def _free_of_readers(block, piece, warp, number, offset, size, lane):
    """Notes readers that may still read, and forgets all of them."""
    time = raw.u32(piece + _ENGINE_READ)
    if time:
        by = raw.u32(piece + _ENGINE_BY)
        if not _behind(block, number, _agent(by), time):
            _note(block, findings.WROTE_BUSY, by, warp, offset, size, lane)
        raw.put32(piece + _ENGINE_READ, 0)
    readers, other = raw.u32(piece + _READERS), 0
    if readers == 0:
        return
    raw.put32(piece + _READERS, 0)
    while readers >> other:
        place = piece + _READ + 8 * other
        if (readers >> other) & 1 and other != number and known(block, number, other) < raw.u32(place):
            by = _by(other, raw.u32(place + 4), False)
            _note(block, findings.WROTE_READ, by, warp, offset, size, lane)
        other += 1


@part
def _held_twice(block, piece, number):
    """Another warp writes the same value."""
    by = raw.u32(piece + _WROTE_BY)
    mask = raw.u32(piece + _WROTE)
    if _agent(by) != _COPIES_HELD:
        mask = 1 << _agent(by) if _agent(by) < 32 else 0
    raw.put32(piece + _WROTE, mask | (1 << number))
    raw.put32(piece + _WROTE_BY, _by(_COPIES_HELD, by & _CODE, False))


@part
def write(block, warp, offset, size, lane, same, atomic):
    """A warp writes. `same`: what is there already; then others may have written it as well."""
    number, shift = raw.i32(warp + at.W_AGENT), raw.i64(block + clocks.SHIFT)
    piece, each = _piece(block, offset), raw.i64(block + clocks.ENTRY)
    now, by = clocks.now(block, number), _by(number, raw.i32(warp + at.W_PC), atomic)
    for _ in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
        before = raw.u32(piece + _WROTE_BY)
        ordered = _after_write(block, piece, number)
        if not ordered and same:
            _held_twice(block, piece, number)
            piece += each
            continue
        if not ordered and not (atomic and before & _ATOMIC):
            _note(block, findings.WROTE_WRITTEN, before, warp, offset, size, lane)
        _free_of_readers(block, piece, warp, number, offset, size, lane)
        raw.put32(piece + _WROTE, now)
        raw.put32(piece + _WROTE_BY, by)
        piece += each


@part
def use(block, warp, offset, size, lane):
    """A warp looks at a barrier of sm_80, or changes it: who made it must lie behind, others may look meanwhile."""
    piece = _piece(block, offset)
    if not _after_write(block, piece, raw.i32(warp + at.W_AGENT)):
        _note(block, findings.READ_WRITTEN, raw.u32(piece + _WROTE_BY), warp, offset, size, lane)


@part
def undisputed(block, warp, offset, size):
    """Whether the last writing of all pieces lies behind a warp."""
    number, shift = raw.i32(warp + at.W_AGENT), raw.i64(block + clocks.SHIFT)
    piece, each = _piece(block, offset), raw.i64(block + clocks.ENTRY)
    for _ in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
        if not _after_write(block, piece, number) or _agent(raw.u32(piece + _WROTE_BY)) == _COPIES_HELD:
            return False
        piece += each
    return True


@part
def begin_copy(block, warp, offset, size, lane):
    """A warp issues an asynchronous copy to shared memory: nobody may still be using it."""
    number, shift = raw.i32(warp + at.W_AGENT), raw.i64(block + clocks.SHIFT)
    piece, each = _piece(block, offset), raw.i64(block + clocks.ENTRY)
    for _ in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
        if not _after_write(block, piece, number):
            _note(block, findings.WROTE_WRITTEN, raw.u32(piece + _WROTE_BY), warp, offset, size, lane)
        _free_of_readers(block, piece, warp, number, offset, size, lane)
        raw.put32(piece + _WROTE, 0)
        raw.put32(piece + _WROTE_BY, _by(number, raw.i32(warp + at.W_PC), False))
        piece += each


@part
def disturb(block, kind, warp, offset, size, lane):
    """A warp writes where an asynchronous copy is under way."""
    _note(block, kind, raw.u32(_piece(block, offset) + _WROTE_BY), warp, offset, size, lane)


@part
def end_copy(block, agent, time, pc, offset, size):
    """What an asynchronous copy has written belongs to that agent, at that time."""
    shift, each, piece = raw.i64(block + clocks.SHIFT), raw.i64(block + clocks.ENTRY), _piece(block, offset)
    for _ in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
        raw.put32(piece + _WROTE, time)
        raw.put32(piece + _WROTE_BY, _by(agent, pc, False))
        piece += each


@part
def engine_read(block, warp, kind, offset, size):
    """A warp issues something that reads shared memory asynchronously: a bulk store, a product of a warp group."""
    number, shift = raw.i32(warp + at.W_AGENT), raw.i64(block + clocks.SHIFT)
    piece, each = _piece(block, offset), raw.i64(block + clocks.ENTRY)
    time = clocks.open_group(block, kind, number)
    by = _by(clocks.agent_of(block, kind, number), raw.i32(warp + at.W_PC), False)
    for _ in range(offset >> shift, ((offset + size - 1) >> shift) + 1):
        wrote, writer = raw.u32(piece + _WROTE), raw.u32(piece + _WROTE_BY)
        agent = _agent(writer)
        if wrote and agent != _COPIES_HELD:
            if not _behind(block, number, agent, wrote):
                _note(block, findings.READ_WRITTEN, writer, warp, offset, size, 0)
            elif agent < raw.i64(block + clocks.WARPS) and fenced(block, number, agent) < wrote:
                _note(block, findings.NO_FENCE, writer, warp, offset, size, 0)
        raw.put32(piece + _ENGINE_READ, time)
        raw.put32(piece + _ENGINE_BY, by)
        piece += each
