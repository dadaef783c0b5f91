"""One flash channel during one group of weight products: the event loop of the simulator.

Bus grants are taken in time order. Between them every die runs on its own: array read into the data
register, copy into the cache register, compute, result into an output buffer. Read-compute transfers
(inputs, results) come before slices of streamed pages; back-to-back slices of one page are granted
together up to the next read-compute transfer, which is what a grant for each would give.

What happens on the bus is here; what cores and matrices do between two grants is in `cores` and `blocks`. Every part
takes the channel's record `ch`, the machine's constants `k`, the state `s`, and the trace buffers `tr`.
"""

from __future__ import annotations

import numpy as np

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine import state as st
from tileprobe.targets.cambricon.engine.blocks import count_work, open_input, open_page
from tileprobe.targets.cambricon.engine.cores import INF, RING, start_pages
from tileprobe.targets.cambricon.engine.state import record
from tileprobe.targets.cambricon.engine.upkeep import pay_commands, rewrite_us
from tileprobe.targets.jit import borrowing, inline

# time, bytes and number of transfers
INPUT_COUNTERS = (st.BUSY_INPUT, st.BYTES_INPUT, st.N_INPUTS)
RESULT_COUNTERS = (st.BUSY_RESULT, st.BYTES_RESULT, st.N_RESULTS)
DUST_US = 1e-9  # less than any transfer takes: what sums of floating-point times may be off by


@inline
def use_page(ch, page, arrival, use_us):
    """The NPU multiplies by a page of the stream, in order, once its input exists. Returns when it is done."""
    used = max(ch.used_until, arrival, ch.t_in) + use_us
    ch.used_until = used
    page.used = used
    ch.used += 1
    return used


@inline
def begin_group(ch, op, t_in, tables, k, s, tr):
    """Set the channel to the first request of an operator. Pages that came ahead of their input are used."""
    c = ch.number
    first, end = tables.operators[op, p.FIRST_MATRIX], tables.operators[op, p.END_MATRIX]
    requests, pages = count_work(c, tables, first, end)
    ch.op, ch.t_in, ch.t_last, ch.requests = op, t_in, t_in, requests
    ch.wanted += pages
    while ch.used < min(ch.arrived, ch.wanted):
        page = s.pages[c, ch.used % k.window]
        used = use_page(ch, page, page.arrived, page.use_us)
        record(tr, st.T_USE, c, 0, op, used - page.use_us, used, 1)
    ch.mat, ch.at = first, 0
    ch.delivered, ch.finished, ch.started, ch.returned = 0, 0, 0, 0
    ch.head, ch.queued = 0, 0
    ch.in_open, ch.in_bytes, ch.in_ready = False, 0, INF
    ch.first_core, ch.end_core = 0, 0
    for q in range(k.cores):
        core = s.cores[c, q]
        core.next_request, core.part = 0, 0
    return pages


@inline
def transfer(ch, ready, size, counters, k, s, tr):
    """A read-compute transfer that was ready at some time takes the bus. Returns when it starts and ends."""
    c = ch.number
    pay_commands(ch, s, tr)
    start = max(ch.bus, ready)
    moving = size * k.byte_us
    end = start + k.command_us + moving
    s.stats[c, st.BUSY_COMMAND] += k.command_us
    s.stats[c, st.WAIT_RC] += start - ready
    s.stats[c, counters[0]] += moving
    s.stats[c, counters[1]] += size
    s.stats[c, counters[2]] += 1
    ch.bus = end
    return start, end


@inline
def send_input(ch, k, s, tr):
    """Broadcast an input slice to all cores of the channel."""
    c, ready = ch.number, ch.in_ready
    end = ready
    if ch.in_bytes > 0:
        start, end = transfer(ch, ready, ch.in_bytes, INPUT_COUNTERS, k, s, tr)
        record(tr, st.T_INPUT, c, -1, ch.op, start, end, ch.in_bytes)
    s.requests[c, ch.delivered & RING].arrival = end
    ch.delivered += 1
    ch.in_open, ch.in_ready = False, INF
    ch.at += 1
    ch.first_core, ch.end_core = 0, k.cores


@inline
def return_result(ch, k, s, tr):
    """Move the first result of the queue to the NPU; its core has an output buffer again."""
    c = ch.number
    result = s.results[c, ch.head]
    q, ready = result.core, result.time
    ch.head = (ch.head + 1) & (s.results.shape[1] - 1)
    ch.queued -= 1
    start, end = transfer(ch, ready, result.bytes, RESULT_COUNTERS, k, s, tr)
    if start > ready:
        record(tr, st.T_WAIT, c, q, ch.op, ready, start, result.bytes)
    record(tr, st.T_RESULT, c, q, ch.op, start, end, result.bytes)
    core = s.cores[c, q]
    core.drain_time[core.drained & 1] = end
    core.drained += 1
    ch.returned += 1
    ch.t_last = max(ch.t_last, end)
    s.mat_end[result.mat] = max(s.mat_end[result.mat], end + k.link_us)
    ch.first_core, ch.end_core = q, q + 1


