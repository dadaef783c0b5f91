"""Property tests: random elementwise, reduction and dot kernels, written as source text, against NumPy.

Hypothesis draws a small program: typed expressions over loaded operands, reductions along either axis and
what is stored. The same program is evaluated in NumPy, in the same types, so that rounding agrees.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from cpu_harness import Buffer, kernel, launch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# The same kernels in every run; with TILEPROBE_TEST_EXAMPLES=1000 as many new ones.
EXAMPLES = os.environ.get("TILEPROBE_TEST_EXAMPLES", "")
SETTINGS = settings(
    max_examples=int(EXAMPLES or 25),
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
INT, FLOAT, BOOL = "int32", "float32", "int1"
SIZES = st.sampled_from([1, 2, 4, 8, 16, 32, 64])


@dataclass
class Value:
    """An expression in both languages."""

    code: str
    kind: str
    array: np.ndarray


def wrap(x):
    return np.asarray(x).astype(np.int64).astype(np.int32)


def f32(x):
    return np.asarray(x, dtype=np.float32)


# symbol, NumPy function; integers wrap, floats are exact or correctly rounded
INT_OPS = [
    ("({a} + {b})", lambda a, b: wrap(a.astype("i8") + b)),
    ("({a} - {b})", lambda a, b: wrap(a.astype("i8") - b)),
    ("({a} * {b})", lambda a, b: wrap(a.astype("i8") * b)),
    ("({a} & {b})", np.bitwise_and),
    ("({a} | {b})", np.bitwise_or),
    ("({a} ^ {b})", np.bitwise_xor),
    ("tl.maximum({a}, {b})", np.maximum),
    ("tl.minimum({a}, {b})", np.minimum),
    ("({a} << ({b} & 7))", lambda a, b: wrap(a.astype("i8") << (b & 7))),
    ("({a} >> ({b} & 7))", lambda a, b: a >> (b & 7)),
    ("({a} // (({b} & 15) + 1))", lambda a, b: wrap(np.trunc(a.astype("f8") / ((b & 15) + 1)))),
    ("({a} % (({b} & 15) + 1))", lambda a, b: np.fmod(a, (b & 15) + 1)),
]
FLOAT_OPS = [("({a} + {b})", lambda a, b: f32(a + b)), ("({a} - {b})", lambda a, b: f32(a - b)),
             ("tl.maximum({a}, {b})", np.fmax), ("tl.minimum({a}, {b})", np.fmin),
             ("tl.mul({a}, {b})", lambda a, b: f32(a * b))]  # fmt: skip
COMPARE = [("({a} < {b})", np.less), ("({a} <= {b})", np.less_equal), ("({a} == {b})", np.equal),
           ("({a} != {b})", np.not_equal), ("({a} > {b})", np.greater)]  # fmt: skip
BOOL_OPS = [("({a} & {b})", np.logical_and), ("({a} | {b})", np.logical_or), ("({a} ^ {b})", np.logical_xor)]


@st.composite
def expressions(draw, leaves, kind, depth):
    """A random expression of a kind over the leaves."""
    grow = lambda k: draw(expressions(leaves, k, depth - 1))
    if depth == 0 or (kind != BOOL and draw(st.integers(0, 5)) == 0):
        if kind == BOOL:
            leaf = draw(st.sampled_from(leaves[INT]))
            return Value(f"({leaf.code} > 0)", BOOL, leaf.array > 0)
        return draw(st.sampled_from(leaves[kind]))
    choice = draw(st.integers(0, 4))
    if kind == BOOL:
        if choice < 2:
            a, b = grow(BOOL), grow(BOOL)
            code, fn = draw(st.sampled_from(BOOL_OPS))
        else:
            operand = draw(st.sampled_from([INT, FLOAT]))
            a, b = grow(operand), grow(operand)
            code, fn = draw(st.sampled_from(COMPARE))
        return Value(code.format(a=a.code, b=b.code), BOOL, fn(a.array, b.array))
    if choice == 0:
        c, a, b = grow(BOOL), grow(kind), grow(kind)
        return Value(f"tl.where({c.code}, {a.code}, {b.code})", kind, np.where(c.array, a.array, b.array))
    if choice == 1:
        return conversion(kind, grow)
    code, fn = draw(st.sampled_from(INT_OPS if kind == INT else FLOAT_OPS))
    a, b = grow(kind), grow(kind)
    with np.errstate(all="ignore"):
        return Value(code.format(a=a.code, b=b.code), kind, fn(a.array, b.array))


def conversion(kind, grow):
    if kind == FLOAT:
        a = grow(INT)
        return Value(f"{a.code}.to(tl.float32)", FLOAT, f32(a.array))
    a = grow(FLOAT)  # clamped: what lies outside of the integers is not defined
    with np.errstate(all="ignore"):
        inside = np.fmin(np.fmax(a.array, np.float32(-1e6)), np.float32(1e6))
    return Value(
        f"tl.minimum(tl.maximum({a.code}, -1e6), 1e6).to(tl.int32)", INT, np.trunc(inside).astype(np.int32)
    )


def operands(rng, shape):
    ints = {n: rng.integers(-1000, 1000, shape).astype(np.int32) for n in ("a", "b")}
    floats = {n: (rng.integers(-999, 999, shape) / 8).astype(np.float32) for n in ("x", "y")}
    return ints, floats


def leaves_of(ints, floats, shape):
    column = np.broadcast_to(np.arange(shape[1], dtype=np.int32)[None, :], shape)
    constant = lambda code, kind, v: Value(code, kind, np.full(shape, v, kind))
    return {
        INT: [Value(n, INT, v) for n, v in ints.items()]
        + [Value("j", INT, column), constant("full(7)", INT, 7)],
        FLOAT: [Value(n, FLOAT, v) for n, v in floats.items()] + [constant("full(0.5)", FLOAT, 0.5)],
    }


def build(body, stores):
    """A kernel over (M, N) tiles: loads all operands, runs the body, stores the named results."""
    lines = [f"    {line}" for line in body]
    lines += [f"    tl.store(OUT{i} + {where}, {code})" for i, (where, code) in enumerate(stores)]
    arguments = ", ".join(f"OUT{i}" for i in range(len(stores)))
    text = f"""
