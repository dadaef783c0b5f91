"""Conversions between element types: exhaustive for the small formats, edges and samples elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from vmath_reference import FNUZ, SMALL, bits_of, decode, encode, magnitudes

from tileprobe.errors import UnsupportedError
from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.vmath import half
from tileprobe.targets.cpu.vmath.harness import compile_map

FLOAT8 = [d for d in SMALL if d.startswith("f8")]
WIDE = {"f32": np.float32, "f64": np.float64}


def storage(dtype: str) -> np.dtype:
    if dtype in WIDE:
        return np.dtype(WIDE[dtype])
    if dtype == "f16":
        return np.dtype(np.float16)
    if dtype in SMALL:
        return np.dtype(f"uint{bits_of(dtype)}")
    return np.dtype(np.uint8) if dtype == "i1" else np.dtype(f"int{dtype[1:]}")


def converter(src: str, dst: str, lanes: int = 8, **options):
    def emit(builder, args):
        return vmath.convert(builder, args[0], src, dst, **options)

    return compile_map(emit, [storage(src)], storage(dst), lanes)


def codes(dtype: str) -> np.ndarray:
    return np.arange(1 << bits_of(dtype)).astype(f"uint{bits_of(dtype)}")


def as_storage(code: np.ndarray, dtype: str) -> np.ndarray:
    return code.view(np.float16) if dtype == "f16" else code


def check_codes(got: np.ndarray, want: np.ndarray, dtype: str) -> None:
    got = got.view(f"uint{bits_of(dtype)}").astype(np.int64)
    nan = want < 0
    if dtype == "f8E4M3B15":  # no NaN in this format
        np.testing.assert_array_equal(got[nan] & 0x7F, 0x7E)
    else:
        assert np.isnan(decode(got[nan], dtype)).all()
    np.testing.assert_array_equal(got[~nan], want[~nan])


def edges(dtype: str, kind: type) -> np.ndarray:
    """Every value of a small format, every midpoint, and the neighbours of both, as wide floats."""
    finite = decode(codes(dtype).astype(np.int64), dtype)
    finite = np.unique(finite[np.isfinite(finite)])
    points = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2]).astype(kind)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 3e38], kind)
    with np.errstate(over="ignore"):
        near = [np.nextafter(points, kind(s)) for s in (np.inf, -np.inf)]
        beyond = np.array([1.01, 1.05, 1.5], kind) * kind(finite[-1])
    return np.concatenate([points, *near, beyond, -beyond, special])


@pytest.mark.parametrize("hardware", [True, False])
@pytest.mark.parametrize("dst", ["f32", "f64"])
@pytest.mark.parametrize("src", SMALL)
def test_small_to_wide_is_exact(src: str, dst: str, hardware: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hardware:
        monkeypatch.setattr(half, "_half_in_hardware", False)
    every = codes(src)
    got = converter(src, dst)(as_storage(every, src))
    want = decode(every.astype(np.int64), src).astype(WIDE[dst])
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
@pytest.mark.parametrize("src", ["f32", "f64"])
@pytest.mark.parametrize("dst", SMALL)
def test_wide_to_small_rounds_once(src: str, dst: str, rounding: str) -> None:
    rng = np.random.default_rng(7)
    bits = np.dtype(WIDE[src]).itemsize * 8
    noise = rng.integers(0, 2**bits, 20000, dtype=f"uint{bits}").view(WIDE[src])
    around = rng.uniform(-1, 1, 20000) * 2.0 ** rng.integers(-30, 20, 20000)
    x = np.concatenate([edges(dst, WIDE[src]), noise, around.astype(WIDE[src])])
    with np.errstate(invalid="ignore"):
        exact = x.astype(np.float64)
    check_codes(converter(src, dst, rounding=rounding)(x), encode(exact, dst, rounding, dst in FLOAT8), dst)


@pytest.mark.parametrize("dst", SMALL)
@pytest.mark.parametrize("src", ["f16", "bf16", "f8E4M3FN"])
def test_small_to_small(src: str, dst: str) -> None:
    every = codes(src)
    want = encode(decode(every.astype(np.int64), src), dst, "rtne", dst in FLOAT8)
    got = converter(src, dst)(as_storage(every, src))
    if src == dst:
        np.testing.assert_array_equal(got.view(every.dtype), every)
    else:
        check_codes(got, want, dst)


@pytest.mark.parametrize("dst", ["f16", "bf16"])
def test_saturate_stops_at_the_largest_finite_number(dst: str) -> None:
    x = np.array([1e38, 3.4e38, -3.4e38, np.inf, -np.inf, 1.0, np.nan], np.float32)
    want = encode(x.astype(np.float64), dst, "rtne", True)
    check_codes(converter("f32", dst, saturate=True)(x), want, dst)


@pytest.mark.parametrize("dtype", ["f8E4M3FN", "f8E5M2", *FNUZ])
def test_fp8_saturates_infinity_but_keeps_nan(dtype: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    got = decode(converter("f32", dtype)(x).astype(np.int64), dtype)
    largest = magnitudes(dtype)[-1]
    np.testing.assert_array_equal(got, [largest, -largest, np.nan])


def test_f64_to_f32_toward_zero() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2**64, 50000, dtype=np.uint64).view(np.float64)
    x = np.concatenate([x, rng.standard_normal(50000), [1e-46, -1e-46, 1e39, -1e39, np.inf, np.nan, -0.0]])
    got = converter("f64", "f32", rounding="rtz")(x).astype(np.float64)
    inside = np.abs(x) <= np.finfo(np.float32).max
    assert (np.abs(got[inside]) <= np.abs(x[inside])).all()
    with np.errstate(over="ignore"):
        away = np.copysign(np.inf, x[inside]).astype(np.float32)
        onward = np.nextafter(got[inside].astype(np.float32), away)
    assert (np.abs(onward.astype(np.float64)) > np.abs(x[inside])).all()
    outside = np.isfinite(x) & ~inside
    np.testing.assert_array_equal(np.abs(got[outside]), float(np.finfo(np.float32).max))
    np.testing.assert_array_equal(np.signbit(got[-1]), True)
    assert np.isposinf(got[-3])
    assert np.isnan(got[-2])


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("dst", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("src", ["f16", "bf16", "f32", "f64", "f8E5M2"])
def test_float_to_int_truncates_and_saturates(src: str, dst: str, signed: bool) -> None:
    if src in SMALL:
        x = as_storage(codes(src), src)
        value = decode(codes(src).astype(np.int64), src)
    else:
        rng = np.random.default_rng(5)
        x = (rng.uniform(-1, 1, 4000) * 2.0 ** rng.integers(-3, 70, 4000)).astype(WIDE[src])
        special = [np.nan, np.inf, -np.inf, -0.0, 2.0**31, 2.0**63, -(2.0**63), 0.99, -0.99]
        x = np.concatenate([x, np.array(special, x.dtype)])
        value = x.astype(np.float64)
    got = converter(src, dst, signed=signed)(x)
    width = int(dst[1:])
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    want = [0 if np.isnan(v) else int(min(max(low, float(v)), high)) for v in value]
    got = got if signed else got.view(f"uint{width}")
    assert [int(g) for g in got] == want


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
@pytest.mark.parametrize("dst", [*SMALL, "f32", "f64"])
@pytest.mark.parametrize("src", ["i8", "i16", "i32", "i64"])
def test_int_to_float_rounds_once(src: str, dst: str, rounding: str, signed: bool) -> None:
    width = int(src[1:])
    rng = np.random.default_rng(11)
    x = rng.integers(-(1 << (width - 1)), 1 << (width - 1), 3000, dtype=f"int{width}")
    shifted = x >> rng.integers(0, width, 3000).astype(x.dtype)
    special = (0, 1, -1, 2049, 65504, 65519, 65520, 65536, 16777217, 33554435)
    special = [v for v in special if v < 1 << (width - 1)]
    special += [(1 << (width - 1)) - 1, -(1 << (width - 1))]
    x = np.concatenate([x, shifted, np.array(special, x.dtype)])
    got = converter(src, dst, rounding=rounding, signed=signed)(x)
    values = x if signed else x.view(f"uint{width}")
    if dst in SMALL:
        exact = np.array([_sticky(int(v)) for v in values])
        check_codes(got, encode(exact, dst, rounding, dst in FLOAT8), dst)
    else:
        assert [float(g) for g in got] == [_round_integer(int(v), dst, rounding) for v in values]


def _sticky(v: int) -> float:
    """An integer as float64 with the lost bits folded into one that is kept."""
    if abs(v) < 1 << 53:
        return float(v)
    kept = abs(v) & ~0x7FF | (0x800 if abs(v) & 0x7FF else 0)
    return float(kept if v > 0 else -kept)


def _round_integer(v: int, dst: str, rounding: str) -> float:
    digits = 24 if dst == "f32" else 53
    a = abs(v)
    drop = max(0, a.bit_length() - digits)
    kept, lost = a >> drop, a & ((1 << drop) - 1)
    half = 1 << (drop - 1) if drop else 0
    if rounding == "rtne" and drop and (lost > half or (lost == half and kept & 1)):
        kept += 1
    return float(kept << drop) * (1 if v >= 0 else -1)


def test_int_to_int_follows_the_sign() -> None:
    x = np.array([-128, -1, 0, 127], np.int8)
    np.testing.assert_array_equal(converter("i8", "i32")(x), [-128, -1, 0, 127])
    np.testing.assert_array_equal(converter("i8", "i32", signed=False)(x), [128, 255, 0, 127])
    np.testing.assert_array_equal(converter("i32", "i8")(np.array([300, -129], np.int32)), [44, 127])


def test_a_bool_is_read_as_it_is_signed() -> None:
    x = np.array([-1.0, 0.0, 2.0], np.float32)

    def emit(builder, args, **options):
        return vmath.convert(builder, vmath.convert(builder, args[0], "f32", "i1"), "i1", "i32", **options)

    signed = compile_map(lambda b, a: emit(b, a, signed=True), [np.float32], np.int32)(x)
    np.testing.assert_array_equal(signed, [-1, 0, -1])
    unsigned = compile_map(lambda b, a: emit(b, a, signed=False), [np.float32], np.int32)(x)
    np.testing.assert_array_equal(unsigned, [1, 0, 1])


def test_float_to_bool_is_not_zero() -> None:
    got = converter("f32", "i1")(np.array([0, -0.0, 1e-45, np.nan, -2, np.inf], np.float32))
    np.testing.assert_array_equal(got, [0, 0, 1, 1, 1, 1])


@pytest.mark.parametrize("lanes", [0, 1, 3, 4, 16, 32])
@pytest.mark.parametrize("dst", ["f16", "bf16", "f8E4M3FN"])
def test_any_lane_count(dst: str, lanes: int) -> None:
    x = np.random.default_rng(1).standard_normal(96).astype(np.float32) * 10
    check_codes(converter("f32", dst, lanes=lanes)(x), encode(x.astype(np.float64), dst, "rtne", False), dst)


def test_half_without_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half, "_half_in_hardware", False)
    x = edges("f16", np.float32)
    check_codes(converter("f32", "f16")(x), encode(x.astype(np.float64), "f16", "rtne", False), "f16")


def test_unknown_rounding_and_type_are_named() -> None:
    with pytest.raises(UnsupportedError, match="up"):
        converter("f32", "f16", rounding="up")
    with pytest.raises(UnsupportedError, match="f7"):
        compile_map(lambda b, a: vmath.convert(b, a[0], "f32", "f7"), [np.float32], np.float32)
