"""The engine's memory: constants, the state of channels, counters and trace buffers.

Arrays of records: Numba hands a record on as one pointer, so the parts of the engine take few words each. One row a
channel; sizes follow the machine alone, so memory does not grow with the model. All times are in microseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tileprobe.targets.cambricon.aging import Wear
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import Geometry
from tileprobe.targets.jit import borrowing, inline

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

# places in `Tables.busy_us`
BUSY_ARRAY, BUSY_SFU, BUSY_DRAM = range(3)

# requests between their input and their last result; a power of two, more than any input slots
OPEN_REQUESTS = 8

# columns of `State.upkeep`, a row a channel: what a flash that ages does beside the commands of the step
N_RETRIES, N_LOST, N_REWRITES, N_ERASES, UPKEEP_US, UPKEEP_COLUMNS = range(6)

# kinds of intervals in a trace
T_ARRAY, T_COMPUTE, T_INPUT, T_RESULT, T_PAGE_READ, T_SLICES, T_WAIT, T_ARRAY_NPU, T_SFU, T_DRAM, T_USE = (
    range(11)
)
T_RETRY, T_REWRITE, T_UPKEEP = range(11, 14)
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
    "retries",
    "rewrite",
    "upkeep commands",
)


class Tables(NamedTuple):
    """What a `Program` says, and where the times of its operators go."""

    operators: np.ndarray
    costs: np.ndarray
    matrices: np.ndarray
    compute: np.ndarray  # the commands of matrices, see `program.Bodies`
    requests: np.ndarray
    stream: np.ndarray
    first: np.ndarray
    counts: np.ndarray
    use_us: np.ndarray  # of each matrix: the NPU's time for one streamed page
    start_us: np.ndarray  # of each operator
    done_us: np.ndarray
    busy_us: np.ndarray  # BUSY_ARRAY, BUSY_SFU, BUSY_DRAM


class Constants(NamedTuple):
    """The machine as a channel sees it."""

    channels: int
    cores: int
    cores_per_die: int
    dies: int
    compute_planes: int  # of a core
    stream_planes: int  # of a die
    window: int  # pages that may be at the NPU before they are used
    sliced: bool  # a page can make way for read-compute transfers
    prefetch: bool  # arrays are read before the vector exists that the page will meet
    read_us: float
    copy_us: float  # data register to cache register
    page_us: float  # of computing a full page
    byte_us: float  # on the channel
    command_us: float
    slice_command_us: float
    link_us: float
    page_bytes: int  # without the spare area
    # of a flash that ages
    ages: bool
    seed: int
    planes: int  # of a die
    pages_per_plane: int
    rewrites: float  # that a page read stands for
    rewrite_us: float  # read, and program somewhere else
    erase_us: float
    pages_per_block: int
    rewrite_bus_us: float  # of the channel


def _record(*fields: tuple) -> np.dtype:
    """A record whose fields are read as attributes, in Python as in compiled code."""
    return np.dtype((np.record, np.dtype(list(fields), align=True)))


CHANNEL = _record(
    ("number", np.int64),
    ("bus", np.float64),  # granted until
    # the group of products it runs
    ("op", np.int64),
    ("t_in", np.float64),  # when its input exists
    ("requests", np.int64),
    ("t_last", np.float64),  # end of its last result so far
    ("started", np.int64),  # parts of pages whose computation has begun
    ("returned", np.int64),  # of them, with their result at the NPU
    ("first_core", np.int64),  # cores to look at after an event
    ("end_core", np.int64),
    # the next request to be delivered
    ("mat", np.int64),
    ("at", np.int64),  # requests of the matrix before it
    ("delivered", np.int64),  # requests whose input is in the cores
    ("finished", np.int64),  # requests all of whose pages have started, in order
    ("in_open", np.bool_),  # the next request has been looked up
    ("in_bytes", np.int64),
    ("in_ready", np.float64),
    # the ring of results that wait for the bus
    ("head", np.int64),
    ("queued", np.int64),
    ("owed_us", np.float64),  # commands of retries and rewrites that wait for the bus
    # the stream of pages to the NPU: the one after the next
    ("stream_mat", np.int64),
    ("stream_at", np.int64),
    ("stream_more", np.bool_),
    # the page that is on the bus, or will be
    ("page_mat", np.int64),
    ("page_die", np.int64),
    ("page_plane", np.int64),
    ("page_number", np.int64),  # on its die
    ("page_bytes", np.int64),
    ("page_slice_us", np.float64),
    ("page_fresh", np.bool_),  # nothing of it was sent
    ("page_ready", np.float64),
    ("page_left", np.float64),  # microseconds on the bus; 0 when no page is open
    ("page_bus", np.float64),  # end of its last slice
    # pages at the NPU, counted from the start
    ("arrived", np.int64),
    ("used", np.int64),
    ("wanted", np.int64),  # by the groups so far
    ("used_until", np.float64),
)
CORE = _record(
    ("free", np.float64),
    ("next_request", np.int64),
    ("part", np.int64),  # of the page it computes
    ("issued", np.int64),  # results put into an output buffer
    ("drained", np.int64),  # results taken out
    ("drain_time", np.float64, (2,)),
)
# `began` is the array read of the page in the cache register, `reading` and `read_done` that of the one behind it
PLANE = _record(
    ("read_done", np.float64),
    ("moved", np.float64),
    ("cache_free", np.float64),
    ("began", np.float64),
    ("reading", np.float64),
    # of the page in the cache register: when its first read ended, and the page before it was gone
    ("read_end", np.float64),
    ("free_from", np.float64),
    # rewrites that are due, whole ones and a part; pages rewritten since a block was erased
    ("due", np.float64),
    ("rewritten", np.int64),
)
REQUEST = _record(
    ("mat", np.int64),
    ("row", np.int64),  # of the table of commands
    ("left", np.int64),  # cores that have not started their page
    ("end", np.float64),
    ("arrival", np.float64),
)
RESULT = _record(("time", np.float64), ("core", np.int64), ("bytes", np.int64), ("mat", np.int64))
FREE = _record(
    ("flash", np.float64),
    ("array", np.float64),
    ("sfu", np.float64),
    ("dram", np.float64),
    ("products", np.float64),  # begin of the last ones
    ("link", np.float64),
)
PAGE = _record(("arrived", np.float64), ("used", np.float64), ("use_us", np.float64))


class State(NamedTuple):
    """What lives on from event to event; the first axis is the channel's."""

    channels: np.ndarray  # CHANNEL
    stats: np.ndarray  # the counters above
    cores: np.ndarray  # CORE
    core_busy: np.ndarray
    planes: np.ndarray  # PLANE, of cores
    stream_planes: np.ndarray  # PLANE, of dies
    requests: np.ndarray  # REQUEST, the open ones: a ring
    results: np.ndarray  # RESULT, the ones that wait for the bus: a ring
    pages: np.ndarray  # PAGE, the window of streamed ones
    mat_end: np.ndarray  # of each matrix: when its last sum was at the NPU
    free: np.ndarray  # FREE, one for the whole machine
    upkeep: np.ndarray  # the counters of a flash that ages
    fails: np.ndarray  # the chance that each attempt to read a page fails


