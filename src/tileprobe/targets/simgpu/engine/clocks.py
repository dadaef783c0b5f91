"""Who knows of whose past: vector clocks of the warps of a program, of its barriers, and of what runs asynchronously.

Everything that touches shared memory is an agent with a clock: warps first, then the bulk stores of each warp, the
products of warp groups that each warp issues, and bulk loads, by the barrier in shared memory that they arrive at. What
an agent did at time t lies behind a warp that knows of a time of at least t. A barrier takes up what its arrivals know
(`release`) and hands it on to those it lets go (`acquire`).

The programs of a cluster have their clocks in common, with all of their warps numbered through; each has a block of its
own, with the places of its own barriers and bulk loads.

Beside each clock stands a second one: up to which time what was written is also seen by asynchronous engines, because a
fence stood between (`fence`). All of it lies in one block of memory, which `CTA_RACES` names; 0 where nobody asks.
"""

from __future__ import annotations

from tileprobe.targets.jit import part
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import raw

# 64-bit fields of the block
(
    WARPS, AGENTS, SHIFT, ENTRY, SHADOW, SHADOW_BYTES, CLOCKS, CLOCKS_BYTES, COUNTERS, FOUND, FOUND_COUNT, LOST,
    PROGRAM, SPANS, SPAN_COUNT, LAST_SPAN, GLOBAL_SHIFT, STAMP, ATOMICS, NAMED_AT, COPIES_AT, COUNTERS_BYTES,
    FIRST_WARP, VISITS,
) = (8 * n for n in range(24))  # fmt: skip
HEADER_BYTES = 256
NAMED, IN_MEMORY, COPIES = (
    16,
    64,
    16,
)  # barriers of both kinds, agents of bulk loads; addresses share these places


def agents(warps: int, engines: bool, programs: int = 1) -> int:
    """`engines`: whether the kernel uses bulk copies, products of warp groups or barriers in shared memory; `programs`
    are those of a cluster, `warps` all of theirs."""
    return 3 * warps + COPIES * programs if engines else warps


def subjects(warps: int, engines: bool, programs: int = 1) -> int:
    """What has a clock: warps, the cluster's barrier (those that have come, and those that it let go), barriers."""
    return named_at(warps, engines, programs)


def named_at(warps: int, engines: bool, rank: int) -> int:
    """The first barrier of a program of a cluster."""
    return warps + 2 + rank * (NAMED + (IN_MEMORY if engines else 0))


def counters_bytes(warps: int, programs: int = 1) -> int:
    """Groups of bulk stores and of products that each warp has made, bulk loads that have arrived at each barrier."""
    return 4 * (2 * warps + COPIES * programs)


@part
def block_of(cta):
    return raw.i64(cta + at.CTA_RACES)


@part
def clock_of(block, subject):
    """Where the clocks of a warp or a barrier lie: what it knows, then what of it has passed a fence."""
    return raw.i64(block + CLOCKS) + 8 * raw.i64(block + AGENTS) * subject


@part
def known(block, warp, agent):
    return raw.u32(clock_of(block, warp) + 4 * agent)


@part
def fenced(block, warp, agent):
    return raw.u32(clock_of(block, warp) + 4 * (raw.i64(block + AGENTS) + agent))


@part
def _join(block, target, source):
    count = 2 * raw.i64(block + AGENTS)
    into, out_of = clock_of(block, target), clock_of(block, source)
    for n in range(count):
        mine, other = raw.u32(into + 4 * n), raw.u32(out_of + 4 * n)
        raw.put32(into + 4 * n, max(mine, other))


@part
def _tick(block, warp):
    place = clock_of(block, warp) + 4 * warp
    raw.put32(place, raw.u32(place) + 1)


@part
def named(block, number):
    return raw.i64(block + NAMED_AT) + number


@part
def in_memory(block, address):
    return raw.i64(block + NAMED_AT) + NAMED + ((address >> 3) & (IN_MEMORY - 1))


@part
def of_cluster(block):
    return raw.i64(block + WARPS)


@part
def open_cluster(cta):
    """The cluster's barrier opens: those it lets go know of all that have come. Others may come to it anew before."""
    block = block_of(cta)
    come, gone = of_cluster(block), of_cluster(block) + 1
    raw.copy(clock_of(block, gone), clock_of(block, come), 8 * raw.i64(block + AGENTS))
    forget(cta, come)


