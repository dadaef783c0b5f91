"""Kernels that only sm_90 has: warp-specialised products, bulk reductions, Gluon's barriers; and products on both."""

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.tools.tensor_descriptor import TensorDescriptor

import tileprobe

MACHINES = ("sim:a100", "sim:h100")


@triton.jit
def specialised(a, b, c, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, WS: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [TM, TK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [TK, TN])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [TM, TN])
    x, y = tl.program_id(0) * TM, tl.program_id(1) * TN
    total = tl.zeros((TM, TN), tl.float32)
    for k in tl.range(0, K, TK, warp_specialize=WS):
        total = tl.dot(left.load([x, k]), right.load([k, y]), total)
    out.store([x, y], total.to(tl.float16))


@pytest.mark.parametrize(
    ("machine", "specialise"), [("sim:h100", True), ("sim:h100", False), ("sim:a100", False)]
)
def test_products_through_descriptors(machine, specialise):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 256), (256, 128)))
    with tileprobe.use(machine):
        triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))
        out = torch.zeros((128, 128), dtype=torch.float16)
        args = torch.from_numpy(a), torch.from_numpy(b), out, 128, 128, 256
        made = specialised[(1, 1)](*args, 128, 128, 64, specialise, num_stages=3, num_warps=4)
    assert ("warp_specialize" in made.asm["ttgir"]) == specialise
    np.testing.assert_array_equal(
        out.numpy(), (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    )


@triton.jit
def added_up(source, target, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(source + tl.program_id(0) * N * N + i[:, None] * N + i[None, :])
    if HOW == "add":
        target.atomic_add([8, 0], value)
    else:
        target.atomic_max([8, 0], value)


@pytest.mark.parametrize("how", ["add", "max"])
@pytest.mark.parametrize("dtype", [np.int32, np.float16])
def test_bulk_reductions(how, dtype):
    """Four programs into one tile, which stands out of the tensor by half."""
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).integers(-20, 20, (4, 16, 16)).astype(dtype)
    before = np.random.default_rng(1).integers(-20, 20, (16, 16)).astype(dtype)
    with tileprobe.use("sim:h100"):
        out = torch.from_numpy(before.copy())
        added_up[(4,)](torch.from_numpy(values), TensorDescriptor.from_tensor(out, [16, 16]), 16, how)
    wanted = before.copy()
    mine = values[:, :8]
    wanted[8:] = before[8:] + mine.sum(0) if how == "add" else np.maximum(before[8:], mine.max(0))
    np.testing.assert_array_equal(out.numpy(), wanted)


@gluon.jit
def copied(x, out, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    held = gl.allocate_shared_memory(gl.float32, [N], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    i = gl.arange(0, N, layout=layout)
    async_copy.async_load(held, x + i)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(out + i, held.load(layout) * 3)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_gluon_kernel(machine):
    x = np.arange(512, dtype=np.float32)
    with tileprobe.use(machine):
        out = tileprobe.array(np.zeros_like(x))
        copied[(1,)](tileprobe.array(x), out, 512)
    np.testing.assert_array_equal(out.numpy(), 3 * x)


@triton.jit
def one_product(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i[:, None] * N + i[None, :]), tl.load(y + i[:, None] * N + i[None, :])
    tl.store(out + i[:, None] * N + i[None, :], tl.dot(a, b))


@pytest.mark.parametrize("machine", MACHINES)
def test_fast_sums_round_where_the_hardware_cuts_off(machine):
    """With plain sums the mean error of a long sum is far smaller than of sums that are cut off."""
    random = np.random.default_rng(0)
    x, y = (random.random((64, 64)).astype(np.float16) for _ in range(2))
    exact = x.astype(np.float64) @ y.astype(np.float64)
    found = {}
    for fast in (False, True):
        with tileprobe.use(machine, fast_sums=fast):
            out = tileprobe.array(np.zeros((64, 64), np.float32))
            one_product[(1,)](tileprobe.array(x), tileprobe.array(y), out, 64)
            found[fast] = out.numpy().copy()
    assert (found[False] != found[True]).any()
    assert (found[False] - exact).mean() < 0
    assert abs((found[True] - exact).mean()) < 0.5 * abs((found[False] - exact).mean())
