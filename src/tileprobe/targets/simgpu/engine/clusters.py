"""Programs of a cluster: whose shared memory an address means, and the barrier between all of them.

The programs of a cluster share a block: warps that have arrived, how often the barrier has opened, how many programs
there are, and the address of each. The upper byte of a shared address names one of them.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import clocks, findings, raw
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.numbers import NUMBERS, STAY, family

_ARRIVE = NUMBERS["UCGABAR_ARV"]
_PROGRESS = at.CTA_PROGRESS


@part
def member(cta, address):
    """The program whose shared memory an address lies in; 0 where there is none."""
    if raw.i64(cta + at.CTA_SHARED_BASE) == 0:  # sm_80: there are no clusters
        return cta
    number, block = address >> 24, raw.i64(cta + at.CTA_CLUSTER)
    if number >= raw.i64(block + at.CLUSTER_SIZE):
        return 0
    return raw.i64(block + at.CLUSTER_MEMBERS + 8 * number)


@part
def after_end(cta, owner, warp):
    """Notes that a warp uses the shared memory of another program that has ended."""
    block = clocks.block_of(owner)
    if block == 0 or owner == cta or raw.i64(owner + at.CTA_LIVE):
        return
    number, pc = raw.i32(warp + at.W_AGENT), raw.i32(warp + at.W_PC)
    program, other = raw.i64(block + clocks.PROGRAM), raw.i64(owner + at.CTA_WARPS)
    ended, who = raw.i32(other + at.W_PC), raw.i32(other + at.W_AGENT)
    findings.note(block, findings.LEFT, pc, number, program, ended, who, 0, 0, 0)


@part
def open_cluster(cta):
    """Opens the cluster's barrier if all warps that live have arrived."""
    block = raw.i64(cta + at.CTA_CLUSTER)
    living = 0
    for n in range(raw.i64(block + at.CLUSTER_SIZE)):
        living += raw.i64(raw.i64(block + at.CLUSTER_MEMBERS + 8 * n) + at.CTA_LIVE)
    arrived = raw.i64(block + at.CLUSTER_ARRIVED)
    if arrived == 0 or arrived < living:
        return
    raw.put64(block + at.CLUSTER_ARRIVED, 0)
    if clocks.block_of(cta):
        clocks.open_cluster(cta)
    raw.put64(block + at.CLUSTER_OPENED, raw.i64(block + at.CLUSTER_OPENED) + 1)
    for n in range(raw.i64(block + at.CLUSTER_SIZE)):
        other = raw.i64(block + at.CLUSTER_MEMBERS + 8 * n)
        raw.put64(other + _PROGRESS, raw.i64(other + _PROGRESS) + 1)


@part
def cluster_opened(cta, warp):
    """Whether the barrier has opened since a warp arrived at it."""
    opened = raw.i64(raw.i64(cta + at.CTA_CLUSTER) + at.CLUSTER_OPENED) & 0x7FFFFFFF
    return opened != raw.i32(warp + at.W_CLUSTER_PHASE)


@family("UCGABAR_ARV", "UCGABAR_WAIT")
def barrier(op, uop, warp, cta, constants, mask, pc):
    if mask == 0:
        return at.OK
    block, races = raw.i64(cta + at.CTA_CLUSTER), clocks.block_of(cta)
    if op == _ARRIVE:
        if races:
            clocks.release(cta, warp, clocks.of_cluster(races))
        raw.put32(warp + at.W_CLUSTER_PHASE, raw.i64(block + at.CLUSTER_OPENED) & 0x7FFFFFFF)
        raw.put64(block + at.CLUSTER_ARRIVED, raw.i64(block + at.CLUSTER_ARRIVED) + 1)
        open_cluster(cta)
        return at.OK
    if cluster_opened(cta, warp):
        if races:
            clocks.acquire(cta, raw.i32(warp + at.W_AGENT), clocks.of_cluster(races) + 1)
        return at.OK
    raw.put32(warp + at.W_STATUS, at.AT_CLUSTER)
    return STAY