@inline
def send_slices(ch, t_rc, use_us, k, s, tr):
    """Slices of the page at the head of the stream, up to the next read-compute transfer or the page's end."""
    pay_commands(ch, s, tr)
    start = max(ch.bus, ch.page_ready)
    over = k.slice_command_us
    if ch.page_fresh:
        over = k.command_us
        ch.page_fresh = False
    elif ch.bus == ch.page_bus and start == ch.bus:
        over = 0.0  # nothing came between: the page goes on
    first_end = start + over
    left = ch.page_left
    count, take = 1, left
    if k.sliced:
        count = int(np.ceil(left / ch.page_slice_us - DUST_US))
        if t_rc < first_end + left:
            count = min(max(int(np.ceil((t_rc - first_end) / ch.page_slice_us - DUST_US)), 1), count)
        take = min(count * ch.page_slice_us, left)
    end = first_end + take
    s.stats[ch.number, st.BUSY_COMMAND] += over
    s.stats[ch.number, st.N_SLICES] += count
    record(tr, st.T_SLICES, ch.number, ch.page_die, ch.op, start, end, count)
    ch.bus, ch.page_bus = end, end
    ch.page_left = left - take
    if ch.page_left <= DUST_US:
        ch.page_left = 0.0
        take_page(ch, end, use_us[ch.page_mat], k, s, tr)
    ch.first_core, ch.end_core = 0, 0


@inline
def take_page(ch, end, use_us, k, s, tr):
    """The page at the head of the stream is at the NPU; its plane reads the next one."""
    c = ch.number
    s.stats[c, st.N_STREAMED] += 1
    spare = max(ch.page_bytes - k.page_bytes, 0)
    s.stats[c, st.BUSY_STREAM] += (ch.page_bytes - spare) * k.byte_us
    s.stats[c, st.BUSY_SPARE] += spare * k.byte_us
    s.stats[c, st.BYTES_STREAM] += ch.page_bytes - spare
    s.stats[c, st.BYTES_SPARE] += spare
    plane = s.stream_planes[c, ch.page_die, ch.page_plane]
    record(tr, st.T_PAGE_READ, c, ch.page_die, ch.op, plane.began, plane.began + k.read_us, ch.page_number)
    plane.began, plane.read_end, plane.free_from = plane.reading, plane.read_done, end
    plane.moved = max(plane.read_done, end) + k.copy_us
    plane.reading = plane.moved + rewrite_us(ch, plane, ch.page_die, plane.moved, k, s, tr)
    plane.read_done = plane.reading + k.read_us
    page = s.pages[c, ch.arrived % k.window]
    page.arrived, page.use_us = end + k.link_us, use_us
    ch.arrived += 1
    if ch.arrived <= ch.wanted:
        used = use_page(ch, page, page.arrived, use_us)
        s.mat_end[ch.page_mat] = max(s.mat_end[ch.page_mat], used)
        record(tr, st.T_USE, c, 0, ch.op, used - use_us, used, 1)


@borrowing
def run_group(c, op, t_in, tables, k, s, tr):
    """Run the products of operator `op` on channel c; their input exists at t_in. Returns when the last sum is at
    the NPU, or a negative time when nothing can ever happen again: a fault of the engine, which the caller reports.
    """
    ch = s.channels[c]
    pages = begin_group(ch, op, t_in, tables, k, s, tr)
    while True:
        start_pages(ch, tables, k, s, tr)
        open_page(ch, tables, k, s, tr)
        open_input(ch, tables, s)
        t_result = s.results[c, ch.head].time if ch.queued > 0 else INF
        t_rc = min(ch.in_ready, t_result)
        t_page = ch.page_ready if ch.page_left > 0.0 else INF
        if t_rc == INF:
            all_sent = ch.delivered == ch.requests and ch.arrived >= ch.wanted
            if all_sent and ch.returned == ch.started:
                break
            if t_page == INF:
                return -1.0
        # without slice control: first come, first served, and a page is never cut
        if t_rc > t_page and not (k.sliced and t_rc <= ch.bus):
            send_slices(ch, t_rc, tables.use_us, k, s, tr)
        elif ch.in_ready <= max(ch.bus, t_rc):  # a core without an input stands still, a result can wait
            send_input(ch, k, s, tr)
        else:
            return_result(ch, k, s, tr)
    return max(ch.t_last + k.link_us, ch.used_until if pages > 0 else t_in)