@part
def release(cta, warp, subject):
    """A warp comes to a barrier: what it did up to here is handed on."""
    block = block_of(cta)
    number = raw.i32(warp + at.W_AGENT)
    _join(block, subject, number)
    _tick(block, number)


@part
def acquire(cta, number, subject):
    """A barrier lets a warp go."""
    _join(block_of(cta), number, subject)


@part
def forget(cta, subject):
    """A barrier begins anew."""
    block = block_of(cta)
    raw.fill(clock_of(block, subject), 0, 8 * raw.i64(block + AGENTS))


@part
def fence(cta, warp):
    """What the warp knows of is seen by asynchronous engines from now on."""
    block = block_of(cta)
    if block == 0:
        return
    number, count = raw.i32(warp + at.W_AGENT), raw.i64(block + AGENTS)
    place = clock_of(block, number)
    for n in range(count):
        seen = raw.u32(place + 4 * (count + n))
        raw.put32(place + 4 * (count + n), max(seen, raw.u32(place + 4 * n)))
    _tick(block, number)


@part
def now(block, number):
    return known(block, number, number)


# -- groups of what runs asynchronously: STORES and PRODUCTS of a warp ------------------------------------------------
STORES, PRODUCTS = 1, 2


@part
def _counter(block, kind, number):
    return raw.i64(block + COUNTERS) + 4 * ((kind - 1) * raw.i64(block + WARPS) + number)


@part
def agent_of(block, kind, number):
    return kind * raw.i64(block + WARPS) + number


@part
def open_group(block, kind, number):
    """The time at which what is issued now belongs to a group that is waited for."""
    return raw.u32(_counter(block, kind, number)) + 1


@part
def close_group(cta, warp, kind):
    block = block_of(cta)
    if block:
        place = _counter(block, kind, raw.i32(warp + at.W_AGENT))
        raw.put32(place, raw.u32(place) + 1)


@part
def wait_groups(cta, warp, kind, pending):
    """All groups but the newest `pending` are done."""
    block = block_of(cta)
    if block == 0:
        return
    number = raw.i32(warp + at.W_AGENT)
    if agent_of(block, kind, number) >= raw.i64(block + AGENTS):  # nothing of the kind is issued
        return
    done = raw.u32(_counter(block, kind, number)) - pending
    place = clock_of(block, number) + 4 * agent_of(block, kind, number)
    if done > raw.u32(place):
        raw.put32(place, done)


@part
def copy_agent(block, barrier):
    return raw.i64(block + COPIES_AT) + ((barrier >> 3) & (COPIES - 1))


@part
def arrived(block, barrier):
    """A bulk load is done: its barrier knows of it. The time of its writes."""
    agent = copy_agent(block, barrier)
    place = raw.i64(block + COUNTERS) + 4 * (agent - raw.i64(block + WARPS))
    time = raw.u32(place) + 1
    raw.put32(place, time)
    raw.put32(clock_of(block, in_memory(block, barrier)) + 4 * agent, time)
    return time


@part
def begin(cta):
    """Before a program: every warp has a clock of its own, and knows of nobody."""
    block = block_of(cta)
    raw.fill(raw.i64(block + CLOCKS), 0, raw.i64(block + CLOCKS_BYTES))
    raw.fill(raw.i64(block + SHADOW), 0, raw.i64(block + SHADOW_BYTES))
    raw.fill(raw.i64(block + COUNTERS), 0, raw.i64(block + COUNTERS_BYTES))
    for n in range(raw.i64(block + WARPS)):
        raw.put32(clock_of(block, n) + 4 * n, 1)
    if raw.i64(block + VISITS):
        raw.fill(raw.i64(block + VISITS), 0, 8 * raw.i64(block + WARPS))


# -- visits of other programs of the cluster ---------------------------------------------------------------------------
@part
def visit(block, warp):
    """A warp of another program uses this one's shared memory."""
    number = raw.i32(warp + at.W_AGENT)
    place = raw.i64(block + VISITS) + 8 * number
    raw.put32(place, now(block, number))
    raw.put32(place + 4, raw.i32(warp + at.W_PC))


@part
def visitor(block, count, agent):
    """When a warp of another program used this one's shared memory last, if none of this one's `count` warps knows that
    it has; 0 otherwise."""
    time = raw.u32(raw.i64(block + VISITS) + 8 * agent)
    first = raw.i64(block + FIRST_WARP)
    for n in range(first, first + count):
        if known(block, n, agent) >= time:
            return 0
    return time
