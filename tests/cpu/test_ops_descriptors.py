"""Tensor descriptors, made in the kernel and on the host: load, store, gather, scatter and atomic updates."""

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import Buffer, kernel, launch


@triton.jit
def copy_kernel(X, OUT, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(X, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(OUT, [M, N], [N, 1], [BM, BN])
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    x = source.load(at)
    target.store(at, x + x)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int8", "uint8"])
def test_edges_are_masked(dtype):
    m, n = 37, 48
    x = Buffer(np.arange(m * n).reshape(m, n) % 50, dtype)
    out = Buffer.full((m + 2, n), dtype)
    junk = out.bits[m:].tobytes()
    launch(copy_kernel, (3, 2), x, out, m, n, BM=16, BN=32)
    assert (out.values[:m] == 2 * x.values).all()
    assert out.bits[m:].tobytes() == junk


def test_outside_reads_as_zero():
    fn = kernel("""
@triton.jit
def kernel(X, OUT, M, N, B: tl.constexpr):
    d = tl.make_tensor_descriptor(X, [M, N], [N, 1], [B, B])
    i = tl.arange(0, B)
    tl.store(OUT + i[:, None] * B + i[None, :], d.load([-3, 4]))
""")
    x, out = Buffer(np.arange(96).reshape(8, 12) + 1, "float32"), Buffer.full((16, 16), "float32")
    launch(fn, 1, x, out, 8, 12, B=16)
    want = np.zeros((16, 16))
    want[3:11, :8] = x.values[:, 4:]
    assert (out.values == want).all()


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_ranks(rank):
    shape = (3, 5, 4, 6, 12)[-rank:]
    block = (2, 4, 4, 4, 16)[-rank:]
    names = [f"S{i}" for i in range(rank)]
    strides = ["1"]
    for name in reversed(names[1:]):
        strides.insert(0, f"{name} * {strides[0]}")
    text = f"""
@triton.jit
def kernel(X, OUT, {", ".join(names)}):
    a = tl.make_tensor_descriptor(X, [{", ".join(names)}], [{", ".join(strides)}], {list(block)})
    b = tl.make_tensor_descriptor(OUT, [{", ".join(names)}], [{", ".join(strides)}], {list(block)})
    at = [{", ".join("1" if i == 0 and rank > 1 else "0" for i in range(rank))}]
    b.store(at, a.load(at))
"""
    x = Buffer(np.arange(np.prod(shape)).reshape(shape) + 1, "float32")
    out = Buffer(np.zeros(shape), "float32")
    launch(kernel(text), 1, x, out, *shape)
    inside = tuple(
        slice(1 if i == 0 and rank > 1 else 0, None if i or rank == 1 else 1 + block[0]) for i in range(rank)
    )
    inside = tuple(
        slice(s.start, min(s.stop or shape[i], s.start + block[i], shape[i])) for i, s in enumerate(inside)
    )
    want = np.zeros(shape)
    want[inside] = x.values[inside]
    assert (out.values == want).all()


@triton.jit
def gather_kernel(X, ROWS, OUT, BACK, M, N, B: tl.constexpr, C: tl.constexpr):
    d = tl.make_tensor_descriptor(X, [M, N], [N, 1], [1, C])
    rows = tl.load(ROWS + tl.arange(0, B))
    x = d.gather(rows, 8)
    tl.store(OUT + tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :], x)
    e = tl.make_tensor_descriptor(BACK, [M, N], [N, 1], [1, C])
    e.scatter(x + 1, rows, 8)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_gather_and_scatter(dtype):
    m, n, b, c = 40, 32, 16, 16
    rows = np.random.default_rng(0).permutation(m)[:b]
    x = Buffer(np.arange(m * n).reshape(m, n) % 100, dtype)
    out, back = Buffer.full((b, c), dtype), Buffer(np.zeros((m, n)), dtype)
    launch(gather_kernel, 1, x, Buffer(rows, "int32"), out, back, m, n, B=b, C=c)
    assert (out.values == x.values[rows, 8:24]).all()
    want = np.zeros((m, n))
    want[rows, 8:24] = x.values[rows, 8:24] + 1
    assert (back.values == want).all()


KINDS = {
    "add": (np.add, ("float32", "int32", "float16")),
    "max": (np.maximum, ("int32", "uint32")),
    "min": (np.minimum, ("int32", "uint32")),
    "and": (np.bitwise_and, ("int32",)),
    "or": (np.bitwise_or, ("int32",)),
    "xor": (np.bitwise_xor, ("int32",)),
}


@pytest.mark.parametrize(("kind", "dtype"), [(k, t) for k, (_, types) in KINDS.items() for t in types])
def test_atomic_updates(kind, dtype):
    fn = kernel(f"""
@triton.jit
def kernel(X, OUT, M, N, B: tl.constexpr):
    d = tl.make_tensor_descriptor(OUT, [M, N], [N, 1], [B, B])
    i = tl.arange(0, B)
    d.atomic_{kind}([0, 12], tl.load(X + i[:, None] * B + i[None, :]))
""")
    rng = np.random.default_rng(1)
    x, start = rng.integers(0, 60, (16, 16)), rng.integers(0, 60, (10, 24))
    out = Buffer(start, dtype)
    launch(fn, 1, Buffer(x, dtype), out, 10, 24, B=16)
    want = start.copy()
    want[:, 12:] = KINDS[kind][0](start[:, 12:], x[:10, :12])
    assert (out.values == want).all()


@triton.jit
def host_kernel(source, target, BM: tl.constexpr, BN: tl.constexpr):
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    target.store(at, source.load(at) + 1)


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_host_descriptors(padding):
    torch = pytest.importorskip("torch")
    from triton.tools.tensor_descriptor import TensorDescriptor

    x = torch.arange(40 * 24, dtype=torch.float32).reshape(40, 24)
    out = torch.full((48, 32), -5.0)
    source = TensorDescriptor(x, [40, 24], [24, 1], [16, 16], padding)
    target = TensorDescriptor.from_tensor(out, [16, 16])
    host_kernel[(3, 2)](source, target, BM=16, BN=16)
    assert (out[:40, :24] == x + 1).all()
    outside = out[40:] if padding == "zero" else out[40:].isnan()
    assert (outside == 1).all()
