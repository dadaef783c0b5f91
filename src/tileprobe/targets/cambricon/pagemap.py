"""Where every weight lies: one map of a matrix onto channel, chip, die, plane and page, for time and for
values alike.

A weight matrix (`rows` x `cols`, row = output, column = input) is cut into blocks of `block_rows` x
`block_cols` values; a block is one page, stored row-major (`offset = row_in_block * block_cols +
col_in_block`, in values; edge blocks keep the stride and leave the rest of the page unused). Columns go
over the channels and rows over the cores of a channel, so block (r, k) lies on channel `k % channels`.
The first `flash_chunks` block rows are computed in flash, block row r by core `(r + first_core) % cores`
on the planes that compute; the others stream to the NPU from die `(r - flash_chunks + first_die) % dies`
on the planes that serve reads. With more than one plane for a role, successive pages alternate between
them. All functions take and return NumPy arrays, both ways:

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
    """The place of one matrix. `compute_base` and `stream_base` are the first pages it owns on each plane
    of that role.
    """

    geometry: Geometry
    rows: int
    cols: int
    block_rows: int
    block_cols: int
    flash_chunks: int
    first_core: int = 0
    first_die: int = 0
    compute_base: int = 0
    stream_base: int = 0

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
        """Pages of the matrix, which is the number of commands that read it."""
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
    def stream_rounds(self) -> int:
        """Block rows that the fullest die streams."""
        return _ceil(self.stream_chunks, self.geometry.dies_per_channel)

    @property
    def compute_pages(self) -> int:
        """Pages to reserve on each plane that computes, the same on all so that a base is one number."""
        return _ceil(self.row_requests * self.col_requests, max(self.geometry.planes_per_core, 1))

    @property
    def stream_pages(self) -> int:
        """Pages to reserve on each plane that serves reads."""
        return _ceil(self.stream_rounds * self.col_requests, max(self.geometry.stream_planes, 1))

    # -- both directions

    def locate(self, row, col) -> Location:
        """The page and the value's offset in it, for rows and columns of the matrix (arrays, broadcast
        together).
        """
        row, col = np.broadcast_arrays(np.asarray(row, np.int64), np.asarray(col, np.int64))
        chunk, block = row // self.block_rows, col // self.block_cols
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
        ok_flash = computes & (page >= self.compute_base) & (chunk_flash < self.flash_chunks)

        local_s = (page - self.stream_base) * streams + (plane - g.compute_planes)
        column_s, step_s = np.divmod(local_s, max(self.stream_rounds, 1))
        chunk_stream = (
            self.flash_chunks
            + step_s * g.dies_per_channel
            + (die_on_channel - self.first_die) % g.dies_per_channel
        )
        ok_stream = ~computes & (page >= self.stream_base) & (chunk_stream < self.row_chunks)

        chunk = np.where(computes, chunk_flash, chunk_stream)
        block = np.where(computes, column, column_s) * g.channels + channel
        valid = (ok_flash | ok_stream) & (block < self.col_blocks) & (channel < g.channels)
        return self._extent(np.where(valid, chunk, 0), np.where(valid, block, 0), valid, computes)

    def table(self) -> tuple[Location, Blocks]:
        """Every page of the matrix, block row by block row."""
        chunk, block = np.divmod(np.arange(self.pages, dtype=np.int64), self.col_blocks)
        everywhere = np.ones(self.pages, bool)
        return self._place(chunk, block), self._extent(chunk, block, everywhere, chunk < self.flash_chunks)

    def _place(self, chunk: np.ndarray, block: np.ndarray) -> Location:
        g = self.geometry
        column, channel = np.divmod(block, g.channels)
        in_flash = chunk < self.flash_chunks
        per_core, streams = max(g.planes_per_core, 1), max(g.stream_planes, 1)

        core = (chunk + self.first_core) % g.cores
        local = column * self.row_requests + chunk // g.cores
        plane_f = core % g.cores_per_die * per_core + local % per_core
        page_f = self.compute_base + local // per_core

        streamed = chunk - self.flash_chunks
        die_s = (streamed + self.first_die) % g.dies_per_channel
        local_s = column * self.stream_rounds + streamed // g.dies_per_channel
        plane_s = g.compute_planes + local_s % streams
        page_s = self.stream_base + local_s // streams

        die_on_channel = np.where(in_flash, core // g.cores_per_die, die_s)
        chip, die = np.divmod(die_on_channel, g.dies)
        plane = np.where(in_flash, plane_f, plane_s)
        page = np.where(in_flash, page_f, page_s)
        return Location(channel, chip, die, plane, page, np.zeros_like(page))

    def _extent(
        self, chunk: np.ndarray, block: np.ndarray, valid: np.ndarray, in_flash: np.ndarray
    ) -> Blocks:
        row, col = chunk * self.block_rows, block * self.block_cols
        rows = np.where(valid, np.minimum(self.block_rows, self.rows - row), 0)
        cols = np.where(valid, np.minimum(self.block_cols, self.cols - col), 0)
        return Blocks(row, col, rows, cols, in_flash & valid)


def stack(maps: list[PageMap]) -> list[PageMap]:
    """Place matrices one behind the other: bases and first cores follow from the matrices before."""
    from dataclasses import replace

    placed, compute, stream, core, die = [], 0, 0, 0, 0
    for one in maps:
        g = one.geometry
        one = replace(one, compute_base=compute, stream_base=stream, first_core=core, first_die=die)
        placed.append(one)
        compute, stream = compute + one.compute_pages, stream + one.stream_pages
        core, die = (core + one.flash_chunks) % g.cores, (die + one.stream_chunks) % g.dies_per_channel
    return placed
