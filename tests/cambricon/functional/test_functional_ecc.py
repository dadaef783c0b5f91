"""The page codes: what the paper's code promises, bit by bit, and the baselines against it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.ecc import make_codec as new_codec
from tileprobe.targets.cambricon.functional.ecc.audit import audit
from tileprobe.targets.cambricon.functional.ecc.outlier import OutlierCode
from tileprobe.targets.cambricon.functional.inject import Flips, inject

make_codec = lru_cache(maxsize=None)(new_codec)  # the tables of a BCH code take a moment

CODES = ["none", "paper", "paper:signed", "hamming", "bch", "bch:4"]
SIZES = [(16384, 1664, 8), (16384, 1664, 4), (2048, 600, 8)]


def random_values(codec, seed, pages=1):
    limit = 2 ** (codec.value_bits - 1)
    rng = np.random.default_rng(seed)
    values = np.round(rng.standard_t(3, (pages, codec.values_per_page)) * limit / 6)
    return np.clip(values, -limit, limit - 1).astype(np.int8)


PAPER = OutlierCode()


def flip_bits(stored, page, bits):
    """Flips chosen bits of one page; bit 0 is the lowest bit of the page's first byte."""
    for bit in bits:
        stored[page, bit >> 3] ^= np.uint8(1 << (bit & 7))


def records(codec, values):
    """(addresses of the protected values, threshold) by definition: the largest, first ones first."""
    magnitude = np.abs(values[0].astype(int))
    order = np.lexsort((np.arange(magnitude.size), -magnitude))[: codec.protected]
    return np.sort(order), magnitude[order].min()


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("size", SIZES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_page_without_errors_comes_back_unchanged(name, size, seed):
    codec = make_codec(name, *size)
    values = random_values(codec, seed, pages=2)
    stored = codec.encode(values)
    out, counts = codec.decode(stored)
    assert np.array_equal(out, values)
    assert (counts.voted, counts.zeroed, counts.discarded, counts.bits_corrected, counts.uncorrectable) == (
        0,
    ) * 5


@pytest.mark.parametrize("fill", [0, 1, -1, 127, -128])
def test_a_page_of_equal_values(fill):
    values = np.full((1, PAPER.values_per_page), fill, np.int8)
    assert np.array_equal(PAPER.decode(PAPER.encode(values))[0], values)


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("size", SIZES)
def test_the_spare_area_is_never_exceeded(name, size):
    codec = make_codec(name, *size)
    assert codec.spare_bits_used <= 8 * codec.spare_bytes
    stored = codec.encode(random_values(codec, 1))
    assert stored.shape == (1, size[0] + size[1])
    unused = np.unpackbits(stored[:, size[0] :], bitorder="little")[codec.spare_bits_used :]
    assert not unused.any()


def test_the_spare_area_is_what_the_paper_says():
    assert (PAPER.protected, PAPER.address_bits, PAPER.check_bits, PAPER.record_bits) == (163, 14, 5, 35)
    assert PAPER.spare_bits_used == 8 * 9 + 35 * 163


def test_a_code_that_does_not_fit_is_refused():
    for name, spare in (("paper", 722), ("hamming", 1151), ("bch:60", 1664)):
        with pytest.raises(TileProbeError, match="spare area"):
            make_codec(name, 16384, spare)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), record=st.integers(0, 162), bit=st.integers(0, 18))
def test_every_single_error_in_an_address_is_corrected(seed, record, bit):
    values = random_values(PAPER, seed)
    stored = PAPER.encode(values)
    flip_bits(stored, 0, [8 * 16384 + 72 + 35 * record + bit])
    out, counts = PAPER.decode(stored)
    assert np.array_equal(out, values)
    assert (counts.addresses_corrected, counts.discarded) == (1, 0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), record=st.integers(0, 162), bit=st.integers(0, 7), copy=st.integers(0, 2))
def test_the_majority_holds_under_any_single_flip_of_value_and_copies(seed, record, bit, copy):
    values = random_values(PAPER, seed)
    stored = PAPER.encode(values)
    address = records(PAPER, values)[0][record]
    where = 8 * address + bit if copy == 0 else 8 * 16384 + 72 + 35 * record + 19 + 8 * (copy - 1) + bit
    flip_bits(stored, 0, [int(where)])
    out, counts = PAPER.decode(stored)
    assert np.array_equal(out, values)
    assert counts.voted == (copy == 0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), copies=st.sets(st.integers(0, 8), max_size=4), bit=st.integers(0, 7))
def test_the_threshold_survives_four_damaged_copies(seed, copies, bit):
    values = random_values(PAPER, seed)
    stored = PAPER.encode(values)
    flip_bits(stored, 0, [8 * 16384 + 8 * c + bit for c in copies])
    assert np.array_equal(PAPER.decode(stored)[0], values)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1000), data=st.data(), threshold=st.sampled_from(["magnitude", "signed"]))
def test_an_unprotected_value_beyond_the_threshold_becomes_zero(seed, data, threshold):
    codec = make_codec("paper" if threshold == "magnitude" else "paper:signed")
    assert isinstance(codec, OutlierCode)
    values = random_values(codec, seed)
    protected, limit = records(codec, values)
    address = data.draw(st.integers(0, 16383).filter(lambda a: a not in protected))
    bit = data.draw(st.integers(0, 7))
    stored = codec.encode(values)
    flip_bits(stored, 0, [8 * address + bit])
    flipped = int(np.int8(np.uint8(values[0, address]) ^ np.uint8(1 << bit)))
    beyond = abs(flipped) > limit if threshold == "magnitude" else flipped > limit
    expected = values.copy()
    expected[0, address] = 0 if beyond else flipped
    out, counts = codec.decode(stored)
    assert np.array_equal(out, expected)
    assert counts.zeroed == beyond


