"""The coefficients in the package are the ones the fits ask for."""

from __future__ import annotations

import pytest
from vmath_minimax import FITS, error, solve

from tileprobe.targets.cpu.vmath import coefficients

# what the function built on it can stand, relative: half an ulp is 6e-8 in float and 1.1e-16 in double; the
# inverse error functions are float's, computed in double (a step of Halley's method follows in double)
LIMITS = {"F32": 2e-8, "F64": 6e-17, "ERFINV": 2.5e-8, "I0": 8e-17, "I1": 1e-15}


def limit(name: str) -> float:
    return LIMITS.get(name.rpartition("_")[2]) or LIMITS[name.partition("_")[0]]


@pytest.mark.parametrize("name", FITS)
def test_the_error_is_small_where_the_polynomial_is_used(name: str) -> None:
    assert error(FITS[name], getattr(coefficients, name)) < limit(name)


@pytest.mark.parametrize("name", ["EXP_F32", "SIN_F32", "LOG_F64", "TANH_F32"])
def test_fitting_again_gives_the_same_coefficients(name: str) -> None:
    assert tuple(solve(FITS[name])) == getattr(coefficients, name)


def test_every_polynomial_is_declared() -> None:
    assert {n for n in vars(coefficients) if n.isupper()} == set(FITS)
