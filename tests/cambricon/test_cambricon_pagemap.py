"""The page map, both ways: every weight has one place, every place at most one weight."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT, PageMap, geometry_of, stack


@st.composite
def machines(draw):
    planes = draw(st.sampled_from([2, 4]))
    cores = draw(st.sampled_from([1, planes // 2]))
    return load_machine("cambricon:s").replace(
        channels=draw(st.integers(1, 5)),
        chips_per_channel=draw(st.integers(1, 3)),
        planes_per_die=planes,
        cores_per_die=cores,
    )


@st.composite
def placed(draw):
    mode = draw(st.sampled_from([SPLIT, FLASH_ONLY, NPU_ONLY]))
    geometry = geometry_of(draw(machines()), mode)
    maps, striped = [], draw(st.booleans())
    for _ in range(draw(st.integers(1, 3))):
        rows, cols = draw(st.integers(1, 50)), draw(st.integers(1, 50))
        block_rows, block_cols = draw(st.integers(1, 9)), draw(st.integers(1, 9))
        chunks, first = -(-rows // block_rows), draw(st.sampled_from([0, 3]))
        flash = {FLASH_ONLY: chunks, NPU_ONLY: 0}.get(mode)
        maps.append(
            PageMap(
                geometry,
                rows,
                cols,
                block_rows,
                block_cols,
                draw(st.integers(0, chunks)) if flash is None else flash,
                striped=striped,
                first_block=first,
            )
        )
    return stack(maps)


@given(placed())
@settings(max_examples=60, deadline=None)
def test_both_directions_agree_and_pages_never_collide(maps):
    pages = set()
    for m in maps:
        row, col = np.mgrid[0 : m.rows, 0 : m.cols]
        col += m.first_block * m.block_cols
        where = m.locate(row, col)
        block = m.blocks(*where[:5])
        assert np.all((block.row <= row) & (row < block.row + block.rows))
        assert np.all((block.col <= col) & (col < block.col + block.cols))
        assert np.array_equal((row - block.row) * m.block_cols + col - block.col, where.offset)
        table, blocks = m.table()
        assert (blocks.rows * blocks.cols).sum() == m.rows * m.cols
        assert np.array_equal(blocks.in_flash, table.plane < m.geometry.compute_planes)
        turns = m.stream_first // m.lanes + m.stream_rounds
        last = -(-turns // max(m.geometry.stream_planes, 1))
        assert table.page.max() < max(m.compute_base + m.compute_pages, last)
        here = set(zip(*(x.tolist() for x in table[:5])))
        assert len(here) == m.pages
        assert not here & pages
        pages |= here


def test_pages_of_nothing_hold_nothing():
    geometry = geometry_of(load_machine("cambricon:s"))
    m = PageMap(geometry, 64, 64, 8, 8, 4, compute_base=5, stream_first=5 * 32)
    assert m.blocks(0, 0, 0, 0, 0).rows == 0  # before the matrix
    assert m.blocks(0, 0, 0, 0, 99).rows == 0  # behind it


def test_columns_over_channels_and_rows_over_cores():
    m = PageMap(geometry_of(load_machine("cambricon:s")), 64, 64, 8, 8, 8)
    assert m.locate(0, np.arange(0, 64, 8)).channel.tolist() == list(range(8))
    where = m.locate(np.arange(0, 64, 8), 0)
    assert (where.chip * 2 + where.die).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_the_share_of_the_npu_goes_over_all_channels():
    """Three block columns on eight channels: flash uses three, the stream all of them, as even as can be."""
    geometry = geometry_of(load_machine("cambricon:s"))
    m = PageMap(geometry, 64, 24, 8, 8, 2)
    table, blocks = m.table()
    assert set(table.channel[blocks.in_flash].tolist()) == {0, 1, 2}
    assert np.bincount(table.channel[~blocks.in_flash]).tolist() == [3, 3, 2, 2, 2, 2, 2, 2]
    pinned, _ = PageMap(geometry, 64, 24, 8, 8, 2, striped=False).table()
    assert set(pinned.channel.tolist()) == {0, 1, 2}


def test_impossible_maps():
    machine = load_machine("cambricon:s")
    with pytest.raises(TileProbeError, match="flash_chunks must lie between"):
        PageMap(geometry_of(machine), 64, 64, 8, 8, 9)
    with pytest.raises(TileProbeError, match="no plane computes"):
        PageMap(geometry_of(machine, NPU_ONLY), 64, 64, 8, 8, 1)
    with pytest.raises(TileProbeError, match="no plane serves reads"):
        PageMap(geometry_of(machine, FLASH_ONLY), 64, 64, 8, 8, 1)
