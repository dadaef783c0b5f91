"""What each function should compute and where to try it: read by the accuracy tests and the benchmark.

A case names the function, its exact value in mpmath, the ranges its arguments are drawn from, and how far off
(in ulps) the result may be in f32 and f64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np


@dataclass(frozen=True)
class Case:
    exact: Callable
    ranges: tuple[tuple[float, float], ...]  # uniform draws; (0, 0) means any bit pattern
    f32: float = 2.0
    f64: float = 2.0
    arguments: int = 1
    numpy: str = ""  # NumPy's function of the same name, where it has one
    second: tuple[float, float] | None = None  # the second argument's range, where it differs


ANY = (0.0, 0.0)
UNIT, SMALL, WIDE = (-1.0, 1.0), (-10.0, 10.0), (-800.0, 800.0)
POSITIVE = (0.0, 10.0)
_ROOT2 = mp.sqrt(2)


def _erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


def _erfcinv(y):
    """Newton on log erfc, from the tail's asymptote; mpmath's erfinv cannot reach the tail."""
    if y > 1:
        return -_erfcinv(2 - y)
    if y > 0.1:
        return mp.erfinv(1 - y)
    w = -mp.log(y * (2 - y))
    return mp.findroot(lambda v: mp.log(mp.erfc(v)) - mp.log(y), mp.sqrt(w - mp.log(w) / 2))


def _root3(x):
    return mp.sign(x) * mp.cbrt(abs(x))


CASES: dict[str, Case] = {
    "exp": Case(mp.exp, (UNIT, SMALL, (-100, 90), WIDE), numpy="exp"),
    "exp2": Case(lambda x: mp.mpf(2) ** x, (UNIT, SMALL, (-150, 130), WIDE), numpy="exp2"),
    "exp10": Case(lambda x: mp.mpf(10) ** x, (UNIT, SMALL, (-46, 39), WIDE)),
    "expm1": Case(mp.expm1, (UNIT, SMALL, (-1e-3, 1e-3), (-20, 90)), numpy="expm1"),
    "log": Case(mp.log, ((0.5, 2), POSITIVE, (0, 1e6), ANY), numpy="log"),
    "log2": Case(lambda x: mp.log(x, 2), ((0.5, 2), POSITIVE, (0, 1e6), ANY), numpy="log2"),
    "log10": Case(mp.log10, ((0.5, 2), POSITIVE, (0, 1e6), ANY), numpy="log10"),
    "log1p": Case(mp.log1p, ((-0.9, 1), (-1e-3, 1e-3), POSITIVE, ANY), numpy="log1p"),
    "sin": Case(mp.sin, (UNIT, SMALL, WIDE, (-1e6, 1e6), ANY), numpy="sin"),
    "cos": Case(mp.cos, (UNIT, SMALL, WIDE, (-1e6, 1e6), ANY), numpy="cos"),
    "tan": Case(mp.tan, (UNIT, SMALL, WIDE, (-1e6, 1e6), ANY), numpy="tan"),
    "sinpi": Case(mp.sinpi, (UNIT, SMALL, WIDE), 2, 2.5),
    "cospi": Case(mp.cospi, (UNIT, SMALL, WIDE), 2, 2.5),
    "tanh": Case(mp.tanh, (UNIT, SMALL, (-1e-3, 1e-3), ANY), 2, 3, numpy="tanh"),
    "sinh": Case(mp.sinh, (UNIT, SMALL, (-90, 90)), 2, 2.5, numpy="sinh"),
    "cosh": Case(mp.cosh, (UNIT, SMALL, (-90, 90)), numpy="cosh"),
    "asin": Case(mp.asin, (UNIT, (-1e-3, 1e-3)), numpy="arcsin"),
    "acos": Case(mp.acos, (UNIT, (-1e-3, 1e-3)), numpy="arccos"),
    "atan": Case(mp.atan, (UNIT, SMALL, ANY), numpy="arctan"),
    "asinh": Case(mp.asinh, (UNIT, SMALL, ANY), numpy="arcsinh"),
    "acosh": Case(mp.acosh, ((1, 2), (1, 1e6)), numpy="arccosh"),
    "atanh": Case(mp.atanh, (UNIT, (-1e-3, 1e-3)), numpy="arctanh"),
    "sqrt": Case(mp.sqrt, (POSITIVE, (0, 1e30)), 0.5001, 0.5001, numpy="sqrt"),
    "rsqrt": Case(lambda x: 1 / mp.sqrt(x), (POSITIVE, (0, 1e30)), 1.5, 1.5),
    "cbrt": Case(_root3, (UNIT, SMALL, (-3e-308, 3e-308), ANY), 1, 1, numpy="cbrt"),
    "rcbrt": Case(lambda x: 1 / _root3(x), (UNIT, SMALL, ANY), 1, 2),
    "erf": Case(mp.erf, (UNIT, (-6, 6), (-1e-3, 1e-3))),
    "erfc": Case(mp.erfc, (UNIT, (-6, 10)), 1, 5),
    "erfcx": Case(_erfcx, ((-5, 5), (0, 100), (0, 1e30)), 1, 4),
    "erfinv": Case(mp.erfinv, (UNIT, (0.99, 1), (-1e-3, 1e-3)), 1, 4),
    "erfcinv": Case(_erfcinv, ((0, 2), (0, 1e-3), (0, 1e-30)), 1, 4),
    "normcdf": Case(mp.ncdf, ((-5, 5), (-14, 0)), 1, 5),
    "normcdfinv": Case(lambda p: -_ROOT2 * _erfcinv(2 * p), ((0, 1), (0, 1e-3), (0, 1e-30)), 1, 4),
    "lgamma": Case(lambda x: mp.log(abs(mp.gamma(x))), ((2.5, 30), (0.1, 0.9), (30, 1e6)), 4, 4),
    "tgamma": Case(mp.gamma, ((0.1, 30), (-5, 0)), 8, 10),
    "j0": Case(lambda x: mp.besselj(0, x), ((0, 50),), 2, 1e4),  # near its zeros libm's are absolute
    "j1": Case(lambda x: mp.besselj(1, x), ((0, 50),), 2, 1e4),
    "y0": Case(lambda x: mp.bessely(0, x), ((0.1, 50),), 2, 1e4),
    "y1": Case(lambda x: mp.bessely(1, x), ((0.1, 50),), 2, 1e4),
    "cyl_bessel_i0": Case(lambda x: mp.besseli(0, x), ((0, 30), (-80, 80)), 1, 6),
    "cyl_bessel_i1": Case(lambda x: mp.besseli(1, x), ((0, 30), (-80, 80)), 1, 6),
    "pow": Case(mp.power, (POSITIVE, (0, 1e4)), 1, 1, 2, "power", second=(-9, 9)),
    "atan2": Case(mp.atan2, (SMALL,), 1, 1, 2, "arctan2"),
    "hypot": Case(lambda x, y: mp.sqrt(x * x + y * y), (SMALL, (-1e30, 1e30)), 1, 1.5, 2, "hypot"),
    "rhypot": Case(lambda x, y: 1 / mp.sqrt(x * x + y * y), (SMALL,), 1, 2, 2),
    "norm3d": Case(lambda x, y, z: mp.sqrt(x * x + y * y + z * z), (SMALL,), 1, 2, 3),
    "rnorm3d": Case(lambda x, y, z: 1 / mp.sqrt(x * x + y * y + z * z), (SMALL,), 1, 3, 3),
    "norm4d": Case(lambda x, y, z, w: mp.sqrt(x * x + y * y + z * z + w * w), (SMALL,), 1, 3, 4),
    "rnorm4d": Case(lambda x, y, z, w: 1 / mp.sqrt(x * x + y * y + z * z + w * w), (SMALL,), 1, 3, 4),
}


def draw(case: Case, dtype: type, count: int, seed: int = 0) -> list[np.ndarray]:
    """Arguments of a case: `count` draws from each of its ranges."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(case.arguments):
        parts = []
        for low, high in case.ranges:
            if (low, high) == ANY:
                bits = np.dtype(dtype).itemsize * 8
                x = rng.integers(0, 2**bits, count, dtype=f"uint{bits}").view(dtype)
                parts.append(np.where(np.isfinite(x), x, dtype(1)))
                continue
            if i and case.second:
                low, high = case.second
            parts.append(rng.uniform(low, high, count).astype(dtype))
        out.append(np.concatenate(parts))
    return out


