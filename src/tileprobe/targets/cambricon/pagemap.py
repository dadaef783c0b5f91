"""Where every weight lies: one map of a matrix onto channel, chip, die, plane and page. `cam-map-pages` writes it into
the IR as affine maps, which is where the engine and the functional model read it (`expand.py`).

A weight matrix (`rows` x `cols`, row = output, column = input) is cut into blocks of `block_rows` x
`block_cols` values; a block is one page, stored row-major (`offset = row_in_block * block_cols +
col_in_block`, in values; edge blocks keep the stride and leave the rest of the page unused). A map holds the block
columns from `first_block` on: a matrix whose last columns do not fill a request has a second map for them.

The first `flash_chunks` block rows are computed in flash: columns over the channels, so block (r, k) lies on channel
`k % channels`, and rows over the cores of a channel, block row r on core `(r + first_core) % cores`, on the planes that
compute. The other blocks stream to the NPU, to which it does not matter where they come from: page n of them, counted
from `stream_first` in a layer, lies on channel `n % channels` and die `n / channels % dies`, on the planes that serve
reads (`striped`). Without `striped` they stay on the channels of their columns. With more than one plane for a role,
successive pages alternate between them. All functions take and return NumPy arrays, both ways:

    map.locate(row, col)                         -> Location(channel, chip, die, plane, page, offset)
    map.blocks(channel, chip, die, plane, page)  -> Blocks(row, col, rows, cols, in_flash); rows 0: nothing
    map.table()                                  -> (Location, Blocks) of every page, block row by block row
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import Machine

SPLIT, FLASH_ONLY, NPU_ONLY = "split", "flash-only", "npu-only"


class Location(NamedTuple):
    """Coordinates of pages; `die` counts within its chip, `plane` within its die, `page` within its plane."""

    channel: np.ndarray
    chip: np.ndarray
    die: np.ndarray
    plane: np.ndarray
    page: np.ndarray
    offset: np.ndarray


class Blocks(NamedTuple):
    """Blocks of a matrix: first row and column, and how many rows and columns of the matrix they hold."""

    row: np.ndarray
    col: np.ndarray
    rows: np.ndarray
    cols: np.ndarray
    in_flash: np.ndarray


@dataclass(frozen=True)
class Geometry:
    """The shape of the flash and which planes of a die compute: the first `compute_planes`; the others
    serve reads.
    """

    channels: int
    chips: int
    dies: int
    planes: int
    cores_per_die: int
    compute_planes: int

    @property
    def dies_per_channel(self) -> int:
        return self.chips * self.dies

    @property
    def cores(self) -> int:
        """Cores on one channel."""
        return self.dies_per_channel * self.cores_per_die

    @property
    def planes_per_core(self) -> int:
        return self.compute_planes // self.cores_per_die

    @property
    def stream_planes(self) -> int:
        return self.planes - self.compute_planes


def geometry_of(machine: Machine, mode: str = SPLIT) -> Geometry:
    """Half of the planes compute and half serve reads; all do the one thing when there is only one to do."""
    flash = machine.flash
    compute = {SPLIT: flash.planes_per_die // 2, FLASH_ONLY: flash.planes_per_die, NPU_ONLY: 0}[mode]
    return Geometry(
        channels=flash.channels,
        chips=flash.chips_per_channel,
        dies=flash.dies_per_chip,
        planes=flash.planes_per_die,
        cores_per_die=machine.core.cores_per_die,
        compute_planes=compute,
    )


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class PageMap:
    """The place of one matrix, or of some block columns of it. `compute_base` is the first page it owns on each plane
    that computes; `stream_first` counts the streamed pages before it (on every channel, when not `striped`).
    """

    geometry: Geometry
    rows: int
    cols: int  # of this map
    block_rows: int
    block_cols: int
    flash_chunks: int
    first_core: int = 0
    compute_base: int = 0
    stream_first: int = 0
    first_block: int = 0
    striped: bool = True

    def __post_init__(self) -> None:
        if min(self.rows, self.cols, self.block_rows, self.block_cols) < 1:
            raise TileProbeError(f"a page map needs positive sizes, found {self}")
        if not 0 <= self.flash_chunks <= self.row_chunks:
            raise TileProbeError(
                f"flash_chunks must lie between 0 and {self.row_chunks}, found {self.flash_chunks}"
            )
        if self.flash_chunks and not self.geometry.compute_planes:
            raise TileProbeError("rows are to be computed in flash, but no plane computes")
        if self.stream_chunks and not self.geometry.stream_planes:
            raise TileProbeError("rows are to stream to the NPU, but no plane serves reads")

    # -- sizes

    @property
    def row_chunks(self) -> int:
        return _ceil(self.rows, self.block_rows)

    @property
    def stream_chunks(self) -> int:
        return self.row_chunks - self.flash_chunks

    @property
    def col_blocks(self) -> int:
        return _ceil(self.cols, self.block_cols)

    @property
    def pages(self) -> int:
        """Pages of the map, which is the number of commands that read it."""
        return self.row_chunks * self.col_blocks

    @property
    def col_requests(self) -> int:
        """Column blocks on the fullest channel."""
        return _ceil(self.col_blocks, self.geometry.channels)

    @property
    def row_requests(self) -> int:
        """Block rows that the fullest core computes."""
        return _ceil(self.flash_chunks, self.geometry.cores)

    @property
    def compute_pages(self) -> int:
        """Pages to reserve on each plane that computes, the same on all so that a base is one number."""
        return _ceil(self.row_requests * self.col_requests, max(self.geometry.planes_per_core, 1))

    @property
    def lanes(self) -> int:
        """Streamed pages of one round: one from every die that a count goes over."""
        return self.geometry.dies_per_channel * (self.geometry.channels if self.striped else 1)

    @property
    def stream_count(self) -> int:
        """How far `stream_first` of the next map is."""
        return self.stream_chunks * (self.col_blocks if self.striped else self.col_requests)

    @property
    def stream_rounds(self) -> int:
        """Rounds of pages to the NPU that this map takes part in."""
        return _ceil(self.stream_first % self.lanes + self.stream_count, self.lanes)

    # -- both directions

    def locate(self, row, col) -> Location:
        """The page and the value's offset in it, for rows and columns of the matrix (arrays, broadcast
        together).
        """
        row, col = np.broadcast_arrays(np.asarray(row, np.int64), np.asarray(col, np.int64))
        chunk, block = row // self.block_rows, col // self.block_cols - self.first_block
        offset = row % self.block_rows * self.block_cols + col % self.block_cols
        return self._place(chunk, block)._replace(offset=offset)

    def blocks(self, channel, chip, die, plane, page) -> Blocks:
        """The block of the matrix in each page; `rows` is 0 where a page holds nothing of this matrix."""
        g = self.geometry
        channel, chip, die, plane, page = np.broadcast_arrays(
            *(np.asarray(x, np.int64) for x in (channel, chip, die, plane, page))
        )
        die_on_channel = chip * g.dies + die
        computes = plane < g.compute_planes
        per_core, streams = max(g.planes_per_core, 1), max(g.stream_planes, 1)

        core = die_on_channel * g.cores_per_die + plane // per_core
        local = (page - self.compute_base) * per_core + plane % per_core
        column, step = np.divmod(local, max(self.row_requests, 1))
        chunk_flash = step * g.cores + (core - self.first_core) % g.cores
        block_flash = column * g.channels + channel
        ok_flash = computes & (page >= self.compute_base) & (chunk_flash < self.flash_chunks)

        turn = (page * streams + plane - g.compute_planes) * g.dies_per_channel + die_on_channel
        if self.striped:
            step, block_stream = np.divmod(turn * g.channels + channel - self.stream_first, self.col_blocks)
        else:
            column, step = np.divmod(turn - self.stream_first, max(self.stream_chunks, 1))
            block_stream = column * g.channels + channel
        chunk_stream = self.flash_chunks + step
        ok_stream = ~computes & (step >= 0) & (block_stream >= 0) & (chunk_stream < self.row_chunks)

        chunk, block = (
            np.where(computes, chunk_flash, chunk_stream),
            np.where(computes, block_flash, block_stream),
        )
        valid = (ok_flash | ok_stream) & (block < self.col_blocks) & (channel < g.channels)
        return self._extent(np.where(valid, chunk, 0), np.where(valid, block, 0), valid, computes)

    def table(self) -> tuple[Location, Blocks]:
        """Every page of the map, block row by block row."""
        chunk, block = np.divmod(np.arange(self.pages, dtype=np.int64), self.col_blocks)
        everywhere = np.ones(self.pages, bool)
        return self._place(chunk, block), self._extent(chunk, block, everywhere, chunk < self.flash_chunks)

    def _place(self, chunk: np.ndarray, block: np.ndarray) -> Location:
        g = self.geometry
        column, channel_f = np.divmod(block, g.channels)
        in_flash = chunk < self.flash_chunks
        per_core, streams = max(g.planes_per_core, 1), max(g.stream_planes, 1)

        core = (chunk + self.first_core) % g.cores
        local = column * self.row_requests + chunk // g.cores
        plane_f = core % g.cores_per_die * per_core + local % per_core
        page_f = self.compute_base + local // per_core

        streamed = chunk - self.flash_chunks
        if self.striped:
            turn, channel_s = np.divmod(self.stream_first + streamed * self.col_blocks + block, g.channels)
        else:
            turn, channel_s = self.stream_first + column * self.stream_chunks + streamed, channel_f
        turn, die_s = np.divmod(turn, g.dies_per_channel)
        plane_s, page_s = g.compute_planes + turn % streams, turn // streams

        chip, die = np.divmod(np.where(in_flash, core // g.cores_per_die, die_s), g.dies)
        plane = np.where(in_flash, plane_f, plane_s)
        page = np.where(in_flash, page_f, page_s)
        channel = np.where(in_flash, channel_f, channel_s)
        return Location(channel, chip, die, plane, page, np.zeros_like(page))

    def _extent(
        self, chunk: np.ndarray, block: np.ndarray, valid: np.ndarray, in_flash: np.ndarray
    ) -> Blocks:
        row, col = chunk * self.block_rows, block * self.block_cols
        rows = np.where(valid, np.minimum(self.block_rows, self.rows - row), 0)
        cols = np.where(valid, np.minimum(self.block_cols, self.cols - col), 0)
        return Blocks(row, col + self.first_block * self.block_cols, rows, cols, in_flash & valid)


def stack(maps: list[PageMap]) -> list[PageMap]:
    """Place matrices one behind the other: bases and first cores follow from the matrices before."""
    from dataclasses import replace

    placed, compute, stream, core = [], 0, 0, 0
    for one in maps:
        one = replace(one, compute_base=compute, stream_first=stream, first_core=core)
        placed.append(one)
        compute, stream = compute + one.compute_pages, stream + one.stream_count
        core = (core + one.flash_chunks) % one.geometry.cores
    return placed
