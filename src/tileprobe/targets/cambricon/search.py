"""`--tiling best`: the shape and split that the engine itself runs fastest, for one group of products at
a time.

Candidates are shapes that divide the matrix's columns over the channels without waste, and powers of two;
each is run on the engine as a small program of that group alone, with the splits around the balance.
Decisions are kept for the process, because layers repeat.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntAttr

from tileprobe.targets.cambricon.commands import PageReadOp
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.launch import launch
from tileprobe.targets.cambricon.expand import expand
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT, geometry_of, stack
from tileprobe.targets.cambricon.precision import Precision
from tileprobe.targets.cambricon.tiling import (
    MOST_INPUT_SLOTS,
    Tile,
    balance,
    cut_buffers,
    paper_tile,
    split_requests,
    whole_requests,
)
from tileprobe.targets.cambricon.walk import cut_columns

REPEATED = (
    2  # a group after itself: what it reads ahead is taken from the time of the one before, as in a model
)
SHAPES_TRIED = 10  # of those that a count of rounds ranks best


@dataclass(frozen=True)
class Choice:
    tile: Tile
    flash: list[int]  # block rows in flash, a matrix each
    edge: list[int]  # the same of the columns that do not fill a request
    time_us: float


_KEPT: dict[tuple, Choice] = {}  # machines hold dictionaries, so no lru_cache over them


def best_choice(
    machine: Machine, precision: Precision, mode: str, shapes: list[tuple[int, int]], hidden: int
) -> Choice:
    """The best tile for a group, with its split; the paper's is among those that are tried."""
    key = (repr((machine, precision, mode, tuple(shapes), hidden)),)
    if key not in _KEPT:
        tiles = _ranked(machine, precision, shapes)[:SHAPES_TRIED]
        tiles.append(paper_tile(machine, precision, hidden))
        _KEPT[key] = min(
            (_best(machine, precision, mode, shapes, tile) for tile in tiles), key=lambda c: c.time_us
        )
    return _KEPT[key]


def best_split(machine: Machine, precision: Precision, shapes: list[tuple[int, int]], tile: Tile) -> Choice:
    """The best split of a group whose tile is given."""
    return _best(machine, precision, SPLIT, shapes, tile)