def test_two_errors_in_an_address_are_discarded_or_missed():
    """14 + 5 bits correct one error and recognise only some pairs: both kinds must occur, and be counted."""
    values = random_values(PAPER, 3)
    discarded = corrected = misled = 0
    for first in range(19):
        for second in range(first):
            stored = PAPER.encode(values)
            base = 8 * 16384 + 72 + 35 * 80
            flip_bits(stored, 0, [base + first, base + second])
            outcome = audit(PAPER, values, stored, Flips())[1]
            discarded += outcome.decoder.discarded
            corrected += outcome.decoder.addresses_corrected
            misled += outcome.misled
    assert discarded + corrected == 19 * 18 // 2
    assert discarded > 0
    assert (
        0 < misled <= corrected
    )  # two wrong check bits can look like a wrong third: the address is right then


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rate", [1e-4, 3e-3, 0.2])
def test_every_hit_value_is_counted_once(name, size, rate):
    codec = make_codec(name, *size)
    values = random_values(codec, 5, pages=4)
    stored = codec.encode(values)
    clean = stored.copy()
    flips = inject(stored, np.arange(4), codec.page_bytes, rate, seed=9)
    assert flips.total == np.unpackbits(stored ^ clean).sum()
    out, outcome = audit(codec, values, stored, flips)
    raw = codec.data_of(stored)
    assert outcome.hit == (raw != values).sum()
    assert outcome.hit == outcome.corrected + outcome.zeroed + outcome.missed
    assert (out != values)[raw == values].sum() == outcome.collateral
    if codec.name == "none":
        assert outcome.missed == outcome.hit


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), errors=st.integers(0, 25))
def test_bch_corrects_every_pattern_up_to_t(seed, errors):
    codec = make_codec("bch:25", 1024, 104)
    rng = np.random.default_rng(seed)
    values = random_values(codec, seed)
    stored = codec.encode(values)
    bits = rng.choice(8 * 1024 + codec.spare_bits_used, errors, replace=False)
    flip_bits(stored, 0, [int(b) for b in bits])
    out, counts = codec.decode(stored)
    assert np.array_equal(out, values)
    assert (counts.bits_corrected, counts.uncorrectable) == (errors, 0)


def test_bch_beyond_t_is_reported():
    codec = make_codec("bch:6", 1024, 104)
    values = random_values(codec, 1, pages=60)
    stored = codec.encode(values)
    rng = np.random.default_rng(4)
    for page in range(60):
        flip_bits(stored, page, [int(b) for b in rng.choice(8192, 12, replace=False)])
    counts = codec.decode(stored)[1]
    assert counts.uncorrectable >= 55  # a decoder can be misled, rarely: about one pattern in 6!


@settings(max_examples=60, deadline=None)
@given(word=st.integers(0, 1023), bits=st.sets(st.integers(0, 127), min_size=1, max_size=2))
def test_hamming_corrects_one_error_a_word_and_detects_two(word, bits):
    codec = make_codec("hamming")
    values = random_values(codec, word)
    stored = codec.encode(values)
    flip_bits(stored, 0, [128 * word + b for b in bits])
    out, counts = codec.decode(stored)
    assert np.array_equal(out, values) == (len(bits) == 1)
    assert (counts.bits_corrected, counts.uncorrectable) == ((1, 0) if len(bits) == 1 else (0, 1))


def test_errors_belong_to_the_page_not_to_the_order():
    stored = np.zeros((6, 18048), np.uint8)
    inject(stored, np.arange(6), 16384, 1e-3, seed=2)
    backwards = np.zeros((6, 18048), np.uint8)
    inject(backwards, np.arange(6)[::-1], 16384, 1e-3, seed=2)
    assert np.array_equal(stored, backwards[::-1])
    other = np.zeros((6, 18048), np.uint8)
    inject(other, np.arange(6), 16384, 1e-3, seed=3)
    assert not np.array_equal(stored, other)


@pytest.mark.parametrize("rate", [1e-4, 1e-2, 0.5, 1.0])
def test_the_rate_is_kept(rate):
    stored = np.zeros((200, 18048), np.uint8)
    flips = inject(stored, np.arange(200), 16384, rate, seed=1)
    bits = 8 * stored.size
    assert abs(flips.total - bits * rate) <= 5 * np.sqrt(bits * rate * (1 - rate))
    assert flips.total == np.unpackbits(stored).sum()


@pytest.mark.parametrize("rate", [-1e-9, 1.0001, float("nan")])
def test_a_rate_outside_0_to_1_is_refused(rate):
    with pytest.raises(TileProbeError, match="from 0 to 1"):
        inject(np.zeros((1, 18048), np.uint8), np.arange(1), 16384, rate, seed=1)


@pytest.mark.parametrize("name", ["rs", "bch:x", "bch:0", "bch:99", "paper:sideways", "hamming:3"])
def test_an_unknown_code_is_refused(name):
    with pytest.raises(TileProbeError):
        make_codec(name)


def test_pages_of_the_wrong_shape_are_refused():
    with pytest.raises(TileProbeError, match="int8 rows of 16384"):
        PAPER.encode(np.zeros((1, 100), np.int8))
    with pytest.raises(TileProbeError, match="stored pages"):
        PAPER.decode(np.zeros((1, 100), np.uint8))


def test_no_flips_no_outcome():
    values = random_values(PAPER, 1)
    _, outcome = audit(PAPER, values, PAPER.encode(values), Flips())
    assert (outcome.hit, outcome.zeroed, outcome.missed, outcome.collateral) == (0, 0, 0, 0)
