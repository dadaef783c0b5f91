"""Which command comes next on a channel, for requests and for the stream of pages to the NPU.

Matrices are rows of `Program.matrices`; their commands stand in tables that the loops of the IR were expanded to, in
the order of each channel.
"""

from __future__ import annotations

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine import state as st
from tileprobe.targets.cambricon.engine.cores import INF, RING
from tileprobe.targets.cambricon.engine.state import record
from tileprobe.targets.cambricon.engine.upkeep import retries_us
from tileprobe.targets.jit import inline


@inline
def requests_of(tables, m, c):
    """Requests of matrix m on channel c."""
    return tables.counts[tables.matrices[m, p.BODY], c, 0]


@inline
def streamed_of(tables, m, c):
    """Pages of matrix m that stream over channel c."""
    return tables.counts[tables.matrices[m, p.BODY], c, 1]


@inline
def count_work(c, tables, first, end):
    """Requests and streamed pages of matrices first..end on channel c."""
    requests, pages = 0, 0
    for m in range(first, end):
        requests += requests_of(tables, m, c)
        pages += streamed_of(tables, m, c)
    return requests, pages


@inline
def open_page(ch, tables, k, s, tr):
    """The next page of the stream, when the last one is over and the NPU has room for it."""
    room = ch.arrived < k.window or ch.used > ch.arrived - k.window
    if ch.page_left != 0.0 or not ch.stream_more or not room:
        return
    c, m, at = ch.number, ch.stream_mat, ch.stream_at
    while m < tables.matrices.shape[0] and at >= streamed_of(tables, m, c):
        m += 1
        at = 0
    if m == tables.matrices.shape[0]:
        ch.stream_more = False
    else:
        page = tables.stream[tables.first[tables.matrices[m, p.BODY], 1] + at, c]
        ch.page_mat, ch.page_die, ch.page_plane, ch.page_bytes = m, page.die, page.plane, page.bytes
        ch.page_slice_us = page.slice * k.byte_us
        ch.page_number = page.number + tables.matrices[m, p.STREAM_OFFSET]
        plane = s.stream_planes[c, page.die, page.plane]
        again_us = retries_us(ch, page.die, ch.page_number, k, s)
        if again_us > 0.0:
            read_again(plane, again_us, k)
            record(
                tr, st.T_RETRY, c, page.die, ch.op, plane.read_end, plane.read_end + again_us, ch.page_number
            )
        ch.page_ready = plane.moved
        if ch.arrived >= k.window:
            ch.page_ready = max(ch.page_ready, s.pages[c, ch.arrived % k.window].used)
        ch.page_left = page.bytes * k.byte_us
        ch.page_fresh = True
        at += 1
    ch.stream_mat, ch.stream_at = m, at


@inline
def read_again(plane, again_us, k):
    """The page that will stream needs retries: it is in the cache register later, and all behind it with it."""
    moved = max(plane.read_end + again_us, plane.free_from) + k.copy_us
    later = moved - plane.moved
    plane.moved = moved
    plane.reading += later
    plane.read_done += later


@inline
def open_input(ch, tables, s):
    """The next request, and when its input may be sent: as soon as an input slot is free."""
    if not ch.in_open and ch.delivered < ch.requests:
        look_up_request(ch, tables, s)
    if ch.in_open and ch.in_ready == INF:
        # a slot is free when all cores are done with the request that used it
        slots = tables.matrices[ch.mat, p.INPUT_SLOTS]
        if (
            ch.in_bytes == 0
        ):  # the slice is there: only the ring of open requests bounds how far it runs ahead
            slots = RING
        if ch.delivered - ch.finished < slots:
            ch.in_ready = ch.t_in
            if ch.in_bytes > 0 and ch.delivered >= slots:
                ch.in_ready = max(ch.t_in, s.requests[ch.number, (ch.delivered - slots) & RING].end)


@inline
def look_up_request(ch, tables, s):
    """Fill the ring's next place from the channel's place in the matrices."""
    c, m = ch.number, ch.mat
    while ch.at >= requests_of(tables, m, c):
        m += 1
        ch.at = 0
    ch.mat = m
    command = tables.requests[tables.first[tables.matrices[m, p.BODY], 0] + ch.at, c]
    request = s.requests[c, ch.delivered & RING]
    request.mat, request.row, request.left, request.end = m, command.row, command.pages, 0.0
    ch.in_bytes = command.bytes
    ch.in_open, ch.in_ready = True, INF
