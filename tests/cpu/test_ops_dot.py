"""dot and dot_scaled: every type and input precision, batches, accumulators, transposed and tiny operands."""

import numpy as np
import pytest
import triton
import triton.language as tl
from cpu_harness import Buffer, codes, kernel, launch

# How far a product may be off, relative to the sum of the products' sizes.
PRECISION = {"ieee": 2e-6, "tf32": 2e-3, "tf32x3": 2e-5, "bf16x3": 2e-4, "bf16x6": 2e-5}


@triton.jit
def dot_kernel(
    A, B, C, OUT, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    PRECISION: tl.constexpr, KIND: tl.constexpr, ACC: tl.constexpr,
    TRANS_A: tl.constexpr, TRANS_B: tl.constexpr,
):  # fmt: skip
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    if TRANS_A:
        a = tl.trans(tl.load(A + k[:, None] * M + m[None, :]))
    else:
        a = tl.load(A + m[:, None] * K + k[None, :])
    if TRANS_B:
        b = tl.trans(tl.load(B + n[:, None] * K + k[None, :]))
    else:
        b = tl.load(B + k[:, None] * N + n[None, :])
    where = m[:, None] * N + n[None, :]
    if ACC:
        c = tl.dot(a, b, acc=tl.load(C + where), input_precision=PRECISION, out_dtype=KIND)
    else:
        c = tl.dot(a, b, input_precision=PRECISION, out_dtype=KIND)
    tl.store(OUT + where, c)


def run_dot(dtype, out, shape, precision="ieee", acc=False, trans=(False, False), seed=0):
    m, n, k = shape
    rng = np.random.default_rng(seed)
    if dtype in ("int8", "uint8"):
        a, b = rng.integers(-128 if dtype == "int8" else 0, 127, (m, k)), rng.integers(-9, 99, (k, n)) % 100
    else:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    c = rng.integers(-5, 5, (m, n))
    ab, bb = Buffer(a.T if trans[0] else a, dtype), Buffer(b.T if trans[1] else b, dtype)
    a, b = (ab.values.T if trans[0] else ab.values), (bb.values.T if trans[1] else bb.values)
    result = Buffer.full((m, n), out)
    launch(
        dot_kernel, 1, ab, bb, Buffer(c, out), result,
        m, n, k, precision, getattr(tl, out), acc, *trans,
    )  # fmt: skip
    wide = np.int64 if a.dtype.kind in "iu" else np.float64
    want = a.astype(wide) @ b.astype(wide) + (c if acc else 0)
    size = np.abs(a).astype(float) @ np.abs(b).astype(float) + 1
    return result.values, want, size


SHAPES = [(16, 16, 16), (32, 64, 16), (64, 32, 128), (128, 16, 32)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("dtype", "out"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64"),
     ("int8", "int32"), ("float8e4nv", "float32"), ("float8e5", "float32"), ("float16", "float16")],
)  # fmt: skip
def test_types(dtype, out, shape):
    for acc in (False, True):
        got, want, size = run_dot(dtype, out, shape, acc=acc)
        if out == "int32":
            assert (got == want).all()
        else:
            allowed = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-14}[out]
            assert (np.abs(got - want) / size).max() <= allowed


@pytest.mark.parametrize("precision", PRECISION)
def test_input_precision(precision):
    got, want, size = run_dot("float32", "float32", (32, 32, 64), precision)
    assert (np.abs(got - want) / size).max() <= PRECISION[precision]


@pytest.mark.parametrize("trans", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_transposed_operands(dtype, trans):
    got, want, size = run_dot(
        dtype, "int32" if dtype == "int8" else "float32", (32, 16, 64), acc=True, trans=trans
    )
    assert (np.abs(got - want) / size).max() <= 2e-6


def test_special_values_go_through():
    fn = kernel("""
@triton.jit
def kernel(A, B, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    tl.store(OUT + where, tl.dot(tl.load(A + where), tl.load(B + where), input_precision="ieee"))
""")
    a, b = np.ones((16, 16)), np.ones((16, 16))
    a[3, 5], a[7, 2], b[4, 9] = np.inf, np.nan, -np.inf
    out = Buffer.full((16, 16), "float32")
    launch(fn, 1, Buffer(a, "float32"), Buffer(b, "float32"), out, N=16)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out.values, a @ b)