def worst(case: Case, got: np.ndarray, args: list[np.ndarray]) -> tuple[float, tuple]:
    """The largest distance from the exact value in ulps, and the arguments it occurred at."""
    kind = got.dtype.type
    info = np.finfo(kind)
    digits, least = info.nmant, int(info.minexp) - info.nmant
    largest, where = 0.0, ()
    with mp.workdps(40):
        for i, g in enumerate(got):
            here = tuple(float(a[i]) for a in args)
            distance = _distance(case.exact, here, float(g), digits, least, float(info.max))
            if not distance <= largest:
                largest, where = distance, here
    return largest, where


def _distance(exact: Callable, args: tuple, got: float, digits: int, least: int, top: float) -> float:
    try:
        value = exact(*(mp.mpf(a) for a in args))
    except (ValueError, ZeroDivisionError):
        return 0.0  # a pole: the tests of special values look at those
    if isinstance(value, mp.mpc) or mp.isnan(value):
        return 0.0 if np.isnan(got) else float("inf")
    if abs(value) >= top:
        return 0.0 if abs(got) >= top * (1 - 2.0**-20) or np.isinf(got) else float("inf")
    if np.isnan(got):
        return float("inf")
    exponent = max(mp.frexp(value)[1] - 1 - digits, least) if value else least
    return float(abs(mp.mpf(got) - value) / mp.mpf(2) ** int(exponent))
