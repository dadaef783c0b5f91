"""Operations on elements that masks keep out: planted shares, and what the roofline makes of them."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.ir.accesses import COMPUTING, ELEMENTS, SAMPLED, Access, counters
from tileprobe.tools import load_tool
from tileprobe.tools.memory import told
from tileprobe.tools.plan import Plan
from tileprobe.tools.roofline import roofline
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace


def ones(*shape):
    return tileprobe.array(np.ones(shape, np.float32))


def shares(launch):
    """Of each stage that computes: the share of its operations that is on elements which are there."""
    with tileprobe.use("cpu"), tileprobe.profile(tools=("roofline",), programs="all") as session:
        launch()
    trace = session.trace
    rows = [one for one in told(trace, trace.kernels[0])[1] if one.space == ELEMENTS]
    return {one.what.removeprefix(COMPUTING): one.get("active") / one.get("lanes") for one in rows}, session


@triton.jit
def unary(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, tl.exp(a) * 2, mask=i < n)


@triton.jit
def stored(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.exp(tl.load(x + i)), mask=i < n)  # all is loaded, and not all stored


@triton.jit
def rows(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=float("-inf"))
    a = tl.exp(a - tl.max(a, 0))
    tl.store(out + tl.program_id(0) * n + i, a / tl.sum(a, 0), mask=i < n)


@triton.jit
def product(a, b, c, M, N, K, SIDE: tl.constexpr):
    m = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    n = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    sums = tl.zeros((SIDE, SIDE), tl.float32)
    for step in range(0, K, SIDE):
        k = step + tl.arange(0, SIDE)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        sums = tl.dot(x, y, sums)
    tl.store(c + m[:, None] * N + n[None, :], tl.exp(sums), mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("n", [1000, 600, 512, 8])
def test_elements_that_a_load_s_mask_keeps_out_count_for_nothing(n):
    x, out = ones(1024), ones(1024)
    found, _ = shares(lambda: unary[(2,)](x, out, n, BLOCK=512))
    assert list(found.values()) == [pytest.approx(n / 1024)]


def test_nor_do_those_that_nobody_stores():
    x, out = ones(1024), ones(1024)
    found, _ = shares(lambda: stored[(2,)](x, out, 300, BLOCK=512))
    assert list(found.values()) == [pytest.approx(300 / 1024)]


def test_through_tiles_and_reductions():
    x, out = ones(8, 700), ones(8, 700)
    found, _ = shares(lambda: rows[(8,)](x, out, 700, BLOCK=1024))
    assert len(found) >= 2 and all(share == pytest.approx(700 / 1024) for share in found.values())


@pytest.mark.parametrize("size", [(48, 48, 48), (64, 40, 33), (32, 32, 32)])
def test_of_a_product_the_pairs_count_of_which_both_are_there(size):
    m, n, k = size
    a, b, c = ones(m, k), ones(k, n), ones(m, n)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    found, session = shares(lambda: product[grid](a, b, c, m, n, k, SIDE=32))
    whole = 32**3 * grid[0] * grid[1] * triton.cdiv(k, 32)
    assert found["dot"] == pytest.approx(m * n * k / whole)
    assert found["exp+store"] == pytest.approx(m * n / (32 * 32 * grid[0] * grid[1]))
    trace = session.trace
    points = {point.name.split(" @")[0]: point for point in roofline(trace, trace.kernels[0]).points}
    assert points["dot"].flops == pytest.approx(2 * m * n * k)  # what the user asked for
    (table,) = load_tool("roofline").read(trace).tables
    assert table.title.endswith("without what masks keep out")
    memory = load_tool("memory").read(trace).tables[0].frame
    assert memory.height == 3 and not memory["what"].str.contains("computing").any()  # two loads and a store


def test_the_kernel_as_a_whole_has_the_share_of_all_its_stages():
    x, out = ones(1024), ones(1024)
    with tileprobe.use("cpu"), tileprobe.profile(plan=Plan(accesses=True), programs="all") as session:
        unary[(2,)](x, out, 256, BLOCK=512)
    trace = session.trace
    (point, *_) = roofline(trace, trace.kernels[0]).points
    assert point.flops == pytest.approx(2 * 256) and point.bytes == pytest.approx(2 * 4 * 256)


def test_by_hand_a_stage_has_its_own_share_and_else_that_of_its_lines():
    figures = {"programs": 1, "grid": 1, "lanes": 100.0}
    rows_ = [
        Access("k.py", 2, "computing dot", ELEMENTS, 0, SAMPLED, figures | {"active": 50.0}),
        Access("k.py", 2, "computing exp", ELEMENTS, 1, SAMPLED, figures | {"active": 10.0}),
        Access("k.py", 9, "computing dot", ELEMENTS, 2, SAMPLED, figures | {"active": 1.0}),
    ]
    table = counters(rows_)
    trace = Trace.build(
        {"launch": [0] * 3, "region": [0, 1, 2], "start": [0, 100, 500], "stop": [1000, 500, 1000]},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0)],
        regions=[
            Region(0, "k", "kernel", None, 0, "k.py", 1, 3, flops=0, bytes=0),
            Region(1, "dot", "dot", 0, 0, "k.py", 2, 2, flops=1000, bytes=0),
            Region(2, "sum", "sum", 0, 0, "k.py", 2, 2, flops=1000, bytes=0),
        ],
        counters={"launch": [0] * len(table["name"]), **table},
    )
    points = {point.name: point.flops for point in roofline(trace, trace.kernels[0]).points}
    assert points["dot"] == pytest.approx(500) and points["sum"] == pytest.approx(300)
    assert points["k"] == pytest.approx(800)
