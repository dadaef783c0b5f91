"""The interpreter's arithmetic: every code of the small floats, integers at their limits, against plain definitions."""

import math

import numpy as np
import pytest
from cpu_harness import codes, encode

from tileprobe.targets.cpu.interpret.convert import convert
from tileprobe.targets.cpu.interpret.floats import round_to, storage, widen
from tileprobe.targets.cpu.interpret.integers import BINARY, COMPARE, high_product

NAMES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f8E5M2": "float8e5",
    "f8E4M3FN": "float8e4nv",
    "f8E4M3FNUZ": "float8e4b8",
    "f8E5M2FNUZ": "float8e5b16",
}
INTS = ("i8", "i16", "i32", "i64")


def all_codes(name):
    bits = 8 * storage(name).itemsize
    return np.arange(1 << bits, dtype=f"u{bits // 8}").view(storage(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_code_is_read_and_written_back(name):
    held = all_codes(name)
    values = widen(held, name)
    expected = codes(NAMES[name])
    assert np.array_equal(values, expected.astype(np.float32), equal_nan=True)
    finite = np.isfinite(values)
    assert np.array_equal(widen(round_to(values, name), name)[finite], values[finite])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_rounding_is_to_the_nearest_even(name, wide):
    rng = np.random.default_rng(1)
    top = np.nanmax(np.where(np.isfinite(codes(NAMES[name])), codes(NAMES[name]), 0))
    values = (rng.uniform(-0.9, 0.9, 4000) * top * 2.0 ** rng.integers(-12, 1, 4000)).astype(wide)
    table = widen(all_codes(name), name).astype(np.float64)
    middles = np.sort(table[np.isfinite(table)])
    values = np.concatenate([values, ((middles[1:] + middles[:-1]) / 2).astype(wide)])
    got = widen(round_to(values, name), name)
    want = encode(values.astype(np.float64), NAMES[name])
    if name.endswith("FNUZ"):  # there is no -0: its code is the NaN
        want = np.where(want == 0x80, 0, want).astype(want.dtype)
    assert np.array_equal(got, widen(want, name))


@pytest.mark.parametrize("name", NAMES)
def test_toward_zero_never_grows(name):
    values = np.random.default_rng(2).normal(0, 3, 2000)
    near, cut = (widen(round_to(values, name, toward_zero=z), name).astype(np.float64) for z in (False, True))
    assert (np.abs(cut) <= np.abs(values)).all()
    assert np.array_equal(near[np.abs(near) <= np.abs(values)], cut[np.abs(near) <= np.abs(values)])


@pytest.mark.parametrize("name", ["f8E5M2", "f8E4M3FN"])
def test_eight_bit_floats_saturate(name):
    table = codes(NAMES[name])
    top = table[np.isfinite(table)].max()
    got = widen(round_to(np.array([1e9, -1e9, math.inf], np.float32), name), name)
    assert got.tolist() == [top, -top, top]


def limits(name):
    info = np.iinfo(storage(name))
    return np.array([info.min, info.min + 1, -2, -1, 0, 1, 2, 7, info.max - 1, info.max], storage(name))


def wrapped(value, name):
    bits = 8 * storage(name).itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


EXACT = {
    "addi": lambda x, y, u: x + y,
    "subi": lambda x, y, u: x - y,
    "muli": lambda x, y, u: x * y,
    "divsi": lambda x, y, u: (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else x,
    "remsi": lambda x, y, u: (abs(x) % abs(y)) * (-1 if x < 0 else 1) if y else 0,
    "divui": lambda x, y, u: u(x) // u(y) if y else x,
    "remui": lambda x, y, u: u(x) % u(y) if y else 0,
    "maxui": lambda x, y, u: max(u(x), u(y)),
    "minsi": lambda x, y, u: min(x, y),
}


@pytest.mark.parametrize("name", INTS)
@pytest.mark.parametrize("op", EXACT)
def test_integers_wrap(name, op):
    bits = 8 * storage(name).itemsize
    x, y = (a.reshape(-1) for a in np.meshgrid(limits(name), limits(name)))
    with np.errstate(all="ignore"):
        got = BINARY[op](x, y)
    want = [wrapped(EXACT[op](int(a), int(b), lambda v: v % (1 << bits)), name) for a, b in zip(x, y)]
    assert got.dtype == x.dtype
    assert got.tolist() == want


@pytest.mark.parametrize("name", INTS)
def test_shifts_beyond_the_width(name):
    bits = 8 * storage(name).itemsize
    x = limits(name)
    amounts = np.full(x.size, bits, storage(name))
    assert not BINARY["shli"](x, amounts).any()
    assert not BINARY["shrui"](x, amounts).any()
    assert BINARY["shrsi"](x, amounts).tolist() == [-1 if v < 0 else 0 for v in x]


@pytest.mark.parametrize("name", INTS)
def test_the_upper_half_of_a_product(name):
    bits = 8 * storage(name).itemsize
    x, y = (a.reshape(-1) for a in np.meshgrid(limits(name), limits(name)))
    want = [wrapped((int(a) % 2**bits) * (int(b) % 2**bits) >> bits, name) for a, b in zip(x, y)]
    with np.errstate(all="ignore"):
        assert high_product(x, y).tolist() == want


def test_truth_values():
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert BINARY["addi"](x, y).tolist() == [False, True, True, False]
    assert COMPARE[2](x, y).tolist() == [False, False, True, False]  # as signed numbers, true is -1
    assert COMPARE[6](x, y).tolist() == [False, True, False, False]
    assert convert(x, "i1", "i32").tolist() == [0, 0, -1, -1]
    assert convert(x, "i1", "i32", signed=False).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("name", INTS)
def test_floats_outside_an_integers_range(name):
    info = np.iinfo(storage(name))
    given = np.array([math.nan, math.inf, -math.inf, 1e30, -1e30, -1.9, 1.9])
    assert convert(given, "f64", name).tolist() == [0, info.max, info.min, info.max, info.min, -1, 1]
    got = convert(given, "f64", name, signed=False).view(f"u{storage(name).itemsize}")
    top = 2 * info.max + 1
    assert got.tolist() == [0, top, 0, top, 0, 0, 1]


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**62 + 2**54 + 1, 2**31 + 2**23, 12345])
def test_wide_integers_are_rounded_once(value):
    """The nearest bfloat16 has eight bits; a way through a double or a float would tie where the integer does not."""
    got = float(widen(convert(np.array([value]), "i64", "bf16"), "bf16")[0])
    scale = 1 << max(0, abs(value).bit_length() - 8)
    low = abs(value) // scale * scale
    rest = abs(value) - low
    up = rest * 2 > scale or (rest * 2 == scale and (low // scale) % 2 == 1)
    assert got == math.copysign(low + scale if up else low, value)
