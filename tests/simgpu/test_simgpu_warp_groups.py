"""Products of warp groups on `sim:h100`: Triton makes wgmma of them (HGMMA, IGMMA, QGMMA); their values are right."""

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe

torch = pytest.importorskip("torch")
SIDE, DEPTH = 64, 128


@pytest.fixture(autouse=True)
def machine():
    tileprobe.use("sim:h100")
    yield
    tileprobe.use("cpu")


@triton.jit
def product_kernel(A, B, OUT, K: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr):
    """`OUT = A @ B.T`, both rows of K."""
    i, k = tl.arange(0, N), tl.arange(0, 64)
    total = tl.zeros((N, N), KIND)
    for first in range(0, K, 64):
        a = tl.load(A + i[:, None] * K + first + k[None, :])
        b = tl.load(B + i[:, None] * K + first + k[None, :])
        total = tl.dot(a, tl.trans(b), total)
    tl.store(OUT + i[:, None] * N + i[None, :], total)


def numbers(dtype, seed):
    made = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, (SIDE, DEPTH), generator=made).to(dtype)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int8", "float8_e4m3fn", "float8_e5m2"])
def test_small_whole_numbers_are_exact(name):
    """Sums of 128 products of at most 16: exact in any order and with 13 bits."""
    whole = name == "int8"
    a, b = (numbers(getattr(torch, name), seed) for seed in (1, 2))
    out = torch.zeros(SIDE, SIDE, dtype=torch.int32 if whole else torch.float32)
    kind = tl.int32 if whole else tl.float32
    made = product_kernel[(1,)](a, b, out, DEPTH, SIDE, kind, num_warps=4)
    assert "wgmma" in made.asm["ptx"]
    assert torch.equal(out.double(), a.double() @ b.double().T)


@triton.jit
def chained_kernel(A, B, OUT, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, KIND: tl.constexpr):
    """`OUT += A @ B` in steps of 32, B row by row: columns side by side."""
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 32)
    places = OUT + i[:, None] * N + j[None, :]
    total = tl.load(places)
    for first in range(0, K, 32):
        a = tl.load(A + i[:, None] * K + first + k[None, :])
        b = tl.load(B + (first + k)[:, None] * N + j[None, :])
        total = tl.dot(a, b, total, out_dtype=KIND)
    tl.store(places, total)


def chained(a, b, kind, warps):
    begun = torch.from_numpy(np.random.default_rng(3).integers(-9, 10, (len(a), b.shape[1]))).to(kind)
    out = begun.clone()
    kinds = {torch.float32: tl.float32, torch.float16: tl.float16}
    made = chained_kernel[(1,)](a, b, out, len(a), b.shape[1], len(b), kinds[kind], num_warps=warps)
    assert "wgmma.mma" in made.asm["ptx"]
    assert torch.equal(out.double(), begun.double() + a.double() @ b.double())
    return made.asm["sass"]


def small(rows, columns, dtype, seed):
    made = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (rows, columns), generator=made).to(dtype)


@pytest.mark.parametrize("columns", [8, 16, 64])
def test_columns_side_by_side(columns):
    """Eight columns of 16 bits have no swizzling, and strides in the other order."""
    chained(small(128, 64, torch.bfloat16, 1), small(64, columns, torch.bfloat16, 2), torch.float32, 8)


@pytest.mark.parametrize("names", [("float8_e4m3fn", "float8_e5m2"), ("float8_e5m2", "float8_e4m3fn")])
def test_two_formats_of_eight_bits(names):
    a, b = (small(64, 64, getattr(torch, name), seed) for seed, name in enumerate(names))
    assert "QGMMA.64x64x32.F32.E" in chained(a, b, torch.float32, 4)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_sums_of_eight_bits_in_halves(name):
    a, b = (small(64, size, getattr(torch, name), size) for size in (64, 32))
    assert "QGMMA.64x32x32.F16" in chained(a, b, torch.float16, 4)
