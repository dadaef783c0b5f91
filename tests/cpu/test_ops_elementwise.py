"""Every elementwise operation on every type against NumPy: integer semantics of C, IEEE floats."""

from fractions import Fraction

import numpy as np
import pytest
from cpu_harness import FLOATS, INTS, UINTS, storage
from cpu_tables import Row, check_rows

SIZE = 512
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -1.5, 2.5, 3.0, -7.0]


def each(fn):
    """A function of Python integers (no overflow) as one of arrays; the result wraps when it is stored."""

    def apply(*arrays):
        return np.array([fn(*(int(v) for v in lane)) for lane in zip(*arrays)], dtype=object)

    return apply


def wrapped(fn, dtype):
    bits, signed = storage(dtype).itemsize * 8, dtype.startswith("i")

    def apply(*arrays):
        values = [int(v) & ((1 << bits) - 1) for v in each(fn)(*arrays)]
        if signed:
            values = [v - (1 << bits) if v >> (bits - 1) else v for v in values]
        return np.array(values, dtype=dtype)

    return apply


def c_quotient(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def integers(dtype):
    rng = np.random.default_rng(7)
    info = np.iinfo(dtype)
    edge = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 2]
    wide = rng.integers(info.min, info.max, SIZE, dtype=dtype, endpoint=True)
    x = np.where(rng.random(SIZE) < 0.3, np.resize(np.array(edge, dtype=dtype), SIZE), wide)
    y = np.where(rng.random(SIZE) < 0.5, rng.integers(1, 12, SIZE, dtype=dtype), np.roll(wide, 5))
    y = np.where((y == 0) | (y.astype(object) == -1), 3, y)  # dividing by these is undefined
    bits = storage(dtype).itemsize * 8
    z = rng.integers(0, bits, SIZE, dtype=dtype)  # shift amounts
    return {"x": x.astype(dtype), "y": y.astype(dtype), "z": z}


def integer_rows(dtype):
    bits = storage(dtype).itemsize * 8
    mask = (1 << bits) - 1
    w = lambda fn: wrapped(fn, dtype)
    rows = [
        Row("x + y", w(lambda x, y, z: x + y)),
        Row("x - y", w(lambda x, y, z: x - y)),
        Row("x * y", w(lambda x, y, z: x * y)),
        Row("x // y", w(lambda x, y, z: c_quotient(x, y))),
        Row("x % y", w(lambda x, y, z: x - y * c_quotient(x, y))),
        Row("x & y", w(lambda x, y, z: x & y)),
        Row("x | y", w(lambda x, y, z: x | y)),
        Row("x ^ y", w(lambda x, y, z: x ^ y)),
        Row("x << z", w(lambda x, y, z: x << z)),
        Row("x >> z", w(lambda x, y, z: x >> z)),
        Row("~x", w(lambda x, y, z: ~x)),
        Row("x + 3", w(lambda x, y, z: x + 3)),
        Row("5 - x", w(lambda x, y, z: 5 - x)),
        Row("x * 3", w(lambda x, y, z: x * 3)),
        Row("x // 3", w(lambda x, y, z: c_quotient(x, 3))),
        Row("x % 8", w(lambda x, y, z: x - 8 * c_quotient(x, 8))),
        Row("tl.abs(x)", w(lambda x, y, z: abs(x))),
        Row("tl.maximum(x, y)", w(lambda x, y, z: max(x, y))),
        Row("tl.minimum(x, y)", w(lambda x, y, z: min(x, y))),
        Row("tl.where(x > y, x, z)", w(lambda x, y, z: x if x > y else z)),
        Row(
            "tl.cdiv(x, 4)",
            w(lambda x, y, z: c_quotient(x + 3, 4)),
            where=lambda x, y, z: x <= np.iinfo(dtype).max - 3,
        ),
        Row("x == y", lambda x, y, z: x == y, "int1"),
        Row("x != y", lambda x, y, z: x != y, "int1"),
        Row("x < y", lambda x, y, z: x < y, "int1"),
        Row("x <= y", lambda x, y, z: x <= y, "int1"),
        Row("x > y", lambda x, y, z: x > y, "int1"),
        Row("x >= y", lambda x, y, z: x >= y, "int1"),
        Row("(x > y) & (x > z)", lambda x, y, z: (x > y) & (x > z), "int1"),
        Row("(x > y) | (x > z)", lambda x, y, z: (x > y) | (x > z), "int1"),
        Row("(x > y) ^ (x > z)", lambda x, y, z: (x > y) ^ (x > z), "int1"),
        Row("(x > y) and not (x > z)", lambda x, y, z: (x > y) & ~(x > z), "int1"),
        Row("x / y", lambda x, y, z: x.astype("f4").astype("f8") / y.astype("f4").astype("f8"), "float32", 2),
    ]
    if dtype.startswith("int"):
        rows.append(Row("-x", w(lambda x, y, z: -x)))
    if bits >= 32:
        rows.append(Row("tl.umulhi(x, y)", w(lambda x, y, z: ((x & mask) * (y & mask)) >> bits)))
    return rows


