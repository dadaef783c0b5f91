"""Tensor cores against sums in fractions: each product aligned and cut off as the hardware is known to do it."""

from fractions import Fraction

import numpy as np
import pytest
from exact_floats import BF16, F16, F32, NAN, encoded, read, write
from functions_checked import functions_wrong
from lane_machine import Given, Machine, lanes
from matrix_inputs import (
    DEPTHS,
    SOME,
    at_the_ends,
    blocks,
    floats,
    infinite_blocks,
    matrix_inputs,
    one_in_each_row,
    run_block,
    small_blocks,
)

from tileprobe.targets.simgpu.engine import vectors
from tileprobe.targets.simgpu.engine.lanes import HANDLERS

TF32 = "tf32"
FORMS = {"f16": F16, "bf16": BF16, "tf32": F32}
# (products in a group, bits below the largest exponent) by machine and by elements in a row of a fragment
GROUPS = {"a100": lambda width: (width, 24), "h100": lambda width: (2 * width, 25)}


def exponent(value, lowest):
    if value == 0:
        return -126
    size, n = abs(value), 0
    n = size.numerator.bit_length() - size.denominator.bit_length()
    n -= Fraction(2) ** n > size
    return max(n, lowest)


def summed(products, total, fraction):
    """`products`: pairs of (value, exponent). The sum cut off to single precision."""
    largest = max([exponent(total, -126), *(e for _, e in products)])
    unit = Fraction(2) ** (largest - fraction)
    cut = [int(v / unit) for v in (total, *(v for v, _ in products))]  # towards zero
    return read(write(sum(cut) * unit, 0, F32, "rz"), F32)[1]


def elements(rows, form):
    """Of a register row, in the order of memory."""
    words = rows.astype(np.uint32)
    if form == "tf32":
        return [read(int(w) & 0xFFFFE000, F32)[1] for w in words]
    return [read(int(h), FORMS[form])[1] for h in words.view(np.uint16)]


