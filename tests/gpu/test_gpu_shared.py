"""Records that are collected in shared memory: executed thread by thread, where shared memory begins with what somebody
else left there, they come to lie where records of global memory do; and what does not fit is said."""

import numpy as np
import pytest
import triton
from gpu_cases import CASES, DENSE, EVERYTHING, code, plain
from test_gpu_executed import ALL, check, expected, intervals, pushes, run

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Layout
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.ir.windows import pieces, shared_word, shared_words, with_windows
from tileprobe.targets.gpu.compile import add_probes, gpu_target
from tileprobe.targets.gpu.evidence import read_code
from tileprobe.targets.gpu.machine_code import lost_records, record_cost
from tileprobe.trace import cursor
from tileprobe.trace.decode import decode, read_rows

FEW = [("matmul", "sm80"), ("specialised_matmul", "sm90"), ("softmax", "sm80"), ("matmul", "gfx942")]
MORE = [
    *(("attention_forward", "sm80"), ("hand_off", "sm90"), ("softmax", "gfx942"), ("nested_loops", "sm80")),
    *(("descriptor_matmul", "sm90"), ("specialised_matmul", "sm100"), ("persistent_matmul", "sm90")),
]
SHARED = {"buffer": "shared", "shared_words": 4096}
FLUSH = {"buffer": "shared", "strategy": "flush", "shared_words": 160}


@pytest.mark.parametrize(("name", "target"), FEW + MORE if EVERYTHING else FEW)
def test_every_record_is_copied_to_its_place(name, target):
    made, gpu = run(name, target, **SHARED)
    decoded = check(made, gpu)
    assert decoded.losses[0].kept == len(expected(made, gpu, ALL, 3))


@pytest.mark.parametrize(("name", "target"), FEW + MORE if EVERYTHING else FEW[:2] + FEW[3:])
def test_full_windows_are_flushed(name, target):
    """Loops of eight iterations with less room in shared memory."""
    made, gpu = run(name, target, **{**FLUSH, "shared_words": 80 if target == "gfx942" else 160})
    check(made, gpu)
    assert any(loop.window for loop in made.layout.loops) or name not in ("matmul", "attention_forward")


@pytest.mark.parametrize("capacity", [5, 8])
@pytest.mark.parametrize("granularity", ["warp", "warp_group"])
def test_every_instance_flushes_its_own(granularity, capacity):
    """Some iterations have no room in the block either: 5 of 8; the last window is not full."""
    words = {"warp": 400, "warp_group": 120}[granularity]
    made, gpu = run(
        "matmul", "sm80", capacity=capacity, granularity=granularity, **{**FLUSH, "shared_words": words}
    )
    assert 1 <= made.layout.loops[0].window < capacity
    check(made, gpu)


@pytest.mark.parametrize(
    "sampling",
    [Sampling(Every(2, 1)), Sampling(loops={-1: Every(3)}), Sampling(loops={-1: Every(2, 1, 3)})],
)
@pytest.mark.parametrize("target", ["sm80", "gfx942"])
def test_iterations_are_still_chosen_at_run_time(sampling, target):
    made, gpu = run(
        "matmul", target, sampling, capacity=4, **{**FLUSH, "shared_words": 80 if target == "sm80" else 40}
    )
    assert made.layout.loops[0].window
    check(made, gpu, sampling)


def test_without_run_time_choice_as_well():
    made, gpu = run("matmul", "sm80", dynamic=False, capacity=3, **{**FLUSH, "shared_words": 80})
    assert made.layout.loops[0].window
    check(made, gpu)


def test_circular_keeps_the_last_iterations_in_shared_memory():
    made, gpu = run("matmul", "sm80", capacity=3, strategy="circular", **SHARED)
    decoded = intervals(decode(gpu.buffer, made.layout, epochs=[77], programs=3))
    region = next(r.id for r in made.regions if r.kind == "iteration")
    assert sorted(set(decoded["iteration"][decoded["region"] == region])) == [5, 6, 7]


