"""Random programs on a virtual machine: the decoder gives back exactly what happened, and replay what would have
happened without probes."""

import os
import sys

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tileprobe.ir.layout import Layout
from tileprobe.ir.machine import Clock
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.trace.decode import decode
from tileprobe.trace.replay import Calibration

sys.path.insert(0, os.path.dirname(__file__))
from record_executor import decoded_rows, launch
from record_programs import lay_out, programs

everys = st.builds(Every, st.integers(1, 3), st.integers(-3, 3), st.sampled_from([2**31 - 1, 0, 1, 2]))
forward = st.builds(Every, st.integers(1, 3), st.integers(0, 3), st.sampled_from([2**31 - 1, 0, 1, 2]))


def samplings(loops=everys):
    return st.one_of(
        st.just(Sampling()),
        st.builds(Sampling, everys, st.dictionaries(st.integers(-1, 3), loops, max_size=3)),
        st.builds(Sampling, st.just(Every()), st.dictionaries(st.integers(-1, 3), loops, max_size=3)),
        st.builds(lambda chosen: Sampling(chosen=tuple(chosen)), st.lists(st.integers(0, 6), unique=True)),
    )


def read(run, sampling, count, epoch=7, **more):
    return decode(run.words, run.laid.layout, epochs=[epoch], programs=count, sampling=sampling, **more)


def check(run, decoded):
    truth = run.truth()
    found = decoded_rows(decoded)
    assert [row for row, _ in found] == [row for row, _, _ in truth]
    assert decoded.losses[0].kept == run.kept()
    outers = sorted((row, outer) for row, outer, _ in truth if outer is not None and simple(run, row))
    known = {row for row, _ in outers}
    assert sorted((row, outer) for row, outer in found if row in known) == outers
    check_edges(truth, decoded)


def simple(run, row):
    """Whether the outer iteration of a region is known: records with places say it, the cursor's count runs."""
    spans = [span for span in run.laid.layout.spans if span.region == row[2]]
    return not run.laid.layout.slots[spans[0].start].cursor


def check_edges(truth, decoded):
    expected = []
    for row, _, (to, at) in truth:
        if row[3] == 1:
            expected.append((*at, row[2], row[5], *to, row[2], row[6]))
    parts = ("program", "stream", "unit", "region", "tick")
    names = [f"{end}_{part}" for end in ("from", "to") for part in parts]
    found = zip(*(decoded.edges[name].tolist() for name in names)) if decoded.edges else ()
    assert sorted(found) == sorted(expected)


@settings(deadline=None, max_examples=300)
@given(programs(), samplings(), st.integers(0, 4), st.integers(1, 5), st.sampled_from([20, 32, 64]))
def test_exactly_what_was_written(program, sampling, count, blocks, bits):
    laid = lay_out(program, clock_bits=bits, cursor_capacity=30)
    if any(loop.cursor for loop in laid.layout.loops):
        assume(all(every.phase >= 0 for every in sampling.loops.values()))
    run = launch(laid, sampling, count, blocks, begin=2**40 - 500)
    check(run, read(run, sampling, count))


@settings(deadline=None, max_examples=150)
@given(
    programs(all_cursor=True), samplings(forward), st.integers(0, 3), st.sampled_from([20, 64]), st.booleans()
)
def test_everything_through_the_cursor(program, sampling, count, bits, roomy):
    laid = lay_out(program, clock_bits=bits, cursor_capacity=4000 if roomy else 30, all_cursor=True)
    run = launch(laid, sampling, count, 4)
    check(run, read(run, sampling, count))


@settings(deadline=None, max_examples=250)
@given(programs(circular=True), samplings(forward), st.integers(0, 3), st.sampled_from([32, 64]))
def test_circular_keeps_the_last(program, sampling, count, bits):
    laid = lay_out(program, clock_bits=bits, cursor_capacity=24, strategy="circular")
    run = launch(laid, sampling, count, 4)
    check(run, read(run, sampling, count))


