"""What the engine runs: operators in program order and the matrices they multiply by, as flat tables.

`encode` fills a `Program` from mapped IR; the columns below are the contract between the two. Nothing
here has been expanded: a matrix is one row, and the engine walks its loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

# columns of `Program.matrices` (int64)
(
    ROWS,  # of the matrix
    COLS,
    BLOCK_ROWS,  # of a page
    BLOCK_COLS,
    FLASH_CHUNKS,  # block rows computed in flash; the others stream to the NPU
    FIRST_CORE,  # that computes block row 0
    FIRST_DIE,  # that streams the first block row of the NPU's share
    INPUT_BYTES,  # of the input slice of a full block, broadcast to a channel for each request
    SUM_BYTES,  # of one partial sum on the channel
    PART_ROWS,  # rows whose results fit one output buffer: a page returns its results in so many parts
    INPUT_SLOTS,  # input slices a core can hold at once
    KEEP_INPUT,  # 1: successive requests with the same slice broadcast it once
    VALUES_PER_PAGE,
    N_MATRIX_COLUMNS,
) = range(14)

# columns of `Program.operators` (int64)
KIND, FIRST_MATRIX, END_MATRIX, DEP_0, DEP_1, DEP_2, DEP_3, KV_HEADS, N_OPERATOR_COLUMNS = range(9)
DEPS = (DEP_0, DEP_1, DEP_2, DEP_3)

# values of KIND
WEIGHTS, VECTOR, ATTENTION = range(3)

# columns of `Program.costs` (float64, microseconds of service on a unit)
(
    SFU_US,
    DRAM_US,
    K_DRAM_US,
    V_DRAM_US,
    QK_ARRAY_US,
    PV_ARRAY_US,
    SOFTMAX_US,
    TAIL_US,
    ARRAY_US,
    N_COST_COLUMNS,
) = range(10)


@dataclass
class Program:
    """One step (a decoded token, or a prefill) of a model on a machine, ready to run."""

    names: list[str]  # of the operators, e.g. "layer 3 / qkv"
    labels: list[str]  # of the operators without their layer
    operators: np.ndarray  # int64 [operators, N_OPERATOR_COLUMNS]
    costs: np.ndarray  # float64 [operators, N_COST_COLUMNS]
    matrices: np.ndarray  # int64 [matrices, N_MATRIX_COLUMNS]
    matrix_names: list[str]
    use_per_page_us: (
        np.ndarray
    )  # float64 [matrices]: the NPU's time for one full streamed page, on one channel's share
    sliced: bool
    meta: dict = field(default_factory=dict)
