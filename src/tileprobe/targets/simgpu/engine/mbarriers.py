"""Barriers in shared memory: arrivals and bytes that are counted down, and a phase that turns when both are there.

Eight bytes each, in a form of our own: arrivals missing (20 bits), arrivals of a phase (20), bytes missing (21,
signed), two bits that say that it is one, the phase. Shared memory that nobody has made a barrier of is refused.

On sm_80 a kernel's own code makes barriers and looks at them, with ordinary stores and loads, so their form is the
hardware's: in the low word 2**30 less the arrivals of a phase, in the high one 2**31 less those that are missing, with
the phase in its highest bit. An arrival counts up, which turns the phase when none is missing.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, raw, shadow
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.addresses import shared_addresses
from tileprobe.targets.simgpu.engine.clusters import member
from tileprobe.targets.simgpu.engine.fields import field, put_predicate, row
from tileprobe.targets.simgpu.engine.memory import check_shared
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, STAY, family

_EXCH, _ARRIVE, _PHASE, _CCTL, _ARRIVE_80 = (
    NUMBERS[n] for n in ("SYNCS_EXCH", "SYNCS_ARRIVE", "SYNCS_PHASE", "SYNCS_CCTL", "ATOMS_ARRIVE")
)
WORD, ARRIVAL, BYTE = (
    1,
    2,
    3,
)  # what a warp's copies do when they are done: arrive on sm_80, on sm_90, bring a byte
_COUNT, _BYTES = (1 << 20) - 1, (1 << 21) - 1
_HALF = 1 << 20
_MARK = 1 << 61
_PHASE_BIT = 1 << 62


@part
def place_of(cta, address):
    """Where a barrier lies, in this program or another of its cluster, or 0 where none can be."""
    cta = member(cta, address)
    if cta == 0:
        return 0
    offset = (address & 0xFFFFFF) - raw.i64(cta + at.CTA_SHARED_BASE)
    if offset < 0 or offset + 8 > raw.i64(cta + at.CTA_SHARED_BYTES) or offset & 7:
        return 0
    return raw.i64(cta + at.CTA_SHARED) + offset


@part
def _packed(missing, arrivals, waiting_bytes, phase):
    return missing | (arrivals << 20) | ((waiting_bytes + _HALF) << 40) | _MARK | (_PHASE_BIT if phase else 0)


@part
def is_one(word):
    return word >= 0 and word & _MARK != 0


@part
def make(place, count):
    raw.put64(place, _packed(count, count, 0, 0))


@part
def change(cta, address, arrivals, more_bytes):
    """Arrivals come, bytes are expected (or arrive, if negative). Whether there is a barrier at all."""
    place = place_of(cta, address)
    if place == 0:
        return False
    word = raw.i64(place)
    if not is_one(word):
        return False
    missing, count = word & _COUNT, (word >> 20) & _COUNT
    waiting_bytes = ((word >> 40) & _BYTES) - _HALF + more_bytes
    phase = word & _PHASE_BIT != 0
    missing -= arrivals
    if missing <= 0 and waiting_bytes == 0:
        phase = not phase
        missing = count
    raw.put64(place, _packed(missing & _COUNT, count, waiting_bytes, phase))
    owner = member(cta, address)
    raw.put64(owner + at.CTA_PROGRESS, raw.i64(owner + at.CTA_PROGRESS) + 1)
    return True


@part
def passed(cta, address, parity):
    """Whether the phase of that parity is over: 1 or 0, -1 where there is no barrier."""
    place = place_of(cta, address)
    if place == 0 or not is_one(raw.i64(place)):
        return -1
    return 1 if (raw.i64(place) & _PHASE_BIT != 0) != (parity != 0) else 0


@part
def _address(uop, warp, constants, lane):
    return (
        raw.u32(row(uop, at.A, warp, constants) + 4 * lane)
        + raw.u32(row(uop, at.B, warp, constants) + 4 * lane)
        + field(uop, at.I0)
    ) & 0xFFFFFFFF


@part
def _no_barrier(cta, lane, address):
    raw.put64(cta + at.CTA_ERROR_LANE, lane)
    raw.put64(cta + at.CTA_ERROR_ADDRESS, address)
    return at.BAD_MBARRIER


@part
def subject(cta, address):
    """The clock of a barrier, of this program or another of its cluster."""
    return clocks.in_memory(clocks.block_of(member(cta, address)), address)


@part
def _arrive(uop, warp, cta, constants, mask):
    """I2: bits 0 and 1: arrivals, 0, 1, or what the register says (2); bit 2: as many bytes as it says; bit 3: one."""
    how = field(uop, at.I2)
    values = row(uop, at.C, warp, constants)
    for lane in range(32):
        if not (mask >> lane) & 1:
            continue
        value, address = raw.u32(values + 4 * lane), _address(uop, warp, constants, lane)
        arrivals = value if how & 3 == 2 else how & 3
        if clocks.block_of(cta) and member(cta, address):
            clocks.release(cta, warp, subject(cta, address))
        if not change(cta, address, arrivals, value if how & 4 else how >> 3):
            return _no_barrier(cta, lane, address)
    return at.OK


@part
def _wait(uop, warp, cta, constants, mask):
    """I2: whether it waits, or only asks."""
    lane = 0
    while not (mask >> lane) & 1:
        lane += 1
    address = _address(uop, warp, constants, lane)
    parity = raw.u32(row(uop, at.C, warp, constants) + 4 * lane) >> 31
    over = passed(cta, address, parity)
    if over < 0:
        return _no_barrier(cta, lane, address)
    if over or not field(uop, at.I2):
        if over and clocks.block_of(cta):
            clocks.acquire(cta, raw.i32(warp + at.W_AGENT), subject(cta, address))
        put_predicate(uop, 0, warp, mask, 0xFFFFFFFF if over else 0)
        return at.OK
    raw.put32(warp + at.W_STATUS, at.AT_MBARRIER)
    raw.put32(warp + at.W_WAIT_AT, address)
    raw.put32(warp + at.W_WAIT_VALUE, parity)
    return STAY


@part
def _arrive_at_word(place):
    high = (raw.u32(place + 4) + 1) & 0xFFFFFFFF
    if high & 0x7FFFFFFF == 0:
        high |= (1 << 30) + (raw.u32(place) & 0x3FFFFFFF)
    raw.put32(place + 4, high)


@part
def arrive_by_copy(cta, address, how):
    """The copies that a lane has issued are done. Whether there is a barrier to arrive at."""
    if how == ARRIVAL:
        return change(cta, address, 1, 0)
    if how == BYTE:
        return change(cta, address, 0, -1)
    _arrive_at_word(raw.i64(cta + at.CTA_SHARED) + address)
    return True


@part
def _arrive_at_words(uop, warp, cta, constants, mask):
    """ATOMS.ARRIVE: each lane once; the result is what was there before."""
    out = raw.i64(cta + at.CTA_SCRATCH)
    shared_addresses(uop, warp, cta, constants, mask, out)
    wrong = check_shared(cta, out, mask, 8)
    if wrong == at.OK:
        wrong = shadow.arrives(cta, warp, out, mask)
    if wrong:
        return wrong
    target = row(uop, at.D, warp, constants)
    for lane in range(32):
        if (mask >> lane) & 1:
            place = raw.i64(cta + at.CTA_SHARED) + raw.i64(out + 8 * lane)
            raw.put32(target + 4 * lane, raw.u32(place))
            raw.put32(target + at.ROW + 4 * lane, raw.u32(place + 4))
            _arrive_at_word(place)
    return at.OK


@family("SYNCS_EXCH", "SYNCS_ARRIVE", "SYNCS_PHASE", "SYNCS_CCTL", "ATOMS_ARRIVE")
def syncs(op, uop, warp, cta, constants, mask, pc):
    if mask == 0:
        return at.OK
    if op == _ARRIVE_80:
        return _arrive_at_words(uop, warp, cta, constants, mask)
    if op == _ARRIVE:
        return _arrive(uop, warp, cta, constants, mask)
    if op == _PHASE:
        return _wait(uop, warp, cta, constants, mask)
    lane = 0
    while not (mask >> lane) & 1:
        lane += 1
    address = _address(uop, warp, constants, lane)
    place = place_of(cta, address)
    if place == 0:
        return _no_barrier(cta, lane, address)
    if op == _EXCH:  # the low word counts up to 2**20, and stands one bit higher
        make(place, (1 << 20) - (raw.u32(row(uop, at.C, warp, constants) + 4 * lane) >> 1))
    else:
        raw.put64(place, -1)
    return at.OK
