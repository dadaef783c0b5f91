"""What lowered records write, executed thread by thread: every record that is to be kept lies in its place, nothing
else does, and decoding gives the intervals that really were."""

import numpy as np
import pytest
from gpu_cases import CASES, DENSE, EVERYTHING, bridged
from gpu_machine import BUFFER, Gpu
from xdsl.dialects.builtin import StringAttr

from tileprobe.ir.layout import EPOCH, GLOBAL_BEGIN, GLOBAL_END, UNIT
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.targets.gpu.instrument import instrument
from tileprobe.targets.gpu.structure import TtgirStructure
from tileprobe.targets.gpu.table import make_table
from tileprobe.trace import cursor
from tileprobe.trace.decode import decode, read_rows

EPOCH_NUMBER = 77
ALL = Sampling()
SIZES = {0: 200, 1: 300, 2: 400, 3: 512, 4: 448, 5: 512, 6: 192, 7: 3, 8: 4, 9: 320, 10: 2}


def run(
    name,
    target,
    sampling=ALL,
    *,
    arch=None,
    programs=3,
    capacity=8,
    dynamic=True,
    copies=1,
    sizes=SIZES,
    **records,
):
    module, _ = bridged(name, target)
    if arch is not None:
        module.attributes["ttg.target"] = StringAttr(f"hip:{arch}")
    made = instrument(
        module,
        DENSE.pipeline("ttgir", capacity=capacity, dynamic=dynamic, copies=copies, records=records),
    )
    layout = made.layout
    blocks = max(1, sampling.wanted(programs))
    buffer = np.zeros((blocks, layout.block_words), np.uint64)
    table = make_table(layout, sampling, buffer=BUFFER, epoch=EPOCH_NUMBER, programs=programs, blocks=blocks)
    gpu = Gpu(table[:, 0], buffer, sizes).launch(TtgirStructure().kernels(module)[0])
    return made, gpu


def expected(made, gpu, sampling, programs):
    """For each block, by word, the clocks that are to be kept."""
    layout = made.layout
    chosen = sampling.recorded(programs, len(gpu.buffer)).tolist()
    found = {}
    for record in gpu.passed:
        slot = layout.slots[record.slot]
        if record.program not in chosen or slot.cursor:
            continue
        indices = []
        trips = record.iterations
        for loop, iteration in zip(slot.loops, trips, strict=True):
            every = sampling.loop(loop)
            index = every.index(iteration, 10**6)
            indices.append(index if 0 <= index < layout.loops[loop].capacity else -1)
        if -1 in indices:
            continue
        stream = layout.streams[slot.stream]
        for instance in range(stream.instances):
            word = stream.base + instance * stream.words + slot.place(indices)
            found[chosen.index(record.program), word] = record.clock
    return found


def check(made, gpu, sampling=ALL, programs=3):
    layout = made.layout
    wanted = expected(made, gpu, sampling, programs)
    assert wanted
    clocks = layout.clock_words()
    there = {(int(b), int(w)): int(gpu.buffer[b, w]) for b, w in zip(*np.nonzero(gpu.buffer)) if clocks[w]}
    if layout.clock_bits == 32:
        assert {word >> 32 for word in there.values()} == {EPOCH_NUMBER}
        there = {at: word & 0xFFFFFFFF for at, word in there.items()}
    assert there == wanted
    for stream in layout.streams:
        for instance in range(stream.instances):
            first = stream.base + instance * stream.words
            header = gpu.buffer[:, first : first + 8]
            assert (header[:, EPOCH] == EPOCH_NUMBER).all()
            assert (header[:, UNIT] == gpu.unit).all()
            assert (header[:, GLOBAL_BEGIN] > 0).all()
            assert (header[:, GLOBAL_END] >= header[:, GLOBAL_BEGIN]).all()
    return decode(gpu.buffer, layout, epochs=[EPOCH_NUMBER], programs=programs, sampling=sampling)


def intervals(decoded, kind=0):
    columns = decoded.columns
    mine = columns["kind"] == kind
    return {name: column[mine] for name, column in columns.items()}


