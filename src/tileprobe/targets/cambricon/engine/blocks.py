"""Which block of which matrix comes next on a channel, for requests and for the stream of pages to the NPU.

Matrices are rows of `Program.matrices`. A channel has every `channels`-th block column of each; a request is one of
these and as many block rows as there are cores, and the block rows that no core computes are streamed.
"""

from __future__ import annotations

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.cores import INF, RING
from tileprobe.targets.jit import inline


@inline
def col_requests(mats, m, c, channels):
    """Block columns of matrix m on channel c."""
    blocks = (mats[m, p.COLS] + mats[m, p.BLOCK_COLS] - 1) // mats[m, p.BLOCK_COLS]
    return (blocks - c + channels - 1) // channels if blocks > c else 0


@inline
def row_requests(mats, m, cores):
    """Requests for each block column of matrix m."""
    return (mats[m, p.FLASH_CHUNKS] + cores - 1) // cores


@inline
def stream_chunks(mats, m):
    """Block rows of matrix m that are streamed."""
    return (mats[m, p.ROWS] + mats[m, p.BLOCK_ROWS] - 1) // mats[m, p.BLOCK_ROWS] - mats[m, p.FLASH_CHUNKS]


@inline
def count_work(c, mats, first, end, k):
    """Requests and streamed pages of matrices first..end on channel c."""
    requests, pages = 0, 0
    for m in range(first, end):
        columns = col_requests(mats, m, c, k.channels)
        requests += columns * row_requests(mats, m, k.cores)
        pages += columns * stream_chunks(mats, m)
    return requests, pages


@inline
def open_page(ch, mats, k, s):
    """The next page of the stream, when the last one is over and the NPU has room for it."""
    room = ch.arrived < k.window or ch.used > ch.arrived - k.window
    if ch.page_left != 0.0 or not ch.stream_more or not room:
        return
    c, m, col, chunk = ch.number, ch.stream_mat, ch.stream_col, ch.stream_chunk
    while m < mats.shape[0] and (col >= col_requests(mats, m, c, k.channels) or stream_chunks(mats, m) <= 0):
        m += 1
        col = 0
    if m == mats.shape[0]:
        ch.stream_more = False
    else:
        chunks = stream_chunks(mats, m)
        rounds = (chunks + k.dies - 1) // k.dies
        die = (chunk + mats[m, p.FIRST_DIE]) % k.dies
        plane = (col * rounds + chunk // k.dies) % k.stream_planes
        ch.page_mat, ch.page_die, ch.page_plane = m, die, plane
        ch.page_ready = s.stream_planes[c, die, plane].moved
        if ch.arrived >= k.window:
            ch.page_ready = max(ch.page_ready, s.pages[c, ch.arrived % k.window].used)
        ch.page_left = k.stream_us + k.spare_us
        ch.page_fresh = True
        chunk += 1
        if chunk == chunks:
            chunk = 0
            col += 1
    ch.stream_mat, ch.stream_col, ch.stream_chunk = m, col, chunk


@inline
def open_input(ch, mats, k, s):
    """The next request, and when its input may be sent: as soon as an input slot is free."""
    if not ch.in_open and ch.delivered < ch.requests:
        look_up_request(ch, mats, k, s)
    if ch.in_open and ch.in_ready == INF:
        # a slot is free when all cores are done with the request that used it
        slots = mats[ch.mat, p.INPUT_SLOTS]
        if (
            ch.in_bytes == 0
        ):  # the slice is there: only the ring of open requests bounds how far it runs ahead
            slots = RING
        if ch.delivered - ch.finished < slots:
            ch.in_ready = ch.t_in
            if ch.in_bytes > 0 and ch.delivered >= slots:
                ch.in_ready = max(ch.t_in, s.requests[ch.number, (ch.delivered - slots) & RING].end)


@inline
def look_up_request(ch, mats, k, s):
    """Fill the ring's next place from the channel's place in the matrices."""
    c, m = ch.number, ch.mat
    while ch.col >= col_requests(mats, m, c, k.channels) or row_requests(mats, m, k.cores) <= 0:
        m += 1
        ch.col = 0
    ch.mat = m
    cols = min(mats[m, p.BLOCK_COLS], mats[m, p.COLS] - (ch.col * k.channels + c) * mats[m, p.BLOCK_COLS])
    request = s.requests[c, ch.delivered & RING]
    request.mat, request.first, request.cols = m, ch.row * k.cores, cols
    request.left = min(mats[m, p.FLASH_CHUNKS] - request.first, k.cores)
    request.end = 0.0
    ch.in_bytes = (mats[m, p.INPUT_BYTES] * cols) // mats[m, p.BLOCK_COLS]
    if mats[m, p.KEEP_INPUT] and ch.row > 0:
        ch.in_bytes = 0
    ch.in_open, ch.in_ready = True, INF
