"""The math functions against mpmath, against NumPy in higher precision, and at every special value."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vmath_cases import CASES, draw, worst
from vmath_reference import ulps

from tileprobe.errors import UnsupportedError
from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.vmath.harness import compile_map

KINDS = {"f32": np.float32, "f64": np.float64}
INF, NAN = np.inf, np.nan


@cache
def function(name: str, dtype: str, arguments: int = 1, lanes: int = 8, without: tuple[str, ...] = ()):
    kind = KINDS[dtype]
    emit = lambda b, a: vmath.call(b, name, a, dtype)
    return compile_map(emit, [kind] * arguments, kind, lanes, without)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_close_to_the_exact_value(name: str, dtype: str) -> None:
    case = CASES[name]
    args = draw(case, KINDS[dtype], 60, seed=17)
    got = function(name, dtype, case.arguments)(*args)
    distance, where = worst(case, got, args)
    assert distance <= getattr(case, dtype), f"{name}{where} is {distance:.3g} ulps off"


DENSE = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sinh", "cosh"]
DENSE += ["asin", "acos", "atan", "cbrt", "asinh"]


@pytest.mark.parametrize("name", DENSE)
def test_any_float_is_within_two_ulps_of_numpy_in_double(name: str) -> None:
    rng = np.random.default_rng(23)
    bits = rng.integers(0, 2**32, 150000, dtype=np.uint32).view(np.float32)
    near = rng.uniform(-3, 3, 100000).astype(np.float32)
    special = np.array([0, -0.0, INF, -INF, NAN, 1, -1, 1e-45, -1e-45], np.float32)
    with np.errstate(all="ignore"):
        x = np.concatenate([bits, near, special])
        exact = getattr(np, CASES[name].numpy)(x.astype(np.float64))
    distance = ulps(function(name, "f32")(x), exact)
    assert distance.max() <= 2, x[np.argmax(distance)]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    "name", ["exp", "exp2", "log", "log2", "log1p", "expm1", "sin", "cos", "tanh", "erf"]
)
def test_a_machine_without_fma_is_nearly_as_exact(name: str, dtype: str) -> None:
    args = draw(CASES[name], KINDS[dtype], 60, seed=19)
    got = function(name, dtype, without=("fma", "avx512f"))(*args)
    distance, where = worst(CASES[name], got, args)
    assert distance <= 3, where


# function -> (argument, result); zeros are compared with their sign
SPECIAL = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (1e6, INF), (-1e6, 0)],
    "exp2": [(0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (10, 1024), (-3, 0.125), (1e6, INF), (-1e6, 0)],
    "exp10": [(0, 1), (INF, INF), (-INF, 0), (NAN, NAN)],
    "expm1": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -1), (NAN, NAN)],
    "log": [(0, -INF), (-0.0, -INF), (1, 0), (INF, INF), (-1, NAN), (-INF, NAN), (NAN, NAN)],
    "log2": [(0, -INF), (1, 0), (8, 3), (INF, INF), (-1, NAN), (NAN, NAN)],
    "log10": [(0, -INF), (1, 0), (INF, INF), (-1, NAN), (NAN, NAN)],
    "log1p": [(0, 0), (-0.0, -0.0), (-1, -INF), (INF, INF), (-2, NAN), (-INF, NAN), (NAN, NAN)],
    "sin": [(0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan": [(0, 0), (-0.0, -0.0), (INF, NAN), (NAN, NAN)],
    "sinpi": [(0, 0), (-0.0, -0.0), (1, 0), (-1, -0.0), (0.5, 1), (1.5, -1), (INF, NAN), (NAN, NAN)],
    "cospi": [(0, 1), (1, -1), (0.5, 0), (1.5, 0), (2, 1), (1e20, 1), (INF, NAN), (NAN, NAN)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (50, 1), (-50, -1)],
    "sinh": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (1e4, INF)],
    "cosh": [(0, 1), (INF, INF), (-INF, INF), (NAN, NAN), (1e4, INF)],
    "asin": [(0, 0), (-0.0, -0.0), (1, np.pi / 2), (2, NAN), (NAN, NAN), (INF, NAN)],
    "acos": [(1, 0), (2, NAN), (-2, NAN), (NAN, NAN)],
    "atan": [(0, 0), (-0.0, -0.0), (INF, np.pi / 2), (-INF, -np.pi / 2), (NAN, NAN)],
    "asinh": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "acosh": [(1, 0), (0.5, NAN), (-5, NAN), (INF, INF), (NAN, NAN)],
    "atanh": [(0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN), (INF, NAN), (NAN, NAN)],
    "sqrt": [(0, 0), (-0.0, -0.0), (4, 2), (INF, INF), (-1, NAN), (NAN, NAN)],
    "rsqrt": [(0, INF), (-0.0, -INF), (4, 0.5), (INF, 0), (-1, NAN), (NAN, NAN)],
    "cbrt": [(0, 0), (-0.0, -0.0), (27, 3), (-8, -2), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "rcbrt": [(0, INF), (-0.0, -INF), (8, 0.5), (INF, 0), (NAN, NAN)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (30, 1)],
    "erfc": [(0, 1), (INF, 0), (-INF, 2), (NAN, NAN), (40, 0)],
    "erfcx": [(0, 1), (INF, 0), (-INF, INF), (-40, INF), (NAN, NAN)],
    "erfinv": [(0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-1.5, NAN), (NAN, NAN)],
    "erfcinv": [(0, INF), (1, 0), (2, -INF), (-0.5, NAN), (2.5, NAN), (NAN, NAN)],
    "normcdf": [(0, 0.5), (INF, 1), (-INF, 0), (NAN, NAN)],
    "normcdfinv": [(0, -INF), (1, INF), (-0.5, NAN), (1.5, NAN), (NAN, NAN)],
    "lgamma": [(1, 0), (2, 0), (INF, INF), (-INF, INF), (0, INF), (NAN, NAN)],
    "tgamma": [(1, 1), (5, 24), (INF, INF), (-INF, NAN), (0, INF), (-0.0, -INF), (NAN, NAN)],
    "cyl_bessel_i0": [(0, 1), (INF, INF), (-INF, INF), (NAN, NAN), (2e3, INF)],
    "cyl_bessel_i1": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "floor": [(-0.5, -1), (2.9, 2), (-0.0, -0.0), (INF, INF), (NAN, NAN)],
    "ceil": [(-0.5, -0.0), (2.1, 3), (0, 0), (-INF, -INF), (NAN, NAN)],
    "trunc": [(-0.5, -0.0), (2.9, 2), (-2.9, -2), (NAN, NAN)],
    "rint": [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, -0.0), (NAN, NAN)],
    "nearbyint": [(0.5, 0), (1.5, 2), (-2.5, -2)],
    "round": [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (0.49999997, 0), (NAN, NAN)],
    "abs": [(-0.0, 0), (-3, 3), (-INF, INF), (NAN, NAN)],
    "saturate": [(-1, 0), (0.25, 0.25), (2, 1), (NAN, 0), (INF, 1)],
    "logb": [(8, 3), (0.75, -1), (0, -INF), (-INF, INF), (NAN, NAN)],
    "sigmoid": [(0, 0.5), (INF, 1), (-INF, 0), (NAN, NAN)],
}


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, dtype: str) -> None:
    kind = KINDS[dtype]
    x = np.array([a for a, _ in SPECIAL[name]], kind)
    want = np.array([r for _, r in SPECIAL[name]], kind)
    same(function(name, dtype)(x), want)


def same(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


# (x, y, result)
POW = [(0, 0, 1), (NAN, 0, 1), (1, NAN, 1), (-1, INF, 1), (-1, -INF, 1), (2, INF, INF), (0.5, INF, 0)]
POW += [(-2, INF, INF), (2, -INF, 0), (0, -1, INF), (-0.0, -1, -INF), (-0.0, -2, INF), (-0.0, 3, -0.0)]
POW += [
    (-0.0, 2, 0),
    (-8, 3, -512),
    (-8, 2, 64),
    (-8, 0.5, NAN),
    (INF, 2, INF),
    (INF, -2, 0),
    (-INF, 3, -INF),
]
POW += [(-INF, -3, -0.0), (-INF, 2, INF), (NAN, 1, NAN), (2, NAN, NAN), (2, 10, 1024)]
POW += [(2, -149, 2.0**-149), (-INF, 0.5, INF), (1e30, 1e30, INF)]
ATAN2 = [(0, 1, 0), (-0.0, 1, -0.0), (0, -1, np.pi), (-0.0, -1, -np.pi), (0, 0, 0), (0, -0.0, np.pi)]
ATAN2 += [(-0.0, -0.0, -np.pi), (1, 0, np.pi / 2), (-1, 0, -np.pi / 2), (INF, INF, np.pi / 4)]
ATAN2 += [(INF, -INF, 3 * np.pi / 4), (1, INF, 0), (1, -INF, np.pi), (NAN, 1, NAN), (1, NAN, NAN)]
HYPOT = [(3, 4, 5), (INF, NAN, INF), (NAN, -INF, INF), (NAN, 1, NAN), (0, 0, 0)]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("name", "table"), [("pow", POW), ("atan2", ATAN2), ("hypot", HYPOT)])
def test_special_values_of_two_arguments(name: str, table: list, dtype: str) -> None:
    columns = [np.array(c, KINDS[dtype]) for c in zip(*table)]
    same(function(name, dtype, 2)(*columns[:2]), columns[2])


@pytest.mark.parametrize("dtype", KINDS)
def test_nextafter_fmod_and_copysign_are_numpys(dtype: str) -> None:
    rng = np.random.default_rng(2)
    kind = KINDS[dtype]
    bits = np.dtype(kind).itemsize * 8
    x, y = (rng.integers(0, 2**bits, 3000, dtype=f"uint{bits}").view(kind) for _ in range(2))
    special = np.array([0, -0.0, INF, -INF, NAN, 1, -1], kind)
    x, y = np.concatenate([x, np.repeat(special, 7)]), np.concatenate([y, np.tile(special, 7)])
    with np.errstate(all="ignore"):
        same(function("nextafter", dtype, 2)(x, y), np.nextafter(x, y))
        same(function("fmod", dtype, 2)(x, y), np.fmod(x, y))
        same(function("copysign", dtype, 2)(x, y), np.copysign(x, y))
        np.testing.assert_array_equal(function("maximum", dtype, 2)(x, y), np.maximum(x, y))
        np.testing.assert_array_equal(function("minnum", dtype, 2)(x, y), np.fmin(x, y))


@pytest.mark.parametrize("lanes", [0, 1, 2, 3, 4, 16, 64])
@pytest.mark.parametrize("name", ["exp", "sin", "log1p", "erf", "tgamma", "pow"])
def test_every_lane_count_gives_the_same_bits(name: str, lanes: int) -> None:
    arguments = CASES[name].arguments
    args = [np.linspace(0.1, 5, 192, dtype=np.float32)] * arguments
    np.testing.assert_array_equal(
        function(name, "f32", arguments, lanes)(*args), function(name, "f32", arguments)(*args)
    )


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(width=32), min_size=1, max_size=16))
def test_far_arguments_do_not_disturb_their_neighbours(values: list[float]) -> None:
    x = np.array(values, np.float32)
    alone = np.concatenate([function("sin", "f32")(x[i : i + 1]) for i in range(x.size)])
    np.testing.assert_array_equal(function("sin", "f32")(x), alone)


@settings(deadline=None, max_examples=200)
@given(st.floats(min_value=-80, max_value=80, width=32))
def test_log_undoes_exp(x: float) -> None:
    value = np.array([x], np.float32)
    back = function("log", "f32")(function("exp", "f32")(value))[0]
    assert abs(float(back) - float(value[0])) <= 2.0**-22 * max(1.0, abs(x))


def test_half_precision_is_computed_in_float() -> None:
    x = np.linspace(-5, 5, 1000, dtype=np.float16)
    got = compile_map(lambda b, a: vmath.call(b, "math.exp", a, "f16"), [np.float16], np.float16)(x)
    np.testing.assert_array_equal(got, np.exp(x.astype(np.float64)).astype(np.float16))


def test_an_unknown_function_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"math\.nonsense.*f32"):
        function("math.nonsense", "f32")
