"""One flash channel during one group of weight products: the event loop of the simulator.

Bus grants are taken in time order. Between them every die runs on its own: array read into the data
register, copy into the cache register, compute, result into an output buffer. Read-compute transfers
(inputs, results) come before slices of streamed pages; back-to-back slices of one page are granted
together up to the next read-compute transfer, which is what a grant for each would give.

One long function on purpose: Numba would pass the state by value to every helper, a few hundred words a call.
"""

from __future__ import annotations

import numpy as np

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.jit import jit
from tileprobe.targets.cambricon.engine.state import (
    BUSY_COMMAND,
    BUSY_INPUT,
    BUSY_RESULT,
    BUSY_SPARE,
    BUSY_STREAM,
    BYTES_INPUT,
    BYTES_RESULT,
    BYTES_SPARE,
    BYTES_STREAM,
    N_COMPUTED,
    N_INPUTS,
    N_RESULTS,
    N_SLICES,
    N_STREAMED,
    OPEN_REQUESTS,
    T_ARRAY,
    T_COMPUTE,
    T_INPUT,
    T_PAGE_READ,
    T_RESULT,
    T_SLICES,
    T_USE,
    T_WAIT,
    WAIT_RC,
    record,
)

ROWS, COLS, BLOCK_ROWS, BLOCK_COLS = p.ROWS, p.COLS, p.BLOCK_ROWS, p.BLOCK_COLS
FLASH_CHUNKS, FIRST_CORE, FIRST_DIE = p.FLASH_CHUNKS, p.FIRST_CORE, p.FIRST_DIE
INPUT_BYTES, SUM_BYTES, PART_ROWS = p.INPUT_BYTES, p.SUM_BYTES, p.PART_ROWS
INPUT_SLOTS, KEEP_INPUT, VALUES = p.INPUT_SLOTS, p.KEEP_INPUT, p.VALUES_PER_PAGE
INF = np.inf
RING = OPEN_REQUESTS - 1


