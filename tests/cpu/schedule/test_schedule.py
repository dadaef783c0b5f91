"""Stock kernels in, tile IR out: what is fused, what is kept, what is recomputed."""

import pytest
import triton
import triton.language as tl
from triton.runtime.jit import MockTensor

from filechecking import assert_matches
from tileprobe.ir.registry import context

FLOATS, HALVES = MockTensor(tl.float32), MockTensor(tl.float16)


def scheduled(kernel, *types, **constants):
    """The tile IR of a kernel for arguments of the given types."""
    return kernel.warmup(*types, grid=(1,), **constants).asm["tile"]


@triton.jit
def softmax_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + i, e / tl.sum(e, 0), mask=i < n)


def test_softmax_is_three_stages(tmp_path):
    text = scheduled(softmax_kernel, FLOATS, FLOATS, 7, BLOCK=64)
    # The load is cheap enough to be done again; the exponential is kept, by the stage that sums it.
    checks = """
    // CHECK:      tile.nest ({{.*}}) in [64] reduce 0 by maxnumf does "load+reduce"
    // CHECK:      [[E:%.*]] = tile.alloc at 0 : !tile.buffer<[64], f32>
    // CHECK:      tile.nest ({{.*}}) in [64] reduce 0 by addf does "load+sub+exp+reduce"
    // CHECK:        tile.write {{.*}}, [[E]]
    // CHECK:      tile.nest ({{.*}}) in [64] does "div+store"
    // CHECK-NEXT:   "tt.addptr"
    // CHECK-NEXT:   tile.read [[E]]
    // CHECK-NOT:  tile.nest
    """
    assert_matches(text, checks, tmp_path)


@triton.jit
def matmul_kernel(a, b, c, k, stride, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, r = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = a + i[:, None] * stride + r[None, :]
    right = b + r[:, None] * stride + j[None, :]
    acc = tl.zeros((M, N), tl.float32)
    for _ in range(0, k, K):
        acc = tl.dot(tl.load(left), tl.load(right), acc)
        left += K
        right += K * stride
    tl.store(c + i[:, None] * stride + j[None, :], acc)


def test_products_carry_scalars_and_accumulate_in_place(tmp_path):
    text = scheduled(matmul_kernel, HALVES, HALVES, FLOATS, 64, 96, M=32, N=32, K=16)
    checks = """
    // CHECK:      [[ACC:%.*]] = tile.alloc at 0 : !tile.buffer<[32, 32], f32>
    // CHECK:      "scf.for"
    // CHECK-NEXT: ^bb0(%{{.*}}: i32, %{{.*}}: i64, %{{.*}}: i64)
    // CHECK:        [[A:%.*]] = tile.alloc {{.*}} : !tile.buffer<[32, 16], f32>
    // CHECK-NEXT:   tile.nest ({{.*}}) in [32, 16] does "load"
    // CHECK:          "tt.fp_to_fp"({{.*}}) : (f16) -> f32
    // CHECK-NEXT:     tile.write {{.*}}, [[A]]
    // CHECK:        tile.dot [[A]], {{.*}}, [[ACC]]
    // CHECK:        "scf.yield"({{.*}}) : (i64, i64) -> ()
    // CHECK:      tile.nest ({{.*}}) in [32, 32] does "store"
    """
    assert_matches(text, checks, tmp_path)


@triton.jit
def rotate_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + (i + 1) % BLOCK)
    tl.store(x + i, v)


def test_loads_from_memory_that_is_stored_to_come_first(tmp_path):
    text = scheduled(rotate_kernel, FLOATS, 4, BLOCK=32)
    checks = """
    // CHECK: tile.nest ({{.*}}) in [32] does "load"
    // CHECK:   tile.write
    // CHECK: tile.nest ({{.*}}) in [32] does "store"
    // CHECK:   tile.read
    """
    assert_matches(text, checks, tmp_path)


@triton.jit
def again_kernel(x, y, z, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(y + i, v * 2)
    tl.debug_barrier()
    tl.store(z + i, v * 3)


def test_a_load_is_not_repeated_behind_a_store(tmp_path):
    text = scheduled(again_kernel, *[FLOATS] * 3, BLOCK=32)
    assert text.count('"tt.load"') == 1
    assert_matches(text, '// CHECK: tile.write\n// CHECK: "tt.store"\n// CHECK: tile.read', tmp_path)


@triton.jit
def reuse_kernel(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.cumsum(tl.load(x + i), 0)
    v = tl.cumsum(v * v, 0)
    v = tl.cumsum(v + v, 0)
    tl.store(out + i, v)


def test_buffers_share_space_when_their_lives_do_not_meet():
    text = scheduled(reuse_kernel, *[FLOATS] * 2, BLOCK=1024)
    total = int(text.split("tile.scratch = #builtin.int<")[1].split(">")[0])
    assert text.count("tile.alloc") == 6
    assert total < 3 * 4096, "two live at a time"


def test_stages_keep_their_source_lines():
    text = scheduled(softmax_kernel, FLOATS, FLOATS, 7, BLOCK=64)
    first = softmax_kernel.fn.__code__.co_firstlineno
    lines = ",".join(str(first + n) for n in (3, 4))
    assert f'from "{__file__}:{lines}"' in text


@pytest.mark.parametrize("kernel", [softmax_kernel, matmul_kernel, reuse_kernel], ids=lambda k: k.__name__)
def test_printed_ir_reads_back(kernel):
    from xdsl.parser import Parser

    types = {
        "softmax_kernel": ([FLOATS, FLOATS, 7], {"BLOCK": 64}),
        "matmul_kernel": ([FLOATS, FLOATS, FLOATS, 64, 96], {"M": 32, "N": 32, "K": 16}),
        "reuse_kernel": ([FLOATS, FLOATS], {"BLOCK": 64}),
    }[kernel.__name__]
    text = scheduled(kernel, *types[0], **types[1])
    once = Parser(context(), text).parse_module()
    once.verify()
    again = Parser(context(), str(once)).parse_module()
    assert str(again) == str(once)


@triton.jit
def shift_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    here = tl.load(x + i)
    left = tl.load(x + i - 1, mask=i > 0, other=0.0)
    tl.store(x + i, here + left)
    tl.store(y + i, left)


def test_neighbours_are_read_before_they_are_overwritten():
    import numpy as np

    import tileprobe

    x, y = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    left = np.concatenate([[0], x[:-1]])
    want = x + left
    shift_kernel[(1,)](tileprobe.array(x), tileprobe.array(y), BLOCK=512)
    assert (x == want).all()
    assert (y == left).all()
