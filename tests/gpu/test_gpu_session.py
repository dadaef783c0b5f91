"""A session on a machine with a GPU: Triton's own drivers, with a library behind them that takes the launches."""

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import triton
from fake_gpu import Tensor, fake_gpu, library, whole
from kernels_session import add, described, pairs
from triton.runtime import _allocation
from triton.tools.tensor_descriptor import TensorDescriptor

from tileprobe.session.session import Session
from tileprobe.trace import Trace

N, BLOCK = 1024, 128


@pytest.fixture
def gpu(monkeypatch):
    with fake_gpu("cuda:90", monkeypatch) as found:
        yield found


@pytest.fixture
def tensors(gpu):
    return Tensor(N), Tensor(N)


def launch(tensors, times=1, programs=3, **options):
    with Session(min_cost=0.0, **options) as session:
        for _ in range(times):
            add[(programs,)](*tensors, N, BLOCK=BLOCK)
    return session


def recorded(gpu):
    """Launches with each record written once."""
    return [one for one in gpu.launches if one.probed and one.kernel.variant.layout.copies == 1]


def clocks(launch):
    """What the records of a launch read, by program."""
    found = {}
    for record in launch.gpu.passed:
        found.setdefault(record.program, []).append(record.clock)
    return found


def check_times(session, gpu):
    """Every interval of the trace lies between two readings of its own launch and program, and none is missing."""
    frame = session.trace.intervals
    for number, one in enumerate(recorded(gpu)):
        mine = frame.filter(frame["launch"] == number)
        for program, read in clocks(one).items():
            rows = mine.filter(mine["program"] == program)
            assert set(rows["start"]) | set(rows["stop"]) == set(read)


# -- what comes back ----------------------------------------------------------------------------------------------


