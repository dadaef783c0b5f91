"""The decoder recovers exactly what a reference interpreter wrote, for random kernels and sampling."""

import os
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Body, Layout, Span, Stamp, allocate
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace.decode import decode

sys.path.insert(0, os.path.dirname(__file__))
from reference import Machine, kernels, lay_out

everys = st.builds(Every, st.integers(1, 3), st.integers(-3, 3), st.sampled_from([2**31 - 1, 0, 1, 2]))
samplings = st.one_of(
    st.just(Sampling()),
    st.builds(Sampling, everys, st.dictionaries(st.integers(-1, 3), everys, max_size=3)),
    st.builds(lambda chosen: Sampling(chosen=tuple(chosen)), st.lists(st.integers(0, 6), unique=True)),
)


def run(kernel, layout, sampling, programs, blocks, *, epoch=7, clock=2**40, big_steps=False, words=None):
    """Runs one launch on the reference machine and decodes it."""
    if words is None:
        words = np.zeros((blocks, layout.block_words), np.uint64)
    table = sampling.program_map(programs, blocks)
    parameters = sampling.parameters(layout, buffer=1, epoch=epoch, programs=programs, blocks=blocks)
    machine = Machine(layout, parameters, words, table, clock, np.random.default_rng(0), big_steps)
    machine.run(kernel, programs)
    decoded = decode(words, layout, epochs=[epoch], programs=programs, sampling=sampling)
    return machine, decoded


def rows(decoded):
    """What was decoded, as the reference writes it."""
    if not decoded.columns:
        return []
    names = ("program", "region", "iteration", "start", "stop", "value")
    values = zip(*(decoded.columns[name].tolist() for name in names))
    return sorted((*row[:-1], None if np.isnan(row[-1]) else row[-1]) for row in values)


def truth(machine):
    return sorted(machine.intervals, key=lambda row: row[:-1])


@settings(deadline=None, max_examples=200)
@given(kernels(), samplings, st.integers(0, 5), st.integers(1, 6), st.sampled_from([32, 64]), st.booleans())
def test_exactly_what_was_written(kernel, sampling, programs, blocks, bits, all_cursor):
    layout = lay_out(kernel, bits, cursor_capacity=30, all_cursor=all_cursor)
    machine, decoded = run(kernel, layout, sampling, programs, blocks)
    assert rows(decoded) == truth(machine)
    assert decoded.losses[0].kept == machine.kept
    units = decoded.columns.get("unit", np.zeros(0))
    assert (units == decoded.columns.get("program", units) % 3).all()


@settings(deadline=None, max_examples=100)
@given(kernels(uniform=True), samplings, st.integers(1, 5), st.integers(1, 6))
def test_losses_are_exact_when_programs_are_alike(kernel, sampling, programs, blocks):
    layout = lay_out(kernel)
    machine, decoded = run(kernel, layout, sampling, programs, blocks)
    losses = decoded.losses[0]
    if len(sampling.recorded(programs, blocks)) == 0 or not machine.kept:
        return  # nothing was seen, so nothing is known of what was not
    assert losses.kept == machine.kept
    if all(loop.capacity and sampling.loop(loop.id).selected(6) for loop in layout.loops) and seen(
        machine, layout
    ):
        assert losses.kept + losses.sampled_out + losses.lost == machine.records
    if sampling == Sampling() and blocks >= programs:
        assert losses.sampled_out == 0


def seen(machine, layout):
    """Whether every slot was written at least once wherever it could have been."""
    regions = {row[1] for row in machine.intervals}
    return regions == {span.region for span in layout.spans}


@settings(deadline=None, max_examples=60)
@given(kernels(uniform=True, roomy=True, depth=2), st.integers(1, 4), st.booleans())
def test_32_bit_clocks_wrap_many_times(kernel, programs, all_cursor):
    layout = lay_out(kernel, 32, cursor_capacity=4000, all_cursor=all_cursor)
    machine, decoded = run(kernel, layout, Sampling(), programs, programs, clock=2**32 - 5, big_steps=True)
    assert rows(decoded) == truth(machine)


@settings(deadline=None, max_examples=60)
@given(kernels(), samplings, samplings, st.sampled_from([32, 64]))
def test_a_second_launch_never_sees_the_first(kernel, first, second, bits):
    layout = lay_out(kernel, bits)
    words = np.zeros((5, layout.block_words), np.uint64)
    before, _ = run(kernel, layout, first, 5, 5, words=words)
    if bits == 64:
        words[:] = 0  # as the owner of the buffer does
    machine, decoded = run(kernel, layout, second, 5, 5, epoch=8, clock=before.clock + 1, words=words)
    assert rows(decoded) == truth(machine)


@settings(deadline=None, max_examples=60)
@given(kernels())
def test_layout_places_are_distinct_and_survive_json(kernel):
    layout = lay_out(kernel)
    assert Layout.from_json(layout.to_json()) == layout
    expected = sum(int(np.prod(layout.shape(s))) for s in layout.slots if not s.cursor)
    assert layout.clock_words().sum() == expected


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
    layout = allocate([Stamp(0), Stamp(1)])
    sampling = Sampling().within(layout, 1000, 10 * layout.block_bytes)
    chosen = sampling.recorded(1000, 10)
    assert len(chosen) == 10
    assert set(np.diff(chosen)) == {100}
    assert Sampling.random(1000, 5, seed=1) == Sampling.random(1000, 5, seed=1)
    assert Sampling.from_json(sampling.to_json()) == sampling
