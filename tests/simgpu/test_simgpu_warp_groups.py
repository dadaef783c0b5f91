"""Products of warp groups on `sim:h100`: Triton makes wgmma of them (HGMMA, IGMMA, QGMMA); their values are right."""

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
