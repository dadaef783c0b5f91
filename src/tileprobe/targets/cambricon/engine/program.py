"""What the engine runs: operators in program order and the matrices they multiply by, as flat tables.

`encode` fills a `Program` from mapped IR; the columns below are the contract between the two. The commands of a
matrix are what its loops in the IR expand to (`expand.py`), once for all layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

# columns of `Program.matrices` (int64), a row for each matrix of each layer
(
    ROWS,  # of the matrix
    COLS,
    BODY,  # which of `Program.bodies`: layers share the commands of a matrix
    INPUT_SLOTS,  # input slices a core can hold at once
    VALUES_PER_PAGE,
    COMPUTE_OFFSET,  # added to the number of a page on its die, in this layer
    STREAM_OFFSET,
    N_MATRIX_COLUMNS,
) = range(8)

# columns of `Program.operators` (int64)
KIND, FIRST_MATRIX, END_MATRIX, DEP_0, DEP_1, DEP_2, DEP_3, KV_HEADS, N_OPERATOR_COLUMNS = range(9)
DEPS = (DEP_0, DEP_1, DEP_2, DEP_3)

# values of KIND
WEIGHTS, VECTOR, ATTENTION, EXCHANGE = range(4)

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
    AHEAD_US,  # of keys, which are loaded beside the products that make the query
    FLASH_US,  # of writes, for which the flash is taken after an operator of it
    LINK_US,  # of the link between packages
    N_COST_COLUMNS,
) = range(13)


def _record(**fields: type) -> np.dtype:
    return np.dtype((np.record, np.dtype(list(fields.items()), align=True)))


# a page that a core computes; rows 0: none
COMPUTE = _record(
    rows=np.int32, cols=np.int32, part_rows=np.int32, sum_bytes=np.int32, plane=np.int32, number=np.int64
)
# a request of a channel: its row in `compute`, its pages, and the bytes of input that are sent for it
REQUEST = _record(row=np.int64, pages=np.int64, bytes=np.int64)
# a page that streams to the NPU
STREAM = _record(die=np.int32, plane=np.int32, bytes=np.int32, slice=np.int32, number=np.int64)


@dataclass
class Bodies:
    """The commands of matrices, one behind the other; a channel has as many as `counts` says."""

    compute: np.ndarray  # COMPUTE [requests, channels, cores]
    requests: np.ndarray  # REQUEST [requests, channels]
    stream: np.ndarray  # STREAM [pages, channels]
    first: np.ndarray  # int64 [bodies, 2]: the first row in `requests` and in `stream`
    counts: np.ndarray  # int64 [bodies, channels, 2]: requests and streamed pages
    computed: np.ndarray  # int64 [bodies]: pages computed in flash

    @staticmethod
    def join(parts: list[Bodies], channels: int, cores: int) -> Bodies:
        """Bodies one behind the other."""
        if not parts:
            return Bodies(
                np.zeros((0, channels, cores), COMPUTE), np.zeros((0, channels), REQUEST),
                np.zeros((0, channels), STREAM), np.zeros((0, 2), np.int64),
                np.zeros((0, channels, 2), np.int64), np.zeros(0, np.int64),
            )  # fmt: skip
        rows = np.cumsum([0] + [len(part.requests) for part in parts])
        pages = np.cumsum([0] + [len(part.stream) for part in parts])
        requests = np.concatenate([part.requests for part in parts])
        for n in range(len(parts)):
            requests["row"][rows[n] : rows[n + 1]] += sum(len(before.compute) for before in parts[:n])
        return Bodies(
            np.concatenate([part.compute for part in parts]),
            requests,
            np.concatenate([part.stream for part in parts]),
            np.stack([rows[:-1], pages[:-1]], axis=1),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.computed for part in parts]),
        )

    @property
    def streamed(self) -> np.ndarray:
        return self.counts[:, :, 1].sum(axis=1)


@dataclass
class Program:
    """One step (a decoded token, or a prefill) of a model on a machine, ready to run."""

    names: list[str]  # of the operators, e.g. "layer 3 / qkv"
    labels: list[str]  # of the operators without their layer
    operators: np.ndarray  # int64 [operators, N_OPERATOR_COLUMNS]
    costs: np.ndarray  # float64 [operators, N_COST_COLUMNS]
    matrices: np.ndarray  # int64 [matrices, N_MATRIX_COLUMNS]
    bodies: Bodies
    matrix_names: list[str]
    use_per_page_us: (
        np.ndarray
    )  # float64 [matrices]: the NPU's time for one full streamed page, on one channel's share
    sliced: bool
    meta: dict = field(default_factory=dict)
