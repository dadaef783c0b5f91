"""Small buffers decoded by eye; random programs are in tests/layouts."""

import numpy as np
import pytest

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Body, Span, Stamp, allocate
from tileprobe.ir.sampling import Sampling
from tileprobe.trace.decode import decode


def test_launches_are_decoded_together():
    layout = allocate([Stamp(0), Stamp(1)], spans=[Span(0, 0, 1)])
    words = np.zeros((3, 2, layout.block_words), np.uint64)
    for launch in range(3):
        words[launch, :, 0] = launch + 1
        words[launch, :, 8], words[launch, :, 9] = 100 * launch + 1, 100 * launch + 8
    decoded = decode(words, layout, epochs=[1, 2, 3], programs=2, launches=[4, 5, 6])
    assert decoded.columns["launch"].tolist() == [4, 4, 5, 5, 6, 6]
    assert (decoded.columns["stop"] - decoded.columns["start"] == 7).all()
    assert [losses.kept for losses in decoded.losses] == [4, 4, 4]


def test_neighbours_share_a_record():
    layout = allocate([Stamp(0), Stamp(1), Stamp(2)], spans=[Span(0, 0, 1), Span(1, 1, 2)])
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, 0], words[0, 8:11] = 1, (10, 20, 50)
    columns = decode(words, layout, epochs=[1], programs=1).columns
    assert columns["start"].tolist() == [10, 20]
    assert columns["stop"].tolist() == [20, 50]


def test_issue_and_wait_two_iterations_apart():
    layout = allocate(
        [Body(0, 4, (Stamp(0), Stamp(1), Stamp(2)))],
        spans=[Span(0, 0, 2, "async", start_ahead=2), Span(1, 1, 2, "wait")],
    )
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, 0], words[0, 8] = 1, (1 << 32) | 4
    words[0, 9:21] = 1 + np.arange(12) * 10
    columns = decode(words, layout, epochs=[1], programs=1).columns
    asynchronous = columns["kind"] == 1
    assert columns["start"][asynchronous].tolist() == [1, 31]
    assert columns["stop"][asynchronous].tolist() == [81, 111]
    assert columns["iteration"][asynchronous].tolist() == [2, 3]
    assert columns["iteration"][~asynchronous].tolist() == [0, 1, 2, 3]


def test_peeled_copies_carry_their_logical_iteration():
    layout = allocate(
        [Stamp(0), Body(0, 8, (Stamp(1),)), Stamp(2)],
        spans=[
            Span(0, 0, 0, "mark", 0, 0, 0, 0),
            Span(0, 1, 1, "mark", 1, -1, 1, -1),
            Span(0, 2, 2, "mark", -1, 0, -1, 0),
        ],
    )
    words = np.zeros((1, layout.block_words), np.uint64)
    words[0, 0] = 1
    words[0, layout.loops[0].trip_base] = (1 << 32) | 3
    for n, place in enumerate(
        [layout.slots[0].base, *(layout.slots[1].base + np.arange(2)), layout.slots[2].base]
    ):
        words[0, place] = 10 + n
    columns = decode(words, layout, epochs=[1], programs=1).columns
    assert columns["iteration"].tolist() == [0, 1, 2, 2]


def test_a_buffer_of_another_shape_is_refused():
    layout = allocate([Stamp(0)])
    with pytest.raises(TileProbeError, match="has no blocks of"):
        decode(np.zeros((1, 5), np.uint64), layout, epochs=[1], programs=1)


def test_budget_leaves_programs_out_evenly():
    sampling = Sampling().within(1000, 10)
    chosen = sampling.recorded(1000, 10)
    assert len(chosen) == 10
    assert set(np.diff(chosen)) == {100}
    assert Sampling.random(1000, 5, seed=1) == Sampling.random(1000, 5, seed=1)
    assert Sampling.from_json(sampling.to_json()) == sampling
