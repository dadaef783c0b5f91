"""Fits the polynomials of vmath.coefficients: a Remez exchange in 60-digit arithmetic.

FITS declares every polynomial: what it approximates, where, its degree, and how much an error in it weighs in
the function it serves. `python tests/cpu/vmath/vmath_minimax.py` prints the tables of coefficients.py anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.dps = 60
HALF_LN2 = mp.log(2) / 2
PI_4 = mp.pi / 4
TOP_Z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2  # s^2 for s = f / (2 + f), 1 + f <= sqrt 2


@dataclass(frozen=True)
class Fit:
    """Approximate `of` on [low, high] so that max |weight * error| is least."""

    of: Callable
    low: float
    high: float
    degree: int
    weight: Callable
    double: bool = False


def _even(f: Callable, lead: Callable) -> Callable:
    """(f(r) - lead(r)) / r^3 as a function of z = r^2."""
    return lambda z: (f(mp.sqrt(z)) - lead(mp.sqrt(z))) / mp.sqrt(z) ** 3


def _cubic(f: Callable) -> Callable:
    return lambda z: mp.sqrt(z) ** 3 / f(mp.sqrt(z))


def _odd(f: Callable, high: float, degree: int, double: bool = False) -> Fit:
    """f(r) = r + r^3 p(r^2) for an odd f with slope 1, relative error."""
    return Fit(_even(f, lambda r: r), 0, high, degree, _cubic(f), double)


def _cosine(degree: int, double: bool = False) -> Fit:
    return Fit(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 0, PI_4**2, degree, lambda z: z**2, double)


def _exp(degree: int, double: bool = False) -> Fit:
    return Fit(
        lambda r: (mp.exp(r) - 1 - r) / r**2, -HALF_LN2, HALF_LN2, degree, lambda r: r**2 / mp.exp(r), double
    )


def _exp2(degree: int, double: bool = False) -> Fit:
    return Fit(lambda r: (mp.mpf(2) ** r - 1) / r, -0.5, 0.5, degree, lambda r: r / mp.mpf(2) ** r, double)


def _exp10(degree: int, double: bool = False) -> Fit:
    half = mp.log10(2) / 2
    return Fit(
        lambda r: (mp.mpf(10) ** r - 1) / r, -half, half, degree, lambda r: r / mp.mpf(10) ** r, double
    )


def _erf_near(high: float, degree: int, double: bool = False) -> Fit:
    """erf(x) = x + x p(x^2)."""
    return Fit(
        lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
        0,
        high**2,
        degree,
        lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)),
        double,
    )


def _erf_far(low: float, high: float, degree: int, double: bool = False) -> Fit:
    """erf(x) = 1 - exp(p(x)); an error in p counts as much as erfc(x) does in erf(x)."""
    return Fit(lambda x: mp.log(mp.erfc(x)), low, high, degree, lambda x: mp.erfc(x) / mp.erf(x), double)


def _erfcx(degree: int) -> Fit:
    """(1 + 2x) exp(x^2) erfc(x) for x >= 0 in t = (x - 4) / (x + 4), which maps [0, inf] to [-1, 1]."""

    def of(t: mp.mpf) -> mp.mpf:
        x = 4 * (1 + t) / (1 - t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)

    return Fit(of, -1, 1, degree, lambda t: 1 / of(t), True)


def _erfinv(low: float, high: float, degree: int, centre: float = 0) -> Fit:
    """erfinv(x) / x in w = -log(1 - x^2), or where there is a centre in sqrt(w) - centre."""

    def of(v: mp.mpf) -> mp.mpf:
        w = (v + centre) ** 2 if centre else v
        x = mp.sqrt(-mp.expm1(-w))
        rest = -mp.expm1(mp.log1p(-mp.exp(-w)) / 2)  # 1 - x
        if w < 2:
            return mp.erfinv(x) / x
        return mp.findroot(lambda y: mp.log(mp.erfc(y)) - mp.log(rest), mp.sqrt(w - mp.log(w) / 2)) / x

    return Fit(of, low - centre, high - centre, degree, lambda v: 1 / of(v), True)


def _bessel_near(order: int, degree: int) -> Fit:
    """exp(-x) I(x) / x^order for 0 <= x <= 8, in v = x / 4 - 1."""

    def of(v: mp.mpf) -> mp.mpf:
        x = 4 * (v + 1)
        return mp.exp(-x) * mp.besseli(order, x) / x**order

    return Fit(of, -1, 1, degree, lambda v: 1 / of(v), True)


def _bessel_far(order: int, degree: int) -> Fit:
    """exp(-x) sqrt(x) I(x) for x >= 8, in v = 16 / x - 1."""

    def of(v: mp.mpf) -> mp.mpf:
        x = 16 / (v + 1)
        return mp.exp(-x) * mp.sqrt(x) * mp.besseli(order, x)

    return Fit(of, -1, 1, degree, lambda v: 1 / of(v), True)


FITS: dict[str, Fit] = {
    "EXP_F32": _exp(4),
    "EXP2_F32": _exp2(5),
    "EXP10_F32": _exp10(5),
    "LOG_F32": Fit(
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
        mp.sqrt(0.5) - 1,
        mp.sqrt(2) - 1,
        8,
        lambda f: f**3 / mp.log1p(f),
    ),
    "SIN_F32": _odd(mp.sin, PI_4**2, 2),
    "COS_F32": _cosine(2),
    "TAN_F32": _odd(mp.tan, PI_4**2, 5),
    "TANH_F32": _odd(mp.tanh, 0.625**2, 4),
    "SINH_F32": _odd(mp.sinh, 1, 3),
    "ATAN_F32": _odd(mp.atan, 1, 8),
    "ASIN_F32": _odd(mp.asin, 0.5625**2, 5),
    "ERF_NEAR_F32": _erf_near(0.9, 5),
    "ERF_FAR_F32": _erf_far(0.9, 4, 7),
    "EXP_F64": _exp(9, True),
    "EXP2_F64": _exp2(10, True),
    "EXP10_F64": _exp10(10, True),
    "LOG_F64": Fit(
        lambda z: (2 * mp.atanh(mp.sqrt(z)) - 2 * mp.sqrt(z)) / mp.sqrt(z) ** 3,
        0,
        TOP_Z,
        6,
        lambda z: mp.sqrt(z) ** 3 / (2 * mp.atanh(mp.sqrt(z))),
        True,
    ),
    # for pow of floats, in double: the logarithm is multiplied by up to 150, float's exponents
    "POW_LOG2_F32": Fit(
        lambda z: 2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) / mp.log(2),
        0,
        TOP_Z,
        5,
        lambda z: mp.sqrt(z) / (2 * mp.atanh(mp.sqrt(z))) * mp.log(2) * 150,
        True,
    ),
    "POW_EXP2_F32": _exp2(6, True),
    "SIN_F64": _odd(mp.sin, PI_4**2, 5, True),
    "COS_F64": _cosine(5, True),
    "ERF_NEAR_F64": _erf_near(1, 11, True),
    "ERF_FAR_F64": _erf_far(1, 6, 18, True),
    "ERFCX_F32": _erfcx(12),
    "ERFCX_F64": _erfcx(26),
    "I0_NEAR": _bessel_near(0, 28),
    "I0_FAR": _bessel_far(0, 22),
    "I1_NEAR": _bessel_near(1, 28),
    "I1_FAR": _bessel_far(1, 22),
    "ERFINV_NEAR": _erfinv(0, 5, 10),
    "ERFINV_MIDDLE": _erfinv(2.2, 4, 11, 3),
    "ERFINV_FAR": _erfinv(4, 10.5, 10, 7),
    "ERFINV_LAST": _erfinv(10, 27.5, 6, 18),
}


def _interpolate(degree: int, rows: list) -> list:
    """Coefficients whose weighted error alternates between +E and -E at the rows (x, value, weight)."""
    n = degree + 2
    a, b = mp.matrix(n, n), mp.matrix(n, 1)
    for i, (x, value, weight) in enumerate(rows):
        for j in range(degree + 1):
            a[i, j] = weight * x**j
        a[i, n - 1] = (-1) ** i
        b[i] = weight * value
    return list(mp.lu_solve(a, b))[: degree + 1]


def _remez(degree: int, table: list) -> list:
    """The exchange over a fixed table of (x, value, weight)."""
    n, last = degree + 2, len(table) - 1
    chosen = [round(last * i / (n - 1)) for i in range(n)]
    coefficients: list = []
    for _ in range(15):
        coefficients = _interpolate(degree, [table[i] for i in chosen])
        errors = [w * (v - mp.polyval(coefficients[::-1], x)) for x, v, w in table]
        extrema = _alternating(errors)
        if len(extrema) < n:
            break
        while len(extrema) > n:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        chosen = extrema
        sizes = [abs(errors[i]) for i in chosen]
        if max(sizes) < min(sizes) * mp.mpf("1.02"):
            break
    return coefficients


def _alternating(errors: list) -> list[int]:
    """Where the error is largest in every run of equal sign."""
    out: list[int] = []
    for i, e in enumerate(errors):
        if not out or (errors[out[-1]] > 0) != (e > 0):
            out.append(i)
        elif abs(e) > abs(errors[out[-1]]):
            out[-1] = i
    return out


def _grid(fit: Fit, density: int = 40) -> list:
    count = density * (fit.degree + 2)
    middle, half = (mp.mpf(fit.low) + fit.high) / 2, (mp.mpf(fit.high) - fit.low) / 2
    points = [middle - half * mp.cos(mp.pi * (i + mp.mpf("0.37")) / count) for i in range(count)]
    return [x for x in points if abs(x) > mp.mpf(10) ** -12]


def solve(fit: Fit) -> list[float]:
    """Coefficients from the constant up, rounded to the format.

    Where the interval starts at or after zero, the rest is refitted after each rounding; across zero that
    would put a pole into the interval, and rounding alone costs little.
    """
    table = [(x, fit.of(x), abs(fit.weight(x))) for x in _grid(fit)]
    if fit.low < 0:
        return [_rounded(fit, c) for c in _remez(fit.degree, table)]
    out: list[float] = []
    for left in range(fit.degree, -1, -1):
        out.append(_rounded(fit, _remez(left, table)[0]))
        table = [(x, (v - out[-1]) / x, w * abs(x)) for x, v, w in table]
    return out


def _rounded(fit: Fit, value: mp.mpf) -> float:
    return float(value) if fit.double else float(np.float32(float(value)))


def error(fit: Fit, coefficients: list[float] | tuple[float, ...]) -> float:
    """The largest weighted error of these coefficients, at a few points an oscillation."""
    backwards = [mp.mpf(c) for c in reversed(coefficients)]
    return float(max(abs(fit.weight(x) * (fit.of(x) - mp.polyval(backwards, x))) for x in _grid(fit, 6)))


def main(names: list[str]) -> None:
    for name in names or FITS:
        coefficients = solve(FITS[name])
        print(f"# |error| < {error(FITS[name], coefficients):.2g}")
        print(f"{name} = (")
        for c in coefficients:
            print(f"    {c!r},")
        print(")", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