@jit
def run_group(c, op, t_in, mats, m0, m1, use_us, k, s, tracing, tr):
    """Run matrices m0..m1 on channel c; their input exists at t_in. Returns when the last sum is at the NPU.

    `k` holds the machine's constants, `s` the state that lives on between groups, `tr` the trace buffers.
    """
    (channels, cores, dies, planes_c, planes_s, window, sliced, prefetch) = k.sizes
    (t_read, t_copy, t_page, byte_us, t_cmd, slice_us, t_slice_cmd, page_us, spare_us, t_link) = k.times
    bus = s.bus[c]
    stats = s.stats
    q_mask = s.q_time.shape[1] - 1

    # -- how much there is to do on this channel
    n_requests, n_stream = 0, 0
    for m in range(m0, m1):
        blocks = (mats[m, COLS] + mats[m, BLOCK_COLS] - 1) // mats[m, BLOCK_COLS]
        col_requests = (blocks - c + channels - 1) // channels if blocks > c else 0
        chunks = (mats[m, ROWS] + mats[m, BLOCK_ROWS] - 1) // mats[m, BLOCK_ROWS]
        n_requests += col_requests * ((mats[m, FLASH_CHUNKS] + cores - 1) // cores)
        n_stream += col_requests * (chunks - mats[m, FLASH_CHUNKS])
    s.stream_end[c] += n_stream
    stream_end = s.stream_end[c]
    used = s.used_until[c]
    # pages that came ahead of their input are used as soon as it exists
    while s.n_used[c] < min(s.n_arrived[c], stream_end):
        slot = s.n_used[c] % window
        used = max(used, s.arrived[c, slot], t_in) + s.use_of[c, slot]
        s.used[c, slot] = used
        s.n_used[c] += 1
        if tracing:
            record(tr, T_USE, c, 0, op, used - s.use_of[c, slot], used, 1)

    # -- odometer of requests: matrix, column request, row request
    mi, ji, ii = m0, 0, 0
    delivered = 0  # requests whose input is in the cores
    finished_requests = 0  # requests all of whose pages have started, in order
    for q in range(cores):
        s.next_request[c, q] = 0
        s.part[c, q] = 0
    head, count = 0, 0
    t_last = t_in
    in_open = False  # the next request has been looked up
    in_bytes, in_ready = 0, INF
    n_done = 0  # results returned of the pages of this group
    n_parts_open = 0
    lo, hi = 0, 0  # cores to look at after an event

    while True:
        # -- start what can start on the cores that saw an event
        for q in range(lo, hi):
            n = s.next_request[c, q]
            while n < delivered:
                slot = n & RING
                m = s.r_mat[c, slot]
                r = s.r_first[c, slot] + (q - mats[m, FIRST_CORE] + cores) % cores
                if r >= mats[m, FLASH_CHUNKS]:
                    n += 1
                    continue
                u = s.issued[c, q]
                if u - s.drained[c, q] >= 2:
                    break
                rows = min(mats[m, BLOCK_ROWS], mats[m, ROWS] - r * mats[m, BLOCK_ROWS])
                part = s.part[c, q]
                part_rows = min(mats[m, PART_ROWS], rows - part * mats[m, PART_ROWS])
                pl = s.pages[c, q] % planes_c
                start = max(s.core_free[c, q], s.drain_time[c, q, u & 1])
                if part == 0:
                    arrival = s.r_arrival[c, slot]
                    ready = s.read_done[c, q, pl]
                    if not prefetch:  # no read before the vector exists that it will meet
                        ready = max(s.moved[c, q, pl], t_in) + t_read
                    moved = max(ready, s.cache_free[c, q, pl]) + t_copy
                    if tracing:
                        record(tr, T_ARRAY, c, q, op, ready - t_read, ready, 1)
                    s.moved[c, q, pl] = moved
                    s.read_done[c, q, pl] = moved + t_read
                    start = max(start, moved, arrival)
                end = start + t_page * (part_rows * s.r_cols[c, slot]) / mats[m, VALUES]
                s.core_busy[c, q] += end - start
                s.core_free[c, q] = end
                s.issued[c, q] = u + 1
                if tracing:
                    record(tr, T_COMPUTE, c, q, op, start, end, part_rows * s.r_cols[c, slot])
                # queue the result, in the order of time; of two at once, the one of the lower core
                at = count
                while at > 0:
                    a, b = (head + at) & q_mask, (head + at - 1) & q_mask
                    if s.q_time[c, b] < end or (s.q_time[c, b] == end and s.q_core[c, b] < q):
                        break
                    s.q_time[c, a], s.q_core[c, a] = s.q_time[c, b], s.q_core[c, b]
                    s.q_bytes[c, a], s.q_mat[c, a] = s.q_bytes[c, b], s.q_mat[c, b]
                    at -= 1
                a = (head + at) & q_mask
                s.q_time[c, a], s.q_core[c, a] = end, q
                s.q_bytes[c, a], s.q_mat[c, a] = part_rows * mats[m, SUM_BYTES], m
                count += 1
                n_parts_open += 1
                if (part + 1) * mats[m, PART_ROWS] < rows:
                    s.part[c, q] = part + 1
                    continue
                s.part[c, q] = 0
                s.cache_free[c, q, pl] = end
                s.pages[c, q] += 1
                stats[c, N_COMPUTED] += 1
                n += 1
                s.r_left[c, slot] -= 1
                if end > s.r_end[c, slot]:
                    s.r_end[c, slot] = end
            s.next_request[c, q] = n
        while finished_requests < delivered and s.r_left[c, finished_requests & RING] == 0:
            finished_requests += 1

        # -- open the next page of the stream, when the NPU has room for it
        if s.stream_left[c] == 0.0 and s.stream_more[c]:
            n = s.n_arrived[c]
            if n < window or s.n_used[c] > n - window:
                ms, js, ss = s.sm[c], s.sj[c], s.ss[c]
                while ms < mats.shape[0]:
                    blocks = (mats[ms, COLS] + mats[ms, BLOCK_COLS] - 1) // mats[ms, BLOCK_COLS]
                    col_requests = (blocks - c + channels - 1) // channels if blocks > c else 0
                    chunks = (mats[ms, ROWS] + mats[ms, BLOCK_ROWS] - 1) // mats[ms, BLOCK_ROWS]
                    if js < col_requests and mats[ms, FLASH_CHUNKS] < chunks:
                        break
                    ms += 1
                    js = 0
                if ms == mats.shape[0]:
                    s.stream_more[c] = False
                else:
                    n_chunks = chunks - mats[ms, FLASH_CHUNKS]
                    d = (ss + mats[ms, FIRST_DIE]) % dies
                    rounds = (n_chunks + dies - 1) // dies
                    plane = (js * rounds + ss // dies) % planes_s
                    s.stream_mat[c], s.stream_die[c], s.stream_plane[c] = ms, d, plane
                    ready = s.smoved[c, d, plane]
                    if n >= window:
                        ready = max(ready, s.used[c, n % window])
                    s.stream_ready[c] = ready
                    s.stream_left[c] = page_us + spare_us
                    s.stream_fresh[c] = True
                    ss += 1
                    if ss == n_chunks:
                        ss = 0
                        js += 1
                s.sm[c], s.sj[c], s.ss[c] = ms, js, ss

        # -- the next input
        if not in_open and delivered < n_requests:
            while True:
                blocks = (mats[mi, COLS] + mats[mi, BLOCK_COLS] - 1) // mats[mi, BLOCK_COLS]
                col_requests = (blocks - c + channels - 1) // channels if blocks > c else 0
                row_requests = (mats[mi, FLASH_CHUNKS] + cores - 1) // cores
                if ji < col_requests and row_requests > 0:
                    break
                mi += 1
                ji = 0
            slot = delivered & RING
            cols = min(mats[mi, BLOCK_COLS], mats[mi, COLS] - (ji * channels + c) * mats[mi, BLOCK_COLS])
            first = ii * cores
            s.r_mat[c, slot] = mi
            s.r_first[c, slot] = first
            s.r_cols[c, slot] = cols
            active = mats[mi, FLASH_CHUNKS] - first
            if active > cores:
                active = cores
            s.r_left[c, slot] = active
            s.r_end[c, slot] = 0.0
            in_bytes = (mats[mi, INPUT_BYTES] * cols) // mats[mi, BLOCK_COLS]
            if mats[mi, KEEP_INPUT] and ii > 0:
                in_bytes = 0
            in_open = True
            in_ready = INF
        if in_open and in_ready == INF:
            # an input slot is free when all cores are done with the request that used it
            slots = mats[mi, INPUT_SLOTS]
            if (
                in_bytes == 0
            ):  # the slice is there: only the ring of open requests bounds how far it runs ahead
                slots = RING
            if delivered - finished_requests < slots:
                in_ready = t_in
                if in_bytes > 0 and delivered >= slots:
                    in_ready = max(t_in, s.r_end[c, (delivered - slots) & RING])

        t_res = s.q_time[c, head] if count > 0 else INF
        t_rc = min(in_ready, t_res)

        # -- the head of the stream
        t_s = INF
        if s.stream_left[c] > 0.0:
            t_s = s.stream_ready[c]

        if (
            t_rc == INF
            and n_done == n_parts_open
            and delivered == n_requests
            and s.n_arrived[c] >= stream_end
        ):
            break
        if t_rc == INF and t_s == INF:
            return -1.0  # nothing can ever happen again: a fault of the engine, which the caller reports

        take_rc = t_rc <= bus or t_rc <= t_s
        if not sliced:  # no slice control: first come, first served, and a page is never cut
            take_rc = t_rc <= t_s
        if take_rc:
            if in_ready <= max(bus, t_rc):  # inputs first: a core without one stands still, a result can wait
                # -- broadcast an input slice to all cores of the channel
                start = max(bus, in_ready)
                if in_bytes > 0:
                    end = start + t_cmd + in_bytes * byte_us
                    stats[c, BUSY_INPUT] += in_bytes * byte_us
                    stats[c, BUSY_COMMAND] += t_cmd
                    stats[c, BYTES_INPUT] += in_bytes
                    stats[c, N_INPUTS] += 1
                    stats[c, WAIT_RC] += start - in_ready
                    bus = end
                    if tracing:
                        record(tr, T_INPUT, c, -1, op, start, end, in_bytes)
                else:
                    end = in_ready
                s.r_arrival[c, delivered & RING] = end
                delivered += 1
                in_open = False
                in_ready = INF
                ii += 1
                if ii == (mats[mi, FLASH_CHUNKS] + cores - 1) // cores:
                    ii = 0
                    ji += 1
                lo, hi = 0, cores
            else:
                # -- return a result
                q = s.q_core[c, head]
                bytes_, mat = s.q_bytes[c, head], s.q_mat[c, head]
                head = (head + 1) & q_mask
                count -= 1
                start = max(bus, t_res)
                end = start + t_cmd + bytes_ * byte_us
                stats[c, BUSY_RESULT] += bytes_ * byte_us
                stats[c, BUSY_COMMAND] += t_cmd
                stats[c, BYTES_RESULT] += bytes_
                stats[c, N_RESULTS] += 1
                stats[c, WAIT_RC] += start - t_res
                bus = end
                if tracing:
                    if start > t_res:
                        record(tr, T_WAIT, c, q, op, t_res, start, bytes_)
                    record(tr, T_RESULT, c, q, op, start, end, bytes_)
                u = s.drained[c, q]
                s.drain_time[c, q, u & 1] = end
                s.drained[c, q] = u + 1
                n_done += 1
                if end > t_last:
                    t_last = end
                if end + t_link > s.mat_end[mat]:
                    s.mat_end[mat] = end + t_link
                lo, hi = q, q + 1
        else:
            # -- slices of the page at the head of the stream, up to the next read-compute transfer or its end
            start = max(bus, t_s)
            left = s.stream_left[c]
            over = t_slice_cmd
            if s.stream_fresh[c]:
                over = t_cmd
                s.stream_fresh[c] = False
            elif bus == s.stream_bus[c] and start == bus:
                over = 0.0  # nothing came between: the page goes on
            first_end = start + over
            if not sliced:
                take = left
                n_slices = 1
            else:
                n_slices = int(np.ceil(left / slice_us - 1e-9))
                if t_rc < first_end + left:
                    n = int(np.ceil((t_rc - first_end) / slice_us - 1e-9))
                    n_slices = min(max(n, 1), n_slices)
                take = min(n_slices * slice_us, left)
            end = first_end + take
            stats[c, BUSY_COMMAND] += over
            stats[c, N_SLICES] += n_slices
            if tracing:
                record(tr, T_SLICES, c, s.stream_die[c], op, start, end, n_slices)
            bus = end
            s.stream_bus[c] = end
            left -= take
            s.stream_left[c] = left
            if left <= 1e-9:
                # -- the page is at the NPU
                s.stream_left[c] = 0.0
                stats[c, N_STREAMED] += 1
                stats[c, BUSY_STREAM] += page_us
                stats[c, BUSY_SPARE] += spare_us
                stats[c, BYTES_STREAM] += k.page_bytes
                stats[c, BYTES_SPARE] += k.spare_bytes
                d, plane = s.stream_die[c], s.stream_plane[c]
                moved = max(s.sread_done[c, d, plane], end) + t_copy  # the next page of that plane
                if tracing:
                    record(tr, T_PAGE_READ, c, d, op, moved, moved + t_read, 1)
                s.smoved[c, d, plane] = moved
                s.sread_done[c, d, plane] = moved + t_read
                n = s.n_arrived[c]
                slot = n % window
                arrival = end + t_link
                s.arrived[c, slot] = arrival
                s.use_of[c, slot] = use_us[s.stream_mat[c]]
                s.n_arrived[c] = n + 1
                if n < stream_end:
                    used = max(used, arrival, t_in) + use_us[s.stream_mat[c]]
                    s.used[c, slot] = used
                    s.n_used[c] = n + 1
                    s.mat_end[s.stream_mat[c]] = max(s.mat_end[s.stream_mat[c]], used)
                    if tracing:
                        record(tr, T_USE, c, 0, op, used - use_us[s.stream_mat[c]], used, 1)
            lo, hi = 0, 0

    s.bus[c] = bus
    s.used_until[c] = used
    done = max(t_last + t_link, used if n_stream > 0 else t_in)
    return done
