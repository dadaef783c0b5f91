"""Conversions between all types, rounding modes, reinterpretation of bits, and the values that do not fit."""

import numpy as np
import pytest
from cpu_harness import FLOATS, INTS, UINTS, Buffer, codes, kernel, launch, mismatch, storage
from cpu_tables import Row, check_rows

NUMBERS = (*INTS, *UINTS, *FLOATS)
SMALL = ("float8e4nv", "float8e5")


def limits(dtype):
    if dtype in (*INTS, *UINTS):
        info = np.iinfo(dtype)
        return info.min, info.max
    largest = {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4e38, "float64": 1.7e308}[dtype]
    return -largest, largest


def cast_row(dst):
    low, high = limits(dst)
    to_int = dst in (*INTS, *UINTS)

    def want(x):
        if x.dtype.kind == "f" and to_int:
            return np.trunc(np.where((x > low - 1.0) & (x < high + 1.0), x, 0)).astype(dst)
        return x.astype(np.longdouble) if not to_int else x

    def inside(x):
        wide = x.astype(object)
        ok = np.array([(v == v) and low <= v <= high for v in wide])
        # Rounding up to the next power of two must not carry a float past the largest integer.
        return ok & np.array([abs(v) < 2.0**62 if x.dtype.kind == "f" and to_int else True for v in wide])

    # An integer may be rounded twice on its way to a 16-bit float.
    ulps = 0.51 if dst in ("float16", "bfloat16") else 0
    return Row(f"x.to(tl.{dst})", want, dst, ulps, inside)


def samples(src):
    rng = np.random.default_rng(1)
    if src in (*INTS, *UINTS):
        info = np.iinfo(src)
        edge = np.array([0, 1, info.max, info.min, info.max // 2 + 1, 100], dtype=src)
        return np.concatenate([edge, rng.integers(info.min, info.max, 250, dtype=src, endpoint=True)])
    scale = np.exp2(rng.integers(-10, 14, 248))
    return np.concatenate(
        [rng.standard_normal(248) * scale, [0.0, -0.0, 0.5, 1.5, -0.5, 127.0, 255.0, -128.0]]
    )


@pytest.mark.parametrize("src", NUMBERS)
def test_every_pair(src):
    check_rows(
        [*map(cast_row, NUMBERS), Row("x.to(tl.int1)", lambda x: x != 0, "int1")], src, {"x": samples(src)}
    )


def test_from_bool():
    x = np.arange(128) % 3 == 0
    check_rows([Row(f"x.to(tl.{d})", lambda x: x.astype(int), d) for d in NUMBERS], "int1", {"x": x})


@pytest.mark.parametrize("src", ["float16", "bfloat16", *SMALL])
def test_widening_keeps_every_code(src):
    values = codes(src)
    rows = [
        Row(f"x.to(tl.{d})", lambda x: x, d)
        for d in ("float32", *(["float16", "bfloat16"] if src in SMALL else []))
    ]
    buffer = Buffer(values, src)
    buffer.bits = (
        np.arange(len(values)).astype(storage(src)) if src != "float16" else values.astype(np.float16)
    )
    check_rows(rows, src, {"x": buffer.values})


def halfway(dst):
    """Numbers of `dst`, the midpoints between neighbours, and what lies a little to either side."""
    values = np.unique(codes(dst)[np.isfinite(codes(dst))])
    if len(values) > 4000:
        values = values[:: len(values) // 1500]
    middle = (values[1:] + values[:-1]) / 2
    return np.concatenate([values, middle, middle * (1 + 2.0**-20), middle * (1 - 2.0**-20)])


@pytest.mark.parametrize("dst", ["float16", "bfloat16", *SMALL])
def test_narrowing_rounds_to_nearest_even(dst):
    x = halfway(dst)
    if dst not in SMALL:
        x = np.concatenate([x, [np.inf, -np.inf, np.nan, 1e-45, -1e-45, 70000.0, 3.4e38, -3.4e38]])
    x = np.resize(x, (len(x) + 127) // 128 * 128).astype(np.float32)
    check_rows([Row(f"x.to(tl.{dst})", lambda x: x, dst)], "float32", {"x": x})


@pytest.mark.parametrize("dst", ["float16", "bfloat16"])
def test_narrowing_towards_zero(dst):
    x = halfway(dst)
    x = np.resize(x, (len(x) + 127) // 128 * 128).astype(np.float32)
    ordered = np.unique(codes(dst)[np.isfinite(codes(dst)) & (codes(dst) >= 0)])

    def want(x):
        return np.copysign(ordered[np.searchsorted(ordered, np.abs(x), side="right") - 1], x)

    check_rows([Row(f"x.to(tl.{dst}, fp_downcast_rounding='rtz')", want, dst)], "float32", {"x": x})


@pytest.mark.parametrize(
    ("src", "dst"),
    [
        ("float32", "int32"),
        ("float16", "int16"),
        ("float64", "int64"),
        ("bfloat16", "uint16"),
        ("float32", "uint32"),
    ],
)
def test_bits(src, dst):
    fn = kernel(
        "@triton.jit\n"
        "def kernel(X, OUT, BACK, N: tl.constexpr):\n"
        "    i = tl.arange(0, N)\n"
        f"    bits = tl.load(X + i).to(tl.{dst}, bitcast=True)\n"
        "    tl.store(OUT + i, bits)\n"
        f"    tl.store(BACK + i, tl.cast(bits, tl.{src}, bitcast=True))\n"
    )
    x = Buffer(np.concatenate([np.linspace(-9, 9, 60), [np.inf, -np.inf, np.nan, -0.0]]), src)
    out, back = Buffer.full(64, dst), Buffer.full(64, src)
    launch(fn, 1, x, out, back, N=64)
    assert (out.bits == x.bits.view(storage(dst))).all()
    assert mismatch(back.values, x.values, src) is None
