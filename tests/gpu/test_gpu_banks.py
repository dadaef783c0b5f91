"""Bank conflicts from layouts, against cases whose answer is known by hand."""

import numpy as np
import pytest
import triton
from benchmarks._memory_kernels import turned
from gpu_cases import TARGETS, code, plain
from triton.experimental.gluon import language as gl

from tileprobe.targets.gpu.bank_conflicts import MATRICES, bank_conflicts, matrix_rows, vectorised

BY_ROW = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
BY_COLUMN = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])


def accesses(shared):
    """Stored row by row, loaded column by column, each by a warp with one element a thread."""
    constants = {"SHARED": shared, "IN": BY_ROW, "OUT": BY_COLUMN}
    names = {"x": "*fp32", "out": "*fp32", **dict.fromkeys(constants, "constexpr")}
    from triton.experimental.gluon._runtime import GluonASTSource

    source = GluonASTSource(turned, names, constants)
    kernel = triton.compile(source, target=TARGETS["sm80"], options={"num_warps": 4})
    return {one["op"]: one for one in bank_conflicts(kernel, matrices=False)}


def test_columns_of_a_plain_tile_lie_in_one_bank():
    found = accesses(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    load, store = found["ttg.local_load"], found["ttg.local_store"]
    assert (store["wavefronts"], store["least"], store["extra"]) == (
        8,
        8,
        0,
    )  # eight rows a warp, 128 bytes each
    assert (load["wavefronts"], load["least"]) == (8 * 32, 8)  # eight columns, 32 rows in the same bank
    assert load["instruction"] == "4 bytes a thread"
    with open(turned.fn.__code__.co_filename, encoding="utf-8") as file:
        assert "buffer.load(OUT)" in file.readlines()[load["line"] - 1]


def test_a_swizzled_tile_has_no_conflicts():
    found = accesses(gl.SwizzledSharedLayout(1, 1, 32, [1, 0]))
    assert [one["extra"] for one in found.values()] == [0, 0]


@pytest.mark.parametrize("phases", [2, 4, 8])
def test_half_a_swizzle_helps_half(phases):
    found = accesses(gl.SwizzledSharedLayout(1, 1, phases, [1, 0]))
    assert found["ttg.local_load"]["wavefronts"] == 8 * 32 // phases


def test_operands_of_a_product_are_read_without_conflicts():
    """By LDSM: Triton swizzles for it."""
    kernel = plain("matmul", "sm80")
    assert any(op.opcode.startswith(MATRICES) for op in code(kernel).work)
    found = bank_conflicts(kernel, matrices=True)
    assert {one["instruction"] for one in found if one["op"] == "ttg.local_load"} == {"matrix"}
    assert all(one["extra"] == 0 for one in found)


def test_vectors_are_as_wide_as_all_threads_allow():
    lanes = 64 * np.arange(32)
    addresses = np.stack([lanes + 4 * n for n in (1, 0, 3, 2)])
    width, first = vectorised(addresses, 4)
    assert (width, first.tolist()) == (16, [lanes.tolist()])
    addresses[0, 5] += 256
    assert vectorised(addresses, 4)[0] == 4 or vectorised(addresses, 4)[0] == 8
    assert vectorised(addresses + 4, 4)[0] == 4


def test_rows_of_a_matrix():
    """Four threads hold a row of 16 bytes; a row more than eight is no matrix."""
    lanes = np.arange(32)
    addresses = (lanes // 4 * 64 + lanes % 4 * 4)[None, :]
    assert matrix_rows(addresses, 4).tolist() == [[64 * n for n in range(8)]]
    addresses[0, 31] = 4096
    assert matrix_rows(addresses, 4) is None
