"""The engine's memory: constants, the state of channels between groups of products, counters and trace
buffers.

NamedTuples of arrays, because Numba passes them without boxing. One row a channel; sizes follow the
machine alone, so memory does not grow with the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tileprobe.targets.cambricon.engine.jit import jit
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry

# columns of `State.stats`, a row a channel
(
    BUSY_INPUT,
    BUSY_RESULT,
    BUSY_STREAM,
    BUSY_SPARE,
    BUSY_COMMAND,
    BYTES_INPUT,
    BYTES_RESULT,
    BYTES_STREAM,
    BYTES_SPARE,
    N_INPUTS,
    N_RESULTS,
    N_SLICES,
    N_STREAMED,
    N_COMPUTED,
    WAIT_RC,
    N_STATS,
) = range(16)

# requests between their input and their last result; a power of two, more than any input slots
OPEN_REQUESTS = 8

# kinds of intervals in a trace
T_ARRAY, T_COMPUTE, T_INPUT, T_RESULT, T_PAGE_READ, T_SLICES, T_WAIT, T_ARRAY_NPU, T_SFU, T_DRAM, T_USE = (
    range(11)
)
TRACE_KINDS = (
    "array read",
    "read-compute",
    "input broadcast",
    "result",
    "page read",
    "slices",
    "wait for channel",
    "npu array",
    "npu sfu",
    "dram",
    "npu page",
)


class Constants(NamedTuple):
    sizes: tuple  # channels, cores, dies, planes a core, planes that stream, pages ahead, sliced, prefetch
    times: tuple  # microseconds, see `constants_of`
    page_bytes: int
    spare_bytes: int


class State(NamedTuple):
    bus: np.ndarray
    stats: np.ndarray
    # read-compute, per core
    core_free: np.ndarray
    core_busy: np.ndarray
    next_request: np.ndarray
    part: np.ndarray
    pages: np.ndarray
    issued: np.ndarray
    drained: np.ndarray
    drain_time: np.ndarray
    read_done: np.ndarray
    moved: np.ndarray
    cache_free: np.ndarray
    # open requests, a ring
    r_mat: np.ndarray
    r_first: np.ndarray
    r_cols: np.ndarray
    r_left: np.ndarray
    r_end: np.ndarray
    r_arrival: np.ndarray
    # results that wait for the bus, a ring
    q_time: np.ndarray
    q_core: np.ndarray
    q_bytes: np.ndarray
    q_mat: np.ndarray
    # the stream of pages to the NPU
    sm: np.ndarray
    sj: np.ndarray
    ss: np.ndarray
    smoved: np.ndarray
    sread_done: np.ndarray
    stream_more: np.ndarray
    stream_left: np.ndarray
    stream_fresh: np.ndarray
    stream_ready: np.ndarray
    stream_bus: np.ndarray
    stream_mat: np.ndarray
    stream_die: np.ndarray
    stream_plane: np.ndarray
    stream_end: np.ndarray
    n_arrived: np.ndarray
    n_used: np.ndarray
    arrived: np.ndarray
    used: np.ndarray
    use_of: np.ndarray
    used_until: np.ndarray
    mat_end: np.ndarray  # of each matrix: when its last sum was at the NPU


class TraceBuffers(NamedTuple):
    count: np.ndarray  # kept, lost because the buffers were full, left out by sampling
    keep: np.ndarray  # of each operator: whether its intervals are kept
    kind: np.ndarray
    channel: np.ndarray
    unit: np.ndarray
    op: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    value: np.ndarray


def constants_of(machine: Machine, geometry: Geometry, sliced: bool) -> Constants:
    flash = machine.flash
    # channels share the die-to-die link; a link slower than all channels together slows each of them
    gb_per_s = min(flash.channel_gb_per_s, machine.link.gb_per_s / flash.channels)
    byte_us = 1e-3 / gb_per_s
    spare = flash.spare_bytes if flash.spare_travels else 0
    window = max(1, machine.npu.sram_bytes // 2 // (flash.page_bytes * flash.channels))
    sizes = (
        geometry.channels,
        geometry.cores,
        geometry.dies_per_channel,
        max(geometry.planes_per_core, 1),
        max(geometry.stream_planes, 1),
        window,
        int(sliced),
        int(flash.prefetch),
    )
    times = (
        flash.read_us,
        flash.register_copy_us,
        machine.core.page_us,
        byte_us,
        flash.command_us,
        flash.slice_bytes * byte_us,
        flash.slice_command_us,
        flash.page_bytes * byte_us,
        spare * byte_us,
        machine.link.latency_us,
    )
    return Constants(sizes, times, flash.page_bytes, spare)


def fresh_state(k: Constants, matrices: int) -> State:
    """All registers empty, the first array reads just begun."""
    channels, cores, dies, planes_c, planes_s, window, _, _ = k.sizes
    t_read, t_copy = k.times[0], k.times[1]
    ring = 1 << (2 * cores).bit_length()

    def ints(*shape: int) -> np.ndarray:
        return np.zeros((channels, *shape), np.int64)

    def floats(*shape: int) -> np.ndarray:
        return np.zeros((channels, *shape), np.float64)

    first_read = floats(cores, planes_c) + t_read
    first_page = floats(dies, planes_s) + t_read + t_copy
    return State(
        bus=floats(), stats=floats(N_STATS), core_free=floats(cores), core_busy=floats(cores),
        next_request=ints(cores), part=ints(cores), pages=ints(cores), issued=ints(cores),
        drained=ints(cores), drain_time=floats(cores, 2), read_done=first_read,
        moved=floats(cores, planes_c), cache_free=floats(cores, planes_c), r_mat=ints(OPEN_REQUESTS),
        r_first=ints(OPEN_REQUESTS), r_cols=ints(OPEN_REQUESTS), r_left=ints(OPEN_REQUESTS),
        r_end=floats(OPEN_REQUESTS), r_arrival=floats(OPEN_REQUESTS), q_time=floats(ring),
        q_core=ints(ring), q_bytes=ints(ring), q_mat=ints(ring), sm=ints(), sj=ints(), ss=ints(),
        smoved=first_page, sread_done=first_page + t_read, stream_more=np.ones(channels, np.bool_),
        stream_left=floats(), stream_fresh=np.zeros(channels, np.bool_), stream_ready=floats(),
        stream_bus=floats() - 1.0, stream_mat=ints(), stream_die=ints(), stream_plane=ints(),
        stream_end=ints(), n_arrived=ints(), n_used=ints(), arrived=floats(window), used=floats(window),
        use_of=floats(window), used_until=floats(), mat_end=np.zeros(matrices),
    )  # fmt: skip


def trace_buffers(capacity: int, keep: np.ndarray) -> TraceBuffers:
    return TraceBuffers(
        count=np.zeros(3, np.int64),
        keep=keep,
        kind=np.zeros(capacity, np.int8),
        channel=np.zeros(capacity, np.int32),
        unit=np.zeros(capacity, np.int32),
        op=np.zeros(capacity, np.int32),
        start=np.zeros(capacity, np.float64),
        stop=np.zeros(capacity, np.float64),
        value=np.zeros(capacity, np.float64),
    )


@jit
def record(tr, kind, channel, unit, op, start, stop, value):
    """Keep an interval; or count it, when its operator is sampled away or the buffers are full."""
    if not tr.keep[op]:
        tr.count[2] += 1
        return
    n = tr.count[0]
    if n >= tr.kind.shape[0]:
        tr.count[1] += 1
        return
    tr.kind[n], tr.channel[n], tr.unit[n], tr.op[n] = kind, channel, unit, op
    tr.start[n], tr.stop[n], tr.value[n] = start, stop, value
    tr.count[0] = n + 1