@settings(deadline=None, max_examples=100)
@given(programs(uniform=True, streams=2), samplings(), st.integers(1, 4), st.integers(1, 5), st.booleans())
def test_losses_are_exact_when_programs_are_alike(program, sampling, count, blocks, circular):
    laid = lay_out(program, strategy="circular" if circular else "exact")
    run = launch(laid, sampling, count, blocks)
    losses = read(run, sampling, count).losses[0]
    assume(run.kept() and len(sampling.recorded(count, blocks)))
    assert losses.kept == run.kept()
    chosen = all(sampling.loop(loop.id).selected(6) for loop in laid.layout.loops)
    if chosen and seen_all(run):
        assert losses.kept + losses.sampled_out + losses.lost == run.happened
    if sampling == Sampling() and blocks >= count:
        assert losses.sampled_out == 0


def seen_all(run):
    """Whether every slot was written: what was never seen cannot be counted."""
    layout = run.laid.layout
    words = run.words[(run.words[:, 0] != 0)]
    for slot in layout.slots:
        base = layout.streams[slot.stream].base + slot.base
        if not words[:, base].any():
            return False
    return True


@st.composite
def roomy_programs(draw):
    """A program in which everything is kept, and whether all of it goes through the cursor."""
    all_cursor = draw(st.booleans())
    return draw(programs(uniform=True, roomy=True, depth=2, all_cursor=all_cursor)), all_cursor


@settings(deadline=None, max_examples=80)
@given(roomy_programs(), st.integers(1, 3), st.sampled_from([(20, 64), (32, 64), (64, 20), (32, 20)]))
def test_narrow_clocks_turn_many_times(made, count, widths):
    """Each stream instance for itself, up to half a turn from record to record; narrow are the records or the machine's
    own counter."""
    (program, all_cursor), (bits, counter) = made, widths
    half = 2 ** (min(widths) - 1)
    laid = lay_out(program, clock_bits=bits, cursor_capacity=4000, all_cursor=all_cursor)
    how = {"begin": 2 * half - 5, "step": half, "latency": half - 1, "counter": counter}
    run = launch(laid, Sampling(), count, count, **how)
    check(run, read(run, Sampling(), count, clock=Clock(1e9, bits=counter)))


@settings(deadline=None, max_examples=60)
@given(programs(), samplings(forward), samplings(forward), st.sampled_from([20, 32, 64]))
def test_a_second_launch_never_sees_the_first(program, first, second, bits):
    laid = lay_out(program, clock_bits=bits)
    words = np.zeros((5, laid.layout.block_words), np.uint64)
    launch(laid, first, 5, 5, words=words)
    if bits == 64:
        words[:] = 0  # as the owner of the buffer does
    run = launch(laid, second, 5, 5, epoch=8, begin=2**40 + 12345, words=words)
    check(run, read(run, second, 5, epoch=8))


@settings(deadline=None, max_examples=200)
@given(programs(roomy=True, depth=2), st.integers(1, 2), st.integers(1, 9), st.sampled_from([0, 5000]))
def test_replay_gives_back_the_times_without_probes(program, count, cost, latency):
    laid = lay_out(program, cursor_capacity=20_000)
    assume(not any(span.kind == "async" and across(laid.layout, span) for span in laid.layout.spans))
    bare = launch(laid, Sampling(), count, count, latency=latency)
    probed = launch(laid, Sampling(), count, count, latency=latency, cost=cost)
    # A wait that probes alone make or unmake is told from no other: leave those programs out.
    for plain, delayed in zip(bare.margins, probed.margins, strict=True):
        assume((plain >= 0 and delayed >= 0) or (plain < 0 and delayed < -cost))
    assume(all(record.alive for record in probed.records))
    decoded = read(probed, Sampling(), count, calibration=Calibration(cost_ticks=cost))
    found = [row for row, _ in decoded_rows(decoded, corrected=True)]
    assert sorted(found, key=order) == sorted((row for row, _, _ in bare.truth()), key=order)


def across(layout, span):
    return layout.slots[span.start].stream != layout.slots[span.stop].stream


def order(row):
    return tuple(-1.0 if value is None else float(value) for value in row)


@settings(deadline=None, max_examples=60)
@given(programs(circular=True), st.sampled_from(["exact", "circular"]))
def test_places_are_distinct_and_survive_json(program, strategy):
    layout = lay_out(program, strategy=strategy).layout
    assert Layout.from_json(layout.to_json()) == layout
    fixed = [slot for slot in layout.slots if not slot.cursor]
    expected = sum(layout.streams[s.stream].instances * int(np.prod(layout.shape(s))) for s in fixed)
    assert layout.clock_words().sum() == expected