@pytest.mark.parametrize("dtype", [*INTS, *UINTS])
def test_integers(dtype):
    check_rows(integer_rows(dtype), dtype, integers(dtype))


def floats(dtype):
    rng = np.random.default_rng(3)
    tiny = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}[dtype]
    huge = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028234e38, "float64": 1.7976e308}[dtype]
    special = np.array([*SPECIAL, tiny, -3 * tiny, huge, -huge])
    grid = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    plain = rng.standard_normal((2, SIZE - grid.shape[1])) * np.exp2(
        rng.integers(-6, 6, SIZE - grid.shape[1])
    )
    x, y = np.concatenate([grid, plain], axis=1)
    return {"x": x, "y": y, "z": rng.standard_normal(SIZE)}


def exact_fma(x, y, z):
    def one(a, b, c):
        if not np.isfinite([a, b, c]).all():
            return a * b + c
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        try:
            return float(exact)
        except OverflowError:
            return np.inf if exact > 0 else -np.inf

    return np.array([one(*lane) for lane in zip(x, y, z)])


ANY_ZERO = 1e-9  # a tolerance that only forgives the sign of a zero

FLOAT_ROWS = [
    Row("x + y", lambda x, y, z: x + y),
    Row("x - y", lambda x, y, z: x - y),
    Row("x * y", lambda x, y, z: x * y),
    Row("x / y", lambda x, y, z: x / y, ulps=2),
    Row("x % y", lambda x, y, z: np.fmod(x, y)),
    Row("-x", lambda x, y, z: -x),
    Row("x + 1", lambda x, y, z: x + 1),
    Row("0.5 * x", lambda x, y, z: 0.5 * x),
    Row("tl.abs(x)", lambda x, y, z: np.abs(x)),
    Row("tl.maximum(x, y)", lambda x, y, z: np.fmax(x, y), ulps=ANY_ZERO),
    Row("tl.minimum(x, y)", lambda x, y, z: np.fmin(x, y), ulps=ANY_ZERO),
    Row(
        "tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)", lambda x, y, z: np.maximum(x, y), ulps=ANY_ZERO
    ),
    Row(
        "tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)", lambda x, y, z: np.minimum(x, y), ulps=ANY_ZERO
    ),
    Row("tl.where(x > y, x, y)", lambda x, y, z: np.where(x > y, x, y)),
    Row("tl.where(x > y, x, 0)", lambda x, y, z: np.where(x > y, x, 0)),
    Row("tl.clamp(x, -1.0, 1.5)", lambda x, y, z: np.fmin(np.fmax(x, -1.0), 1.5), ulps=ANY_ZERO),
    Row("tl.fma(x, y, z)", lambda x, y, z: exact_fma(x, y, z), ulps=0.51),
    Row("x == y", lambda x, y, z: x == y, "int1"),
    Row("x != y", lambda x, y, z: x != y, "int1"),
    Row("x < y", lambda x, y, z: x < y, "int1"),
    Row("x <= y", lambda x, y, z: x <= y, "int1"),
    Row("x > y", lambda x, y, z: x > y, "int1"),
    Row("x >= y", lambda x, y, z: x >= y, "int1"),
    Row("(x < y) | (x != x)", lambda x, y, z: (x < y) | np.isnan(x), "int1"),
]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype):
    check_rows(FLOAT_ROWS, dtype, floats(dtype))


def wide(name):
    """A function in NumPy's extended precision, so that it can judge float64 as well."""
    return lambda x, *_: getattr(np, name)(x.astype(np.longdouble))


