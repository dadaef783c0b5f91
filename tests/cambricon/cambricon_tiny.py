"""Machines small enough to follow with pen and paper, and programs of one operator for them."""

import numpy as np

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.launch import launch
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.pagemap import NPU_ONLY, SPLIT, geometry_of

# one channel, one chip, one die, two planes; a page of 64 values; times in round numbers
TINY = load_machine("cambricon:s").replace(
    channels=1, chips_per_channel=1, dies_per_chip=1, page_bytes=64, spare_bytes=8, slice_bytes=16,
    read_us=30.0, page_us=30.0, channel_gb_per_s=0.01, command_us=0.1, slice_command_us=0.05,
    link_latency_us=0.0,
)  # fmt: skip
# a byte takes 0.1 us: an input of 8 bytes 0.8, 8 sums of 3 bytes 2.4, a page with spare area 7.2, a slice 1.6


def run_matrix(
    machine, rows, cols=8, flash=None, mode=SPLIT, sliced=True, slots=1, keep=0, use_us=0.0, groups=1
):
    """`groups` products in a row by a matrix of 8 x 8 blocks; `flash` block rows are computed in flash."""
    geometry = geometry_of(machine, mode)
    chunks = -(-rows // 8)
    flash = (0 if mode == NPU_ONLY else chunks) if flash is None else flash
    matrices = np.zeros((groups, p.N_MATRIX_COLUMNS), np.int64)
    columns = {
        p.ROWS: rows, p.COLS: cols, p.BLOCK_ROWS: 8, p.BLOCK_COLS: 8, p.FLASH_CHUNKS: flash, p.INPUT_BYTES: 8,
        p.SUM_BYTES: 3, p.PART_ROWS: 8, p.INPUT_SLOTS: slots, p.KEEP_INPUT: keep, p.VALUES_PER_PAGE: 64,
    }  # fmt: skip
    for column, value in columns.items():
        matrices[:, column] = value
    operators = np.full((groups, p.N_OPERATOR_COLUMNS), -1, np.int64)
    operators[:, p.KIND] = p.WEIGHTS
    operators[:, p.FIRST_MATRIX], operators[:, p.END_MATRIX] = np.arange(groups), np.arange(groups) + 1
    operators[:, p.DEP_0] = np.arange(groups) - 1
    costs = np.zeros((groups, p.N_COST_COLUMNS))
    names = [f"product {n}" for n in range(groups)]
    program = p.Program(names, names, operators, costs, matrices, names, np.full(groups, use_us), sliced)
    return launch(program, machine, geometry)
