"""How long memory takes: lines and sectors that an access touches, L1, L2, DRAM, banks of shared memory.

In come the addresses that an instruction has just used, which its handler left in the scratch memory; out comes the
cycle in which its data are there. Nothing waits here: each way and each channel knows when it is free next, and a
request is put behind those before it. Addresses are the chip's own, so that times do not depend on where this machine
keeps a tensor.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl

_PARTS = tl.PARTS
_LEVELS = 8192  # in the scratch memory, behind the addresses


@part
def number(chip, place):
    """One of the machine's numbers."""
    return raw.i64(raw.i64(chip + tl.C_MACHINE) + place)


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
def _found(tags, sets, ways, line):
    """The place of a line in a cache, or that of the one to go for it; and whether it is there."""
    spread = line ^ (line >> 7) ^ (line >> 13) ^ (line >> 21)
    place = tags + tl.TAG_BYTES * ways * (spread % sets)
    oldest, used = place, raw.i64(place + tl.USED)
    for n in range(ways):
        here = place + tl.TAG_BYTES * n
        if raw.i64(here + tl.TAG) == line + 1:
            return here, True
        if raw.i64(here + tl.USED) < used:
            oldest, used = here, raw.i64(here + tl.USED)
    return oldest, False


@part
def _count(sectors):
    return (sectors & 1) + ((sectors >> 1) & 1) + ((sectors >> 2) & 1) + ((sectors >> 3) & 1)


@part
def _channel(chip, line, sectors, when):
    """Sectors through the channel of DRAM that a line belongs to, not before `when`; the cycle in which they are."""
    channels = raw.i64(chip + tl.C_CHANNEL_COUNT)
    spread = (line >> 1) ^ (line >> 5) ^ (line >> 10) ^ (line >> 16)
    place = raw.i64(chip + tl.C_CHANNELS) + 8 * (spread % channels)
    begin = max(raw.i64(place), when * _PARTS)
    raw.put64(place, begin + _count(sectors) * number(chip, tl.M_DRAM_SECTOR))
    return begin // _PARTS


@part
def _make_room(chip, place, when):
    """Before a line of L2 goes: what was changed in it is written to DRAM."""
    changed = (raw.i64(place + tl.SECTORS) >> 4) & 15
    if changed:
        _channel(chip, raw.i64(place + tl.TAG) - 1, changed, when)
        raw.put64(chip + tl.C_DRAM_WRITTEN, raw.i64(chip + tl.C_DRAM_WRITTEN) + 32 * _count(changed))


@part
def through_l2(chip, sm, line, sectors, when, write):
    """Sectors of a line from L2, or to it, asked for in a cycle; when the last of them is there."""
    place, there = _found(raw.i64(chip + tl.C_L2), raw.i64(chip + tl.C_L2_SETS), tl.L2_WAYS, line)
    known = raw.i64(place + tl.SECTORS) & 15 if there else 0
    if not there:
        _make_room(chip, place, when)
        raw.put64(place + tl.TAG, line + 1)
        raw.put64(place + tl.SECTORS, 0)
        raw.put64(place + tl.FILLED, 0)
    raw.put64(place + tl.USED, when)
    far = ((line >> 5) ^ (line >> 11) ^ raw.i64(sm + tl.S_PARTITION)) & 1
    latency = number(chip, tl.M_LAT_L2_FAR) if far else number(chip, tl.M_LAT_L2)
    if write:
        raw.put64(place + tl.SECTORS, raw.i64(place + tl.SECTORS) | sectors | (sectors << 4))
        return when + latency
    missing = sectors & ~known
    raw.put64(chip + tl.C_L2_HITS, raw.i64(chip + tl.C_L2_HITS) + _count(sectors & known))
    done = when + latency
    if missing:
        raw.put64(chip + tl.C_L2_MISSES, raw.i64(chip + tl.C_L2_MISSES) + _count(missing))
        raw.put64(chip + tl.C_DRAM_READ, raw.i64(chip + tl.C_DRAM_READ) + 32 * _count(missing))
        way = number(chip, tl.M_LAT_DRAM)
        done = _channel(chip, line, missing, when + latency // 2) + way - latency // 2
        raw.put64(place + tl.SECTORS, raw.i64(place + tl.SECTORS) | missing)
        raw.put64(place + tl.FILLED, max(raw.i64(place + tl.FILLED), done - latency // 2))
    elif raw.i64(place + tl.FILLED) > when + latency // 2:  # another one's miss is under way
        done = raw.i64(place + tl.FILLED) + latency // 2
    return done


@part
def _port(chip, sm, place, per_sector, sectors, when):
    """Sectors through a way of a multiprocessor; when the last one is."""
    begin = max(raw.i64(sm + place), when * _PARTS)
    end = begin + _count(sectors) * number(chip, per_sector)
    raw.put64(sm + place, end)
    return end // _PARTS


@part
def read_lines(chip, sm, count, when, cached):
    """The lines in the list, read; the cycle in which the last one is there. `cached`: L1 is asked, and keeps them."""
    lines, done = raw.i64(sm + tl.S_LINES), when
    for n in range(count):
        line, sectors = raw.i64(lines + tl.LINE * n), raw.i64(lines + tl.LINE * n + 8)
        place = 0
        if cached and raw.i64(sm + tl.S_L1_SETS):
            place, there = _found(raw.i64(sm + tl.S_L1), raw.i64(sm + tl.S_L1_SETS), tl.L1_WAYS, line)
            if not there:
                raw.put64(place + tl.TAG, line + 1)
                raw.put64(place + tl.SECTORS, 0)
                raw.put64(place + tl.FILLED, 0)
            raw.put64(place + tl.USED, when)
            known = raw.i64(place + tl.SECTORS)
            raw.put64(sm + tl.S_L1_HITS, raw.i64(sm + tl.S_L1_HITS) + _count(sectors & known))
            if sectors & known:
                done = max(done, raw.i64(place + tl.FILLED))
            sectors &= ~known
            if sectors == 0:
                continue
        raw.put64(sm + tl.S_L1_MISSES, raw.i64(sm + tl.S_L1_MISSES) + _count(sectors))
        asked = _port(chip, sm, tl.S_PORT_FREE, tl.M_L2_SECTOR, sectors, when)
        filled = through_l2(chip, sm, line, sectors, asked, False)
        if place:
            raw.put64(place + tl.SECTORS, raw.i64(place + tl.SECTORS) | sectors)
            raw.put64(place + tl.FILLED, max(raw.i64(place + tl.FILLED), filled))
        done = max(done, filled)
    return done


@part
def write_lines(chip, sm, count, when):
    """The lines in the list, written through to L2. L1 keeps what it has of them, which is as new."""
    lines, done = raw.i64(sm + tl.S_LINES), when
    for n in range(count):
        line, sectors = raw.i64(lines + tl.LINE * n), raw.i64(lines + tl.LINE * n + 8)
        sent = _port(chip, sm, tl.S_STORE_FREE, tl.M_STORE_SECTOR, sectors, when)
        done = max(done, through_l2(chip, sm, line, sectors, sent, True))
    return done


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