@triton.jit
def kernel(A, B, X, Y, {arguments}, rows, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    where = i * N + j
    inside = tl.broadcast_to(i < rows, (M, N))
    a = tl.load(A + where, mask=inside, other=0)
    b = tl.load(B + where, mask=inside, other=0)
    x = tl.load(X + where, mask=inside, other=0.0)
    y = tl.load(Y + where, mask=inside, other=0.0)
""" + "\n".join(lines)
    text = text.replace("full(7)", "tl.full((M, N), 7, tl.int32)")
    return kernel(text.replace("full(0.5)", "tl.full((M, N), 0.5, tl.float32)") + "\n")


@SETTINGS
@given(data=st.data(), m=SIZES, n=SIZES)
def test_elementwise(data, m, n):
    rows = data.draw(st.integers(1, m))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    ints, floats = operands(rng, (m, n))
    for values in (*ints.values(), *floats.values()):
        values[rows:] = 0
    leaves = leaves_of(ints, floats, (m, n))
    results = [data.draw(expressions(leaves, kind, 4)) for kind in (INT, FLOAT, BOOL)]
    fn = build([], [("where", f"tl.broadcast_to({r.code}, (M, N))") for r in results])
    outs = [Buffer.full((m, n), r.kind) for r in results]
    inputs = [Buffer(v, INT) for v in ints.values()] + [Buffer(v, FLOAT) for v in floats.values()]
    launch(fn, 1, *inputs, *outs, rows, M=m, N=n, enable_fp_fusion=False)
    for out, result in zip(outs, results):
        np.testing.assert_array_equal(out.values, np.broadcast_to(result.array, (m, n)), result.code)


REDUCTIONS = {
    "tl.sum": lambda a, axis: wrap(a.astype(np.int64).sum(axis=axis)),
    "tl.max": lambda a, axis: a.max(axis=axis),
    "tl.min": lambda a, axis: a.min(axis=axis),
    "tl.xor_sum": lambda a, axis: np.bitwise_xor.reduce(a, axis=axis),
}


@SETTINGS
@given(data=st.data(), m=SIZES, n=SIZES)
def test_reductions(data, m, n):
    """Integers only: the order of summation must not show. What is reduced is used again elementwise."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    ints, floats = operands(rng, (m, n))
    leaves = leaves_of(ints, floats, (m, n))
    body, stores, outs, wants = [], [], [], []
    for index in range(data.draw(st.integers(1, 3))):
        value = data.draw(expressions(leaves, INT, 3))
        name, axis = data.draw(st.sampled_from(list(REDUCTIONS))), data.draw(st.integers(0, 1))
        body.append(f"r{index} = {name}(tl.broadcast_to({value.code}, (M, N)), axis={axis}, keep_dims=True)")
        want = np.expand_dims(REDUCTIONS[name](np.broadcast_to(value.array, (m, n)), axis), axis)
        stores.append(("i" if axis == 1 else "j", f"r{index}"))
        wants.append(want)
        outs.append(Buffer.full(want.shape, INT))
        leaves[INT].append(Value(f"tl.broadcast_to(r{index}, (M, N))", INT, np.broadcast_to(want, (m, n))))
    last = data.draw(expressions(leaves, INT, 3))
    stores.append(("where", f"tl.broadcast_to({last.code}, (M, N))"))
    wants.append(np.broadcast_to(last.array, (m, n)))
    outs.append(Buffer.full((m, n), INT))
    inputs = [Buffer(v, INT) for v in ints.values()] + [Buffer(v, FLOAT) for v in floats.values()]
    launch(build(body, stores), 1, *inputs, *outs, m, M=m, N=n)
    for out, want, (_, code) in zip(outs, wants, stores):
        np.testing.assert_array_equal(out.values, want, code)


DOT_SIZES = st.sampled_from([16, 32, 64])


@SETTINGS
@given(data=st.data(), m=DOT_SIZES, n=DOT_SIZES, k=DOT_SIZES)
def test_dots(data, m, n, k):
    """Small whole numbers: every order of summation gives the same, so the result must be exact."""
    dtype = data.draw(st.sampled_from(["float32", "float16", "bfloat16", "int8", "float64"]))
    out = {"int8": "int32", "float64": "float64"}.get(dtype, "float32")
    trans, steps, scale = (
        data.draw(st.booleans()),
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(-2, 2)),
    )
    load_b = f"tl.trans(tl.load(B + n[:, None] * (K * {steps}) + step * K + k[None, :]))"
    if not trans:
        load_b = "tl.load(B + (step * K + k[:, None]) * N + n[None, :])"
    text = f"""
@triton.jit
def kernel(A, B, OUT, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.{out})
    for step in range({steps}):
        a = tl.load(A + m[:, None] * (K * {steps}) + step * K + k[None, :])
        b = {load_b}
        total = tl.dot(a, b, total, input_precision="ieee", out_dtype=tl.{out})
    total = total * {scale} + tl.max(total, axis=1)[:, None]
    tl.store(OUT + m[:, None] * N + n[None, :], total)
"""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    a, b = rng.integers(-4, 5, (m, k * steps)), rng.integers(-4, 5, (k * steps, n))
    result = Buffer.full((m, n), out)
    launch(kernel(text), 1, Buffer(a, dtype), Buffer(b.T if trans else b, dtype), result, M=m, N=n, K=k)
    c = a @ b
    np.testing.assert_array_equal(result.values, c * scale + c.max(axis=1, keepdims=True))
