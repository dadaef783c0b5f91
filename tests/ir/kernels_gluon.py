"""Gluon kernels for the tests of the bridge: explicit layouts, shared memory, specialised warps."""

from bridge_stages import Case
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def explicit_copy(x, out, N: gl.constexpr, LAYOUT: gl.constexpr):
    i = gl.arange(0, N, layout=LAYOUT)
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    buffer = gl.allocate_shared_memory(gl.float32, [N], shared)
    buffer.store(gl.load(x + i, mask=i < N - 1, other=float("-inf")))
    gl.store(out + i, buffer.load(LAYOUT))


@gluon.jit
def _consume(buffer, out, ready, N: gl.constexpr, LAYOUT: gl.constexpr):
    mbarrier.wait(ready, 0)
    gl.store(out + gl.arange(0, N, layout=LAYOUT), buffer.load(LAYOUT))


@gluon.jit
def _produce(buffer, x, ready, N: gl.constexpr, LAYOUT: gl.constexpr):
    buffer.store(gl.load(x + gl.arange(0, N, layout=LAYOUT)))
    mbarrier.arrive(ready, count=1)


@gluon.jit
def hand_off(x, out, N: gl.constexpr, LAYOUT: gl.constexpr, ONE_WARP: gl.constexpr):
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    buffer = gl.allocate_shared_memory(gl.float32, [N], shared)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    gl.warp_specialize(
        [(_consume, (buffer, out, ready, N, LAYOUT)), (_produce, (buffer, x, ready, N, ONE_WARP))], [1], [24]
    )
    mbarrier.invalidate(ready)


def _layout(warps, threads=32):
    return gl.BlockedLayout([1], [threads], [warps], [0])


CASES = [
    Case(explicit_copy, "*fp32 *fp32", {"N": 256, "LAYOUT": _layout(4)}, targets=("sm80", "sm90", "sm100")),
    Case(
        explicit_copy,
        "*fp32 *fp32",
        {"N": 256, "LAYOUT": _layout(4, 64)},
        targets=("gfx942",),
        label="explicit_copy_wave64",
    ),
    Case(
        hand_off,
        "*fp32 *fp32",
        {"N": 128, "LAYOUT": _layout(4), "ONE_WARP": _layout(1)},
        targets=("sm90", "sm100"),
        specialised=True,
    ),
]
