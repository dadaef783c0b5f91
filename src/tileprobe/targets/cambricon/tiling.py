"""What the passes reason with: shapes of requests, what a transfer costs, and the balance of flash and NPU.

`paper_tile`, `balance` and `split_requests` are the paper's rules with the machine's own costs put in;
`check_tile` says whether a core can hold a tile. These are decisions of a compiler: the engine knows none of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.precision import Precision

MOST_INPUT_SLOTS = 7  # one less than the requests the engine keeps open


@dataclass(frozen=True)
class Tile:
    """An H x W block of a matrix that one request covers: columns over channels, rows over a channel's
    cores.
    """

    rows: int
    cols: int

    def block(self, machine: Machine) -> tuple[int, int]:
        """Rows and columns of the page that one core gets."""
        return self.rows // machine.cores_per_channel, self.cols // machine.flash.channels

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}"


@dataclass(frozen=True)
class Buffers:
    """How the buffer of a core is cut, see `BuffersAttr`."""

    inputs: int
    rows: int
    keep: int


def parse_tile(text: str) -> Tile:
    rows, x, cols = text.lower().partition("x")
    if not (x and rows.isdigit() and cols.isdigit() and int(rows) and int(cols)):
        raise TileProbeError(f"{text!r} is no tile: write rows x columns, such as 256x2048")
    return Tile(int(rows), int(cols))


def request_values(machine: Machine, precision: Precision) -> int:
    """Weights that one request covers when every core reads a full page."""
    return machine.flash.channels * machine.cores_per_channel * precision.values_per_page(machine)


def paper_tile(machine: Machine, precision: Precision, hidden: int) -> Tile:
    """The paper's shape of least traffic, W* = channels * sqrt(cores * page), rounded down to a power of
    two and no wider than the next power of two above the hidden size; H takes what is left of the
    request.
    """
    channels, cores = machine.flash.channels, machine.cores_per_channel
    best = channels * math.sqrt(cores * precision.values_per_page(machine))
    per_channel = 2 ** int(math.log2(best / channels))
    while per_channel > 1 and per_channel // 2 * channels >= hidden:
        per_channel //= 2
    while True:
        block_rows = max(1, precision.values_per_page(machine) // per_channel)
        tile = Tile(block_rows * cores, per_channel * channels)
        if per_channel == 1 or cut_buffers(machine, precision, tile, 1, False) is not None:
            return tile
        per_channel //= 2  # a core with small buffers


def cut_buffers(
    machine: Machine, precision: Precision, tile: Tile, most_inputs: int, keep: bool
) -> Buffers | None:
    """Cut a core's buffer into input slices and two output buffers; None when the tile's input does not
    fit.
    """
    rows, cols = tile.block(machine)
    input_bytes = cols * precision.input_bytes
    sum_bytes = precision.partial_sum_bytes(machine)
    left = machine.core.buffer_bytes - input_bytes
    fitting = min(rows, left // (2 * sum_bytes))
    if fitting < 1:
        return None
    parts = -(-rows // fitting)
    fitting = -(-rows // parts)  # of one size: a small last part would hold a buffer that the next page wants
    inputs = 1 + (left - 2 * fitting * sum_bytes) // input_bytes
    return Buffers(min(inputs, most_inputs, MOST_INPUT_SLOTS), fitting, int(keep))


def check_tile(machine: Machine, precision: Precision, tile: Tile) -> None:
    """Raise when the machine cannot hold the tile, and say what it can hold."""
    channels, cores = machine.flash.channels, machine.cores_per_channel
    where = f"a tile of {tile} on {machine.name}"
    if tile.rows % cores or tile.cols % channels:
        raise TileProbeError(
            f"{where}: its rows must be a multiple of the {cores} cores of a channel and its columns a "
            f"multiple of the "
            f"{channels} channels"
        )
    rows, cols = tile.block(machine)
    page = precision.values_per_page(machine)
    if rows * cols > page:
        raise TileProbeError(
            f"{where} gives each core {rows} x {cols} weights, more than the {page} of a page: "
            f"rows x columns must be at most {request_values(machine, precision)}"
        )
    if cut_buffers(machine, precision, tile, 1, False) is None:
        raise TileProbeError(
            f"{where}: the input slice of {cols * precision.input_bytes} bytes and two partial sums do "
            f"not fit the "
            f"{machine.core.buffer_bytes} bytes of a core's buffers; use fewer columns"
        )


@dataclass(frozen=True)
class Service:
    """What requests and pages take on a channel of this machine, with all their bytes and commands."""

    request_us: float  # from one request of the cores to the next
    busy_us: float  # of the channel, by the input and the sums of a request
    page_us: float  # of the channel, by a page to the NPU
    apart_us: (
        float  # from a page of a channel to the next, by the planes that read it and the array that takes it
    )


def service(machine: Machine, precision: Precision, tile: Tile, buffers: Buffers) -> Service:
    flash, cores = machine.flash, machine.cores_per_channel
    bytes_per_us = 1e3 * min(flash.channel_gb_per_s, machine.link.gb_per_s / flash.channels)
    rows, cols = tile.block(machine)
    input_us = flash.command_us + cols * precision.input_bytes / bytes_per_us
    parts = -(-rows // buffers.rows)
    sums_us = cores * (parts * flash.command_us + rows * precision.partial_sum_bytes(machine) / bytes_per_us)
    sums_us *= precision.tokens
    # with one input slice in a core the next one follows the page; the array reads meanwhile
    core_us = machine.core.page_us * precision.tokens + (input_us if buffers.inputs == 1 else 0.0)
    sent = flash.page_bytes + (flash.spare_bytes if flash.spare_travels else 0)
    reading = machine.dies_per_channel * (flash.planes_per_die // 2)
    array_us = flash.page_bytes / (machine.npu.edge_gb_per_s * 1e3) * flash.channels
    return Service(
        max(flash.read_us, core_us), input_us + sums_us, flash.command_us + sent / bytes_per_us,
        max(flash.read_us / reading, array_us),
    )  # fmt: skip


def balance(machine: Machine, precision: Precision, tile: Tile, buffers: Buffers) -> float:
    """The share alpha of the work at which flash and NPU end together: cores * t_r / (cores * t_r + t_rc).

    t_rc is the time of a request, t_r that of a page through what read-compute leaves of its channel. A rule for
    matrices of any size: `split_requests` puts the real counts of one in its place.
    """
    s, cores = service(machine, precision, tile, buffers), machine.cores_per_channel
    free = 1.0 - s.busy_us / s.request_us
    if free <= 0:
        return 1.0
    t_r = max(s.page_us / free, s.apart_us)
    return cores * t_r / (cores * t_r + s.request_us)


def split_requests(
    machine: Machine,
    precision: Precision,
    tile: Tile,
    buffers: Buffers,
    shapes: list[tuple[int, int]],
    edges: bool = True,
    striped: bool = True,
) -> tuple[list[int], list[int]]:
    """Block rows in flash for a group of products by one vector: of whole columns of requests, and of the last columns
    that do not fill a request on all channels. The two sides end together as nearly as whole requests allow: the total
    time of the fullest channel's requests against that of all pages which pass a channel, or which its planes read.
    The NPU's share is taken from the edge first (`edges`): a request costs the same whether it fills the cores or not.
    """
    s, channels, cores = (
        service(machine, precision, tile, buffers),
        machine.flash.channels,
        machine.cores_per_channel,
    )
    block_rows, block_cols = tile.block(machine)
    cols = shapes[0][1]
    chunks = [-(-rows // block_rows) for rows, _ in shapes]
    whole = cols // tile.cols
    rest = -(-(cols - whole * tile.cols) // block_cols)  # block columns of the edge
    if not whole:
        whole, rest = 0, -(-cols // block_cols)
    most = -(-sum(chunks) // cores) + len(chunks)
    splits = [_spread(n, chunks, cores) for n in range(most + 1)]
    requests = np.array([sum(-(-f // cores) for f in split) for split in splits], float)
    left = np.array([sum(chunks) - sum(split) for split in splits], float)
    full, edge = np.meshgrid(np.arange(len(splits)), np.arange(len(splits)), indexing="ij")
    if not (edges and whole and rest):
        full, edge = np.arange(len(splits)), np.arange(len(splits))
    count = whole * requests[full] + (rest > 0) * requests[edge]
    if striped:
        pages = (whole * channels * left[full] + rest * left[edge]) / channels
    else:
        pages = whole * left[full] + (rest > 0) * left[edge]
    streamed = np.maximum(count * s.busy_us + pages * s.page_us, pages * s.apart_us)
    end = np.maximum(count * s.request_us, streamed)
    # of splits that end together the one with the most in flash, whose bytes stay where they are
    best = np.lexsort((pages.ravel(), np.round(end.ravel(), 6)))[0]
    chosen = splits[full.ravel()[best]], splits[edge.ravel()[best]]
    return (chosen[1], chosen[1]) if not whole else (chosen[0], chosen[1] if rest else chosen[0])


def _spread(requests: int, chunks: list[int], cores: int) -> list[int]:
    """So many whole requests over the matrices of a group, evenly by their rows."""
    total, taken, found, before = sum(chunks), 0, [], 0
    for chunk in chunks:
        before += chunk
        upto = min(requests, math.ceil(requests * before / total - 1e-9))
        in_flash = min(chunk, (upto - taken) * cores)
        taken += -(-in_flash // cores)
        found.append(in_flash)
    return found


def whole_requests(alpha: float, chunks: list[int], cores: int) -> list[int]:
    """Block rows in flash for the matrices of a group: whole requests, as many as alpha asks for, rounded up.

    A request takes its time whether all cores have a page or one, so a part of one would be paid in full.
    """
    return _spread(math.ceil(alpha * sum(chunks) / cores - 1e-9), chunks, cores)
