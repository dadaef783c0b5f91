"""What multiprocessors share, L2 and DRAM: requests of a turn are answered when all multiprocessors have had it.

No answer comes sooner than a turn is long, so nobody misses it before. Requests are taken in the order in which they
come to L2, of the same cycle in the order of multiprocessors: answers do not depend on who ran first, or beside whom.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.timed_caches import found, note_busy, number, sectors_in, used

_PARTS = tl.PARTS


@part
def _channel(chip, line, sectors, when, what):
    """Sectors through the channel of DRAM that a line belongs to, not before `when`; the cycle in which they are."""
    channels = raw.i64(chip + tl.C_CHANNEL_COUNT)
    spread = (line >> 1) ^ (line >> 5) ^ (line >> 10) ^ (line >> 16)
    place = raw.i64(chip + tl.C_CHANNELS) + 8 * (spread % channels)
    begin = max(raw.i64(place), when * _PARTS)
    end = begin + sectors_in(sectors) * number(chip, tl.M_DRAM_SECTOR)
    raw.put64(place, end)
    if raw.i64(chip + tl.C_BUSY_ROOM):
        note_busy(chip, tl.C_BUSY, spread % channels, what, begin, end)
    return begin // _PARTS


@part
def _make_room(chip, place, when):
    """Before a line of L2 goes: what was changed in it is written to DRAM."""
    changed = (raw.i64(place + tl.SECTORS) >> 4) & 15
    if changed:
        _channel(chip, raw.i64(place + tl.TAG) - 1, changed, when, tl.FOR_CHANGED)
        raw.put64(chip + tl.C_DRAM_WRITTEN, raw.i64(chip + tl.C_DRAM_WRITTEN) + 32 * sectors_in(changed))


@part
def _through_l2(chip, partition, line, sectors, when, write, hint):
    """Sectors of a line from L2, or to it, asked for in a cycle; when the last of them is there."""
    place, there = found(raw.i64(chip + tl.C_L2), raw.i64(chip + tl.C_L2_SETS), tl.L2_WAYS, line)
    known = raw.i64(place + tl.SECTORS) & 15 if there else 0
    if not there:
        _make_room(chip, place, when)
        raw.put64(place + tl.TAG, line + 1)
        raw.put64(place + tl.SECTORS, 0)
        raw.put64(place + tl.FILLED, 0)
    raw.put64(place + tl.USED, used(when, hint))
    far = ((line >> 5) ^ (line >> 11) ^ partition) & 1
    latency = number(chip, tl.M_LAT_L2_FAR) if far else number(chip, tl.M_LAT_L2)
    if write:
        raw.put64(place + tl.SECTORS, raw.i64(place + tl.SECTORS) | sectors | (sectors << 4))
        return when + latency
    missing = sectors & ~known
    raw.put64(chip + tl.C_L2_HITS, raw.i64(chip + tl.C_L2_HITS) + sectors_in(sectors & known))
    done = when + latency
    if missing:
        raw.put64(chip + tl.C_L2_MISSES, raw.i64(chip + tl.C_L2_MISSES) + sectors_in(missing))
        raw.put64(chip + tl.C_DRAM_READ, raw.i64(chip + tl.C_DRAM_READ) + 32 * sectors_in(missing))
        way = number(chip, tl.M_LAT_DRAM)
        done = _channel(chip, line, missing, when + latency // 2, tl.FOR_READ) + way - latency // 2
        raw.put64(place + tl.SECTORS, raw.i64(place + tl.SECTORS) | missing)
        raw.put64(place + tl.FILLED, max(raw.i64(place + tl.FILLED), done - latency // 2))
    elif raw.i64(place + tl.FILLED) > when + latency // 2:  # another one's miss is under way
        done = raw.i64(place + tl.FILLED) + latency // 2
    return done


@part
def _bucket(entry, first):
    """Where a request stands in the order of a turn that began in cycle `first`."""
    return min(max(raw.i64(entry + tl.Q_ASKED) - first, 0), tl.BUCKETS - 1)


@part
def _in_order(chip, first):
    """Puts what was asked in order: by cycle, then multiprocessor, then as it was asked. How many there are."""
    sms, count = raw.i64(chip + tl.C_SMS), raw.i64(chip + tl.C_COUNT)
    buckets, total = raw.i64(chip + tl.C_BUCKETS), 0
    raw.fill(buckets, 0, 8 * tl.BUCKETS)
    for n in range(count):
        sm = raw.i64(sms + 8 * n)
        entry = raw.i64(sm + tl.S_REQUESTS)
        for _ in range(raw.i64(sm + tl.S_REQUEST_COUNT)):
            if raw.i64(entry + tl.Q_KIND) <= tl.WRITE:
                place = buckets + 8 * _bucket(entry, first)
                raw.put64(place, raw.i64(place) + 1)
                total += 1
            entry += tl.REQUEST
    if total == 0:
        return 0
    before = 0
    for n in range(tl.BUCKETS):
        here = raw.i64(buckets + 8 * n)
        raw.put64(buckets + 8 * n, before)
        before += here
    order = raw.i64(chip + tl.C_ORDER)
    for n in range(count):
        sm = raw.i64(sms + 8 * n)
        entry, half = raw.i64(sm + tl.S_REQUESTS), raw.i64(sm + tl.S_PARTITION)
        for _ in range(raw.i64(sm + tl.S_REQUEST_COUNT)):
            if raw.i64(entry + tl.Q_KIND) <= tl.WRITE:
                place = buckets + 8 * _bucket(entry, first)
                at = order + tl.ORDERED * raw.i64(place)
                raw.put64(place, raw.i64(place) + 1)
                raw.put64(at, entry)
                raw.put64(at + 8, half)
            entry += tl.REQUEST
    return total


@part
def answer(chip, first):
    """Answers what multiprocessors have asked of L2 in a turn that began in cycle `first`."""
    order = raw.i64(chip + tl.C_ORDER)
    for _ in range(_in_order(chip, first)):
        entry, half = raw.i64(order), raw.i64(order + 8)
        line, sectors, asked = (
            raw.i64(entry + tl.Q_LINE),
            raw.i64(entry + tl.Q_SECTORS),
            raw.i64(entry + tl.Q_ASKED),
        )
        write = raw.i64(entry + tl.Q_KIND) == tl.WRITE
        raw.put64(
            entry + tl.Q_FILLED,
            _through_l2(chip, half, line, sectors, asked, write, raw.i64(entry + tl.Q_HINT)),
        )
        order += tl.ORDERED
