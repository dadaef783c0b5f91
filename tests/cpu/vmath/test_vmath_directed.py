"""Directed rounding against exact rational arithmetic, and the arithmetic of the small floats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vmath_reference import SMALL, bits_of, decode, encode

from tileprobe.errors import UnsupportedError
from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.vmath.harness import compile_map

MODES = ["rn", "rz", "ru", "rd"]
KINDS = {"f": np.float32, "d": np.float64}
INTEGERS = [("int", "int32"), ("uint", "uint32"), ("ll", "int64"), ("ull", "uint64")]


def run(symbol: str, result: type, *args: np.ndarray, lanes: int = 4) -> np.ndarray:
    return compile_map(lambda b, a: vmath.extern(b, symbol, a), [a.dtype for a in args], result, lanes)(*args)


def rounded(exact: Fraction, kind: type, mode: str) -> float:
    """The float of a kind next to a nonzero rational in a rounding mode."""
    info = np.finfo(kind)
    largest = Fraction(float(info.max))
    digits, least = info.nmant, int(info.minexp) - info.nmant
    size = abs(exact)
    exponent = max(_floor_log2(size) - digits, least)
    unit = Fraction(2) ** exponent
    down = size // unit * unit
    away = (mode == "ru" and exact > 0) or (mode == "rd" and exact < 0)
    if mode == "rn":
        rest = size - down
        up = rest > unit / 2 or (rest == unit / 2 and (down // unit) % 2 == 1)
    else:
        up = away and down != size
    value = down + unit if up else down
    if value > largest:
        out = math.inf if mode == "rn" or away else float(largest)
    else:
        out = float(value)
    return out if exact > 0 else -out


def _floor_log2(x: Fraction) -> int:
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def samples(kind: type, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spread = 30 if kind is np.float32 else 300
    x = rng.uniform(-2, 2, count) * 10.0 ** rng.uniform(-spread, spread, count)
    plain = rng.integers(-8, 9, count) / 4
    return np.where(rng.random(count) < 0.6, x, plain).astype(kind)


EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y if y else None,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("prefix", KINDS)
@pytest.mark.parametrize("op", EXACT)
def test_binary_operations(op: str, prefix: str, mode: str) -> None:
    kind = KINDS[prefix]
    x, y = samples(kind, 400, 1), samples(kind, 400, 2)
    near = (y[:100] * (1 + np.finfo(kind).eps)).astype(kind)  # cancellation
    x, y = np.concatenate([x, near]), np.concatenate([y, -y[:100]])
    got = run(f"__nv_{prefix}{op}_{mode}", kind, x, y)
    for a, b, g in zip(x, y, got):
        exact = EXACT[op](Fraction(float(a)), Fraction(float(b)))
        if exact:
            assert float(g) == rounded(exact, kind, mode), (a, b)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS.values())
def test_fma(kind: type, mode: str) -> None:
    x, y, z = (samples(kind, 500, s) for s in (3, 4, 5))
    with np.errstate(over="ignore", under="ignore"):
        close = (-x * y * kind(1 + 1e-6)).astype(kind)
    z = np.where(np.arange(500) % 2 == 0, np.where(np.isfinite(close), close, z), z)
    suffix = "f" if kind is np.float32 else ""
    got = run(f"__nv_fma{suffix}_{mode}", kind, x, y, z)
    floor = np.finfo(kind).tiny * 2.0 ** (60 if kind is np.float64 else 0)
    for a, b, c, g in zip(x, y, z, got):
        product = Fraction(float(a)) * Fraction(float(b))
        exact = product + Fraction(float(c))
        if not exact or (kind is np.float64 and not floor < abs(product) < Fraction(1e308)):
            continue  # in double the product's error must not underflow
        assert float(g) == rounded(exact, kind, mode), (a, b, c)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("prefix", KINDS)
def test_roots_and_reciprocals(prefix: str, mode: str) -> None:
    kind = KINDS[prefix]
    x = np.abs(samples(kind, 400, 6))
    x = x[x > 0]
    got = run(f"__nv_{prefix}rcp_{mode}", kind, x)
    assert [float(g) for g in got] == [rounded(1 / Fraction(float(a)), kind, mode) for a in x]
    root = run(f"__nv_{prefix}sqrt_{mode}", kind, x)
    for a, g in zip(x, root):
        exact, low = Fraction(float(a)), Fraction(float(g)) ** 2
        next_up = Fraction(float(np.nextafter(g, kind(np.inf)))) ** 2
        next_down = Fraction(float(np.nextafter(g, kind(0)))) ** 2
        if mode in ("rz", "rd"):
            assert low <= exact < next_up
        elif mode == "ru":
            assert next_down < exact <= low


@pytest.mark.parametrize("prefix", KINDS)
def test_overflow_and_zero_follow_the_direction(prefix: str) -> None:
    kind = KINDS[prefix]
    top = np.finfo(kind).max
    big = np.array([top, -top], kind)
    for op, args in (("add", (big, big)), ("mul", (big, np.abs(big)))):
        assert list(run(f"__nv_{prefix}{op}_rz", kind, *args)) == [top, -top]
        assert list(run(f"__nv_{prefix}{op}_ru", kind, *args)) == [np.inf, -top]
        assert list(run(f"__nv_{prefix}{op}_rd", kind, *args)) == [top, -np.inf]
    x = np.array([1, 0, 0, -0.0], kind)
    y = np.array([-1, 0, -0.0, -0.0], kind)
    assert list(np.signbit(run(f"__nv_{prefix}add_rd", kind, x, y))) == [True, False, True, True]
    assert list(np.signbit(run(f"__nv_{prefix}add_ru", kind, x, y))) == [False, False, False, True]
    nan = np.array([np.inf, np.nan, -np.inf], kind)
    for mode in MODES:
        got = run(f"__nv_{prefix}add_{mode}", kind, nan, np.ones(3, kind))
        np.testing.assert_array_equal(got, nan)


WHOLE = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("target", "low", "high"), [
    ("int", -(2**31), 2**31 - 1), ("uint", 0, 2**32 - 1), ("ll", -(2**63), 2**63 - 1), ("ull", 0, 2**64 - 1),
])  # fmt: skip
@pytest.mark.parametrize(("source", "kind"), [("float", np.float32), ("double", np.float64)])
def test_float_to_integer(source: str, kind: type, target: str, low: int, high: int, mode: str) -> None:
    rng = np.random.default_rng(8)
    x = (rng.uniform(-1, 1, 300) * 2.0 ** rng.integers(-2, 66, 300)).astype(kind)
    x = np.concatenate([x, np.array([0.5, 1.5, 2.5, -0.5, -1.5, np.inf, -np.inf, np.nan], kind)])
    signed = np.int32 if "int" in target else np.int64
    got = run(f"__nv_{source}2{target}_{mode}", signed, x)
    got = got if low else got.view(f"uint{got.dtype.itemsize * 8}")
    want = [0 if np.isnan(v) else int(min(max(float(WHOLE[mode](v)), low), high)) for v in x]
    assert [int(g) for g in got] == want


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("source", "dtype"), [("int", "int32"), ("uint", "uint32"), ("ll", "int64"), ("ull", "uint64")]
)
@pytest.mark.parametrize(("target", "kind"), [("float", np.float32), ("double", np.float64)])
def test_integer_to_float(target: str, kind: type, source: str, dtype: str, mode: str) -> None:
    if target == "double" and "int" in source and mode != "rn":
        pytest.skip("exact: libdevice has only the _rn form")
    rng = np.random.default_rng(9)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 400, dtype=dtype, endpoint=True)
    x = x >> rng.integers(0, info.bits, 400).astype(dtype)
    x = np.concatenate([x, np.array([1, 0, info.max, info.min, 2**24 + 1, 2**25 + 3], dtype)])
    got = run(f"__nv_{source}2{target}_{mode}", kind, x.view(f"int{info.bits}"))
    for v, g in zip(x, got):
        assert float(g) == (rounded(Fraction(int(v)), kind, mode) if v else 0.0), v


@pytest.mark.parametrize("mode", MODES)
def test_double_to_float(mode: str) -> None:
    x = np.concatenate([samples(np.float64, 300, 10) * 1e-100, samples(np.float64, 300, 11)])
    x = x[(x != 0)]
    got = run(f"__nv_double2float_{mode}", np.float32, x)
    assert [float(g) for g in got] == [rounded(Fraction(float(v)), np.float32, mode) for v in x]


# ---- f16, bf16, fp8
def storage(dtype: str) -> np.dtype:
    return np.dtype(np.float16) if dtype == "f16" else np.dtype(f"uint{bits_of(dtype)}")


def small(dtype: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random codes of a format as it is stored, and their values."""
    codes = (
        np.random.default_rng(seed).integers(0, 1 << bits_of(dtype), count).astype(f"uint{bits_of(dtype)}")
    )
    return codes.view(storage(dtype)), decode(codes.astype(np.int64), dtype)


