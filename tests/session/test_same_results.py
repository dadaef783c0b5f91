"""Results that are held against each other: what is rounding, and what is another result."""

import numpy as np
import pytest

from tileprobe.session.same_results import Tensor, different, tolerance

ONE = np.linspace(-1, 1, 100, dtype=np.float32)


def said(before, after, bits=None):
    bits = 8 * before.itemsize if bits is None else bits
    return different([Tensor("x", before, bits)], [Tensor("x", np.asarray(after, before.dtype), bits)])


def test_results_within_rounding_are_the_same():
    assert said(ONE, ONE) == ""
    assert said(ONE, ONE * (1 + 2e-6)) == ""
    limit = 256 * np.finfo(np.float32).eps
    assert said(ONE, ONE + 0.9 * limit) == "" and said(ONE, ONE + 1.1 * limit)
    assert said(ONE, ONE + np.float32(1e-3)) == "x differs by up to 0.001, where its largest value is 1"
    assert said(ONE.astype(np.float64), ONE + 1e-9)  # doubles are nearer to each other
    assert said(100 * ONE, 100 * ONE + np.float32(1e-3)) == ""  # beside a hundred that is rounding


def test_halves_may_differ_by_more_even_where_they_are_held_in_floats():
    half = ONE.astype(np.float16)
    assert said(half, half + np.float16(0.002)) == ""
    assert said(half, half + np.float16(0.02))
    assert said(ONE, ONE + np.float32(0.002), 16) == "" and said(ONE, ONE + np.float32(0.002), 32)
    assert (
        tolerance(Tensor("x", half, 16))
        == tolerance(Tensor("x", ONE, 16))
        == tolerance(Tensor("x", ONE, 8))
        == 2**-7
    )
    assert tolerance(Tensor("x", ONE, 32)) == 256 * np.finfo(np.float32).eps


def test_of_integers_and_of_what_nobody_knows_anything_is_another_result():
    whole = np.arange(10)
    other = whole.copy()
    other[3] = 0
    assert said(whole, whole) == "" and said(whole, other) == "x has other values in 1 of 10 places"
    assert said(whole > 4, other > 2)
    raw = np.arange(8, dtype=np.uint8)
    same, changed = Tensor("x", raw, None), Tensor("x", raw[::-1], None)
    assert (
        different([same], [same]) == ""
        and different([same], [changed]) == "x has other bytes in 8 of 8 places"
    )


@pytest.mark.parametrize("first", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("second", [np.nan, np.inf, -np.inf, 0.5])
def test_what_is_no_number_stays_what_it_is(first, second):
    before, after = ONE.copy(), ONE.copy()
    before[0], after[0] = first, second
    same = first == second or (np.isnan(first) and np.isnan(second))
    assert (said(before, after) == "") == same
    assert "not finite" in said(ONE, before)


def test_small_values_beside_a_large_one_are_not_forgotten():
    before = np.ones(1000, np.float32)
    before[0] = 1e8
    after = before.copy()
    after[1:] = 3.0  # all but one value are wrong, by less than the rounding of the largest
    assert "sixteenth of their own value in 999 of 1,000" in said(before, after)
    few = before.copy()
    few[1:90] = 3.0  # what is left where large numbers cancel out may be off
    assert said(before, few) == ""
    few[1:110] = 3.0
    assert said(before, few)


def test_the_first_that_differs_is_named_and_complex_numbers_are_held_whole():
    two = [Tensor("a", ONE, 32), Tensor("b", ONE, 32)]
    assert different(two, [two[0], Tensor("b", ONE + 1, 32)]).startswith("b differs")
    waves = np.exp(1j * ONE).astype(np.complex64)
    assert said(waves, waves) == "" and said(waves, waves * np.complex64(1j))
    with pytest.raises(ValueError, match="shorter"):
        different(two, two[:1])
