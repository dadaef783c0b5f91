"""Products in flash: bit-exact whatever the shape, tiling and split; values lie where the map says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.ecc import make_codec
from tileprobe.targets.cambricon.functional.flash import Flash
from tileprobe.targets.cambricon.functional.placement import place
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT

S = load_machine("cambricon:s")
CODEC8, CODEC4 = make_codec("paper"), make_codec("paper", value_bits=4)


def product(machine, codec, matrix, x, block, share=0.7, mode=SPLIT):
    flash = Flash(machine, codec)
    flash.program("m", matrix, place(machine, [matrix.shape], block, share, mode)[0])
    return flash.multiply("m", x), flash


def random_layer(rows, cols, tokens, bits, seed):
    rng = np.random.default_rng(seed)
    limit, wide = (127, 127) if bits == 8 else (7, 32767)
    matrix = rng.integers(-limit, limit + 1, (rows, cols)).astype(np.int8)
    return matrix, rng.integers(-wide, wide + 1, (tokens, cols)).astype(np.int16)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 150),
    cols=st.integers(1, 300),
    tokens=st.integers(1, 3),
    bits=st.sampled_from([8, 4]),
    block_rows=st.integers(1, 70),
    block_cols=st.integers(1, 200),
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_products_equal_numpy(rows, cols, tokens, bits, block_rows, block_cols, share, seed):
    matrix, x = random_layer(rows, cols, tokens, bits, seed)
    codec = CODEC8 if bits == 8 else CODEC4
    sums, flash = product(S, codec, matrix, x, (block_rows, block_cols), share)
    assert np.array_equal(sums, x.astype(np.int64) @ matrix.astype(np.int64).T)
    assert flash.work.saturated == 0
    assert flash.work.read_computes + flash.work.page_reads == -(-rows // block_rows) * -(-cols // block_cols)


@pytest.mark.parametrize("shape", [(1, 1), (340, 128), (128, 340), (1031, 517), (64, 5000)])
@pytest.mark.parametrize("device", ["cambricon:s", "cambricon:m", "cambricon:l"])
def test_tiling_and_split_change_no_bit(shape, device):
    machine = load_machine(device)
    matrix, x = random_layer(*shape, tokens=2, bits=8, seed=3)
    reference = x.astype(np.int64) @ matrix.astype(np.int64).T
    for block in ((64, 256), (32, 512), (128, 128), (16384, 1), (3, 77)):
        for mode, share in ((SPLIT, 0.3), (SPLIT, 0.9), (FLASH_ONLY, 1.0), (NPU_ONLY, 0.0)):
            sums, flash = product(machine, CODEC8, matrix, x, block, share, mode)
            assert np.array_equal(sums, reference)
            assert (flash.work.page_reads == 0) == (
                mode == FLASH_ONLY or flash.matrices["m"].map.stream_chunks == 0
            )
            assert mode != NPU_ONLY or flash.work.read_computes == 0


@pytest.mark.parametrize("bits", [8, 4])
def test_every_value_lies_where_the_page_map_says(bits):
    matrix, _ = random_layer(150, 333, 1, bits, seed=5)
    codec = CODEC8 if bits == 8 else CODEC4
    flash = Flash(S, codec)
    page_map = place(S, [matrix.shape], (64, 100), share=0.5)[0]
    flash.program("m", matrix, page_map)
    rng = np.random.default_rng(0)
    for row, col in zip(rng.integers(0, 150, 200), rng.integers(0, 333, 200)):
        at = page_map.locate(row, col)
        page = flash.read_page(*(int(v) for v in (at.channel, at.chip, at.die, at.plane, at.page)))
        values = codec.data_of(page[None])[0]
        assert values[int(at.offset)] == matrix[row, col]


def test_matrices_do_not_share_pages():
    matrix, _ = random_layer(100, 100, 1, 8, seed=1)
    flash = Flash(S, CODEC8)
    first, second = place(S, [(100, 100), (100, 100)], (64, 64))
    flash.program("a", matrix, first)
    flash.program("b", matrix, second)
    with pytest.raises(TileProbeError, match="share a page"):
        flash.program("c", matrix, first)


def test_a_partial_sum_wider_than_the_core_saturates_and_is_counted():
    machine = S.replace(partial_sum_bytes_w8a8=1)
    matrix = np.full((4, 64), 100, np.int8)
    x = np.full((1, 64), 100, np.int16)
    sums, flash = product(machine, CODEC8, matrix, x, (4, 64), mode=FLASH_ONLY, share=1.0)
    assert sums.tolist() == [[127] * 4]
    assert flash.work.saturated == 4
    streamed, _ = product(machine, CODEC8, matrix, x, (4, 64), mode=NPU_ONLY, share=0.0)
    assert streamed.tolist() == [[640_000] * 4]


def test_errors_change_sums_and_a_code_mends_them():
    matrix, x = random_layer(300, 300, 2, 8, seed=2)
    reference = x.astype(np.int64) @ matrix.astype(np.int64).T
    for name, right in (("none", False), ("bch", True)):
        flash = Flash(S, make_codec(name))
        flash.program("m", matrix, place(S, [matrix.shape], (128, 128))[0])
        flips = flash.inject(1e-3, seed=4)
        assert flips.total > 0
        assert np.array_equal(flash.multiply("m", x), reference) == right
        outcome = flash.audit({"m": matrix}, flips)
        assert (outcome.missed == 0) == right
        assert outcome.values == matrix.size
        assert outcome.hit == outcome.corrected + outcome.zeroed + outcome.missed


def test_restore_undoes_errors():
    matrix, x = random_layer(70, 90, 1, 8, seed=2)
    flash = Flash(S, make_codec("none"))
    flash.program("m", matrix, place(S, [matrix.shape], (64, 64))[0])
    clean, before = flash.snapshot(), flash.multiply("m", x)
    flash.inject(0.01, seed=1)
    assert not np.array_equal(flash.multiply("m", x), before)
    flash.restore(clean)
    assert np.array_equal(flash.multiply("m", x), before)


def test_what_does_not_fit_is_refused():
    matrix, x = random_layer(10, 10, 1, 8, seed=2)
    flash = Flash(S, CODEC8)
    with pytest.raises(TileProbeError, match="does not fit a page"):
        flash.program("m", matrix, place(S, [(10, 10)], (256, 256))[0])
    with pytest.raises(TileProbeError, match="for a map of"):
        flash.program("m", matrix, place(S, [(10, 11)], (64, 64))[0])
    with pytest.raises(TileProbeError, match="is full"):
        Flash(S.replace(pages_per_plane=1), CODEC8).program(
            "m", np.zeros((900, 10), np.int8), place(S, [(900, 10)], (8, 8))[0]
        )
    with pytest.raises(TileProbeError, match="the page code is for pages"):
        Flash(S, make_codec("none", 8192, 800))
    with pytest.raises(TileProbeError, match="nothing was written"):
        flash.read_page(0, 0, 0, 0, 0)
    flash.program("m", matrix, place(S, [(10, 10)], (64, 64))[0])
    with pytest.raises(TileProbeError, match="expected int16"):
        flash.multiply("m", x[:, :5])
