"""What reaches into other programs of a cluster asynchronously on `sim:h100`: stores that arrive at a barrier
(`st.async`), bulk loads for several programs. Values are right, planted races are named, right kernels are clean."""

import pytest
from planting import named
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import cluster, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import tileprobe
from tileprobe.targets.simgpu.errors import KernelFault
from tileprobe.targets.simgpu.race_report import RaceFault

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def machine():
    with tileprobe.use("sim:h100", check="all"):
        yield


@gluon.jit
def exchanged(
    x, out, R: gl.constexpr, C: gl.constexpr, V: gl.constexpr, WAIT: gl.constexpr, PARITY: gl.constexpr
):
    """Rows lie in the two programs of a cluster, columns of the shared tile do: half of it is stored into the other."""
    rows: gl.constexpr = gl.BlockedLayout([1, V], [1, 32], [4, 1], [1, 0], cga_layout=[[1, 0]])
    columns: gl.constexpr = gl.BlockedLayout([1, V], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[0, 1]])
    r = gl.arange(0, R, layout=gl.SliceLayout(1, rows))
    c = gl.arange(0, C, layout=gl.SliceLayout(0, rows))
    value = gl.load(x + r[:, None] * C + c[None, :])
    tile = gl.allocate_shared_memory(x.dtype.element_ty, [R, C], shared)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    cluster.barrier()
    mbarrier.expect(bar, tile.nbytes_per_cta)
    hopper.async_store(tile, value, bar)  # the store
    if WAIT:
        mbarrier.wait(bar, PARITY, deps=[tile])
    found = tile.load(columns)  # the load
    cluster.barrier()
    r = gl.arange(0, R, layout=gl.SliceLayout(1, columns))
    c = gl.arange(0, C, layout=gl.SliceLayout(0, columns))
    gl.store(out + r[:, None] * C + c[None, :], found)


def exchange(dtype=torch.int32, wide=1, wait=True, parity=0):
    x = torch.arange(16 * 64).reshape(16, 64).to(dtype)
    out = torch.zeros_like(x)
    made = exchanged[(1,)](x, out, 16, 64, wide, wait, parity, num_ctas=2)
    assert torch.equal(out, x)
    return made.asm["sass"]


@pytest.mark.parametrize(
    ("dtype", "wide", "stores"),
    [(torch.int32, 1, "STAS "), (torch.int32, 2, "STAS.64"), (torch.float16, 8, "STAS.128")],
)
def test_stores_into_another_program_arrive(dtype, wide, stores):
    assert stores in exchange(dtype, wide)


@pytest.mark.parametrize(("wait", "parity"), [(False, 0), (True, 1)])
def test_a_store_that_is_used_before_it_arrived(wait, parity):
    with pytest.raises(KernelFault, match="before the asynchronous copy") as said:
        exchange(wait=wait, parity=parity)
    assert named(said.value, __file__, "the load", "the store")


@gluon.jit
def streamed(desc, out, R: gl.constexpr, STEPS: gl.constexpr, TOGETHER: gl.constexpr, STAGES: gl.constexpr):
    """Tiles one after another, each of them brought to both programs of the cluster at once."""
    lanes: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0], cga_layout=[[0, 0]])
    tiles = gl.allocate_shared_memory(desc.dtype, [STAGES, R, 32], desc.layout)
    bars = mbarrier.allocate_mbarrier(batch=STAGES)
    for k in gl.static_range(STAGES):
        mbarrier.init(bars.index(k), count=1)
    cluster.barrier()
    r = gl.arange(0, R, layout=gl.SliceLayout(1, lanes))
    c = gl.arange(0, 32, layout=gl.SliceLayout(0, lanes))
    for k in gl.static_range(STEPS):
        tile, bar = tiles.index(k % STAGES), bars.index(k % STAGES)
        mbarrier.expect(bar, desc.nbytes_per_cta)
        tma.async_load(desc, [k * R, 0], bar, tile, multicast=True)  # the copy to both
        mbarrier.wait(bar, k // STAGES & 1, deps=[tile])
        value = tile.load(lanes)  # read in both
        gl.store(out + (k * R + r[:, None]) * 32 + c[None, :], value)
        if TOGETHER:
            cluster.barrier()
    cluster.barrier()


def stream(together, stages=1):
    x = torch.arange(4 * 16 * 32).reshape(64, 32).to(torch.float16)
    out = torch.zeros_like(x)
    layout = gl.NVMMASharedLayout.get_default_for([16, 32], gl.float16, cga_layout=((0, 0),))
    desc = TensorDescriptor.from_tensor(x, [16, 32], layout)
    made = streamed[(1,)](desc, out, 16, 4, together, stages, num_ctas=2)
    assert "UTMALDG.2D.MULTICAST" in made.asm["sass"]
    return x, out


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_tiles_for_both_programs(stages):
    x, out = stream(True, stages)
    assert torch.equal(out, x)


@pytest.mark.parametrize("stages", [1, 2])
def test_a_tile_that_the_other_program_still_reads(stages):
    """One program brings the next tile to both before the other has read the last one."""
    with pytest.raises(RaceFault) as said:
        stream(False, stages)
    assert named(said.value, __file__, "the copy to both", "read in both")


def test_each_tile_in_a_place_of_its_own_needs_no_more():
    x, out = stream(False, 4)
    assert torch.equal(out, x)


@gluon.jit
def told(x, out, N: gl.constexpr, FROM: gl.constexpr, WAIT: gl.constexpr):
    """Programs write into each other's shared memory; that it is there says an arrival at a barrier."""
    there: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[1, 0]])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[0, 1]])
    columns: gl.constexpr = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    r = gl.arange(0, N, layout=gl.SliceLayout(1, there))
    c = gl.arange(0, N, layout=gl.SliceLayout(0, there))
    tile = gl.allocate_shared_memory(gl.int32, [N, N], shared)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    cluster.barrier()
    tile.store(gl.load(x + r[:, None] * N + c[None, :]))  # written into the other
    mbarrier.arrive(bar, count=1, from_cta=FROM)
    if WAIT:
        mbarrier.wait(bar, 0, deps=[tile])
    found = tile.load(columns)  # read here
    cluster.barrier()
    r = gl.arange(0, N, layout=gl.SliceLayout(1, columns))
    c = gl.arange(0, N, layout=gl.SliceLayout(0, columns))
    gl.store(out + r[:, None] * N + c[None, :], found)


@pytest.mark.parametrize(("source", "unordered"), [(0, 256), (1, 512)])
def test_an_arrival_from_another_program(source, unordered):
    """Program 0 arrives at both barriers (from_cta=0): what it wrote is known then, what program 1 wrote is not."""
    x = torch.arange(32 * 32, dtype=torch.int32).reshape(32, 32)
    with pytest.raises(RaceFault, match="found 1 fault\n") as said:
        told[(1,)](x, torch.zeros_like(x), 32, source, True, num_ctas=2)
    assert named(said.value, __file__, "written into the other", "read here")
    assert f"; {unordered} times" in str(
        said.value
    ) and "program 0 of the cluster, warp 2, lane 16 reads" in str(said.value)
