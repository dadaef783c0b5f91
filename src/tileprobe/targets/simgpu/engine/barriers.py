"""Barriers between the warps of a program: named ones, counted in threads."""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, findings, raw
from tileprobe.targets.simgpu.engine import layout as at

_BARRIERS, _BARRIER = at.CTA_BARRIERS, at.BARRIER
_WARPS, _WARP_BYTES, _LIVE, _COUNT = at.CTA_WARPS, at.CTA_WARP_BYTES, at.CTA_LIVE, at.CTA_WARP_COUNT
_STATUS, _RUNNING, _WAITING = at.W_STATUS, at.RUNNING, at.AT_BARRIER
_PROGRESS, _EPOCH = at.CTA_PROGRESS, at.CTA_EPOCH


@part
def arrive(cta, warp, number, threads, waits):
    """A warp comes to a barrier that waits for so many threads (0: for all that live). Whether it can go on."""
    place = cta + _BARRIERS + _BARRIER * number
    block = clocks.block_of(cta)
    if block:
        clocks.release(cta, warp, clocks.named(block, number))
    raw.put64(place, threads)
    raw.put64(place + 8, raw.i64(place + 8) + 32)
    if waits:
        own = raw.i32(warp + at.W_NUMBER)
        raw.put64(place + 16, raw.i64(place + 16) | (1 << own))
        raw.put32(warp + _STATUS, _WAITING)
        raw.put32(warp + at.W_WAIT_AT, number)
    _open(cta, number)
    return raw.i32(warp + _STATUS) == _RUNNING


@part
def _open(cta, number):
    """Lets everybody go if all are there."""
    place = cta + _BARRIERS + _BARRIER * number
    expected = raw.i64(place)
    if expected == 0:
        expected = 32 * raw.i64(cta + _LIVE)
    if raw.i64(place + 8) < expected:
        return
    waiting, block = raw.i64(place + 16), clocks.block_of(cta)
    raw.put64(place + 8, 0)
    raw.put64(place + 16, 0)
    warps, size = raw.i64(cta + _WARPS), raw.i64(cta + _WARP_BYTES)
    for n in range(raw.i64(cta + _COUNT)):
        if (waiting >> n) & 1:
            raw.put32(warps + n * size + _STATUS, _RUNNING)
            if block:
                agent = raw.i32(warps + n * size + at.W_AGENT)
                clocks.acquire(cta, agent, clocks.named(block, number))
    if block:
        clocks.forget(cta, clocks.named(block, number))
    raw.put64(cta + _PROGRESS, raw.i64(cta + _PROGRESS) + 1)
    raw.put64(cta + _EPOCH, raw.i64(cta + _EPOCH) + 1)


@part
def one_less(cta):
    """A warp has exited: barriers that wait for all that live may open."""
    raw.put64(cta + _LIVE, raw.i64(cta + _LIVE) - 1)
    for number in range(16):
        place = cta + _BARRIERS + _BARRIER * number
        if raw.i64(place + 16) and raw.i64(place) == 0 and raw.i64(cta + _LIVE) > 0:
            _open(cta, number)


@part
def leave(cta, warp):
    """A warp has exited. If it was its program's last, others of the cluster must be done with its shared memory."""
    block, count = clocks.block_of(cta), raw.i64(cta + at.CTA_WARP_COUNT)
    if block == 0 or raw.i64(cta + at.CTA_LIVE) or raw.i64(block + clocks.VISITS) == 0:
        return
    program, number = raw.i64(block + clocks.PROGRAM), raw.i32(warp + at.W_AGENT)
    for agent in range(raw.i64(block + clocks.WARPS)):
        if clocks.visitor(block, count, agent):
            then = raw.i32(raw.i64(block + clocks.VISITS) + 8 * agent + 4)
            pc = raw.i32(warp + at.W_PC)
            findings.note(block, findings.LEFT, then, agent, program, pc, number, 0, 0, 0)
