"""The flash with its cores, and the NPU's side of a weight product: pages in, exact integer sums out.

A matrix is written block by block into pages, at the places the page map gives it, through the page code. A
product reads every page of the matrix, corrects it, and multiplies: blocks computed in flash return partial
sums of the machine's width, the others stream to the NPU and are multiplied there; the NPU adds them all
up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.aging import Wear
from tileprobe.targets.cambricon.draws import retries_of
from tileprobe.targets.cambricon.expand import Placed
from tileprobe.targets.cambricon.functional.ecc.audit import Outcome, audit
from tileprobe.targets.cambricon.functional.ecc.base import Counts, PageCodec
from tileprobe.targets.cambricon.functional.inject import Flips, inject
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import PageMap
from tileprobe.targets.jit import jit

BATCH_PAGES = 64  # decoded at a time: 1 MB of values, which stays in the second-level cache
EXACT_COLS = 4096  # products of 4 and 16 bits that surely fit a 32-bit sum


@jit
def count_retries(fails, seed, numbers):
    """Of each page."""
    found = np.empty(numbers.shape[0], np.int64)
    for n in range(numbers.shape[0]):
        found[n] = retries_of(fails, seed, numbers[n])
    return found


@jit
def _write_blocks(matrix, blocks, block_cols, values):
    """Row-major blocks of the matrix into rows of page values; what a block leaves free stays zero."""
    for p in range(blocks.shape[0]):
        row, col, rows, cols = blocks[p, 0], blocks[p, 1], blocks[p, 2], blocks[p, 3]
        for i in range(rows):
            for j in range(cols):
                values[p, i * block_cols + j] = matrix[row + i, col + j]


@jit
def _mark_used(blocks, block_cols, used):
    for p in range(blocks.shape[0]):
        for i in range(blocks[p, 2]):
            for j in range(blocks[p, 3]):
                used[p, i * block_cols + j] = True


@jit
def _dot(a, b, start, stop, offset):
    """Of 16-bit values, in 32 bits."""
    total = np.int32(0)
    for j in range(start, stop):
        total += np.int32(a[j]) * np.int32(b[offset + j])
    return total


@jit
def _clip(partial, limit):
    return limit if partial > limit else max(partial, -limit - 1)


@jit
def _multiply_one(values, blocks, block_cols, x, sums, limit):
    """Adds every block's product with one vector to `sums`; how many partial sums of the cores saturated."""
    saturated = 0
    weights = np.empty(block_cols, np.int16)
    for p in range(blocks.shape[0]):
        row, col, rows, cols, in_flash = blocks[p]
        for i in range(rows):
            for j in range(cols):
                weights[j] = values[p, i * block_cols + j]
            partial = np.int64(0)
            for start in range(0, cols, EXACT_COLS):
                partial += _dot(weights, x, start, min(cols, start + EXACT_COLS), col)
            kept = _clip(partial, limit) if in_flash else partial
            saturated += kept != partial
            sums[row + i] += kept
    return saturated


@jit
def _multiply_many(values, blocks, block_cols, x, sums, limit):
    """The same for many vectors, x [cols, tokens] and sums [rows, tokens]: SIMD runs over tokens."""
    saturated = 0
    tokens = x.shape[1]
    small, partial = np.empty(tokens, np.int32), np.empty(tokens, np.int64)
    for p in range(blocks.shape[0]):
        row, col, rows, cols, in_flash = blocks[p]
        for i in range(rows):
            partial[:] = 0
            for start in range(0, cols, EXACT_COLS):
                small[:] = 0
                for j in range(start, min(cols, start + EXACT_COLS)):
                    weight = np.int32(values[p, i * block_cols + j])
                    if weight:
                        for t in range(tokens):
                            small[t] += weight * np.int32(x[col + j, t])
                partial += small
            for t in range(tokens):
                kept = _clip(partial[t], limit) if in_flash else partial[t]
                saturated += kept != partial[t]
                sums[row + i, t] += kept
    return saturated


@dataclass
class Work:
    """What the machine did, summed over products."""

    read_computes: int = 0
    page_reads: int = 0
    saturated: int = 0
    decoder: Counts = field(default_factory=Counts)


@dataclass
class Stored:
    """A matrix in flash: its map, its pages with their spare areas, and the physical number of each."""

    map: PageMap | Placed
    pages: np.ndarray
    numbers: np.ndarray
    blocks: np.ndarray  # row, col, rows, cols, in flash


