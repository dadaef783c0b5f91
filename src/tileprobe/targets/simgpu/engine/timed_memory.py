"""How long memory takes within a multiprocessor: lines and sectors that an access touches, L1, banks of shared memory.

In come the addresses that an instruction has just used, which its handler left in the scratch memory; out comes the
cycle in which its data are there, or requests to L2 (`timed_shared.py`), which answers when the turn is over. Nothing
waits here: each way knows when it is free next, and a request is put behind those before it. Addresses are the chip's
own, so that times do not depend on where this machine keeps a tensor.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.timed_caches import busy_unit, found, number, sectors_in, used
from tileprobe.targets.simgpu.engine.timed_requests import part_of

_PARTS = tl.PARTS
_LEVELS = 8192  # in the scratch memory, behind the addresses


@part
def own_address(chip, cta, address):
    """Where an address of this machine lies on the chip."""
    ranges, bases = raw.i64(cta + at.CTA_RANGES), raw.i64(chip + tl.C_RANGES_AT)
    last = raw.i64(cta + at.CTA_LAST_RANGE)
    for n in range(-1, raw.i64(cta + at.CTA_RANGE_COUNT)):
        k = last if n < 0 else n
        start = raw.i64(ranges + at.RANGE * k)
        if start <= address < raw.i64(ranges + at.RANGE * k + 8):
            return raw.i64(bases + 8 * k) + address - start
    return address


@part
def _add_line(sm, count, line, sectors):
    """Puts sectors of a line into the list; how many lines it has then."""
    lines = raw.i64(sm + tl.S_LINES)
    n = count - 1
    while n >= 0:
        place = lines + tl.LINE * n
        if raw.i64(place) == line:
            raw.put64(place + 8, raw.i64(place + 8) | sectors)
            return count
        n -= 1
    raw.put64(lines + tl.LINE * count, line)
    raw.put64(lines + tl.LINE * count + 8, sectors)
    return count + 1


@part
def add_bytes(sm, count, address, size):
    """The sectors of some bytes, one behind the other."""
    first, last = address >> 5, (address + size - 1) >> 5
    while first <= last and count < tl.LINES_ROOM:
        line = first >> 2
        end = min(last, line * 4 + 3)
        sectors = ((2 << (end & 3)) - 1) & ~((1 << (first & 3)) - 1)
        count = _add_line(sm, count, line, sectors)
        first = end + 1
    return count


@part
def lines_of(chip, sm, cta, out, mask, size):
    """The lines that lanes touch, by the addresses at `out`; how many."""
    ranges = raw.i64(cta + at.CTA_RANGES) + at.RANGE * raw.i64(cta + at.CTA_LAST_RANGE)
    start, end = raw.i64(ranges), raw.i64(ranges + 8)
    shift = raw.i64(raw.i64(chip + tl.C_RANGES_AT) + 8 * raw.i64(cta + at.CTA_LAST_RANGE)) - start
    count, lane = 0, 0
    while lane < 32:
        if not (mask >> lane) & 1:
            lane += 1
            continue
        first = raw.i64(out + 8 * lane)
        reach, lane = first + size, lane + 1
        while lane < 32 and (mask >> lane) & 1 and raw.i64(out + 8 * lane) == reach:  # lanes side by side
            reach += size
            lane += 1
        there = first + shift if start <= first and reach <= end else own_address(chip, cta, first)
        count = add_bytes(sm, count, there, reach - first)
    return count


@part
def _port(chip, sm, place, sectors, when):
    """Sectors through a way of a multiprocessor; when the last one is."""
    begin = max(raw.i64(sm + place), when * _PARTS)
    end = begin + part_of(sm, sectors_in(sectors) * number(chip, tl.M_WAY_SECTOR))
    raw.put64(sm + place, end)
    return end // _PARTS


@part
def _ask(sm, kind, line, sectors, asked, place, old, hint):
    """Notes a request to L2."""
    count = raw.i64(sm + tl.S_REQUEST_COUNT)
    entry = raw.i64(sm + tl.S_REQUESTS) + tl.REQUEST * count
    raw.put64(entry + tl.Q_KIND, kind)
    raw.put64(entry + tl.Q_LINE, line)
    raw.put64(entry + tl.Q_SECTORS, sectors)
    raw.put64(entry + tl.Q_ASKED, asked)
    raw.put64(entry + tl.Q_PLACE, place)
    raw.put64(entry + tl.Q_OLD, old)
    raw.put64(entry + tl.Q_HINT, hint)
    raw.put64(sm + tl.S_REQUEST_COUNT, count + 1)
    raw.put64(sm + tl.S_OPEN, 1)


@part
def read_lines(chip, sm, count, when, cached, hint):
    """The lines in the list, read; the cycle in which the last of those that L1 has is there. Others are asked for.
    `cached`: L1 is asked, and keeps them."""
    lines, done = raw.i64(sm + tl.S_LINES), when
    begin = max(raw.i64(sm + tl.S_PORT_FREE), when * _PARTS)
    for n in range(count):
        line, sectors = raw.i64(lines + tl.LINE * n), raw.i64(lines + tl.LINE * n + 8)
        place, old = 0, -1
        if cached and raw.i64(sm + tl.S_L1_SETS):
            place, there = found(raw.i64(sm + tl.S_L1), raw.i64(sm + tl.S_L1_SETS), tl.L1_WAYS, line)
            if there:
                old = raw.i64(place + tl.FILLED)
            else:
                raw.put64(place + tl.TAG, line + 1)
                raw.put64(place + tl.SECTORS, 0)
            raw.put64(place + tl.USED, used(when, hint))
            known = raw.i64(place + tl.SECTORS)
            raw.put64(sm + tl.S_L1_HITS, raw.i64(sm + tl.S_L1_HITS) + sectors_in(sectors & known))
            if sectors & known:
                if old == tl.FAR:
                    _ask(sm, tl.HIT, line, 0, when, place, 0, hint)
                else:
                    done = max(done, old)
            sectors &= ~known
            if sectors == 0:
                continue
            raw.put64(place + tl.SECTORS, known | sectors)
            raw.put64(place + tl.FILLED, tl.FAR)
        raw.put64(sm + tl.S_L1_MISSES, raw.i64(sm + tl.S_L1_MISSES) + sectors_in(sectors))
        asked = _port(chip, sm, tl.S_PORT_FREE, sectors, when)
        _ask(sm, tl.READ, line, sectors, asked, place, old, hint)
    busy_unit(sm, tl.L2_READ, begin, raw.i64(sm + tl.S_PORT_FREE))
    return done


@part
def write_lines(chip, sm, count, when, hint):
    """The lines in the list, written through to L2. L1 keeps what it has of them, which is as new."""
    lines, begin = raw.i64(sm + tl.S_LINES), max(raw.i64(sm + tl.S_STORE_FREE), when * _PARTS)
    for n in range(count):
        line, sectors = raw.i64(lines + tl.LINE * n), raw.i64(lines + tl.LINE * n + 8)
        sent = _port(chip, sm, tl.S_STORE_FREE, sectors, when)
        _ask(sm, tl.WRITE, line, sectors, sent, 0, -1, hint)
    busy_unit(sm, tl.L2_WRITE, begin, raw.i64(sm + tl.S_STORE_FREE))
    ahead = (raw.i64(sm + tl.S_STORE_FREE) // _PARTS) - number(chip, tl.M_STORE_AHEAD)
    raw.put64(sm + tl.S_SHARED_FREE, max(raw.i64(sm + tl.S_SHARED_FREE), ahead * _PARTS))
    return when


@part
def bank_passes(out, mask, size):
    """How often shared memory has to be read for lanes at these addresses: 32 banks of four bytes a pass; lanes with 8
    or 16 bytes are served by halves and quarters of the warp; one word is read once for all that want it."""
    passes, group = 0, 32
    if size == 8:
        group = 16
    elif size == 16:
        group = 8
    for first in range(0, 32, group):
        passes += _passes(out, mask, size, first, group)
    return max(passes, 1)


@part
def _passes(out, mask, size, first, group):
    """Those for some lanes: the most different words that one bank has to give."""
    words, passes, levels = max(size // 4, 1), 0, out + _LEVELS  # level n: banks that give more than n words
    for lane in range(first, first + group):
        if not (mask >> lane) & 1:
            continue
        word = raw.i64(out + 8 * lane) >> 2
        for k in range(words):
            bank = 1 << ((word + k) & 31)
            if passes and raw.i64(levels) & bank and _seen(out, mask, words, first, lane, word + k):
                continue
            n = 0
            while n < passes and raw.i64(levels + 8 * n) & bank:
                n += 1
            if n == passes:
                raw.put64(levels + 8 * n, 0)
                passes += 1
            raw.put64(levels + 8 * n, raw.i64(levels + 8 * n) | bank)
    return passes


@part
def _seen(out, mask, words, first, lane, word):
    """Whether a lane before this one has the same word."""
    for other in range(first, lane):
        if (mask >> other) & 1:
            start = raw.i64(out + 8 * other) >> 2
            if start <= word < start + words:
                return True
    return False