MATH_ROWS = [
    Row("tl.exp(x)", wide("exp"), ulps=2),
    Row("tl.exp2(x)", wide("exp2"), ulps=2),
    Row("tl.log(x)", wide("log"), ulps=2),
    Row("tl.log2(x)", wide("log2"), ulps=2),
    Row("tl.sin(x)", wide("sin"), ulps=2, where=lambda x, y, z: np.abs(x) < 1e5),
    Row("tl.cos(x)", wide("cos"), ulps=2, where=lambda x, y, z: np.abs(x) < 1e5),
    Row("tl.sqrt(x)", wide("sqrt"), ulps=1),
    Row("tl.rsqrt(x)", lambda x, y, z: 1 / np.sqrt(x.astype(np.longdouble)), ulps=2),
    Row("tl.floor(x)", wide("floor")),
    Row("tl.ceil(x)", wide("ceil")),
    Row("tl.sigmoid(x)", lambda x, y, z: 1 / (1 + np.exp(-x.astype(np.longdouble))), ulps=4),
    Row("tl.fdiv(x, y)", lambda x, y, z: x / y, ulps=2),
]
# Triton offers the correctly rounded ones for float32 alone.
ROUNDED_ROWS = [
    Row("tl.sqrt_rn(x)", wide("sqrt")),
    Row("tl.div_rn(x, y)", lambda x, y, z: x / y),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_math(dtype):
    rng = np.random.default_rng(11)
    x = np.concatenate([floats(dtype)["x"], rng.uniform(-90, 90, SIZE // 2), rng.lognormal(0, 3, SIZE // 2)])
    rows = MATH_ROWS + (ROUNDED_ROWS if dtype == "float32" else [])
    check_rows(rows, dtype, {"x": x, "y": np.roll(x, 3), "z": x})


def test_erf():
    import math

    rng = np.random.default_rng(5)
    x = np.concatenate([rng.uniform(-6, 6, SIZE - 8), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, 9.0, -9.0]])
    want = Row("tl.erf(x)", lambda x: np.vectorize(math.erf)(x), ulps=2)
    for dtype in ("float32", "float64"):
        check_rows([want], dtype, {"x": x})


LIBDEVICE_ROWS = [
    Row("libdevice.tanh(x)", wide("tanh"), ulps=3),
    Row("libdevice.sinh(x)", wide("sinh"), ulps=4),
    Row("libdevice.cosh(x)", wide("cosh"), ulps=4),
    Row("libdevice.tan(x)", wide("tan"), ulps=4),
    Row("libdevice.asin(x)", wide("arcsin"), ulps=4),
    Row("libdevice.acos(x)", wide("arccos"), ulps=4),
    Row("libdevice.atan(x)", wide("arctan"), ulps=4),
    Row("libdevice.atan2(x, y)", lambda x, y, z: np.arctan2(x.astype("g"), y.astype("g")), ulps=4),
    Row("libdevice.asinh(x)", wide("arcsinh"), ulps=4),
    Row("libdevice.log1p(x)", wide("log1p"), ulps=3),
    Row("libdevice.expm1(x)", wide("expm1"), ulps=3),
    Row("libdevice.log10(x)", wide("log10"), ulps=3),
    Row("libdevice.exp10(x)", lambda x, y, z: np.power(np.longdouble(10), x.astype("g")), ulps=4),
    Row("libdevice.cbrt(x)", wide("cbrt"), ulps=2),
    Row("libdevice.hypot(x, y)", lambda x, y, z: np.hypot(x.astype("g"), y.astype("g")), ulps=3),
    Row(
        "libdevice.pow(tl.abs(x), y)", lambda x, y, z: np.power(np.abs(x.astype("g")), y.astype("g")), ulps=8
    ),
    Row("libdevice.fmod(x, y)", lambda x, y, z: np.fmod(x, y)),
    Row("libdevice.copysign(x, y)", lambda x, y, z: np.copysign(x, y)),
    Row("libdevice.trunc(x)", lambda x, y, z: np.trunc(x)),
    Row("libdevice.rint(x)", lambda x, y, z: np.rint(x)),
    Row("libdevice.round(x)", lambda x, y, z: np.copysign(np.floor(np.abs(x) + 0.5), x)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_libdevice(dtype):
    rng = np.random.default_rng(13)
    x = np.concatenate([rng.uniform(-1, 1, SIZE // 2), rng.uniform(-20, 20, SIZE // 2)])
    y = rng.uniform(-4, 4, SIZE)
    check_rows(LIBDEVICE_ROWS, dtype, {"x": x, "y": y, "z": x})