SMALL = [
    ("matmul", "sm80"),
    ("descriptor_matmul", "sm90"),
    ("specialised_matmul", "sm90"),
    ("specialised_matmul", "sm100"),
    ("attention_forward", "sm80"),
    ("persistent_matmul", "sm90"),
    ("softmax", "sm80"),
    ("hand_off", "sm90"),
    ("matmul", "gfx942"),
    ("softmax", "gfx942"),
]
EACH = [
    (case.name, target)
    for case in CASES.values()
    for target in case.targets
    if target.startswith("sm") and case.name not in ("loops_and_branches", "calls")
]


@pytest.mark.parametrize(("name", "target"), EACH if EVERYTHING else SMALL)
def test_every_record_lies_in_its_place(name, target):
    made, gpu = run(name, target)
    decoded = check(made, gpu)
    pushed = sum(made.layout.slots[r.slot].cursor for r in gpu.passed)
    assert decoded.losses[0].kept == len(expected(made, gpu, ALL, 3)) + pushed


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("how", [{}, {"clock_bits": 32}, {"granularity": "warp"}, {"copies": 2}])
def test_records_that_are_stored_together_lie_in_their_places(arch, how):
    """Of AMD: 64-bit words, two side by side; half words of RDNA, whose other half is zero before."""
    made, gpu = run("matmul", "gfx942", arch=arch, **how)
    if arch == "gfx1100":
        gpu.unit = (5 << 1 | 5) << 4 | 5  # engine, array, processor: every part is 5 here
    check(made, gpu)


def test_sampling_on_amd_leaves_out_what_is_not_asked_for():
    """Stores that are not to be made go out of bounds."""
    sampling = Sampling(Every(2, 1), {-1: Every(3, 1)})
    made, gpu = run("matmul", "gfx942", sampling, programs=4)
    check(made, gpu, sampling, programs=4)


@pytest.mark.parametrize("granularity", ["warp", "warp_group"])
def test_every_instance_has_a_block_of_its_own(granularity):
    made, gpu = run("specialised_matmul", "sm90", granularity=granularity)
    check(made, gpu)
    per_partition = {"warp": 4, "warp_group": 1}[granularity]
    assert [stream.instances for stream in made.layout.streams] == [per_partition] * 3


@pytest.mark.parametrize("bits", [32, 64])
def test_intervals_come_back(bits):
    """The iterations of a loop: their regions have the clocks that the records around them read."""
    made, gpu = run("matmul", "sm80", clock_bits=bits)
    decoded = intervals(check(made, gpu))
    region = next(r.id for r in made.regions if r.kind == "iteration")
    span = next(s for s in made.layout.spans if s.region == region)
    mine = decoded["region"] == region
    clocks = {
        (r.program, r.slot, r.iterations): r.clock for r in gpu.passed if r.slot in (span.start, span.stop)
    }
    assert mine.sum() == 3 * 8
    for program, iteration, start, stop in zip(
        *(decoded[name][mine].tolist() for name in ("program", "iteration", "start", "stop"))
    ):
        assert start == clocks[program, span.start, (iteration,)]
        assert stop == clocks[program, span.stop, (iteration,)]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(Every(2, 1)),
        Sampling(chosen=(2,)),
        Sampling(loops={-1: Every(3)}),
        Sampling(loops={-1: Every(2, 1, 3)}),
        Sampling(loops={-1: Every(count=2)}),
    ],
)
def test_programs_and_iterations_are_chosen_at_run_time(sampling):
    made, gpu = run("matmul", "sm80", sampling, capacity=4)
    check(made, gpu, sampling)


def test_the_last_iterations_can_be_chosen():
    sampling = Sampling(loops={-1: Every(phase=-3)})
    made, gpu = run("matmul", "sm80", sampling)
    decoded = intervals(decode(gpu.buffer, made.layout, epochs=[77], programs=3, sampling=sampling))
    region = next(r.id for r in made.regions if r.kind == "iteration")
    assert sorted(set(decoded["iteration"][decoded["region"] == region])) == [5, 6, 7]


def test_without_run_time_choice_the_first_iterations_are_kept():
    made, gpu = run("matmul", "sm80", dynamic=False, capacity=3)
    check(made, gpu)


def test_nested_loops_keep_their_frames_apart():
    made, gpu = run("nested_loops", "sm80", capacity=2, sizes={2: 9, 3: 512})
    check(made, gpu)
    assert [loop.loops for loop in made.layout.loops] == [(), (0,)]