class TraceBuffers(NamedTuple):
    on: bool
    count: np.ndarray  # kept, lost because the buffers were full, left out by sampling
    keep: np.ndarray  # of each operator: whether its intervals are kept
    kind: np.ndarray
    channel: np.ndarray
    unit: np.ndarray
    op: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    value: np.ndarray


def constants_of(
    machine: Machine, geometry: Geometry, sliced: bool, wear: Wear | None = None, rewrites: float = 0.0
) -> Constants:
    flash = machine.flash
    # channels share the die-to-die link; a link slower than all channels together slows each of them
    gb_per_s = min(flash.channel_gb_per_s, machine.link.gb_per_s / flash.channels)
    byte_us = 1e-3 / gb_per_s
    # a page whose code is checked at the NPU goes there and back, otherwise it stays on its die
    copied = 2 * (flash.page_bytes + flash.spare_bytes) * byte_us if flash.spare_travels else 0.0
    return Constants(
        channels=geometry.channels,
        cores=geometry.cores,
        cores_per_die=geometry.cores_per_die,
        dies=geometry.dies_per_channel,
        compute_planes=max(geometry.planes_per_core, 1),
        stream_planes=max(geometry.stream_planes, 1),
        window=max(1, machine.npu.sram_bytes // 2 // (flash.page_bytes * flash.channels)),
        sliced=sliced,
        prefetch=flash.prefetch,
        read_us=flash.read_us,
        copy_us=flash.register_copy_us,
        page_us=machine.core.page_us,
        byte_us=byte_us,
        command_us=flash.command_us,
        slice_command_us=flash.slice_command_us,
        link_us=machine.link.latency_us,
        page_bytes=flash.page_bytes,
        ages=wear is not None,
        seed=wear.age.seed if wear is not None else 0,
        planes=geometry.planes,
        pages_per_plane=flash.pages_per_plane,
        rewrites=rewrites,
        rewrite_us=flash.read_us + flash.program_us,
        erase_us=flash.erase_us,
        pages_per_block=flash.pages_per_block,
        rewrite_bus_us=2 * flash.command_us + copied,
    )


def fresh_state(k: Constants, matrices: int, fails: np.ndarray | None = None) -> State:
    """All registers empty, the first array reads just begun."""
    channels = np.zeros(k.channels, CHANNEL)
    channels["number"], channels["stream_more"], channels["page_bus"] = np.arange(k.channels), True, -1.0
    planes = np.zeros((k.channels, k.cores, k.compute_planes), PLANE)
    planes["read_done"] = k.read_us
    stream_planes = np.zeros((k.channels, k.dies, k.stream_planes), PLANE)
    stream_planes["moved"] = k.read_us + k.copy_us
    stream_planes["reading"] = k.read_us + k.copy_us
    stream_planes["read_done"] = k.read_us + k.copy_us + k.read_us
    stream_planes["read_end"] = k.read_us
    _spread_upkeep(k, planes, stream_planes)
    return State(
        channels=channels,
        stats=np.zeros((k.channels, N_STATS)),
        cores=np.zeros((k.channels, k.cores), CORE),
        core_busy=np.zeros((k.channels, k.cores)),
        planes=planes,
        stream_planes=stream_planes,
        requests=np.zeros((k.channels, OPEN_REQUESTS), REQUEST),
        results=np.zeros((k.channels, 1 << (2 * k.cores).bit_length()), RESULT),
        pages=np.zeros((k.channels, k.window), PAGE),
        mat_end=np.zeros(matrices),
        free=np.zeros(1, FREE),
        upkeep=np.zeros((k.channels, UPKEEP_COLUMNS)),
        fails=np.zeros(1) if fails is None else fails,
    )


def _spread_upkeep(k: Constants, *planes: np.ndarray) -> None:
    """Planes are at different points of their rewriting: as evenly as multiples of the golden ratio lie."""
    count = sum(one.size for one in planes)
    phases = np.arange(count) * 0.6180339887498949 % 1.0
    for one in planes:
        phase, phases = phases[: one.size].reshape(one.shape), phases[one.size :]
        one["due"], one["rewritten"] = phase, (phase * k.pages_per_block).astype(np.int64)


def trace_buffers(capacity: int, keep: np.ndarray, on: bool) -> TraceBuffers:
    return TraceBuffers(
        on=on,
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


@inline
def record(tr, kind, channel, unit, op, start, stop, value):
    """An interval of the trace, when there is one."""
    if tr.on:
        _keep(tr, kind, channel, unit, op, start, stop, value)


@borrowing
def _keep(tr, kind, channel, unit, op, start, stop, value):
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
