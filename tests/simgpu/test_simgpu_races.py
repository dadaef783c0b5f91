"""Planted races are found with both of their lines; the same kernels without the bug run, and nothing is said."""

import numpy as np
import pytest
import triton
import triton.language as tl
from planting import named, without
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import tileprobe
from tileprobe.targets.simgpu.errors import KernelFault
from tileprobe.targets.simgpu.race_report import RaceFault

MACHINES = ("sim:a100", "sim:h100")
N = 512


def numbers(count=N):
    return tileprobe.array(np.arange(count, dtype=np.float32)), tileprobe.array(np.zeros(count, np.float32))


@gluon.jit
def turned(x, out, N: gl.constexpr):
    lanes: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, N, layout=lanes)
    tile = gl.allocate_shared_memory(gl.float32, [N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    tile.store(gl.load(x + i))  # written
    other: gl.constexpr = gl.BlockedLayout([N // 128], [32], [4], [0])
    j = gl.arange(0, N, layout=other)
    value = tile.load(other)  # read
    gl.store(out + j, value)
    tile.store(gl.load(x + i) + 1)  # written again
    gl.store(out + j, value + tile.load(other))  # read again


@pytest.mark.parametrize("machine", MACHINES)
def test_a_missing_barrier_between_warps(machine):
    with tileprobe.use(machine, check="all"):
        x, out = numbers()
        turned[(1,)](x, out, N)
        np.testing.assert_array_equal(out.numpy(), 2 * x.numpy() + 1)
        with without(r"\bbar\.sync"), pytest.raises(RaceFault) as said:
            turned[(1,)](x, out, N)
    assert named(said.value, __file__, "written", "read")
    assert "no barrier stands between them" in str(said.value)


def test_what_is_read_may_not_be_overwritten():
    """Only the barrier between reading and writing again is missing."""
    with (
        tileprobe.use("sim:a100", check="all"),
        without(r"\bbar\.sync", keep=1),
        pytest.raises(RaceFault) as said,
    ):
        turned[(1,)](*numbers(), N)
    assert named(said.value, __file__, "read", "written again")
    assert "overwrites it" in str(said.value)


@triton.jit
def total_kernel(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i), 0))


def test_a_sum_over_warps_without_its_barriers():
    with tileprobe.use("sim:a100", check="all"):
        x, out = numbers()
        total_kernel[(1,)](x, out, N)
        with without(r"\bbar\.sync"), pytest.raises(RaceFault, match="shared memory"):
            total_kernel[(1,)](x, out, N)
        with tileprobe.use("sim:a100", check=False), without(r"\bbar\.sync"):
            total_kernel[(1,)](x, out, N)  # nothing is looked at


# -- asynchronous copies -------------------------------------------------------------------------------------------


@gluon.jit
def staged(x, out, N: gl.constexpr, LEFT: gl.constexpr):
    lanes: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, N, layout=lanes)
    tiles = gl.allocate_shared_memory(gl.float32, [2, N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    async_copy.async_load(tiles.index(0), x + i)
    async_copy.commit_group()
    async_copy.async_load(tiles.index(1), x + N + i)  # second copy
    async_copy.commit_group()
    async_copy.wait_group(1)
    first = tiles.index(0).load(lanes)
    async_copy.wait_group(LEFT)
    gl.store(out + i, first + tiles.index(1).load(lanes))  # use of both


def test_a_wait_that_comes_too_late():
    with tileprobe.use("sim:a100", check="all"):
        x, out = numbers(2 * N)
        staged[(1,)](x, out, N, 0)
        np.testing.assert_array_equal(out.numpy()[:N], x.numpy()[:N] + x.numpy()[N:])
        with pytest.raises(KernelFault, match="before the asynchronous copy") as said:
            staged[(1,)](x, out, N, 1)
    assert named(said.value, __file__, "second copy", "use of both")


@gluon.jit
def overwritten(x, out, N: gl.constexpr, WAIT: gl.constexpr):
    lanes: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, N, layout=lanes)
    tile = gl.allocate_shared_memory(gl.float32, [N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    async_copy.async_load(tile, x + i)  # under way
    async_copy.commit_group()
    if WAIT:
        async_copy.wait_group(0)
    tile.store(gl.load(x + i) * 2)  # in its way
    async_copy.wait_group(0)
    gl.store(out + i, tile.load(lanes))


def test_a_store_in_the_way_of_a_copy():
    with tileprobe.use("sim:a100", check="all"):
        x, out = numbers()
        overwritten[(1,)](x, out, N, True)
        np.testing.assert_array_equal(out.numpy(), 2 * x.numpy())
        with pytest.raises(RaceFault, match="nobody has waited for the copy") as said:
            overwritten[(1,)](x, out, N, False)
    assert named(said.value, __file__, "under way", "in its way")


# -- bulk copies and their engine ----------------------------------------------------------------------------------

SIDE = 64
LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)


@gluon.jit
def bulk(source, target, LATE: gl.constexpr, HASTE: gl.constexpr):
    lanes: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(gl.float16, source.block_type.shape, source.layout)
    back = gl.allocate_shared_memory(gl.float16, source.block_type.shape, source.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.block_type.nbytes)
    tma.async_load(source, [0, 0], bar, tile)  # bulk load
    if not LATE:
        mbarrier.wait(bar, 0)
    value = tile.load(lanes)  # bulk use
    if LATE:
        mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    back.store(value + 1)  # for the engine
    fence_async_shared()
    tma.async_store(target, [0, 0], back)  # bulk store
    if not HASTE:
        tma.store_wait(0)
    back.store(value * 2)  # too soon
    if HASTE:
        tma.store_wait(0)


def tiles():
    torch = pytest.importorskip("torch")
    x = torch.arange(SIDE * SIDE).reshape(SIDE, SIDE).remainder(64).half()
    out = torch.zeros_like(x)
    return x, out, [TensorDescriptor.from_tensor(t, [SIDE, SIDE], LAYOUT) for t in (x, out)]


def test_bulk_copies_as_they_should_be():
    with tileprobe.use("sim:h100", check="all"):
        x, out, descriptors = tiles()
        bulk[(1,)](*descriptors, False, False)
        assert (out == x + 1).all()


def test_a_bulk_load_that_is_used_before_its_wait():
    with tileprobe.use("sim:h100", check="all"), pytest.raises(KernelFault) as said:
        bulk[(1,)](*tiles()[2], True, False)
    assert named(said.value, __file__, "bulk load", "bulk use")


def test_a_bulk_store_reads_what_is_overwritten():
    with (
        tileprobe.use("sim:h100", check="all"),
        pytest.raises(RaceFault, match="nobody has waited for the reading") as said,
    ):
        bulk[(1,)](*tiles()[2], False, True)
    assert named(said.value, __file__, "bulk store", "too soon")


def test_a_missing_fence_before_a_bulk_store():
    missing = pytest.raises(RaceFault, match="no fence for asynchronous engines")
    with tileprobe.use("sim:h100", check="all"), without(r"fence\.proxy\.async"), missing as said:
        bulk[(1,)](*tiles()[2], False, False)
    assert named(said.value, __file__, "for the engine", "bulk store")


# -- global memory -------------------------------------------------------------------------------------------------


@triton.jit
def crowded(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.program_id(0) + i)  # all to one place


def test_two_programs_that_store_to_one_place():
    with tileprobe.use("sim:a100", check="all"):
        out = tileprobe.array(np.zeros(N, np.int32))
        crowded[(1,)](out, 64)
        with pytest.raises(RaceFault, match="global memory") as said:
            crowded[(3,)](out, 64)
    assert named(said.value, __file__, "all to one place")
    assert "(out[0])" in str(said.value)  # the argument and the element
    assert "program (0, 0, 0)" in str(said.value)
    assert "program (1, 0, 0)" in str(said.value)


@triton.jit
def one_too_many(out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    pid = tl.program_id(0)
    tl.store(out + pid * n + i, pid + i, mask=i <= n)  # one element of the next program


def test_a_mask_that_reaches_into_the_next_program():
    with tileprobe.use("sim:a100", check="all"), pytest.raises(RaceFault) as said:
        one_too_many[(3,)](tileprobe.array(np.zeros(400, np.int32)), 100, 128)
    assert named(said.value, __file__, "one element of the next program")


@triton.jit
def the_same(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, i)


def test_the_same_value_is_no_race():
    with tileprobe.use("sim:a100", check="all"):
        the_same[(5,)](tileprobe.array(np.zeros(N, np.int32)), 128)


@triton.jit
def shifted(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i + BLOCK, mask=i + BLOCK < n, other=0)  # of the next program
    tl.store(x + i, value, mask=i < n)  # in place


def test_a_program_that_reads_what_another_one_stores():
    with tileprobe.use("sim:a100", check="all"), pytest.raises(RaceFault, match="overwrites it") as said:
        shifted[(4,)](tileprobe.array(np.arange(N, dtype=np.int32)), N, 128)
    assert named(said.value, __file__, "of the next program", "in place")


@triton.jit
def through_memory(x, BLOCK: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, i * 2)  # by one warp
    if BARRIER:
        tl.debug_barrier()
    value = tl.load(x + BLOCK - 1 - i)  # by another
    tl.store(x + BLOCK + i, value)


def test_warps_that_exchange_through_global_memory():
    with tileprobe.use("sim:a100", check="all"):
        x = tileprobe.array(np.zeros(2 * N, np.int32))
        through_memory[(1,)](x, N, True)
        with pytest.raises(RaceFault, match="no barrier stands between") as said:
            through_memory[(1,)](x, N, False)
    assert named(
        said.value, __file__, "by one warp"
    )  # LLVM names the line behind that of a load: docs/simgpu.md
    assert "LDG" in str(said.value)


@triton.jit
def locked(lock, total, x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = tl.sum(tl.load(x + i), 0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + mine)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def test_a_lock_orders_programs():
    with tileprobe.use("sim:a100", check="all"):
        lock, total = tileprobe.array(np.zeros(1, np.int32)), tileprobe.array(np.zeros(1, np.int32))
        locked[(8,)](lock, total, tileprobe.array(np.ones(1024, np.int32)), 128)
        assert total.numpy()[0] == 1024


@triton.jit
def many(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    pid = tl.program_id(0)
    for k in tl.static_range(12):
        tl.store(out + k * BLOCK + i, pid + k)


def test_reports_are_few_and_the_rest_is_counted():
    with tileprobe.use("sim:a100", check="all"), pytest.raises(RaceFault) as said:
        many[(2,)](*(tileprobe.array(np.zeros(4096, np.int32)) for _ in range(2)), 64)
    text = str(said.value)
    assert text.count("global memory, ") == 1  # one pair of lines
    assert " times" in text


# -- what is no race -----------------------------------------------------------------------------------------------


@triton.jit
def in_place(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(x + i, v * 2)
    w = tl.load(x + BLOCK + i)
    tl.store(x + BLOCK + i, w / tl.sum(w, 0))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("block", [1, 8, 32, 64, 256])
def test_small_tiles_that_every_warp_holds(machine, block):
    """All warps load the tile, one stores it: what the others read late is used by nobody."""
    start = np.arange(1, 2 * block + 1, dtype=np.float32)
    with tileprobe.use(machine, check="all"):
        x = tileprobe.array(start.copy())
        in_place[(1,)](x, block)
    np.testing.assert_allclose(x.numpy()[:block], 2 * start[:block])
    np.testing.assert_allclose(x.numpy()[block:], start[block:] / start[block:].sum(), rtol=1e-6)


@triton.jit
def counted(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(out + i, tl.load(x + i))
    tl.atomic_max(out + BLOCK, tl.program_id(0))


@pytest.mark.parametrize("machine", MACHINES)
def test_atomics_are_no_race(machine):
    with tileprobe.use(machine, check="all"):
        x, out = (tileprobe.array(np.zeros(16, np.int32)) for _ in range(2))
        counted[(4,)](x, out, 8)


def test_by_default_a_race_is_told_once_and_the_program_goes_on(capsys):
    with tileprobe.use("sim:a100", threads=1):
        out = tileprobe.array(np.zeros(N, np.int32))
        for _ in range(3):
            told[(3,)](out, 64)
        text = capsys.readouterr().err
    assert text.count("kernel told: the checks of memory found 1 fault") == 1
    assert named(text, __file__, "to the same place")
    assert (out.numpy()[:64] == np.arange(64) + 2).all()


@triton.jit
def told(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.program_id(0) + i)  # to the same place


@gluon.jit
def stuck(out):
    first = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(first, count=1)
    mbarrier.wait(first, 0)  # nobody arrives
    mbarrier.arrive(first, count=1)
    gl.store(out, 1)


def test_a_barrier_in_shared_memory_that_nobody_arrives_at():
    with tileprobe.use("sim:h100"), pytest.raises(KernelFault, match="deadlock") as said:
        stuck[(1,)](tileprobe.array(np.zeros(1, np.int32)))
    assert named(said.value, __file__, "nobody arrives")
    assert "1 arrival and 0 bytes are missing" in str(said.value)


@triton.jit
def product_sum(x, out, N: tl.constexpr):
    """Half of the warps hold copies. A sum of products ends in other bits in each lane (a product is rounded or not),
    and all lanes of a warp store theirs to one place: the last one stays."""
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.sum(v * (v + 1)))


@pytest.mark.parametrize("machine", MACHINES)
def test_copies_of_a_sum_are_no_race(machine):
    values = np.random.default_rng(0).standard_normal(128).astype(np.float32)
    with tileprobe.use(machine, check="all"):
        out = tileprobe.array(np.zeros(1, np.float32))
        product_sum[(1,)](tileprobe.array(values), out, 128, num_warps=8)
    np.testing.assert_allclose(out.numpy(), [(values * (values + 1)).sum()], rtol=1e-5)


@triton.jit
def counted_under_a_lock(lock, count, out):
    """Every warp reads the number, one of them stores the next: what the others read late is used by nobody."""
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    before = tl.load(count, volatile=True)
    tl.store(count, before + 1)
    tl.debug_barrier()
    tl.store(out + tl.program_id(0), before)
    tl.atomic_xchg(lock, 0, sem="release")


@pytest.mark.parametrize("machine", MACHINES)
def test_a_volatile_number_under_a_lock_is_no_race(machine):
    with tileprobe.use(machine, check="all"):
        lock, count, out = (tileprobe.array(np.zeros(9, np.int32)) for _ in range(3))
        counted_under_a_lock[(9,)](lock, count, out)
    assert sorted(out.numpy()) == list(range(9))


@triton.jit
def halved(x, N: tl.constexpr):
    """Sums of halves, in place. Warp 1 reads a place and stores to it; another instruction of warp 0 reads it, too."""
    i = tl.arange(0, N)
    half = N // 2
    while half > 0:
        low = tl.load(x + i, mask=i < half, other=0)
        high = tl.load(x + i + half, mask=i < half, other=0)  # read by another warp
        tl.store(x + i, low + high, mask=i < half)  # overwritten
        half = half // 2


@triton.jit
def passed_to_the_left(x, N: tl.constexpr):
    """Each program reads its neighbour's number, then its own, and stores there."""
    n = tl.program_id(0)
    left = tl.load(x + tl.maximum(n - 1, 0))
    own = tl.load(x + n)
    tl.store(x + n, own + left)


@pytest.mark.parametrize("machine", MACHINES)
def test_who_reads_a_place_before_it_stores_there_does_not_hide_other_readers(machine):
    with tileprobe.use(machine, check="all"):
        with pytest.raises(RaceFault) as said:
            halved[(1,)](tileprobe.array(np.arange(256, dtype=np.int32)), 256)
        assert named(said.value, __file__, "read by another warp", "overwritten")
        with pytest.raises(RaceFault):
            passed_to_the_left[(4,)](tileprobe.array(np.arange(4, dtype=np.int32) + 1), 4, num_warps=1)
