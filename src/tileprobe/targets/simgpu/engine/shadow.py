"""What touches memory says so here; where `CTA_CHECKS` asks for it, `watch` looks at it. Answers are OK or a fault.

`loads`, `stores`, `atomics` and `touch` are for the lanes of a warp, `store` for one place, `copies` and those below it
for asynchronous copies. Offsets count from the start of the program's shared memory.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine.calls import call
from tileprobe.targets.simgpu.engine.numbers import NUMBERS

LOADS, STORES, GLOBAL, STORE, COPIES, COPY, COPIED, LOADED, ENGINE, ATOMICS, ARRIVES, LINE = range(12)
READ, WRITE, ATOMIC, STRONG_READ, STRONG_WRITE = range(5)  # how global memory is touched
STRONG = 0x200  # of I2 of a load or a store: it is seen by all in order, as an atomic is
_WATCH = 8 * NUMBERS["WATCH"]


@part
def _ask(cta, which, a, warp, b, c, d):
    if raw.i64(cta + at.CTA_CHECKS) == 0:
        return at.OK
    return call(raw.i64(cta + at.CTA_TABLE) + _WATCH, which, a, warp, cta, b, c, d)


@part
def mark(cta, offset, size, state):
    """Bytes are in this state from now on."""
    if raw.i64(cta + at.CTA_CHECKS):
        raw.fill(raw.i64(cta + at.CTA_SHADOW) + offset, state, size)


@part
def loads(cta, warp, out, mask, size):
    """The lanes of a warp read at the addresses at `out`."""
    return _ask(cta, LOADS, out, warp, mask, size, 0)


@part
def stores(cta, warp, out, mask, size, source):
    """The lanes of a warp write the registers at `source` to the addresses at `out`."""
    return _ask(cta, STORES, out, warp, mask, size, source)


@part
def atomics(cta, warp, out, mask, size):
    """The lanes of a warp change what is at the addresses at `out`, each at once."""
    return _ask(cta, ATOMICS, out, warp, mask, size, 0)


@part
def arrives(cta, warp, out, mask):
    """The lanes of a warp arrive at barriers of sm_80 at the addresses at `out`."""
    return _ask(cta, ARRIVES, out, warp, mask, 8, 0)


@part
def store(cta, warp, lane, offset, size, same):
    """A warp writes here. `same`: what is there already."""
    return _ask(cta, STORE, lane, warp, offset, size, 1 if same else 0)


@part
def copies(cta, warp, out, mask, size):
    """The lanes of a warp issue asynchronous copies to the shared addresses at `out`."""
    return _ask(cta, COPIES, out, warp, mask, size, 0)


@part
def copy(cta, warp, offset, size):
    """A bulk load to shared memory is issued."""
    return _ask(cta, COPY, 0, warp, offset, size, 0)


@part
def copied(cta, warp, out, mask, size, pc, time):
    """Copies that a warp has waited for are done, to the places of this machine's memory at `out`: they count as the
    warp's own writing, now. If a barrier was waited for instead: at the time at which the warp arrived at it."""
    return _ask(cta, COPIED, out, warp, mask, size, pc | (time << 32))


@part
def loaded(cta, barrier, offset, size, pc):
    """A bulk load has arrived."""
    return _ask(cta, LOADED, barrier, 0, offset, size, pc)


@part
def engine_reads(cta, warp, kind, offset, size):
    """A bulk store or a product of a warp group is issued, which reads here."""
    return _ask(cta, ENGINE, kind, warp, offset, size, 0)


@part
def touch(cta, warp, out, mask, size, how, source):
    """The lanes of a warp touch global memory at the addresses at `out`; WRITE: the registers at `source`."""
    if raw.i64(cta + at.CTA_RACES) == 0:
        return at.OK
    return _ask(cta, GLOBAL, out, warp, mask, size | (how << 8), source)


@part
def line(cta, pc, address, size, load, same):
    """An asynchronous engine reads or writes a line of a tile in global memory."""
    if raw.i64(cta + at.CTA_RACES) == 0:
        return at.OK
    return _ask(cta, LINE, pc, 0, address, size, (1 if load else 0) | (2 if same else 0))