def apply(op: str, dtype: str, *args: np.ndarray, result=None) -> np.ndarray:
    emit = lambda b, a: vmath.arith(b, op, dtype, a)
    return compile_map(emit, [a.dtype for a in args], result or args[0].dtype)(*args)


def assert_codes(got: np.ndarray, exact: np.ndarray, dtype: str) -> None:
    want = encode(exact, dtype, "rtne", dtype.startswith("f8"))
    codes = got.view(f"uint{bits_of(dtype)}").astype(np.int64)
    number = want >= 0
    np.testing.assert_array_equal(codes[number], want[number])
    if dtype != "f8E4M3B15":
        assert np.isnan(decode(codes[~number], dtype)).all()


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_small_float_arithmetic_rounds_once(dtype: str, op: str) -> None:
    (x, a), (y, b) = small(dtype, 40000, 1), small(dtype, 40000, 2)
    with np.errstate(all="ignore"):
        # in longdouble the sum of two small floats is exact or far from a tie
        wide = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op](
            a.astype(np.longdouble), b.astype(np.longdouble)
        ).astype(np.float64)
    assert_codes(apply(op, dtype, x, y), wide, dtype)


@pytest.mark.parametrize("dtype", ["f16", "f8E4M3FN", "f8E5M2"])
def test_small_fma_rounds_once(dtype: str) -> None:
    (x, a), (y, b), (z, c) = (small(dtype, 20000, s) for s in (3, 4, 5))
    with np.errstate(all="ignore"):
        exact = a * b + c
    inside = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (exact != 0)
    for i in np.flatnonzero(inside):
        exact[i] = _odd(Fraction(a[i]) * Fraction(b[i]) + Fraction(c[i]))
    assert_codes(apply("fma", dtype, x, y, z), exact, dtype)


