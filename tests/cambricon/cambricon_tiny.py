"""Machines small enough to follow with pen and paper, and programs of one operator for them."""

import numpy as np
from xdsl.dialects.builtin import IntAttr

from tileprobe.targets.cambricon.commands import PageReadOp
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.launch import launch
from tileprobe.targets.cambricon.expand import expand
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.pagemap import NPU_ONLY, SPLIT, PageMap, geometry_of
from tileprobe.targets.cambricon.passes.cam_map_pages import commands
from tileprobe.targets.cambricon.precision import precision_of
from tileprobe.targets.cambricon.tiling import Buffers

# one channel, one chip, one die, two planes; a page of 64 values; times in round numbers
TINY = load_machine("cambricon:s").replace(
    channels=1, chips_per_channel=1, dies_per_chip=1, page_bytes=64, spare_bytes=8, slice_bytes=16,
    read_us=30.0, page_us=30.0, channel_gb_per_s=0.01, command_us=0.1, slice_command_us=0.05,
    link_latency_us=0.0, spare_travels=True,
)  # fmt: skip
# a byte takes 0.1 us: an input of 8 bytes 0.8, 8 sums of 3 bytes 2.4, a page with spare area 7.2, a slice 1.6


def body_of(page_map, buffers, machine):
    """The commands of a matrix, through the IR, as the engine takes them."""
    block = commands([page_map], buffers, machine, precision_of("w8a8"))
    for read in (op for op in block.walk() if isinstance(op, PageReadOp)):
        read.slice = IntAttr(min(machine.flash.slice_bytes, read.bytes.data))
    return expand("matrix", page_map.rows, page_map.cols, block, page_map.geometry).body()


def program_of(maps, buffers, machine, groups, use_us=0.0, sliced=True, values=64):
    """A program of weight products alone: `groups` says how many of the matrices each operator takes."""
    geometry = maps[0].geometry
    rows = np.zeros((len(maps), p.N_MATRIX_COLUMNS), np.int64)
    bodies = []
    for n, (row, one, cut) in enumerate(zip(rows, maps, buffers)):
        row[p.ROWS], row[p.COLS], row[p.BODY] = one.rows, one.cols, n
        row[p.INPUT_SLOTS], row[p.VALUES_PER_PAGE] = cut.inputs, values
        bodies.append(body_of(one, cut, machine))
    operators = np.full((len(groups), p.N_OPERATOR_COLUMNS), -1, np.int64)
    ends = np.cumsum(groups)
    operators[:, p.KIND], operators[:, p.END_MATRIX] = p.WEIGHTS, ends
    operators[:, p.FIRST_MATRIX] = ends - groups
    operators[:, p.DEP_0] = np.arange(len(groups)) - 1
    names = [f"product {n}" for n in range(len(groups))]
    costs = np.zeros((len(groups), p.N_COST_COLUMNS))
    joined = p.Bodies.join(bodies, geometry.channels, geometry.cores)
    return p.Program(names, names, operators, costs, rows, joined, names, np.full(len(maps), use_us), sliced)


def run_matrix(
    machine, rows, cols=8, flash=None, mode=SPLIT, sliced=True, slots=1, keep=0, use_us=0.0, groups=1,
    wear=None, rewrites=0.0,
):  # fmt: skip
    """`groups` products in a row by a matrix of 8 x 8 blocks; `flash` block rows are computed in flash."""
    geometry = geometry_of(machine, mode)
    chunks = -(-rows // 8)
    flash = (0 if mode == NPU_ONLY else chunks) if flash is None else flash
    maps = [PageMap(geometry, rows, cols, 8, 8, flash)] * groups
    program = program_of(maps, [Buffers(slots, 8, keep)] * groups, machine, [1] * groups, use_us, sliced)
    return launch(program, machine, geometry, wear=wear, rewrites=rewrites)
