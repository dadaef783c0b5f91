"""Instructions that kernels reach through inline assembly: generic addresses, matches, waits of some lanes."""

import re
import weakref

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.targets.simgpu import memory
from tileprobe.targets.simgpu.errors import KernelFault
from tileprobe.targets.simgpu.race_report import RaceFault

MACHINES = ("sim:a100", "sim:h100")


@triton.jit
def generic(addresses, counts, N: tl.constexpr):
    """Where they point is not known when the kernel is compiled: addresses come from memory."""
    i = tl.arange(0, N)
    x, out, count = tl.load(addresses), tl.load(addresses + 1), tl.load(addresses + 2)
    value = tl.inline_asm_elementwise(
        "ld.u32 $0, [$1];", "=r,l", [x + 4 * i], tl.int32, is_pure=False, pack=1
    )
    tl.inline_asm_elementwise(
        "{ st.u32 [$1], $2; mov.b32 $0, $2; }",
        "=r,l,r",
        [out + 4 * i, value + 1],
        tl.int32,
        is_pure=False,
        pack=1,
    )
    before = tl.inline_asm_elementwise(
        "atom.add.u32 $0, [$1], 2;", "=r,l", [count + 4 * (value % 4)], tl.int32, is_pure=False, pack=1
    )
    tl.store(counts + 4 + i, before)


@pytest.mark.parametrize("machine", MACHINES)
def test_loads_stores_and_atomics_that_do_not_say_which_memory(machine):
    x = np.random.default_rng(0).integers(0, 100, 128).astype(np.int32)
    with tileprobe.use(machine):
        given, out, counts = (
            tileprobe.array(a) for a in (x, np.zeros(128, np.int32), np.zeros(132, np.int32))
        )
        addresses = np.array([held.data_ptr() for held in (given, out, counts)], np.int64)
        made = generic[(1,)](tileprobe.array(addresses), counts, 128)
    assert all(re.search(rf"\b{name}\.E", made.asm["sass"]) for name in ("LD", "ST", "ATOM"))
    np.testing.assert_array_equal(out.numpy(), x + 1)
    times = np.bincount(x % 4, minlength=4)
    np.testing.assert_array_equal(counts.numpy()[:4], 2 * times)
    for n in range(4):
        assert sorted(counts.numpy()[4:][x % 4 == n]) == list(range(0, 2 * times[n], 2))


def test_a_generic_address_outside_of_all_memory():
    with tileprobe.use("sim:a100"):
        counts, addresses = (
            tileprobe.array(np.zeros(132, np.int32)),
            tileprobe.array(np.full(3, 4096, np.int64)),
        )
        with pytest.raises(KernelFault, match=r"test_simgpu_inline\.py:\d+ .*LD\.E.*4 bytes at 0x1000"):
            generic[(1,)](addresses, counts, 128)


def test_the_search_for_a_tensor_passes_what_is_gone():
    class Gone:
        pass

    torch = pytest.importorskip("torch")
    dead, tensor = weakref.proxy(Gone()), torch.zeros(4)  # asked for its class, the one raises
    assert memory.find(tensor.data_ptr() + 8) == (tensor.data_ptr(), tensor.data_ptr() + 16)
    assert memory.find(4096) is None
    del dead


def test_a_tensor_that_only_says_that_it_has_memory_is_none():
    class Says:
        nbytes = 1 << 40

        def data_ptr(self):
            return 0

    held = Says()
    assert memory.find(4096) is None
    del held


@triton.jit
def matched(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    same = tl.inline_asm_elementwise(
        "match.any.sync.b32 $0, $1, 0xffffffff;", "=r,r", [v], tl.int32, is_pure=False, pack=1
    )
    every = tl.inline_asm_elementwise(
        "{ .reg .pred p; match.all.sync.b32 $0|p, $1, 0xffffffff; @!p mov.b32 $0, 7; }", "=r,r", [v // 100], tl.int32,
        is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(out + i, same)
    tl.store(out + N + i, every)


@pytest.mark.parametrize("machine", MACHINES)
def test_lanes_with_the_same_value(machine):
    x = np.random.default_rng(0).integers(0, 5, 64).astype(np.int32)
    x[40] = 300
    with tileprobe.use(machine):
        out = tileprobe.array(np.zeros(128, np.int32))
        matched[(1,)](tileprobe.array(x), out, 64, num_warps=2)
    found = out.numpy().view(np.uint32).reshape(2, 64)
    for warp in range(2):
        mine = x[32 * warp : 32 * warp + 32]
        masks = [sum(1 << n for n in range(32) if mine[n] == value) for value in mine]
        assert list(found[0, 32 * warp :][:32]) == masks
    assert set(found[1, :32]) == {0xFFFFFFFF}
    assert set(found[1, 32:]) == {7}


@triton.jit
def in_halves(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    summed = tl.inline_asm_elementwise(
        "{ .reg .pred p; .reg .b32 m, t; setp.lt.s32 p, $2, 16; selp.b32 m, 0xffff, 0xffff0000, p; bar.warp.sync m; "
        "@p bra LOW; mul.lo.s32 t, $1, 3; bar.warp.sync m; bra DONE; LOW: add.s32 t, $1, 5; bar.warp.sync m; DONE: "
        "bar.warp.sync 0xffffffff; shfl.sync.bfly.b32 $0, t, 16, 0x1f, 0xffffffff; }",
        "=r,r,r", [v, i], tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(out + i, summed)


@pytest.mark.parametrize("machine", MACHINES)
def test_lanes_that_wait_for_some_of_the_others(machine):
    x = np.arange(100, 132, dtype=np.int32)
    with tileprobe.use(machine):
        out = tileprobe.array(np.zeros(32, np.int32))
        in_halves[(1,)](tileprobe.array(x), out, 32, num_warps=1)
    np.testing.assert_array_equal(out.numpy(), np.concatenate([3 * x[16:], x[:16] + 5]))


_EXCHANGE = (
    "{ .shared .align 4 .b8 held[512]; .reg .u32 all, mine, t; mov.u32 t, %tid.x; mov.u32 all, held; "
    "mad.lo.u32 mine, t, 4, all; st.shared.b32 [mine], $1; BARRIER xor.b32 t, t, 32; "
    "mad.lo.u32 mine, t, 4, all; ld.shared.b32 $0, [mine]; }"
)
WITH = tl.constexpr(_EXCHANGE.replace("BARRIER", "bar.sync 0;"))
WITHOUT = tl.constexpr(_EXCHANGE.replace("BARRIER", ""))


@triton.jit
def exchanged(x, out, N: tl.constexpr, CODE: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    other = tl.inline_asm_elementwise(CODE, "=r,r", [v], tl.int32, is_pure=False, pack=1)
    tl.store(out + i, other + tl.sum(v, 0))  # the sum has shared memory of Triton's, behind that


@pytest.mark.parametrize("machine", MACHINES)
def test_shared_memory_that_the_assembly_claims(machine):
    x = np.arange(100, 228, dtype=np.int32)
    with tileprobe.use(machine, check="all"):
        out = tileprobe.array(np.zeros(128, np.int32))
        exchanged[(1,)](tileprobe.array(x), out, 128, WITH)
        np.testing.assert_array_equal(out.numpy(), x[np.arange(128) ^ 32] + x.sum())
        with pytest.raises(
            RaceFault, match=r"(?s)test_simgpu_inline\.py:\d+ .*STS.*test_simgpu_inline\.py:\d+ .*LDS"
        ):
            exchanged[(1,)](tileprobe.array(x), out, 128, WITHOUT)
