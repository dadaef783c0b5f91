"""Whether the kernel may touch the addresses that its lanes computed."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw
from tileprobe.targets.simgpu.engine.calls import execute
from tileprobe.targets.simgpu.engine.lanes_address import HIGHEST, LOWEST, TOGETHER
from tileprobe.targets.simgpu.engine.vectors import NUMBERS

_RANGES, _COUNT, _LAST, _TABLE = at.CTA_RANGES, at.CTA_RANGE_COUNT, at.CTA_LAST_RANGE, at.CTA_TABLE
_RANGE = at.RANGE
_ERROR, _ERROR_LANE, _ERROR_ADDRESS, _ERROR_MORE = (
    at.CTA_ERROR, at.CTA_ERROR_LANE, at.CTA_ERROR_ADDRESS, at.CTA_ERROR_MORE,
)  # fmt: skip
_GLOBAL, _SHARED, _SECOND = (
    8 * NUMBERS[name] for name in ("addresses", "addresses_shared", "addresses_second")
)


@part
def global_addresses(uop, warp, cta, constants, mask, out):
    execute(raw.i64(cta + _TABLE) + _GLOBAL, uop, warp, constants, mask, out)


@part
def second_addresses(uop, warp, cta, constants, mask, out):
    execute(raw.i64(cta + _TABLE) + _SECOND, uop, warp, constants, mask, out)


@part
def shared_addresses(uop, warp, cta, constants, mask, out):
    execute(raw.i64(cta + _TABLE) + _SHARED, uop, warp, constants, mask, out)


@part
def inside(cta, low, high):
    """Whether all bytes from `low` up to `high` lie in one range. The one found last is looked at first."""
    ranges, last = raw.i64(cta + _RANGES), raw.i64(cta + _LAST)
    if low >= raw.i64(ranges + _RANGE * last) and high <= raw.i64(ranges + _RANGE * last + 8):
        return True
    for n in range(raw.i64(cta + _COUNT)):
        if low >= raw.i64(ranges + _RANGE * n) and high <= raw.i64(ranges + _RANGE * n + 8):
            raw.put64(cta + _LAST, n)
            return True
    return False


@part
def fault(cta, kind, lane, address, more):
    """Notes what went wrong; the caller returns it."""
    raw.put64(cta + _ERROR, kind)
    raw.put64(cta + _ERROR_LANE, lane)
    raw.put64(cta + _ERROR_ADDRESS, address)
    raw.put64(cta + _ERROR_MORE, more)
    return kind


@part
def check_global(cta, out, mask, size):
    """Addresses at `out` must be aligned and in memory that the kernel may touch."""
    low, high = raw.i64(out + LOWEST), raw.i64(out + HIGHEST)
    if raw.i64(out + TOGETHER) & (size - 1):
        for lane in range(32):
            if (mask >> lane) & 1 and raw.i64(out + 8 * lane) & (size - 1):
                return fault(cta, at.MISALIGNED, lane, raw.i64(out + 8 * lane), size)
    if low >= 0 and high >= 0 and inside(cta, low, high + size):  # above 2**63 is negative, and no memory
        return at.OK
    for lane in range(32):
        if (mask >> lane) & 1:
            address = raw.i64(out + 8 * lane)
            if address < 0 or not inside(cta, address, address + size):
                return fault(cta, at.OUT_OF_BOUNDS, lane, address, size)
    return at.OK