def _odd(v: Fraction) -> float:
    """A rational as float64, its last bit odd if it is not exact."""
    near = float(v)
    if Fraction(near) == v:
        return near
    down = rounded(v, np.float64, "rz")
    return float((np.array([down]).view(np.int64) | 1).view(np.float64)[0])


@pytest.mark.parametrize("dtype", SMALL)
def test_signs_and_comparisons(dtype: str) -> None:
    x, a = small(dtype, 5000, 6)
    y, b = small(dtype, 5000, 7)
    bits = f"uint{bits_of(dtype)}"
    number = ~np.isnan(a)
    negated = apply("negf", dtype, x).view(bits).astype(np.int64)
    np.testing.assert_array_equal(decode(negated, dtype)[number], -a[number])
    np.testing.assert_array_equal(
        decode(apply("absf", dtype, x).view(bits).astype(np.int64), dtype)[number], np.abs(a[number])
    )
    assert np.isnan(decode(negated, dtype)[~number]).all()
    np.testing.assert_array_equal(apply("cmp:olt", dtype, x, y, result=np.uint8), a < b)
    np.testing.assert_array_equal(apply("arith.cmp:une", dtype, x, y, result=np.uint8), a != b)
    np.testing.assert_array_equal(apply("cmp:uno", dtype, x, y, result=np.uint8), np.isnan(a) | np.isnan(b))


def test_negating_a_zero_or_nan_flips_only_the_sign() -> None:
    x = np.array([0, 0x8000, 0x7E01, 0xFE01], np.uint16)
    got = apply("neg", "f16", x.view(np.float16)).view(np.uint16)
    assert list(got) == [0x8000, 0, 0xFE01, 0x7E01]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_min_and_max_and_nan(dtype: str) -> None:
    (x, a), (y, b) = small(dtype, 5000, 8), small(dtype, 5000, 9)
    for op, f in (
        ("maximumf", np.maximum),
        ("minimumf", np.minimum),
        ("maxnumf", np.fmax),
        ("minnumf", np.fmin),
    ):
        got = decode(apply(op, dtype, x, y).view(np.uint16).astype(np.int64), dtype)
        np.testing.assert_array_equal(got, f(a, b))


def test_maximum_orders_zeros() -> None:
    x, y = np.array([0.0, -0.0], np.float32), np.array([-0.0, 0.0], np.float32)
    assert not np.signbit(apply("maximum", "f32", x, y)).any()
    assert np.signbit(apply("minimum", "f32", x, y)).all()


def test_unknown_operations_are_named() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(UnsupportedError, match="frobnicate"):
        apply("frobnicate", "f32", x)
    with pytest.raises(UnsupportedError, match="oops"):
        apply("cmp:oops", "f32", x, x, result=np.uint8)


@settings(deadline=None, max_examples=100)
@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
def test_down_and_up_bracket_the_sum(x: float, y: float) -> None:
    a, b = np.array([x], np.float32), np.array([y], np.float32)
    low, high = (_adders()[m](a, b)[0] for m in ("rd", "ru"))
    if math.isinf(x) or math.isinf(y):
        return
    exact = Fraction(x) + Fraction(y)
    assert low == -np.inf or Fraction(float(low)) <= exact
    assert high == np.inf or exact <= Fraction(float(high))
    with np.errstate(over="ignore"):
        assert high == low or np.nextafter(low, np.float32(np.inf)) == high


_compiled: dict = {}


def _adders() -> dict:
    for mode in ("rd", "ru"):
        if mode not in _compiled:
            emit = lambda b, a, m=mode: vmath.extern(b, f"__nv_fadd_{m}", a)
            _compiled[mode] = compile_map(emit, [np.float32] * 2, np.float32)
    return _compiled
