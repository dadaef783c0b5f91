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
    maps = []
    for _ in range(draw(st.integers(1, 3))):
        rows, cols = draw(st.integers(1, 50)), draw(st.integers(1, 50))
        block_rows, block_cols = draw(st.integers(1, 9)), draw(st.integers(1, 9))
        chunks = -(-rows // block_rows)
        flash = {FLASH_ONLY: chunks, NPU_ONLY: 0}.get(mode)
        maps.append(
            PageMap(
                geometry,
                rows,
                cols,
                block_rows,
                block_cols,
                draw(st.integers(0, chunks)) if flash is None else flash,
            )
        )
    return stack(maps)


@given(placed())
@settings(max_examples=60, deadline=None)
def test_both_directions_agree_and_pages_never_collide(maps):
    pages = set()
    for m in maps:
        row, col = np.mgrid[0 : m.rows, 0 : m.cols]
        where = m.locate(row, col)
        block = m.blocks(*where[:5])
        assert np.all((block.row <= row) & (row < block.row + block.rows))
        assert np.all((block.col <= col) & (col < block.col + block.cols))
        assert np.array_equal((row - block.row) * m.block_cols + col - block.col, where.offset)
        table, blocks = m.table()
        assert (blocks.rows * blocks.cols).sum() == m.rows * m.cols
        assert np.array_equal(blocks.in_flash, table.plane < m.geometry.compute_planes)
        assert table.page.max() < max(m.compute_base + m.compute_pages, m.stream_base + m.stream_pages)
        here = set(zip(*(x.tolist() for x in table[:5])))
        assert len(here) == m.pages
        assert not here & pages
        pages |= here


def test_pages_of_nothing_hold_nothing():
    geometry = geometry_of(load_machine("cambricon:s"))
    m = PageMap(geometry, 64, 64, 8, 8, 4, compute_base=5, stream_base=5)
    assert m.blocks(0, 0, 0, 0, 0).rows == 0  # before the matrix
    assert m.blocks(0, 0, 0, 0, 99).rows == 0  # behind it


def test_columns_over_channels_and_rows_over_cores():
    m = PageMap(geometry_of(load_machine("cambricon:s")), 64, 64, 8, 8, 8)
    assert m.locate(0, np.arange(0, 64, 8)).channel.tolist() == list(range(8))
    where = m.locate(np.arange(0, 64, 8), 0)
    assert (where.chip * 2 + where.die).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_impossible_maps():
    machine = load_machine("cambricon:s")
    with pytest.raises(TileProbeError, match="flash_chunks must lie between"):
        PageMap(geometry_of(machine), 64, 64, 8, 8, 9)
    with pytest.raises(TileProbeError, match="no plane computes"):
        PageMap(geometry_of(machine, NPU_ONLY), 64, 64, 8, 8, 1)
    with pytest.raises(TileProbeError, match="no plane serves reads"):
        PageMap(geometry_of(machine, FLASH_ONLY), 64, 64, 8, 8, 1)
