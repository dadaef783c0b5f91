"""Streams of a GPU count the iterations of `while` loops as programs of a CPU do: what was recorded stands for all."""

import numpy as np
import polars as pl
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.tools.regions import region_tree

TRIPS, ROUNDS = (5, 1, 9, 0), 7


@triton.jit
def nests(x_ptr, n_ptr, m, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    i = p * BLOCK + tl.arange(0, BLOCK)
    n = tl.load(n_ptr + p)
    v = tl.load(x_ptr + i)
    for j in range(m):
        k = 0
        while k < n + j % 3:
            v = v * 0.5 + 1.0
            k += 1
    a = 0
    while a < n:
        for _ in range(a % 4):
            v = v * 0.25 + 2.0
        a += 1
    tl.store(x_ptr + i, v)


@pytest.mark.parametrize(
    "records", [{"buffer": "shared"}, {"clock_bits": 32}, {"granularity": "warp"}], ids=str
)
@pytest.mark.parametrize("options", [{}, {"iterations": "first:2"}, {"capacity": 4}], ids=str)
def test_iterations_are_counted(records, options):
    with tileprobe.use("sim:a100"):
        x = tileprobe.array(np.ones(len(TRIPS) * 128, np.float32))
        trips = tileprobe.array(np.array(TRIPS, np.int32))
        with tileprobe.profile(
            alternate=False, programs="all", max_overhead=1e6, records=records, **options
        ) as session:
            for _ in range(2):
                nests[(len(TRIPS),)](x, trips, ROUNDS, BLOCK=128)
    trace = session.trace
    rows = region_tree(trace, trace.kernels[0]).filter(pl.col("kind") == "iteration")
    streams = 4 if "granularity" in records else 1
    inner = sum(n + j % 3 for n in TRIPS for j in range(ROUNDS))
    in_while = sum(a % 4 for n in TRIPS for a in range(n))
    wanted = [len(TRIPS) * ROUNDS, inner, sum(TRIPS), in_while]
    assert rows["count"].to_list() == pytest.approx([2 * streams * count for count in wanted])