@triton.jit
def batched_kernel(A, B, OUT, S: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    s, m = tl.arange(0, S)[:, None, None], tl.arange(0, M)
    n, k = tl.arange(0, N), tl.arange(0, K)
    a = tl.load(A + s * M * K + m[None, :, None] * K + k[None, None, :])
    b = tl.load(B + s * K * N + k[None, :, None] * N + n[None, None, :])
    tl.store(OUT + s * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(a, b, input_precision="ieee"))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_batched(dtype):
    rng = np.random.default_rng(1)
    a, b = Buffer(rng.standard_normal((4, 16, 32)), dtype), Buffer(rng.standard_normal((4, 32, 16)), dtype)
    out = Buffer.full((4, 16, 16), "float32")
    launch(batched_kernel, 1, a, b, out, S=4, M=16, N=16, K=32)
    assert np.allclose(out.values, a.values @ b.values, atol=1e-4)


@triton.jit
def chained_kernel(A, B, C, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    a, b, c = tl.load(A + where), tl.load(B + where), tl.load(C + where)
    ab = tl.dot(a, b, input_precision="ieee")
    scaled = tl.exp(ab - tl.max(ab, axis=1)[:, None])
    total = tl.dot(scaled.to(c.dtype), c, input_precision="ieee")
    for _ in range(3):
        total = tl.dot(a, b, total, input_precision="ieee") * 0.5
    tl.store(OUT + where, total)


def test_chained_with_arithmetic_between():
    a, b, c = (Buffer(np.random.default_rng(i).standard_normal((32, 32)), "float32") for i in range(3))
    out = Buffer.full((32, 32), "float32")
    launch(chained_kernel, 1, a, b, c, out, N=32)
    ab = a.values @ b.values
    want = np.exp(ab - ab.max(axis=1, keepdims=True)) @ c.values
    for _ in range(3):
        want = (want + ab) * 0.5
    assert np.allclose(out.values, want, atol=1e-4)


FORMATS = {"e4m3": "float8e4nv", "e5m2": "float8e5", "bf16": "bfloat16", "fp16": "float16"}


@pytest.mark.parametrize(
    ("left", "right"), [("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e4m3", "bf16"), ("fp16", "e5m2")]
)
@pytest.mark.parametrize("scales", ["both", "left"])
def test_dot_scaled(left, right, scales):
    if scales == "left" and left == "fp16":
        pytest.skip("Triton scales the 8-bit side")
    m, n, k = 32, 32, 64
    rng = np.random.default_rng(3)

    def operand(kind, shape):
        dtype = FORMATS[kind]
        if kind.startswith("e"):
            values = codes(dtype)[rng.integers(0, 0x50, shape)] * rng.choice([-1, 1], shape)
            buffer = Buffer(values, dtype)
            buffer.name = buffer.dtype = "uint8"
            return buffer, values
        buffer = Buffer(rng.standard_normal(shape), dtype)
        return buffer, buffer.values

    a, av = operand(left, (m, k))
    b, bv = operand(right, (k, n))
    use_a = (scales == "both" and left.startswith("e")) or scales == "left"
    use_b = scales == "both" and right.startswith("e")
    sa, sb = rng.integers(122, 132, (m, k // 32)), rng.integers(122, 132, (n, k // 32))
    text = f"""
@triton.jit
def kernel(A, SA, B, SB, OUT, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K), tl.arange(0, K // 32)
    a = tl.load(A + m[:, None] * K + k[None, :])
    b = tl.load(B + k[:, None] * N + n[None, :])
    sa = {"tl.load(SA + m[:, None] * (K // 32) + g[None, :])" if use_a else "None"}
    sb = {"tl.load(SB + n[:, None] * (K // 32) + g[None, :])" if use_b else "None"}
    c = tl.dot_scaled(a, sa, "{left}", b, sb, "{right}")
    tl.store(OUT + m[:, None] * N + n[None, :], c)
"""
    out = Buffer.full((m, n), "float32")
    launch(kernel(text), 1, a, Buffer(sa, "uint8"), b, Buffer(sb, "uint8"), out, M=m, N=n, K=k)
    wa = av * np.repeat(2.0 ** (sa - 127), 32, axis=1) if use_a else av
    wb = bv * np.repeat(2.0 ** (sb - 127), 32, axis=1).T if use_b else bv
    size = np.abs(wa) @ np.abs(wb) + 1e-3
    assert (np.abs(out.values - wa @ wb) / size).max() < 1e-2
