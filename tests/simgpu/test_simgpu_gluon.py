"""Gluon kernels on simulated GPUs: atomics on shared memory that are loops of exchanges, tiles that become TF32, scalar
arguments in half precision."""

import numpy as np
import pytest
import triton
import triton.language as tl
from simgpu_harness import MACHINES
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import CachePolicy, FractionalEvictionPolicy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import tileprobe

torch = pytest.importorskip("torch")


@gluon.jit
def scattered(x, before, after, N: gl.constexpr):
    lanes: gl.constexpr = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])
    r, c = gl.arange(0, N, layout=gl.SliceLayout(1, lanes)), gl.arange(0, N, layout=gl.SliceLayout(0, lanes))
    kind: gl.constexpr = x.dtype.element_ty
    tile = gl.allocate_shared_memory(kind, [N, N], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    tile.store(gl.full([N, N], 2, kind, lanes))
    value = gl.load(x + r[:, None] * N + c[None, :])
    to = (c[None, :] // 2) + 0 * r[:, None]  # two lanes at each place
    old = tile.atomic_scatter_add(value, to, axis=1)
    gl.store(before + r[:, None] * N + c[None, :], old)
    gl.store(after + r[:, None] * N + c[None, :], tile.load(lanes))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32])
def test_sums_in_shared_memory(machine, kind):
    x = torch.arange(256).reshape(16, 16).to(kind)
    before, after = torch.zeros_like(x), torch.zeros_like(x)
    with tileprobe.use(machine, check="all"):
        scattered[(1,)](x, before, after, 16)
    wanted = torch.full((16, 16), 2).to(kind)
    wanted[:, :8] += x[:, ::2] + x[:, 1::2]
    assert torch.equal(after, wanted)
    both = before.reshape(16, 8, 2).sort(-1).values  # one lane finds 2, the other what the first has left
    assert torch.equal(both[..., 0], torch.full((16, 8), 2).to(kind))
    pairs = torch.stack([x[:, ::2], x[:, 1::2]], -1)
    assert (both[..., 1:] - 2 == pairs).any(-1).all()


@gluon.jit
def brought(desc, out, N: gl.constexpr):
    lanes: gl.constexpr = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(desc.dtype, [N, N], desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, desc.nbytes_per_cta)
    tma.async_load(desc, [0, 0], bar, tile)
    mbarrier.wait(bar, 0, deps=[tile])
    r, c = gl.arange(0, N, layout=gl.SliceLayout(1, lanes)), gl.arange(0, N, layout=gl.SliceLayout(0, lanes))
    gl.store(out + r[:, None] * N + c[None, :], tile.load(lanes))


def test_tiles_that_become_tf32():
    """To the nearest, ties to even: 1 + 2**-11 is a tie, infinity and NaN stay."""
    x = torch.randn(16, 16)
    x[0, :6] = torch.tensor([1 + 2**-11, 1 + 3 * 2**-11, -(1 + 2**-11), float("inf"), float("nan"), 1e-40])
    out = torch.zeros_like(x)
    layout = gl.NVMMASharedLayout.get_default_for([16, 16], gl.float32)
    desc = TensorDescriptor.from_tensor(x, [16, 16], layout)
    desc.round_f32_to_tf32 = True
    with tileprobe.use("sim:h100"):
        brought[(1,)](desc, out, 16)
    bits = x.view(torch.int32).numpy().astype(np.int64)
    wanted = np.where(x.isfinite().numpy(), np.rint(bits / 8192) * 8192, bits).astype(np.int32)
    assert np.array_equal(out.view(torch.int32).numpy(), wanted)


@triton.jit
def times(x, by: tl.float16, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) * by)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_half_as_an_argument(machine):
    """It is read out of the constant bank as one half of a word: `c[0x0] [0x168].H0_H0`."""
    x = torch.arange(64, dtype=torch.float32)
    out = torch.zeros_like(x)
    with tileprobe.use(machine):
        times[(1,)](x, 42.1, out, 64)
    assert torch.equal(out, x * torch.tensor(42.1, dtype=torch.float16).float())


def test_the_number_of_the_device():
    """Scripts hand it to torch; Triton keeps kernels by it."""
    numbers = []
    for machine in MACHINES:
        with tileprobe.use(machine):
            numbers.append(triton.runtime.driver.active.get_current_device())
    assert numbers[0] == 0 and numbers[1] == 0 and f"{numbers[0]:d}" == "0"
    assert numbers[0] != numbers[1] and len(set(numbers)) == 2


@gluon.jit
def through(source, target, LAST: gl.constexpr, FIRST: gl.constexpr):
    tile = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load(source, [8, 16], bar, tile, cache_policy=LAST)
    mbarrier.wait(bar, 0, deps=[tile])
    tma.async_store(target, [0, 16], tile, cache_policy=FIRST)
    tma.store_wait(0)


@pytest.mark.parametrize("timed", [False, True])
def test_bulk_copies_that_say_what_the_cache_should_keep(timed):
    """`UTMALDG.2D [UR8], [UR6], desc[UR4]`: a hint."""
    x, out = np.arange(32 * 64, dtype=np.int32).reshape(32, 64), np.zeros((32, 64), np.int32)
    layout = gl.NVMMASharedLayout.get_default_for([16, 16], gl.int32)
    policies = [
        CachePolicy(l2=FractionalEvictionPolicy(f"evict_{which}", 0.5)) for which in ("last", "first")
    ]
    with tileprobe.use("sim:h100", timed=timed):
        source, target = (
            TensorDescriptor(tileprobe.array(a), [32, 64], [64, 1], [16, 16], layout) for a in (x, out)
        )
        code = through[(1,)](source, target, *policies).asm["ptx"]
    assert code.count("L2::cache_hint") == 2
    np.testing.assert_array_equal(out[:16, 16:32], x[8:24, 16:32])
