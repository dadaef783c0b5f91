"""Loads and stores: every type, masks, `other`, hints, strides, and that lanes masked off touch nothing."""

import ctypes
import mmap

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import FLOATS, INTERPRETED, INTS, UINTS, Buffer, launch

ALL = (*INTS, *UINTS, *FLOATS, "float8e4nv", "float8e5", "int1")


@triton.jit
def copy_kernel(X, OUT, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(OUT + i, tl.load(X + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("dtype", ALL)
def test_masked_copy(dtype):
    rng = np.random.default_rng(0)
    x = Buffer.full(1000, dtype)
    x.bits.view(np.uint8)[...] = rng.integers(0, 2 if dtype == "int1" else 256, x.bits.nbytes)
    out = Buffer.full(1100, dtype)
    untouched = out.bits[937:].tobytes()
    launch(copy_kernel, 8, x, out, 937, N=128)
    assert out.bits[:937].tobytes() == x.bits[:937].tobytes()
    assert out.bits[937:].tobytes() == untouched


@triton.jit
def other_kernel(X, Y, OUT, n, N: tl.constexpr):
    i = tl.arange(0, N)
    fill = tl.load(Y + i)
    tl.store(OUT + i, tl.load(X + i, mask=i < n, other=fill))
    tl.store(OUT + N + i, tl.load(X + i, mask=i % 3 == 0, other=7))
    tl.store(OUT + 2 * N + i, tl.load(X + i * 2, mask=i * 2 < N, other=-1))
    tl.store(OUT + 3 * N + i, tl.load(X + (N - 1 - i), mask=i < n, other=1))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_other(dtype):
    n, size = 41, 128
    i = np.arange(size)
    x, y = i % 50 + 1, 100 - i % 30
    out = Buffer.full((4, size), dtype)
    launch(other_kernel, 1, Buffer(x, dtype), Buffer(y, dtype), out, n, N=size)
    want = [
        np.where(i < n, x, y),
        np.where(i % 3 == 0, x, 7),
        np.where(i * 2 < size, x[i * 2 % size], -1),
        np.where(i < n, x[::-1], 1),
    ]
    assert (out.values == np.array(want)).all()


@triton.jit
def hints_kernel(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i, cache_modifier=".ca", eviction_policy="evict_last")
    x += tl.load(X + i, cache_modifier=".cg", eviction_policy="evict_first")
    x += tl.load(X + i, volatile=True)
    x += tl.load(X + i, cache_modifier=".cv")
    tl.store(OUT + i, x, cache_modifier=".cs", eviction_policy="evict_first")
    tl.store(OUT + N + i, x, cache_modifier=".wt")
    tl.store(OUT + 2 * N + i, x, cache_modifier=".wb")


def test_hints():
    x, out = Buffer(np.arange(64), "float32"), Buffer.full((3, 64), "float32")
    launch(hints_kernel, 1, x, out, N=64)
    assert (out.values == 4 * np.arange(64)).all()


@triton.jit
def streamed_kernel(X, OUT, first, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(OUT + first + i, tl.load(X + i, mask=i < n, other=0), mask=i < n, cache_modifier=".cs")


@pytest.mark.parametrize("kind", ["float32", "int8", "float64", "int16"])
@pytest.mark.parametrize("first", [0, 1, 16])
def test_stores_past_the_caches_store_what_others_do(kind, first):
    """Where a vector fills whole lines and where not, at their beginning and within, up to a mask's end."""
    for n in (0, 1, 63, 64, 777, 1024):
        x, out = Buffer(np.arange(1024) % 100 + 1, kind), Buffer.full((1100,), kind)
        before = out.values.copy()
        launch(streamed_kernel, 4, x, out, first, n, BLOCK=256)
        before[first : first + n] = x.values[:n]
        assert (out.values == before).all(), n


@triton.jit
def wild_kernel(X, OUT, n, far, N: tl.constexpr):
    i = tl.arange(0, N)
    # Lanes past n point far outside of everything.
    where = tl.where(i < n, i.to(tl.int64), far)
    x = tl.load(X + where, mask=i < n, other=5)
    tl.store(OUT + where, x, mask=i < n)
    y = tl.load(X + far + i, mask=i < 0, other=3)
    tl.store(OUT + far + i, y, mask=i < 0)
    if n > N:
        tl.store(OUT + far, 1.0)
    scalar = tl.load(X + far, mask=n > N, other=2.0)
    tl.store(OUT + N - 1, scalar, mask=n < N)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_wild_addresses_behind_a_mask(dtype):
    x, out = Buffer(np.arange(64), dtype), Buffer(np.zeros(64), dtype)
    launch(wild_kernel, 1, x, out, 13, 1 << 44, N=64)
    want = np.where(np.arange(64) < 13, np.arange(64), 0)
    want[63] = 2
    assert (out.values == want).all()


class Guarded:
    """A float32 or int8 vector that ends where the next page must not be touched."""

    def __init__(self, values, dtype):
        page = mmap.PAGESIZE
        self.memory = mmap.mmap(-1, 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
        size = len(values) * np.dtype(dtype).itemsize
        self.address = start + page - size
        self.dtype, self.shape = dtype, (len(values),)
        self.values = np.frombuffer(self.memory, dtype, len(values), page - size)
        self.values[:] = values

    def data_ptr(self):
        return self.address

    def stride(self, dim=0):
        return 1


@pytest.mark.skipif(INTERPRETED, reason="the interpreter wants torch tensors")
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 7, 30, 64, 101])
def test_the_page_behind_the_mask_stays_untouched(dtype, n):
    x, out = Guarded(np.arange(n), dtype), Guarded(np.zeros(n), dtype)
    copy_kernel[(2,)](x, out, n, N=64)
    assert (out.values == np.arange(n)).all()


@triton.jit
def strided_kernel(X, OUT, rows, cols, sx0, sx1, so0, so1, M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.program_id(1) * N + tl.arange(0, N)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(X + r[:, None] * sx0 + c[None, :] * sx1, mask=inside, other=0)
    tl.store(OUT + r[:, None] * so0 + c[None, :] * so1, x + 1, mask=inside)


@pytest.mark.parametrize(
    ("sx", "so"), [((50, 1), (50, 1)), ((1, 40), (50, 1)), ((50, 1), (1, 40)), ((150, 3), (60, 1))]
)
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
def test_strides(sx, so, dtype):
    rows, cols = 37, 50
    size = rows * sx[0] + cols * sx[1]
    x = Buffer(np.arange(size) % 100, dtype)
    out = Buffer(np.zeros(37 * 60 + 4000), dtype)
    launch(strided_kernel, (3, 2), x, out, rows, cols, *sx, *so, M=16, N=32)
    r, c = np.ogrid[:rows, :cols]
    got = out.values[r * so[0] + c * so[1]]
    assert (got == x.values[r * sx[0] + c * sx[1]] + 1).all()
    assert (np.count_nonzero(out.values) == rows * cols) or so == (1, 40)


@triton.jit
def scalar_kernel(X, TABLE, OUT, N: tl.constexpr):
    first = tl.load(X)
    ptr = tl.load(TABLE).to(tl.pointer_type(tl.float32))
    tl.store(OUT, first + tl.load(ptr + 1))
    i = tl.arange(0, N)
    addresses = tl.load(TABLE + i % 2).to(tl.pointer_type(tl.float32))
    tl.store(OUT + 1 + i, tl.load(addresses + i))
    # The same scalar for all lanes, and a vector of addresses that repeat.
    tl.store(OUT + 1 + N + i, tl.load(X + i * 0 + 2))


def test_scalars_and_pointers_to_pointers():
    x, y = Buffer(np.arange(16), "float32"), Buffer(np.arange(16) * 10, "float32")
    table = Buffer(np.array([x.data_ptr(), y.data_ptr()]), "int64")
    out = Buffer.full(33, "float32")
    launch(scalar_kernel, 1, x, table, out, N=16)
    i = np.arange(16)
    assert out.values[0] == 1
    assert (out.values[1:17] == np.where(i % 2, i * 10, i)).all()
    assert (out.values[17:] == 2).all()


@triton.jit
def overlap_kernel(X, N: tl.constexpr):
    i = tl.arange(0, N)
    # All of the load comes before any of the store, whatever the loops look like.
    tl.store(X + i + 1, tl.load(X + i))
    tl.store(X + i, tl.load(X + N - 1 - i))


def test_loads_see_memory_as_it_was():
    x = Buffer(np.arange(65), "int32")
    launch(overlap_kernel, 1, x, N=64)
    first = np.concatenate([[0], np.arange(64)])
    want = first.copy()
    want[:64] = first[:64][::-1]
    assert (x.values == want).all()


@triton.jit
def block_pointer_kernel(X, OUT, rows, cols, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_block_ptr(X, (rows, cols), (cols, 1), (tl.program_id(0) * M, 0), (M, N), (1, 0))
    target = tl.make_block_ptr(OUT, (rows, cols), (cols, 1), (tl.program_id(0) * M, 0), (M, N), (1, 0))
    for _ in range(0, cols, N):
        x = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, x * 2, boundary_check=(0, 1))
        source = tl.advance(source, (0, N))
        target = tl.advance(target, (0, N))


@pytest.mark.skipif(not hasattr(tl, "advance"), reason="this Triton has no block pointers")
def test_block_pointers():
    x, out = Buffer(np.arange(35 * 45).reshape(35, 45), "float32"), Buffer.full((35, 45), "float32")
    launch(block_pointer_kernel, 3, x, out, 35, 45, M=16, N=16)
    assert (out.values == 2 * x.values).all()


@triton.jit
def high_rank_kernel(
    X, OUT, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr, E: tl.constexpr
):
    a = tl.arange(0, A)[:, None, None, None, None]
    b = tl.arange(0, B)[None, :, None, None, None]
    c = tl.arange(0, C)[None, None, :, None, None]
    d = tl.arange(0, D)[None, None, None, :, None]
    e = tl.arange(0, E)[None, None, None, None, :]
    where = (((a * B + b) * C + c) * D + d) * E + e
    x = tl.load(X + where)
    swapped = (((e * D + d) * C + c) * B + b) * A + a
    tl.store(OUT + swapped, x + tl.sum(tl.sum(x, axis=4, keep_dims=True), axis=0, keep_dims=True))


def test_five_dimensions():
    shape = (2, 4, 2, 8, 4)
    x = np.arange(np.prod(shape)).reshape(shape)
    out = Buffer.full(shape[::-1], "int32")
    launch(high_rank_kernel, 1, Buffer(x, "int32"), out, *shape)
    assert (out.values == (x + x.sum(axis=(0, 4), keepdims=True)).T).all()
