"""Which words of a buffer are kept: those that a launch wrote, known from its loops' trip counts."""

import ctypes
import sys

import numpy as np
import pytest
import session_kernels as K
import triton
import triton.language as tl

import tileprobe
from tileprobe.ir.layout import EPOCH, HEADER_WORDS, PUSHED, Body, Stamp, StreamItems, allocate
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.session import recorded
from tileprobe.session.places import Places, Used, _Memory
from tileprobe.targets.cpu.moving import Moves
from tileprobe.targets.cpu.record_memory import CpuBuffer, CpuMemory

EPOCH_NOW = 5


@triton.jit
def nested_kernel(x, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        for j in range(pid + i):
            total += tl.exp(tl.load(x + at) * 0.001) * j
        if i % 2 == 0:
            total += tl.sqrt(tl.load(x + at))
    tl.store(out + at, total)


def written(layout, trips, blocks=3, pushed=0):
    """Blocks in which each loop ran so often, with a mark in every word that it would have written."""
    words = np.zeros((blocks, layout.block_words), np.uint64)
    for stream in layout.streams:
        for n in range(stream.instances):
            mine = words[:, stream.base + n * stream.words :][:, : stream.words]
            mine[:, EPOCH] = EPOCH_NOW
            mine[:, PUSHED] = pushed
            mine[:, stream.cursor_base : stream.cursor_base + 2 * min(pushed, stream.cursor_capacity)] = 9
            for slot in layout.slots:
                if slot.stream == stream.id and not slot.cursor:
                    count = min(trips, layout.loops[slot.loops[0]].capacity) if slot.loops else 1
                    mine[
                        :,
                        slot.base : slot.base + count * (slot.strides or (1,))[0] : (slot.strides or (1,))[0],
                    ] = 7
            for loop in layout.loops:
                if loop.stream == stream.id and not loop.cursor:
                    mine[:, loop.trip_base] = EPOCH_NOW << 32 | trips
    return words


@pytest.mark.parametrize("trips", [0, 1, 5, 64, 1000])
def test_a_loop_is_kept_as_far_as_it_ran(trips):
    layout = allocate([Stamp(0), Body(0, 64, (Stamp(1), Stamp(2))), Stamp(3)])
    blocks, places = written(layout, trips), Places(layout)
    most = places.most(blocks)
    assert most == [trips]
    used = places.used(blocks, most, Sampling())
    assert len(used.words) == HEADER_WORDS + 2 + 1 + 2 * min(trips, 64)
    whole = np.zeros_like(blocks)
    whole[:, used.words] = used.copied(blocks)
    np.testing.assert_array_equal(whole, blocks)
    for part in used.parts:
        blocks[:, part] = 0
    assert not blocks.any()


def test_sampled_iterations_take_less():
    layout = allocate([Body(0, 64, (Stamp(0),))])
    blocks, places = written(layout, 40), Places(layout)
    for every, count in ((Every(4), 10), (Every(4, 3), 10), (Every(count=8), 8), (Every(phase=-5), 5)):
        used = places.used(blocks, [40], Sampling(loops={-1: every}))
        assert len(used.words) == HEADER_WORDS + 1 + count == HEADER_WORDS + 1 + int(every.selected(40))


def test_words_are_taken_at_once_if_loops_ran_as_often():
    """Two loops, one of them with two words of counts: with other counts nothing is touched."""
    buffer = CpuMemory().take(3, 16)
    buffer.read()[:] = np.arange(1, 49).reshape(3, 16)
    buffer.read()[:, 4], buffer.read()[:, 8:10] = 9 << 32 | 7, 9 << 32
    buffer.read()[2, 9] += 5
    before, words = buffer.read().copy(), np.array([0, 1, 4, 8, 9, 15])
    out = np.zeros((3, 6), np.uint64)
    for counts in ((6, 5), (7, 4), (8, 5), (7, 0)):
        assert not buffer.move(Moves(16, [([4], counts[0]), ([8, 9], counts[1])], words), out.ctypes.data)
        np.testing.assert_array_equal(buffer.read(), before)
        assert not out.any()
    assert buffer.move(Moves(16, [([4], 7), ([8, 9], 5)], words), out.ctypes.data)
    np.testing.assert_array_equal(out, before[:, words])
    before[:, words] = 0
    np.testing.assert_array_equal(buffer.read(), before)


def test_streams_with_instances_and_cursors():
    parts = [
        StreamItems([Stamp(0), Body(0, 8, (Stamp(1),))], "load"),
        StreamItems([Stamp(2), Body(1, 8, (Stamp(3),), counted=False)], "mma", instances=3),
    ]
    layout = allocate(parts, cursor_capacity=16)
    for pushed in (0, 5, 40):
        blocks, places = written(layout, 3, pushed=pushed), Places(layout)
        used = places.used(blocks, places.most(blocks), Sampling())
        whole = np.zeros_like(blocks)
        whole[:, used.words] = used.copied(blocks)
        np.testing.assert_array_equal(whole, blocks)
        assert len(used.words) == (HEADER_WORDS + 2 + 3) + 3 * (HEADER_WORDS + 1 + 2 + 2 * min(pushed, 16))


def test_the_shortest_run_that_had_an_iteration():
    layout = allocate([Body(0, 8, (Stamp(0),))])
    blocks = written(layout, 9)
    blocks[1, layout.loops[0].trip_base] = EPOCH_NOW << 32 | 4
    blocks[2, layout.loops[0].trip_base] = 0
    places = Places(layout)
    assert places.most(blocks) == [9]
    assert places.least(blocks, layout.loops[0]) == 4


@pytest.mark.parametrize(
    ("kernel", "extra"),
    [
        (K.loop_kernel, (5,)),
        (K.scale_kernel, (2.0,)),
        (K.early_kernel, (2,)),
        (K.while_kernel, (3,)),
        (K.stages_kernel, ()),
        (nested_kernel, (6,)),
        (nested_kernel, (300,)),
    ],
)
@pytest.mark.parametrize("iterations", ["all", "every:3", "last:2"])
def test_nothing_that_a_kernel_wrote_is_missed(monkeypatch, kernel, extra, iterations):
    """Against a look at every word: what is kept and what is cleared. Dense, several launches into one buffer."""
    missed, at_once = [], []
    copied, move = Used.copied, CpuBuffer.move

    def moved(self, moves, out):
        before = self.read().copy()
        done = move(self, moves, out)
        at_once.append(done)
        if done:
            wanted = before[:, moves.words]
            kept = np.ctypeslib.as_array((ctypes.c_uint64 * wanted.size).from_address(out))
            assert np.array_equal(kept, wanted.ravel())
            missed.extend([np.flatnonzero(self.read().any(axis=0)), np.zeros(0)])
        return done

    def checked(self, blocks):
        there = np.flatnonzero(blocks.any(axis=0))
        missed.append(np.setdiff1d(there, self.words))
        cleared = np.concatenate([np.arange(part.start, part.stop) for part in self.parts])
        missed.append(np.setdiff1d(there, cleared))
        whole = np.zeros_like(blocks)
        whole[:, self.words] = copied(self, blocks)
        assert (whole == blocks).all()
        return copied(self, blocks)

    monkeypatch.setattr(Used, "copied", checked)
    monkeypatch.setattr(CpuBuffer, "move", moved)
    with tileprobe.profile(
        alternate=False, programs="all", min_cost=0.0, iterations=iterations, capacity=16
    ) as session:
        for _ in range(3):
            K.launch(kernel, 3, *extra)
    assert len(missed) == 6
    simple = kernel not in (K.while_kernel, nested_kernel) and iterations != "every:3"
    assert not simple or at_once == [True, True]  # as much as the first one
    assert not any(len(words) for words in missed)
    assert session.trace.launches[2].losses.kept


@pytest.mark.parametrize(("capacity", "said"), [(512, True), (16, False)])
def test_room_that_loops_share_is_named(capacity, said):
    """Two loops of up to 200 iterations, one in the other: 512 times 512 is more than a block may have. With room for
    16 each has what was asked for."""
    with tileprobe.profile(alternate=False, programs="all", min_cost=0.0, capacity=capacity) as session:
        K.launch(nested_kernel, 3, 200)
    notes = [note for note in session.trace.meta.get("notes", ()) if "(--capacity)" in note]
    assert session.trace.losses.lost
    assert len(notes) == said
    assert (
        not said
        or "and not for 512 (--capacity): the records of one program may take 32,768 words" in notes[0]
    )


def test_a_launch_does_not_read_what_it_did_not_write(monkeypatch):
    """A loop with room for 4,096 iterations that runs twice: a few dozen words of each block are copied."""
    sizes = []
    read = recorded.Watch._read

    def sized(self, ready):
        used = read(self, ready)
        sizes.append((len(used.words), ready.places.layout.block_words))
        return used

    monkeypatch.setattr(recorded.Watch, "_read", sized)
    with tileprobe.profile(alternate=False, programs="all", capacity=4096):
        K.launch(K.loop_kernel, 2, 2)
    ((copied, block),) = sizes
    assert block > 4096
    assert copied < 64


def test_a_launch_that_is_recorded_like_others_takes_few_calls():
    """What Python does around it once everything is known, counted in calls: time would depend on the machine."""
    x, out = K.arrays(8)

    def launch():
        K.loop_kernel[(8,)](x, out, 6, BLOCK=64)

    def calls():
        count = 0

        def profile(frame, event, argument):
            nonlocal count
            count += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            launch()
        finally:
            sys.setprofile(before)
        return count

    launch()
    alone = min(calls() for _ in range(3))
    with tileprobe.profile(alternate=False, programs="all"):
        for _ in range(20):
            launch()
        watched = min(calls() for _ in range(3))
    assert watched - alone <= 140


# -- loops of the cursor's ------------------------------------------------------------------------------------


def pushed_blocks(layout, *segments, pushed=None, ran=()):
    """A block for each program, with (slot, iteration) pairs in the cursor's segment; `ran` are iterations and runs of
    loops, alike in all programs or one after another."""
    words, base = np.zeros((len(segments), layout.block_words), np.uint64), layout.streams[0].cursor_base
    for block, records in zip(words, segments):
        block[EPOCH], block[PUSHED] = EPOCH_NOW, pushed or len(records)
        for n, (slot, iteration) in enumerate(records[: layout.streams[0].cursor_capacity]):
            block[base + 2 * n], block[base + 2 * n + 1] = slot | iteration << 32, 100 + n
    for loop, counts in dict(ran).items():
        at = layout.loops[loop].trip_base
        words[:, at : at + 2] = EPOCH_NOW << 32 | np.array(counts, np.uint64)
    return words


def two_loops(room=4):
    loops = [Body(n, 4, (Stamp(2 * n), Stamp(2 * n + 1)), counted=False) for n in range(2)]
    return allocate([*loops, Stamp(4)], cursor_capacity=room)


def test_the_loop_that_filled_the_segment_is_the_one_that_ran_longest():
    """Of the program that pushed most: iterations 0 of loop 0 and 0 to 2 of loop 1, of six records four fit."""
    layout = two_loops()
    few, many = [(0, 0)], [(0, 0), (2, 0), (2, 1), (2, 2), (2, 3), (3, 3)]
    blocks = pushed_blocks(layout, few, many, ran={1: (9, 3)})
    assert Places(layout).overfull(blocks, Sampling()) == [(1, 4, 6, 3)]
    # where every fourth iteration of loop 1 is wanted, three of it are less than one record
    sampled = Sampling(loops={1: Every(4)})
    assert Places(layout).overfull(blocks, sampled) == [(0, 4, 6, 1), (1, 4, 1, 3)]
    assert Places(layout).overfull(blocks, Sampling(loops={1: Every(2)})) == [(1, 4, 12, 3)]


def test_loops_of_which_iterations_are_left_out_are_learnt_about_though_they_fit():
    """Loop 0 ran once with 40 iterations in each program, loop 1 not at all."""
    layout = two_loops(room=16)
    blocks = pushed_blocks(layout, [(0, 0)], [(0, 0)], ran={0: (40, 1)})
    assert Places(layout).overfull(blocks, Sampling(loops={-1: Every(4)})) == [(0, 16, 1, 40)]
    assert Places(layout).overfull(blocks, Sampling()) == []


def test_the_least_run_of_a_loop_is_none_that_has_next_to_no_iterations():
    """Two runs of one iteration beside two of a hundred; and short ones that have a tenth of all."""
    layout = allocate([Body(0, 4, (Stamp(0),))])
    places, loop = Places(layout), layout.loops[0]
    for trips, least in (((1, 1, 100, 100), 100), ((5, 5, 100, 3), 5), ((0, 0, 0, 0), 0), ((7, 7, 7, 7), 7)):
        blocks = np.zeros((4, layout.block_words), np.uint64)
        blocks[:, loop.trip_base] = EPOCH_NOW << 32 | np.array(trips, np.uint64)
        assert places.least(blocks, loop) == least


def test_the_mean_run_counts_where_runs_are_not_told_apart():
    layout = two_loops(room=16)
    blocks = pushed_blocks(
        layout, [(0, 0)], [(0, 0)], [(0, 0)], ran={0: [(40, 8), (90, 3), (1, 1)], 1: (12, 1)}
    )
    places = Places(layout)
    assert [places.pushed_least(blocks, loop) for loop in layout.loops] == [5, 12]
    assert places.ends(blocks) == ((0, 1), (1, 12))


def test_only_loops_that_run_once_have_an_end_that_is_known():
    inner = Body(1, 4, (Stamp(0),), counted=False)
    counted = Body(2, 4, (Stamp(1),))
    layout = allocate([Body(0, 4, (inner, counted, Stamp(2)), counted=False)], cursor_capacity=8)
    ran = {0: (6, 1), 1: (18, 6), 2: (12, 6)}
    blocks = pushed_blocks(layout, [(2, 0)], ran=ran)
    assert Places(layout).ends(blocks) == ((0, 6),)
    assert [loop.endless for loop in layout.loops] == [True, True, False]


def test_of_several_instances_only_the_one_that_pushed_most_is_asked():
    """Warp 0 filled its segment with loop 0; warp 1, whose segment lies behind it, was far in loop 1."""
    loops = [Body(n, 4, (Stamp(2 * n), Stamp(2 * n + 1)), counted=False) for n in range(2)]
    layout = allocate([StreamItems(tuple(loops), instances=2)], cursor_capacity=6)
    (stream,) = layout.streams
    blocks = np.zeros((1, layout.block_words), np.uint64)
    for instance, (slot, iterations, pushed) in enumerate([(0, range(6), 9), (2, (50, 51), 2)]):
        first = stream.base + instance * stream.words
        blocks[0, first + PUSHED] = pushed
        for n, iteration in enumerate(iterations):
            blocks[0, first + stream.cursor_base + 2 * n] = slot | iteration << 32
    assert Places(layout).overfull(blocks, Sampling()) == [(0, 6, 9, 1)]


def test_a_while_loop_in_a_counted_loop_fills_the_segment():
    inner = Body(1, 4, (Stamp(0), Stamp(1)), counted=False)
    layout = allocate([Body(0, 4, (inner,))], cursor_capacity=4)
    blocks = pushed_blocks(layout, [(0, n) for n in range(6)], ran={1: (6, 2)})
    assert Places(layout).overfull(blocks, Sampling()) == [(1, 4, 6, 3)]


def test_what_is_kept_lies_in_the_memory_that_it_was_given():
    """What a launch wrote is copied to an address: it must be that of the array, and no word before the piece."""
    own = _Memory()
    (first, at), (second, behind) = own.room((2, 3)), own.room((1, 4))
    assert at == first.ctypes.data == own._piece.ctypes.data
    assert behind == second.ctypes.data == at + first.nbytes


def test_a_segment_with_room_is_not_overfull():
    layout = two_loops()
    exactly = pushed_blocks(layout, [(2, 0), (2, 1), (2, 2), (2, 3)])
    assert Places(layout).overfull(exactly, Sampling()) == []


def test_the_smallest_trip_count_is_of_runs_that_had_an_iteration():
    layout = allocate([Body(0, 4, (Stamp(0),))])
    blocks = np.zeros((3, layout.block_words), np.uint64)
    places, loop = Places(layout), layout.loops[0]
    assert places.least(blocks, loop) == 0
    for block, trips in zip(blocks, (0, 7, 5)):
        block[loop.trip_base] = EPOCH_NOW << 32 | trips
    assert places.least(blocks, loop) == 5
    assert places.most(blocks) == [7]