def test_launches_are_profiled_and_their_times_are_those_of_the_records(gpu, tensors):
    session = launch(tensors)
    assert not session.problems
    (one,) = gpu.launches
    assert one.probed
    check_times(session, gpu)
    (kernel,) = session.trace.kernels
    assert (kernel.name, kernel.target, kernel.file) == ("add", "cuda:90", add.fn.__code__.co_filename)
    iterations = [r.id for r in session.trace.regions if r.kind == "iteration"]
    rows = session.trace.intervals.filter(session.trace.intervals["region"].is_in(iterations))
    assert len(rows) == 3 * N // BLOCK
    assert sorted(set(rows["iteration"])) == list(range(N // BLOCK))
    (unit,) = session.trace.units
    assert unit.name == "SM 5"
    assert session.trace.launches[0].duration_ns == gpu.plain_ns + gpu.record_ns * len(one.gpu.passed)


def test_programs_and_iterations_are_sampled_by_the_table(gpu, tensors):
    session = launch(tensors, programs=8, iterations="every:2")
    frame = session.trace.intervals
    assert {1, 3, 5, 7}.isdisjoint(frame.filter(frame["iteration"] >= 0)["iteration"])
    with Session(min_cost=0.0, programs="1,6") as session:
        add[(8,)](*tensors, N, BLOCK=BLOCK)
    assert set(session.trace.intervals["program"]) == {1, 6}
    assert {p for p, read in clocks(gpu.launches[-1]).items() if read} == set(range(8))  # read, not stored


def test_overhead_is_measured_against_plain_launches_that_the_seed_draws(gpu, tensors):
    sorts = {}
    for seed in (0, 0, 5):
        before = len(gpu.launches)
        session = launch(tensors, times=18, programs=1, seed=seed, max_overhead=1e6)
        drawn = [one.probed for one in gpu.launches[before:]]
        assert sorts.setdefault(seed, drawn) == drawn
    assert sorts[0] != sorts[5]
    assert 6 <= sum(sorts[0]) <= 12
    durations = {run.probed: run.duration_ns for run in session.trace.launches}
    assert durations[False] == gpu.plain_ns
    assert durations[True] > gpu.plain_ns


def test_a_kernel_that_was_loaded_before_is_seen_and_afterwards_left_alone(gpu, tensors):
    add[(3,)](*tensors, N, BLOCK=BLOCK)
    session = launch(tensors)
    add[(3,)](*tensors, N, BLOCK=BLOCK)
    assert [one.probed for one in gpu.launches] == [False, True, False]
    assert [one.profile_scratch != 0 for one in gpu.launches] == [False, True, False]
    assert session.seen == {"add": 1}


# -- what the GPU gets --------------------------------------------------------------------------------------------


def both(gpu, kernel, grid, *args, **constants):
    """A launch without probes and one with, as the GPU gets them."""
    kernel[grid](*args, **constants)
    with Session(min_cost=0.0):
        kernel[grid](*args, **constants)
    plain, probed = gpu.launches[-2:]
    assert (plain.probed, probed.probed) == (False, True)
    return plain, probed


def test_arguments_are_those_of_the_plain_launch_and_the_table_is_the_last(gpu):
    x, y = Tensor(N), Tensor(N)
    plain, probed = both(gpu, pairs, (2,), (x, y), 0.5, 1, BLOCK=BLOCK)
    assert plain.parameters[:-1] == probed.parameters[:-1]
    assert [plain.number(0), plain.number(1)] == [x.data_ptr(), y.data_ptr()]
    assert plain.profile_scratch == 0
    assert probed.profile_scratch % 256 == 0
    assert (plain.grid, plain.threads, plain.shared) == (probed.grid, probed.threads, probed.shared)


def test_tensor_descriptors_reach_the_probed_kernel(gpu):
    x, y = Tensor((256, 64), "float16"), Tensor((256, 64), "float16")
    blocks = [TensorDescriptor(t, [256, 64], [64, 1], [64, 64]) for t in (x, y)]
    plain, probed = both(gpu, described, (1,), *blocks, 4, M=64, N=64)
    assert len(plain.parameters[0]) == 128  # the map itself
    assert plain.parameters[:-1] == probed.parameters[:-1]
    assert int.from_bytes(probed.parameters[0][:8], "little") == x.data_ptr()
    assert probed.ran


def test_launch_options_are_kept(gpu, tensors):
    with Session(min_cost=0.0):
        add[(3,)](*tensors, N, BLOCK=BLOCK, num_warps=8, maxnreg=64)
    (one,) = gpu.launches
    assert one.threads == 8 * 32
    assert ".maxnreg 64" in one.kernel.variant.ir["ptx"]


# -- streams, threads, other profilers ----------------------------------------------------------------------------


def test_launches_stay_in_their_stream_and_are_waited_for_there_alone(gpu, tensors):
    with Session(min_cost=0.0, alternate=False) as session:
        for stream in (0x10, 0x20, 0x10):
            gpu.stream = stream
            add[(3,)](*tensors, N, BLOCK=BLOCK)
    assert [one.stream for one in gpu.launches] == [0x10, 0x20, 0x10]
    assert all(one.ran for one in gpu.launches)
    assert gpu.library.fake_pending() == 0
    check_times(session, gpu)


def test_other_work_of_other_streams_is_not_waited_for(gpu, tensors):
    gpu.stream = 0x30
    add[(3,)](*tensors, N, BLOCK=BLOCK)  # nobody looks: stays in its stream
    gpu.stream = 0x40
    launch(tensors)
    assert [one.ran for one in gpu.launches] == [False, True]


def test_threads_have_their_launches_each(gpu):
    launch((Tensor(N), Tensor(N)))  # Triton itself loads a kernel in one thread at a time only
    gpu.launches.clear()
    with Session(min_cost=0.0, alternate=False) as session:
        failed = []

        def work(number):
            try:
                mine = Tensor(N), Tensor(N)
                for _ in range(4):
                    gpu.stream = 0x100 + number  # whichever thread was last: each launch waits for its own
                    add[(3,)](*mine, N, BLOCK=BLOCK)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    assert len({one.thread for one in gpu.launches}) == 4
    assert all(one.probed and one.ran for one in gpu.launches)
    assert len({one.profile_scratch for one in gpu.launches}) >= 1
    frame = session.trace.intervals
    for number in range(16):  # every launch has the records of one launch, none those of two
        mine = frame.filter(frame["launch"] == number)
        assert any(
            set(mine["start"]) | set(mine["stop"]) == {c for read in clocks(one).values() for c in read}
            for one in gpu.launches
        )


class Provider:
    """The allocator of another profiler."""

    def __init__(self):
        self.memory, self.asked = Tensor(4096), []

    def __call__(self, size, alignment, stream):
        self.asked.append((size, threading.get_ident()))
        return self.memory


def test_another_profiler_keeps_its_allocator(gpu, tensors):
    other = Provider()
    triton.runtime._allocation.set_profile_allocator(other)
    try:
        launch(tensors)
        assert _allocation._profile_allocator.get() is other
        assert not other.asked
        assert gpu.launches[0].profile_scratch != other.memory.data_ptr()
    finally:
        triton.runtime._allocation.set_profile_allocator(None)


@pytest.mark.parametrize("theirs", [True, False], ids=["their allocator", "the driver's own"])
def test_launches_of_other_threads_get_what_they_would_have_got(gpu, tensors, theirs, monkeypatch):
    """While ours is in its place, in the middle of our launch."""
    other, got = Provider(), []
    monkeypatch.setattr(gpu.driver, "allocate_default_profile_scratch", other, raising=False)
    if theirs:
        triton.runtime._allocation.set_profile_allocator(other)

    def ask():
        got.append(_allocation._profile_allocator(64, 16, 0))

    def enter(_):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()

    monkeypatch.setattr(triton.knobs.runtime, "launch_enter_hook", enter)
    try:
        launch(tensors)
    finally:
        triton.runtime._allocation.set_profile_allocator(None)
    assert got == [other.memory]
    assert gpu.launches[0].profile_scratch != other.memory.data_ptr()


def test_launch_hooks_are_called_once_with_the_plain_kernels_name(gpu, tensors, monkeypatch):
    seen = []
    monkeypatch.setattr(
        triton.knobs.runtime, "launch_enter_hook", lambda held: seen.append(held.get()["name"])
    )
    launch(tensors, times=2)
    assert seen == ["add", "add"]


# -- what cannot be profiled --------------------------------------------------------------------------------------


def test_a_graph_that_is_captured_has_no_probes_and_it_is_said(gpu, tensors):
    gpu.stream = 0x50
    gpu.library.fake_capture(0x50)
    session = launch(tensors, times=2)
    assert [one.probed for one in gpu.launches] == [False, False]
    assert gpu.library.fake_pending() == 2  # two launches, and nothing of ours
    assert session.seen == {"add": 2}
    assert ["graph" in text for text in session.problems.values()] == [True]


def test_without_memory_for_records_the_kernel_runs_without(gpu, tensors):
    gpu.library.fake_limit(0)
    session = launch(tensors)
    assert [one.probed for one in gpu.launches] == [False]
    assert "no memory left for records" in session.problems["add"]


def test_a_launch_that_fails_leaves_nothing_and_the_next_one_works(gpu, tensors):
    gpu.fails = True
    with Session(min_cost=0.0, alternate=False) as session:
        with pytest.raises(RuntimeError, match="Triton Error"):
            add[(3,)](*tensors, N, BLOCK=BLOCK)
        gpu.fails = False
        add[(3,)](*tensors, N, BLOCK=BLOCK)
    assert len(session.trace.launches) == 1
    check_times(session, gpu)


def test_a_kernel_that_cannot_be_loaded_with_probes_runs_without(gpu, tensors, monkeypatch):
    load = gpu.driver.utils.load_binary

    def refuse(name, kernel, *rest):
        if whole(kernel) in gpu.variants:
            raise RuntimeError("too many resources")
        return load(name, kernel, *rest)

    monkeypatch.setattr(gpu.driver.utils, "load_binary", refuse)
    session = launch(tensors, times=2)
    assert [one.probed for one in gpu.launches] == [False, False]
    assert any("too many resources" in text for text in session.problems.values())


def test_an_empty_grid_is_triton_s_business(gpu, tensors):
    session = launch(tensors, programs=0)
    assert not gpu.launches
    assert not session.problems


def test_memory_is_used_again(gpu, tensors):
    launch(tensors, times=2, alternate=False)
    before = gpu.library.fake_allocated()
    launch(tensors, times=8, alternate=False)
    assert gpu.library.fake_allocated() == before


# -- AMD ----------------------------------------------------------------------------------------------------------


def test_launches_on_amd(monkeypatch):
    with fake_gpu("hip:gfx942", monkeypatch) as gpu:
        x, y = Tensor(N), Tensor(N)
        add[(3,)](x, y, N, BLOCK=BLOCK)
        with Session(min_cost=0.0) as session:
            add[(3,)](x, y, N, BLOCK=BLOCK)
    assert not session.problems
    plain, probed = gpu.launches
    assert (plain.probed, probed.probed) == (False, True)
    assert plain.parameters[:3] == probed.parameters[:3]
    assert plain.number(0) == x.data_ptr()
    assert plain.number(-1) == 0
    assert probed.ran
    words = (ctypes.c_uint64 * 12).from_address(probed.profile_scratch)
    table = np.frombuffer(words, np.uint64).reshape(3, -1)
    assert (table[:, 1] > 0).all()  # the epoch: every program has a block
    assert len(set(table[:, 0])) == 3
    assert session.trace.launches[0].duration_ns == gpu.plain_ns


# -- the command --------------------------------------------------------------------------------------------------


def test_every_cta_of_a_program_finds_blocks_of_its_own(gpu, tensors):
    with Session(min_cost=0.0, alternate=False) as session:
        add[(3,)](*tensors, N, BLOCK=BLOCK, num_ctas=2)
    assert not session.problems
    (launch,) = gpu.launches
    assert launch.probed
    words = session.trace.kernels[0].layout["streams"][0]["words"]
    size = ctypes.c_uint64 * (3 * 2 * 4)
    table = np.frombuffer(size.from_address(launch.profile_scratch), np.uint64).reshape(3, 2, -1)
    assert (table[..., 1] > 0).all()
    assert np.diff(table[..., 0].ravel().astype(np.int64)).tolist() == [8 * words] * 5


SCRIPT = """
from fake_gpu import Tensor, attach, remember_variants
from kernels_session import add
from triton.runtime import driver

gpu = attach("cuda", driver.active)
remember_variants(gpu, setattr)
x, y = Tensor(1024), Tensor(1024)
for _ in range(6):
    add[(3,)](x, y, 1024, BLOCK=128)
print("launched", len(gpu.launches), sum(one.probed for one in gpu.launches))
"""


def test_tileprobe_run_profiles_a_script_on_the_gpu(tmp_path):
    """In a process of its own, without torch: Triton finds the library as it would find NVIDIA's."""
    script, out = tmp_path / "script.py", tmp_path / "trace.parquet"
    script.write_text(SCRIPT)
    folder = os.path.dirname(library("cuda")[1])
    paths = [str(Path(__file__).parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": folder,
        "TRITON_LIBCUDA_PATH": folder,
        "PYTHONPATH": os.pathsep.join(paths),
        "FAKE_GPU": "90",
    }
    command = [sys.executable, "-m", "tileprobe", "run", "--dense", "--target", "cuda", "--trace", str(out)]
    run = subprocess.run(
        [*command, str(script)], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "launched 6" in run.stdout
    trace = Trace.open(out)
    assert [(kernel.name, kernel.target) for kernel in trace.kernels] == [("add", "cuda:90")]
    assert len(trace.intervals) > 0
    assert "add" in run.stdout.split("launched 6")[1]  # the report