def pushes(made, gpu, program):
    """The records of a program that go to the cursor's segment: slot, iteration, clock."""
    mine = [r for r in gpu.passed if r.program == program and made.layout.slots[r.slot].cursor]
    return [(r.slot, r.iterations[-1], r.clock) for r in mine]


@pytest.mark.parametrize("room", [5, 64])
def test_while_loops_push_their_records_in_order(room):
    made, gpu = run("loops_and_branches", "sm80", sizes={2: 6}, cursor_capacity=room)
    streams, _ = read_rows(gpu.buffer, made.layout, epochs=[77], programs=3)
    pushed = cursor.read(streams[0])
    for row, program in enumerate(streams[0].program.tolist()):
        mine = pushed.row == row
        found = list(zip(*(c[mine].tolist() for c in (pushed.slot, pushed.iteration, pushed.clock))))
        wanted = pushes(made, gpu, program)
        assert found == wanted[:room]
        assert pushed.lost[row] == max(0, len(wanted) - room)


def test_iterations_of_a_while_loop_are_chosen_at_run_time():
    sampling = Sampling(loops={-1: Every(2, 1)})
    made, gpu = run("loops_and_branches", "sm80", sampling, sizes={2: 6})
    streams, _ = read_rows(gpu.buffer, made.layout, epochs=[77], programs=3, sampling=sampling)
    pushed = cursor.read(streams[0])
    wanted = [(slot, n, clock) for slot, n, clock in pushes(made, gpu, 0) if n % 2]
    mine = pushed.row == 0
    found = list(zip(*(c[mine].tolist() for c in (pushed.slot, pushed.iteration, pushed.clock))))
    assert found == wanted


def test_doses_write_the_last_clock():
    made, gpu = run("softmax", "sm80", copies=3)
    last = {}
    for record in gpu.passed:
        last[record.program, record.slot, record.iterations] = record
    gpu.passed = list(last.values())
    check(made, gpu)


def test_circular_keeps_the_last_iterations():
    made, gpu = run("matmul", "sm80", capacity=3, strategy="circular")
    decoded = intervals(decode(gpu.buffer, made.layout, epochs=[77], programs=3))
    region = next(r.id for r in made.regions if r.kind == "iteration")
    span = next(s for s in made.layout.spans if s.region == region)
    mine = decoded["region"] == region
    assert sorted(set(decoded["iteration"][mine])) == [5, 6, 7]
    clocks = {(r.program, r.slot, r.iterations): r.clock for r in gpu.passed}
    for program, iteration, start in zip(
        *(decoded[name][mine].tolist() for name in ("program", "iteration", "start"))
    ):
        assert start == clocks[program, span.start, (iteration,)]


def test_a_copy_meets_its_wait():
    """Three stages: a copy issued in iteration i is awaited in i + 2, those before the loop in 0 and 1."""
    made, gpu = run("matmul_ieee", "sm80", programs=1)
    decoded = intervals(decode(gpu.buffer, made.layout, epochs=[77], programs=1), kind=1)
    assert set(decoded["iteration"].tolist()) == set(range(8))
    async_regions = [r.id for r in made.regions if r.kind == "async"]
    assert sorted(set(decoded["region"].tolist())) == async_regions
    assert len(decoded["start"]) == len(async_regions) * 8
    assert (decoded["stop"] > decoded["start"]).all()


# Iterations of a product by its depth, argument 5; with fewer than the pipeline has stages its loop does not run.
@pytest.mark.parametrize(("depth", "trips"), [(512, 8), (192, 3), (128, 2)])
@pytest.mark.parametrize(("target", "first"), [("gfx942", 2), ("gfx950", 1)])
def test_what_is_fetched_is_there_although_a_loop_was_peeled(target, first, depth, trips):
    """AMD's pipelines end with iterations that were peeled off their loop: their data is fetched in it, and on gfx950
    awaited behind it. Each iteration's is there once; before `first` it is fetched and put down before the loop."""
    made, gpu = run("matmul", target, programs=1, capacity=16, sizes={**SIZES, 5: depth})
    decoded = intervals(check(made, gpu, programs=1), kind=1)
    fetched = {span.region for span in made.layout.spans if span.kind == "async" and span.start_ahead}
    assert len(fetched) == 2
    for region in fetched:
        mine = decoded["region"] == region
        assert sorted(decoded["iteration"][mine]) == list(range(first, trips))
        assert (decoded["stop"][mine] > decoded["start"][mine]).all()
