"""Planted races around products of warp groups on `sim:h100`: both lines are named; without the bug nothing is said."""

import pytest
from planting import named, without
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_wait,
)

import tileprobe
from tileprobe.targets.simgpu.race_report import RaceFault

torch = pytest.importorskip("torch")
SIDE = 64


@gluon.jit
def product(A, B, OUT, HASTE: gl.constexpr, N: gl.constexpr):
    lanes: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    form: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    i = gl.arange(0, N, layout=gl.SliceLayout(1, lanes))
    j = gl.arange(0, N, layout=gl.SliceLayout(0, lanes))
    places = i[:, None] * N + j[None, :]
    left = gl.allocate_shared_memory(gl.float16, [N, N], form)
    right = gl.allocate_shared_memory(gl.float16, [N, N], form)
    a = gl.load(A + places)
    left.store(a)  # left side
    right.store(gl.load(B + places))  # right side
    fence_async_shared()
    total = gl.zeros((N, N), gl.float32, sums)
    total = warpgroup_mma(left, right, total, is_async=True)  # product
    if HASTE:
        left.store(a + a)  # too soon
    total = warpgroup_mma_wait(0, deps=[total])
    if not HASTE:
        left.store(a + a)  # after the wait
    row = gl.arange(0, N, layout=gl.SliceLayout(1, sums))
    column = gl.arange(0, N, layout=gl.SliceLayout(0, sums))
    gl.store(OUT + row[:, None] * N + column[None, :], total)


def launched(haste=False):
    a, b = (
        torch.randint(-3, 4, (SIDE, SIDE), generator=torch.Generator().manual_seed(n)).half() for n in (0, 1)
    )
    out = torch.zeros(SIDE, SIDE)
    made = product[(1,)](a, b, out, haste, SIDE)
    assert torch.equal(out, a.float() @ b.float())
    return made.asm["sass"]


@pytest.fixture(autouse=True)
def machine():
    with tileprobe.use("sim:h100", check="all"):
        yield


def test_a_product_as_it_should_be():
    assert "HGMMA" in launched()


def test_what_a_product_reads_is_overwritten_before_the_wait():
    with pytest.raises(RaceFault, match="nobody has waited for the reading to end") as said:
        launched(haste=True)
    assert named(said.value, __file__, "product", "too soon")


def test_a_missing_fence_before_a_product():
    missing = pytest.raises(RaceFault, match="no fence for asynchronous engines")
    with without(r"fence\.proxy\.async"), missing as said:
        launched()
    assert named(said.value, __file__, "left side", "product")
    assert named(said.value, __file__, "right side", "product")


def test_a_missing_wait():
    """The sums are right: ptxas puts a wait before what reads them, so of registers nothing is left to find. What the
    product reads is not waited for."""
    out = torch.zeros(SIDE, SIDE)
    a = torch.eye(SIDE).half()
    with without(r"wgmma\.wait_group"), pytest.raises(RaceFault, match="nobody has waited") as said:
        product[(1,)](a, a, out, False, SIDE)
    assert named(said.value, __file__, "product", "after the wait")
    assert torch.equal(out, a.float())