class Flash:
    def __init__(self, machine: Machine, codec: PageCodec):
        if (codec.page_bytes, codec.spare_bytes) != (machine.flash.page_bytes, machine.flash.spare_bytes):
            raise TileProbeError(
                f"the page code is for pages of {codec.page_bytes} + {codec.spare_bytes} bytes, "
                f"{machine.name} has {machine.flash.page_bytes} + {machine.flash.spare_bytes}"
            )
        self.machine, self.codec = machine, codec
        core = machine.core
        width = core.partial_sum_bytes_w8a8 if codec.value_bits == 8 else core.partial_sum_bytes_w4a16
        self.partial_limit = 2 ** (8 * width - 1) - 1
        self.matrices: dict[str, Stored] = {}
        self.work = Work()
        self._owner: dict[int, tuple[str, int]] = {}

    def program(self, name: str, matrix: np.ndarray, page_map: PageMap | Placed) -> None:
        """Writes an int8 matrix into the pages that the map gives it."""
        if matrix.shape != (page_map.rows, page_map.cols) or matrix.dtype != np.int8:
            raise TileProbeError(
                f"{name}: a matrix of {matrix.dtype} {matrix.shape} for a map of "
                f"int8 {page_map.rows, page_map.cols}"
            )
        if page_map.block_rows * page_map.block_cols > self.codec.values_per_page:
            raise TileProbeError(
                f"{name}: a block of {page_map.block_rows} x {page_map.block_cols} values does not fit "
                f"a page of {self.codec.values_per_page}"
            )
        where, extent = page_map.table()
        numbers = self.page_number(where.channel, where.chip, where.die, where.plane, where.page)
        self._claim(name, numbers, int(where.page.max()))
        blocks = np.ascontiguousarray(np.stack([np.asarray(part, np.int64) for part in extent], axis=1))
        stored = np.empty((len(numbers), self.codec.page_bytes + self.codec.spare_bytes), np.uint8)
        for part in _batches(len(numbers)):
            values = np.zeros((len(numbers[part]), self.codec.values_per_page), np.int8)
            _write_blocks(matrix, blocks[part], page_map.block_cols, values)
            stored[part] = self.codec.encode(values)
        self.matrices[name] = Stored(page_map, stored, numbers, blocks)

    def page_number(self, channel, chip, die, plane, page):
        """One number for a physical page."""
        f = self.machine.flash
        die = (channel * f.chips_per_channel + chip) * f.dies_per_chip + die
        return (die * f.planes_per_die + plane) * f.pages_per_plane + page

    def _claim(self, name: str, numbers: np.ndarray, last_page: int) -> None:
        if last_page >= self.machine.flash.pages_per_plane:
            raise TileProbeError(
                f"{self.machine.name} is full: {name} needs page {last_page} of a plane of "
                f"{self.machine.flash.pages_per_plane}; use a larger device"
            )
        for row, number in enumerate(numbers.tolist()):
            if number in self._owner:
                raise TileProbeError(
                    f"{name} and {self._owner[number][0]} share a page: stack their maps first"
                )
            self._owner[number] = (name, row)

    def read_page(self, channel: int, chip: int, die: int, plane: int, page: int) -> np.ndarray:
        """The stored bytes of one physical page, data then spare area; an error where nothing was written."""
        number = int(self.page_number(channel, chip, die, plane, page))
        if number not in self._owner:
            raise TileProbeError(
                f"nothing was written to page {page} of plane {plane}, die {die}, chip {chip}, "
                f"channel {channel}"
            )
        name, row = self._owner[number]
        return self.matrices[name].pages[row]

    def inject(self, rate: float, seed: int) -> Flips:
        """Flips stored bits of every page; a second call adds to the first."""
        total = Flips()
        for stored in self.matrices.values():
            flips = inject(stored.pages, stored.numbers, self.codec.page_bytes, rate, seed)
            total.data += flips.data
            total.spare += flips.spare
        return total

    def age(self, wear: Wear) -> tuple[Flips, int]:
        """Flips stored bits as a flash of that age reads them after its retries, and counts these: the pages that the
        engine reads again are the same.
        """
        total, retries = Flips(), 0
        for stored in self.matrices.values():
            again = count_retries(wear.fails, wear.age.seed, stored.numbers)
            retries += int(np.minimum(again, len(wear.fails) - 1).sum())
            for count in np.unique(again):
                rows = again == count
                pages, rate = stored.pages[rows], wear.rate_of(int(count), self.machine)
                flips = inject(pages, stored.numbers[rows], self.codec.page_bytes, rate, wear.age.seed)
                stored.pages[rows] = pages
                total.data += flips.data
                total.spare += flips.spare
        return total, retries

    def snapshot(self) -> dict[str, np.ndarray]:
        """A copy of all stored pages, for `restore`."""
        return {name: stored.pages.copy() for name, stored in self.matrices.items()}

    def restore(self, pages: dict[str, np.ndarray]) -> None:
        for name, stored in self.matrices.items():
            stored.pages[:] = pages[name]

    def multiply(self, name: str, x: np.ndarray) -> np.ndarray:
        """int64 sums [tokens, rows] of the matrix and int16 inputs [tokens, cols]; pages are read anew."""
        stored = self.matrices[name]
        if x.ndim != 2 or x.shape[1] != stored.map.cols or x.dtype != np.int16:
            raise TileProbeError(
                f"{name}: inputs of {x.dtype} {x.shape}, expected int16 [tokens, {stored.map.cols}]"
            )
        one = len(x) == 1
        x = x[0].copy() if one else np.ascontiguousarray(x.T)
        sums = np.zeros((stored.map.rows, *x.shape[1:]), np.int64)
        kernel = _multiply_one if one else _multiply_many
        for part in _batches(len(stored.pages)):
            values, counts = self.codec.decode(stored.pages[part])
            blocks = stored.blocks[part]
            self.work.decoder += counts
            self.work.saturated += kernel(values, blocks, stored.map.block_cols, x, sums, self.partial_limit)
        in_flash = int(stored.blocks[:, 4].sum())
        self.work.read_computes += in_flash
        self.work.page_reads += len(stored.pages) - in_flash
        return sums[None] if one else sums.T

    def audit(self, written: dict[str, np.ndarray], flips: Flips) -> Outcome:
        """What became of the values of all pages, given the matrices as they were written."""
        total = Outcome(flips_data=flips.data, flips_spare=flips.spare)
        for name, stored in self.matrices.items():
            for part in _batches(len(stored.pages)):
                pages = stored.pages[part]
                values = np.zeros((len(pages), self.codec.values_per_page), np.int8)
                _write_blocks(written[name], stored.blocks[part], stored.map.block_cols, values)
                used = np.zeros(values.shape, np.bool_)
                _mark_used(stored.blocks[part], stored.map.block_cols, used)
                total += audit(self.codec, values, pages, Flips(), used)[1]
        return total


def _batches(count: int):
    return [slice(start, start + BATCH_PAGES) for start in range(0, count, BATCH_PAGES)]