@pytest.mark.parametrize("strategy", ["exact", "flush"])
@pytest.mark.parametrize("bits", [32, 64])
def test_records_of_while_loops(strategy, bits):
    made, gpu = run(
        "loops_and_branches", "sm80", sizes={2: 6}, cursor_capacity=64, buffer="shared", strategy=strategy,
        clock_bits=bits,
    )  # fmt: skip
    streams, _ = read_rows(gpu.buffer, made.layout, epochs=[77], programs=3)
    pushed = cursor.read(streams[0])
    mine = pushed.row == 0
    found = list(zip(*(c[mine].tolist() for c in (pushed.slot, pushed.iteration, pushed.clock))))
    assert found
    assert found == pushes(made, gpu, 0)


@pytest.mark.parametrize("strategy", ["exact", "flush"])
def test_in_machine_code(strategy):
    """Two instructions a record as in global memory; no barrier of the program is added."""
    records = {"buffer": "shared", "strategy": strategy, "shared_words": 1024}
    kernel = plain("matmul", "sm80")
    made = add_probes(kernel, DENSE.pipeline("ttgir", capacity=64, records=records))
    found = code(made.kernel)
    assert lost_records(found, made.records) == []
    cost = record_cost(found)
    looped = [cost[slot.id] for slot in made.layout.slots if slot.loops]
    assert sum(looped) / len(looped) < 2.5
    barriers = [sum(op.opcode.startswith("BAR.") for op in code(k).work) for k in (kernel, made.kernel)]
    assert barriers[0] == barriers[1]
    taken = 8 * shared_words(made.layout, 0)
    assert taken <= made.kernel.metadata.shared - kernel.metadata.shared < taken + 128 + 16


def test_on_amd():
    kernel = triton.compile(
        CASES["softmax"].source(), target=gpu_target("hip", "gfx1100"), options=CASES["softmax"].options
    )
    made = add_probes(kernel, DENSE.pipeline("ttgir", records={"buffer": "shared"}))
    found = read_code(made.kernel)
    assert lost_records(found, made.records) == []
    assert [op.opcode for op in found.own].count("ds_write_b64") >= len(made.records)


# -- what does not fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({"buffer": "shared", "shared_words": 12}, "one program's records need .* words and may take 12"),
        ({**FLUSH, "shared_words": 20}, "bytes of shared memory even when every iteration is flushed"),
        ({"strategy": "flush"}, "they take buffer=shared, not global"),
    ],
)
def test_a_buffer_that_is_too_small(records, message):
    with pytest.raises(TileProbeError, match=message):
        run("matmul", "sm80", **records)


def test_a_kernel_that_has_no_shared_memory_left():
    """64 KiB, all of which the product takes."""
    kernel = triton.compile(
        CASES["matmul"].source(), target=gpu_target("hip", "gfx942"), options=CASES["matmul"].options
    )
    with pytest.raises(TileProbeError, match="do not fit into shared memory: a program has 65536 bytes"):
        add_probes(kernel, DENSE.pipeline("ttgir", records={"buffer": "shared"}))


def test_windows_of_a_layout():
    """Every word of the block but the frames beyond the window has a word of shared memory of its own."""
    made, _ = run("matmul", "sm80", capacity=8, programs=1)
    layout = Layout.from_json(made.layout.to_json() | {"buffer": "shared", "strategy": "flush"})
    small = with_windows(layout, 60)
    (loop,) = small.loops
    assert shared_words(small, 0) <= 60 < shared_words(layout, 0)
    assert 1 <= loop.window < loop.capacity
    frames = range(loop.trip_base + 1, loop.trip_base + 1 + loop.window * loop.stride)
    words = [n for piece in pieces(small, 0) for n in range(piece.shared, piece.shared + piece.words)]
    words += [shared_word(small, 0, n) for n in frames]
    assert sorted(words) == list(range(shared_words(small, 0)))
    assert Layout.from_json(small.to_json()) == small
    with pytest.raises(TileProbeError, match="a window has some of the iterations"):
        Layout.from_json(small.to_json() | {"strategy": "exact"})
    assert np.isin(
        [slot.base for slot in small.slots if not slot.loops],
        [n for piece in pieces(small, 0) for n in range(piece.block, piece.block + piece.words)],
    ).all()