def product(given, form, machine):
    """D as a 16 x 8 matrix of fractions."""
    width = 4 if form == "tf32" else 8
    a = [[Fraction(0)] * (2 * width) for _ in range(16)]
    b = [[Fraction(0)] * 8 for _ in range(2 * width)]
    for n in range(4):
        for place, value in enumerate(elements(given.a[n], form)):
            a[8 * (n % 2) + place // width][width * (n // 2) + place % width] = value
    for n in range(2):
        for place, value in enumerate(elements(given.b[n], form)):
            b[width * n + place % width][place // width] = value
    lowest = {"f16": -14, "bf16": -126, "tf32": -126}[form]
    size, fraction = GROUPS[machine](width)
    d = np.zeros((16, 8), np.uint32)
    for i in range(16):
        for j in range(8):
            lane, register = 4 * (i % 8) + j // 2, 2 * (i // 8) + j % 2
            total = read(int(given.c[register, lane]), F32)[1]
            for first in range(0, 2 * width, size):
                products = [
                    (a[i][k] * b[k][j], exponent(a[i][k], lowest) + exponent(b[k][j], lowest))
                    for k in range(first, first + size)
                ]
                total = summed(products, total, fraction)
            d[i, j] = write(total, 0, F32)
    return d


def as_matrix(rows):
    found = np.zeros((16, 8), np.uint32)
    for register in range(4):
        for lane in range(32):
            found[lane // 4 + 8 * (register // 2), 2 * (lane % 4) + register % 2] = rows[register, lane]
    return found


def run(name, given):
    _, table = vectors.handlers()
    return Machine().run(int(table[vectors.NUMBERS[name]]), given)["D"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("machine", GROUPS)
def test_sums_are_cut_off_as_in_hardware(form, machine):
    for seed in range(2):
        given = floats(form, seed)
        np.testing.assert_array_equal(
            as_matrix(run(f"hmma_{form}_{machine}", given)), product(given, form, machine)
        )


def test_the_machines_differ():
    """So that the test above can tell them apart."""
    given = floats("f16", 0)
    assert (run("hmma_f16_a100", given) != run("hmma_f16_h100", given)).any()
    near = run("hmma_f16_fast", given).view(np.float32)
    np.testing.assert_allclose(run("hmma_f16_a100", given).view(np.float32), near, rtol=1e-4, atol=1e-4)


def test_what_is_no_number_stays_none():
    given = floats("f16", 1)
    given.a[0, 0] = 0x7C00  # infinite, in row 0
    given.b[0, :4] = 0x3C003C00  # ones: column 0
    given.b[0, 4:8] = 0  # zeros: column 1
    found = as_matrix(run("hmma_f16_a100", given))
    assert found[0, 0] == 0x7F800000
    assert found[0, 1] == encoded((0, NAN), F32)


@pytest.mark.parametrize("machine", GROUPS)
@pytest.mark.parametrize("form", FORMS)
def test_each_product_counts(form, machine):
    """Each place of a row alone: an infinite product, and one beside which the sum is cut off."""
    infinite, near = (
        as_matrix(run(f"hmma_{form}_{machine}", g)) for g in one_in_each_row(f"hmma_{form}_{machine}")
    )
    assert (infinite == 0x7F800000).all()
    assert (near.view(np.float32) == 4095).all()


@pytest.mark.parametrize("machine", GROUPS)
def test_each_product_counts_in_sums_of_halves(machine):
    name = f"hmma_f16_half_{machine}"
    infinite, near = (run(name, given)[:2].view(np.float16) for given in one_in_each_row(name))
    assert np.isposinf(infinite).all()
    assert (near == 4096).all()  # 4095 to even; a sum below it would be 4094
    zero = one_in_each_row(name)[1]
    zero.a[:], zero.c[:] = 0, 0
    assert not run(name, zero)[:2].any()


@pytest.mark.parametrize("machine", GROUPS)
@pytest.mark.parametrize("form", ["bf16", "tf32"])
def test_ends_of_single_precision(form, machine):
    large, small = (
        as_matrix(run(f"hmma_{form}_{machine}", g)) for g in at_the_ends(f"hmma_{form}_{machine}")
    )
    assert (large == 0x7F800000).all()
    # A100 cuts off at 2^-150 there, H100 at 2^-151
    assert (small == (1 if machine == "h100" else 0)).all()


@pytest.mark.parametrize("form", ["f16", "bf16", "tf32", "e4m3", "e5m2", "e4m3e5m2", "e5m2e4m3"])
def test_infinite_products_of_blocks(form):
    _, table = vectors.handlers()
    for given in infinite_blocks(form):
        assert (run_block(int(table[vectors.NUMBERS[f"block_{form}_h100"]]), *given) == 0x7F800000).all()


@pytest.mark.parametrize("kinds", ["ss", "su", "us", "uu"])
def test_integers(kinds):
    random = np.random.default_rng(3)
    given = Given(*(random.integers(0, 1 << 32, (4, 32), np.uint64).astype(np.uint32) for _ in range(3)))
    given.c[:] = random.integers(-(2**20), 2**20, (4, 32)).astype(np.int32).view(np.uint32)
    types = {"s": np.int8, "u": np.uint8}
    a, b = np.zeros((16, 32), np.int64), np.zeros((32, 8), np.int64)
    for n in range(4):
        block = given.a[n].copy().view(types[kinds[0]]).reshape(8, 16)
        a[8 * (n % 2) : 8 * (n % 2) + 8, 16 * (n // 2) : 16 * (n // 2) + 16] = block
    for n in range(2):
        b[16 * n : 16 * n + 16] = given.b[n].copy().view(types[kinds[1]]).reshape(8, 16).T
    wanted = a @ b + as_matrix(given.c).view(np.int32)
    np.testing.assert_array_equal(as_matrix(run(f"imma_{kinds}", given)).view(np.int32), wanted)
    given.c[:] = 0x7FFFFFFF
    found = as_matrix(run(f"imma_{kinds}_sat", given)).view(np.int32)
    np.testing.assert_array_equal(found, np.minimum(a @ b + 0x7FFFFFFF, 0x7FFFFFFF))


def test_doubles():
    random = np.random.default_rng(4)
    a, b, c = random.standard_normal((8, 4)), random.standard_normal((4, 8)), random.standard_normal((8, 8))

    def rows(values):
        bits = np.asarray(values).view(np.uint64)
        return bits & 0xFFFFFFFF, bits >> np.uint64(32)

    g, t = np.arange(32) // 4, np.arange(32) % 4
    given = Given(*(np.zeros((4, 32), np.uint32) for _ in range(3)))
    given.a[0], given.a[1] = rows(a[g, t])
    given.b[0], given.b[1] = rows(b[t, g])
    for n in (0, 1):
        given.c[2 * n], given.c[2 * n + 1] = rows(c[g, 2 * t + n])
    found = run("dmma", given).astype(np.uint64)
    result = np.zeros((8, 8))
    for n in (0, 1):
        result[g, 2 * t + n] = (found[2 * n] | found[2 * n + 1] << np.uint64(32)).view(np.float64)
    np.testing.assert_allclose(result, a @ b + c, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("form", ["f16", "bf16", "tf32"])
def test_blocks_of_warp_groups(form):
    """One group of all products in H100's way: as `hmma`, from matrices in memory."""
    _, table = vectors.handlers()
    lowest = {"f16": -14, "bf16": -126, "tf32": -126}[form]
    for seed in range(3):
        a, b, c = blocks(form, seed)
        found = run_block(int(table[vectors.NUMBERS[f"block_{form}_h100"]]), a, b, c)
        x, y, z = ([[read(int(w), F32)[1] for w in row] for row in m] for m in (a, b, c))
        for i in range(16):
            for j in range(8):
                products = [
                    (x[i][k] * y[k][j], exponent(x[i][k], lowest) + exponent(y[k][j], lowest))
                    for k in range(DEPTHS[form])
                ]
                assert found[i, j] == write(summed(products, z[i][j], 25), 0, F32)


def numbers_of(words):
    return [[read(int(w), F32)[1] for w in row] for row in words]


LOWEST = {"e4m3": (-6, -6), "e5m2": (-14, -14), "e4m3e5m2": (-6, -14), "e5m2e4m3": (-14, -6)}


@pytest.mark.parametrize("form", LOWEST)
def test_sums_of_eight_bits_are_cut_off(form):
    """Aligned to the largest exponent, 13 bits kept; subnormal numbers have the exponent of their format."""
    _, table = vectors.handlers()
    words = small_blocks()
    a, b, c = (numbers_of(m) for m in words)
    found = run_block(int(table[vectors.NUMBERS[f"block_{form}_h100"]]), *words)
    first, second = LOWEST[form]
    for i in range(16):
        for j in range(8):
            products = [
                (a[i][k] * b[k][j], exponent(a[i][k], first) + exponent(b[k][j], second)) for k in range(32)
            ]
            assert found[i, j] == write(summed(products, c[i][j], 13), 0, F32) & 0xFFFFFC00, (i, j)


@pytest.mark.parametrize("form", ["e4m3", "e5m2", "s8"])
def test_blocks_of_eight_bits(form):
    """fp8 keeps 13 bits below the largest exponent; whole numbers are exact."""
    _, table = vectors.handlers()
    name = "block_s8" if form == "s8" else f"block_{form}_h100"
    for seed in range(3):
        a, b, c = blocks(form, seed)
        found = run_block(int(table[vectors.NUMBERS[name]]), a, b, c)
        kind = np.int32 if form == "s8" else np.float32
        x, y, z = (m.view(kind).astype(np.float64) for m in (a, b, c))
        wanted = x @ y + z
        if form == "s8":
            np.testing.assert_array_equal(found.view(np.int32), wanted)
            continue
        largest = np.maximum(np.abs(z), np.abs(x[:, :, None] * y[None]).max(1))
        unit = 2.0 ** (np.floor(np.log2(np.maximum(largest, 2.0**-126))) + 2 - 13)
        assert (np.abs(found.view(np.float32) - wanted) <= 34 * unit).all()


@pytest.mark.parametrize("name", [n for n in sorted(HANDLERS) if n.startswith("mufu")])
def test_functions_are_as_near_as_documented(name):
    _, table = vectors.handlers()
    assert not functions_wrong(name, int(table[vectors.NUMBERS[name]]))


@pytest.mark.parametrize("name", [n for n in sorted(HANDLERS) if n.startswith(("hmma", "imma", "dmma"))])
def test_lanes_that_do_not_execute_keep_what_they_have(name):
    some = matrix_inputs(name)[-1]
    part = run(name, some)
    some.mask = 0xFFFFFFFF
    whole, on = run(name, some), lanes(SOME)
    rows = 2 if "half" in name else 4
    assert (part[:rows, on] == whole[:rows, on]).all()
    assert (part[:, ~on] == some.before[:, ~on]).all()
