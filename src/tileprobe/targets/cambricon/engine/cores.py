"""What the cores of a channel start between two grants of its bus: array reads, computation, results that queue.

Comes in: requests whose input has arrived. Goes out: results in the ring that `channel` empties, in the order of time.
"""

from __future__ import annotations

import numpy as np

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine import state as st
from tileprobe.targets.cambricon.engine.state import OPEN_REQUESTS, record
from tileprobe.targets.cambricon.engine.upkeep import retries_us, rewrite_us
from tileprobe.targets.jit import inline

INF = np.inf
RING = OPEN_REQUESTS - 1
OUTPUT_BUFFERS = 2  # of a core: it computes into one while the other waits for the bus


@inline
def start_pages(ch, tables, k, s, tr):
    """Start what can start on the cores that saw an event."""
    c = ch.number
    for q in range(ch.first_core, ch.end_core):
        core = s.cores[c, q]
        while core.next_request < ch.delivered:
            request = s.requests[c, core.next_request & RING]
            page = tables.compute[request.row, c, q]
            if page.rows == 0:  # no page of this request is the core's
                core.next_request += 1
            elif core.issued - core.drained >= OUTPUT_BUFFERS:
                break
            else:
                start_part(ch, q, core, request, page, tables.matrices, k, s, tr)
    while ch.finished < ch.delivered and s.requests[c, ch.finished & RING].left == 0:
        if ch.finished > 0:  # in order: its slot is free when those before it are over, too
            request, before = s.requests[c, ch.finished & RING], s.requests[c, (ch.finished - 1) & RING]
            request.end = max(request.end, before.end)
        ch.finished += 1


@inline
def start_part(ch, q, core, request, page, mats, k, s, tr):
    """Compute what fits one output buffer of a page, and queue its result."""
    c, m, part = ch.number, request.mat, core.part
    part_rows = min(page.part_rows, page.rows - part * page.part_rows)
    plane = s.planes[c, q, page.plane]
    start = max(core.free, core.drain_time[core.issued & 1])
    if part == 0:
        number = page.number + mats[m, p.COMPUTE_OFFSET]
        start = max(start, load_page(ch, q, plane, number, k, s, tr), request.arrival)
    values = part_rows * page.cols
    end = start + k.page_us * values / mats[m, p.VALUES_PER_PAGE]
    s.core_busy[c, q] += end - start
    core.free = end
    core.issued += 1
    record(tr, st.T_COMPUTE, c, q, ch.op, start, end, values)
    queue_result(ch, s.results, end, q, part_rows * page.sum_bytes, m)
    core.part = part + 1
    if core.part * page.part_rows >= page.rows:
        core.part = 0
        core.next_request += 1
        plane.cache_free = end
        request.left -= 1
        request.end = max(request.end, end)
        s.stats[c, st.N_COMPUTED] += 1


@inline
def load_page(ch, q, plane, number, k, s, tr):
    """The page from the array into the cache register; the next array read begins. Returns when it is there."""
    die = q // k.cores_per_die
    read = plane.read_done
    if not k.prefetch:  # no read before the vector exists that it will meet
        read = max(plane.reading, ch.t_in) + k.read_us
    ready = read + retries_us(ch, die, number, k, s)
    moved = max(ready, plane.cache_free) + k.copy_us
    record(tr, st.T_ARRAY, ch.number, q, ch.op, read - k.read_us, read, number)
    if ready > read:
        record(tr, st.T_RETRY, ch.number, die, ch.op, read, ready, number)
    plane.moved, plane.reading = moved, moved + rewrite_us(ch, plane, die, moved, k, s, tr)
    plane.read_done = plane.reading + k.read_us
    return moved


@inline
def queue_result(ch, results, time, q, size, m):
    """Into the ring, in the order of time; of two at once, the one of the lower core first."""
    c, mask = ch.number, results.shape[1] - 1
    at = ch.queued
    while at > 0:
        before = results[c, (ch.head + at - 1) & mask]
        if before.time < time or (before.time == time and before.core < q):
            break
        results[c, (ch.head + at) & mask] = before
        at -= 1
    result = results[c, (ch.head + at) & mask]
    result.time, result.core, result.bytes, result.mat = time, q, size, m
    ch.queued += 1
    ch.started += 1
