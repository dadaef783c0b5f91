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
    """Sectors through the channel of DRAM that a line belongs to, not before `when`; the cycle in which they are. A
    channel that turns from reads to writes, or back, loses time."""
    channels = raw.i64(chip + tl.C_CHANNEL_COUNT)
    spread = (line >> 1) ^ (line >> 5) ^ (line >> 10) ^ (line >> 16)
    place = raw.i64(chip + tl.C_CHANNELS) + tl.CHANNEL * (spread % channels)
    begin = max(raw.i64(place), when * _PARTS)
    if raw.i64(place + 8) != what:
        begin += number(chip, tl.M_DRAM_TURN)
        raw.put64(place + 8, what)
    end = begin + sectors_in(sectors) * number(chip, tl.M_DRAM_SECTOR)
    raw.put64(place, end)
    if raw.i64(chip + tl.C_BUSY_ROOM):
        note_busy(chip, tl.C_BUSY, spread % channels, what, begin, end)
    return begin // _PARTS


@part
def _slice(chip, line, sectors, when, each, what):
    """Sectors through the slice of L2 that a line belongs to, each of which takes so many parts of a cycle; the cycle
    in which they are."""
    spread = line ^ (line >> 4) ^ (line >> 9) ^ (line >> 15)
    number_of = spread % raw.i64(chip + tl.C_SLICE_COUNT)
    place = raw.i64(chip + tl.C_SLICES) + 8 * number_of
    begin = max(raw.i64(place), when * _PARTS)
    end = begin + sectors_in(sectors) * each
    raw.put64(place, end)
    if raw.i64(chip + tl.C_BUSY_ROOM):
        note_busy(chip, tl.C_BUSY, tl.SLICES + number_of, what, begin, end)
    return begin // _PARTS


@part
def _make_room(chip, place, when):
    """Before a line of L2 goes: what was changed in it is written to DRAM. The cycle in which there is room."""
    changed = (raw.i64(place + tl.SECTORS) >> 4) & 15
    if changed == 0:
        return when
    raw.put64(chip + tl.C_DRAM_WRITTEN, raw.i64(chip + tl.C_DRAM_WRITTEN) + 32 * sectors_in(changed))
    return _channel(chip, raw.i64(place + tl.TAG) - 1, changed, when, tl.FOR_CHANGED)


@part
def _line(chip, half, line, when, hint):
    """The place of a line in a half of L2, with those of its sectors that are there; and when it has room."""
    sets = raw.i64(chip + tl.C_L2_SETS) // 2
    tags = raw.i64(chip + tl.C_L2) + half * tl.TAG_BYTES * tl.L2_WAYS * sets
    place, there = found(tags, sets, tl.L2_WAYS, line)
    room = when
    if not there:
        room = _make_room(chip, place, when)
        raw.put64(place + tl.TAG, line + 1)
        raw.put64(place + tl.SECTORS, 0)
        raw.put64(place + tl.FILLED, 0)
    raw.put64(place + tl.USED, used(when, hint))
    return place, room


@part
def _home(line):
    """The half of L2 whose DRAM a line is in."""
    return ((line >> 5) ^ (line >> 11)) & 1


@part
def _write(chip, half, line, sectors, when, hint):
    """Sectors of a line, written into the half where it is at home; the other one forgets what it had of them."""
    home = _home(line)
    place, room = _line(chip, home, line, when, hint)
    raw.put64(place + tl.SECTORS, raw.i64(place + tl.SECTORS) | sectors | (sectors << 4))
    sets = raw.i64(chip + tl.C_L2_SETS) // 2
    tags = raw.i64(chip + tl.C_L2) + (1 - home) * tl.TAG_BYTES * tl.L2_WAYS * sets
    copy, there = found(tags, sets, tl.L2_WAYS, line)
    if there:
        raw.put64(copy + tl.SECTORS, raw.i64(copy + tl.SECTORS) & ~sectors)
    return max(when, room) + number(chip, tl.M_LAT_L2 if home == half else tl.M_LAT_L2_FAR)


@part
def _from_home(chip, half, line, missing, when, latency, hint):
    """Sectors that the near half has not got; when they are there. `latency`: of the way to where the line is at
    home."""
    home = _home(line)
    place = _line(chip, home, line, when, hint)[0] if home != half else 0
    there = raw.i64(place + tl.SECTORS) & 15 if home != half else 0
    done, absent = when, missing & ~there
    raw.put64(chip + tl.C_L2_HITS, raw.i64(chip + tl.C_L2_HITS) + sectors_in(missing & there))
    if missing & there:
        done = max(when, raw.i64(place + tl.FILLED) - latency // 2) + latency  # it may be under way
    if absent:
        raw.put64(chip + tl.C_L2_MISSES, raw.i64(chip + tl.C_L2_MISSES) + sectors_in(absent))
        raw.put64(chip + tl.C_DRAM_READ, raw.i64(chip + tl.C_DRAM_READ) + 32 * sectors_in(absent))
        way = number(chip, tl.M_LAT_DRAM)
        done = max(done, _channel(chip, line, absent, when + latency // 2, tl.FOR_READ) + way - latency // 2)
        if home != half:
            raw.put64(place + tl.SECTORS, raw.i64(place + tl.SECTORS) | absent)
            raw.put64(place + tl.FILLED, max(raw.i64(place + tl.FILLED), done - latency // 2))
    return done


@part
def _read(chip, half, line, sectors, when, hint):
    """Sectors of a line, asked for in a cycle; when the last of them is there. Each half of L2 keeps what its
    multiprocessors read, also of lines that are at home in the other."""
    place, _ = _line(chip, half, line, when, hint)
    known, near = raw.i64(place + tl.SECTORS) & 15, number(chip, tl.M_LAT_L2)
    latency = near if _home(line) == half else number(chip, tl.M_LAT_L2_FAR)
    missing, done = sectors & ~known, when + near
    raw.put64(chip + tl.C_L2_HITS, raw.i64(chip + tl.C_L2_HITS) + sectors_in(sectors & known))
    if sectors & known and raw.i64(place + tl.FILLED) > when + near // 2:  # another one's miss is under way
        done = raw.i64(place + tl.FILLED) + near // 2
    if missing:
        done = max(done, _from_home(chip, half, line, missing, when, latency, hint))
        raw.put64(place + tl.SECTORS, raw.i64(place + tl.SECTORS) | missing)
        raw.put64(place + tl.FILLED, max(raw.i64(place + tl.FILLED), done - near // 2))
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
        hint, done = raw.i64(entry + tl.Q_HINT), 0
        if raw.i64(entry + tl.Q_KIND) == tl.WRITE:
            asked = _slice(chip, line, sectors, asked, number(chip, tl.M_STORE_SECTOR), tl.FOR_CHANGED)
            done = _write(chip, half, line, sectors, asked, hint)
            raw.put64(chip + tl.C_WRITTEN, max(raw.i64(chip + tl.C_WRITTEN), done))
        else:
            asked = _slice(chip, line, sectors, asked, number(chip, tl.M_L2_SECTOR), tl.FOR_READ)
            done = _read(chip, half, line, sectors, asked, hint)
        raw.put64(entry + tl.Q_FILLED, done)
        order += tl.ORDERED