def _candidates(machine: Machine, precision: Precision, cols: int) -> list[Tile]:
    channels, cores = machine.flash.channels, machine.cores_per_channel
    values = precision.values_per_page(machine)
    exact = precision.widest_row(machine)
    widest = exact if exact >= 16 else values  # sums too narrow to be exact are so at any width
    widths = {2**n for n in range(4, 15)}
    widths |= {-(-cols // (channels * k)) for k in range(1, 65)}
    tiles = [Tile(values // w * cores, w * channels) for w in sorted(widths) if 0 < w <= widest]
    return [t for t in tiles if cut_buffers(machine, precision, t, 1, True) is not None]


def _ranked(machine: Machine, precision: Precision, shapes: list[tuple[int, int]]) -> list[Tile]:
    """Shapes by the work of the busiest channel in pages, then by their traffic: cheap, to spare the
    engine most.
    """
    channels, cores = machine.flash.channels, machine.cores_per_channel
    cols = shapes[0][1]

    def rank(tile: Tile) -> tuple[float, float]:
        block_rows, block_cols = tile.block(machine)
        blocks = -(-cols // block_cols)
        requests = -(-blocks // channels)
        chunks = sum(-(-rows // block_rows) for rows, _ in shapes)
        sums = chunks * block_rows * precision.partial_sum_bytes(machine) * requests
        inputs = -(-chunks // cores) * requests * block_cols * precision.input_bytes
        pages = requests * chunks + 0.02 * requests * (-chunks % cores)
        return pages + (sums + inputs) / machine.flash.page_bytes, sums

    return sorted(_candidates(machine, precision, cols), key=rank)


def _best(
    machine: Machine, precision: Precision, mode: str, shapes: list[tuple[int, int]], tile: Tile
) -> Choice:
    cores = machine.cores_per_channel
    buffers = cut_buffers(machine, precision, tile, MOST_INPUT_SLOTS, True)
    assert buffers is not None
    block_rows, _ = tile.block(machine)
    chunks = [-(-rows // block_rows) for rows, _ in shapes]
    if mode == FLASH_ONLY:
        splits = [(chunks, chunks)]
    elif mode == NPU_ONLY:
        splits = [([0] * len(chunks), [0] * len(chunks))]
    else:
        rounds = sum(chunks) / cores
        middle = balance(machine, precision, tile, buffers)
        shares = {min(1.0, max(0.0, middle + step / rounds)) for step in (-2, -1, -0.5, 0, 0.5, 1, 2)} | {1.0}
        splits = [(s, s) for s in (whole_requests(share, chunks, cores) for share in sorted(shares))]
        splits += [(s, s) for s in (_even(share, chunks) for share in sorted(shares))]
        splits.append(split_requests(machine, precision, tile, buffers, shapes))
    unique = {(tuple(flash), tuple(edge)) for flash, edge in splits}
    timed = [
        Choice(
            tile, list(flash), list(edge), _time(machine, precision, mode, shapes, tile, flash, edge, buffers)
        )
        for flash, edge in sorted(unique)
    ]
    return min(timed, key=lambda c: (round(c.time_us, 3), -sum(c.flash)))


def _even(share: float, chunks: list[int]) -> list[int]:
    return [min(chunk, round(share * chunk)) for chunk in chunks]


def _time(machine, precision, mode, shapes, tile, flash, edge, buffers) -> float:
    """Microseconds that the group adds on the engine when it runs again and again."""
    from tileprobe.targets.cambricon.passes.cam_map_pages import commands

    geometry = geometry_of(machine, mode)
    matrices = np.zeros((len(shapes), p.N_MATRIX_COLUMNS), np.int64)
    maps = [
        cut_columns(tile, rows, cols, f, e, machine, geometry, True)
        for (rows, cols), f, e in zip(shapes, flash, edge)
    ]
    placed, bodies = iter(stack([one for matrix in maps for one in matrix])), []
    for n, ((rows, cols), matrix) in enumerate(zip(shapes, maps)):
        m = matrices[n]
        m[p.ROWS], m[p.COLS], m[p.BODY], m[p.INPUT_SLOTS] = rows, cols, n, buffers.inputs
        m[p.VALUES_PER_PAGE] = precision.values_per_page(machine)
        block = commands([next(placed) for _ in matrix], buffers, machine, precision)
        for read in (op for op in block.walk() if isinstance(op, PageReadOp)):
            read.slice = IntAttr(min(machine.flash.slice_bytes, read.bytes.data))
        bodies.append(expand("group", rows, cols, block, geometry).body())
    runs, each = 1 + REPEATED, len(shapes)
    operators = np.full((1 + runs, p.N_OPERATOR_COLUMNS), -1, np.int64)
    operators[0, p.KIND], operators[1:, p.KIND] = p.VECTOR, p.WEIGHTS
    operators[1:, p.FIRST_MATRIX] = np.arange(runs) * each
    operators[1:, p.END_MATRIX] = np.arange(1, runs + 1) * each
    operators[1:, p.DEP_0] = np.arange(runs)
    costs = np.zeros((1 + runs, p.N_COST_COLUMNS))
    use = machine.flash.page_bytes / (machine.npu.edge_gb_per_s * 1e3) * geometry.channels
    body = p.Bodies.join(bodies, geometry.channels, geometry.cores)
    names = ["start", *["group"] * runs]
    program = p.Program(
        names,
        names,
        operators,
        costs,
        np.tile(matrices, (runs, 1)),
        body,
        [],
        np.full(runs * each, use),
        True,
    )
    done = launch(program, machine, geometry).done_us
    return float(done[-1] - done[1]) / REPEATED
