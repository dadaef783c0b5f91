"""Records written by real kernels on the CPU, decoded and held against what the kernels must have done."""

from contextlib import contextmanager

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.errors import UnsupportedError
from tileprobe.ir.layout import Layout
from tileprobe.ir.mode import with_pipeline
from tileprobe.ir.sampling import Every, Sampling
from tileprobe.targets.cpu import launch, pipeline
from tileprobe.tools import Plan
from tileprobe.trace import Region
from tileprobe.trace.decode import decode
from tileprobe.trace.model import from_json

PLAN = Plan(loops=True, iterations=True, kinds=("all",))
N = 64


@triton.jit
def nest_kernel(x, out, outer, inner, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(outer):
        for j in range(i, inner, 2):
            total += tl.load(x + at) * j
        total += i
    tl.store(out + at, total)


@triton.jit
def while_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = n + tl.program_id(0)
    while left > 0:
        tl.store(out + at, tl.load(x + at) + left)
        left -= 1


@triton.jit
def early_kernel(x, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2)


@triton.jit
def mixed_kernel(x, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= n:
        return
    at = pid * BLOCK + tl.arange(0, BLOCK)
    for i in range(n):
        left = i
        while left > 0:
            if left % 2 == 0:
                tl.store(out + at, tl.load(x + at) + left)
            left -= 1
    tl.store(out + at, tl.load(x + at) * 2)


class Probed:
    def __init__(self, found):
        self.layout = Layout.from_json(found["layout"])
        self.regions = [from_json(Region, row) for row in found["regions"]]


class Run:
    """One launch after another with probes; `compiled` counts compilations."""

    def __init__(self):
        self.compiled, self.probed, self.launches = 0, None, 0
        self.records = ""  # more options of assign-slots

    def go(self, kernel, grid, *args, sampling=None, blocks=None, **options):
        self.sampling, self.programs = sampling or Sampling(), grid
        self.blocks = blocks or grid
        self.words = None
        kernel[(grid,)](*args, **options)
        self.launches += 1
        return decode(
            self.words,
            self.probed.layout,
            epochs=[self.launches],
            programs=grid,
            sampling=self.sampling,
        )

    def parameters(self):
        layout = self.probed.layout
        self.words = np.zeros((self.blocks, layout.block_words), np.uint64)
        self.table = self.sampling.program_map(self.programs, self.blocks)
        self.block = self.sampling.parameters(
            layout,
            buffer=self.words.ctypes.data,
            epoch=self.launches + 1,
            programs=self.programs,
            blocks=self.blocks,
            program_map=0 if self.table is None else self.table.ctypes.data,
        )
        return self.block.ctypes.data

    def names(self):
        return {region.name.split(" @")[0]: region.id for region in self.probed.regions}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Every kernel compiled in the test is probed by PLAN."""
    state = Run()
    plain = pipeline.add_probes

    def add_probes(tile, mode):
        text = PLAN.pipeline("tile", capacity=8)
        text = text.replace(
            "assign-slots{", f"assign-slots{{{state.records} " if state.records else "assign-slots{"
        )
        found = plain(tile, with_pipeline(mode, text))
        tile.verify()
        state.probed = Probed(found)
        state.compiled += 1
        return found

    with monkeypatch.context() as patch, tileprobe.use("cpu"):
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path))
        patch.setattr(pipeline, "add_probes", add_probes)
        with parameters_from(state):
            yield state
    for kernel in (nest_kernel, while_kernel, early_kernel, mixed_kernel):
        kernel.device_caches.clear()


@contextmanager
def parameters_from(state):
    plain = launch.Launcher.__call__

    def call(self, *args):
        pack = self._pack
        self._pack = lambda x, y, z, errors, _, *rest: pack(x, y, z, errors, state.parameters(), *rest)
        try:
            return plain(self, *args)
        finally:
            self._pack = pack

    launch.Launcher.__call__ = call
    try:
        yield
    finally:
        launch.Launcher.__call__ = plain


def tensors(programs):
    x = np.arange(programs * N, dtype=np.float32)
    return tileprobe.array(x), tileprobe.array(np.zeros_like(x))


def rows(decoded, region):
    mine = decoded.columns["region"] == region
    return {key: value[mine] for key, value in decoded.columns.items()}


def test_every_iteration_of_a_nest(run):
    x, out = tensors(4)
    decoded = run.go(nest_kernel, 4, x, out, 3, 7, BLOCK=N)
    loops = [r for r in run.probed.regions if r.kind == "iteration"]
    outer, inner = (rows(decoded, region.id) for region in loops)
    assert sorted(zip(outer["program"], outer["iteration"])) == [(p, i) for p in range(4) for i in range(3)]
    expected = [(p, i, n) for p in range(4) for i in range(3) for n in range(len(range(i, 7, 2)))]
    assert sorted(zip(inner["program"], inner["outer"], inner["iteration"])) == expected
    assert decoded.losses[0].sampled_out == decoded.losses[0].lost == 0
    check_nesting(run.probed.regions, decoded)


def check_nesting(regions, decoded):
    """Each interval lies in one of its parent's, of the same program."""
    spans = {}
    for region, program, start, stop in zip(
        *(decoded.columns[k] for k in ("region", "program", "start", "stop"))
    ):
        assert 0 < start <= stop
        spans.setdefault((region, program), []).append((start, stop))
    parents = {region.id: region.parent for region in regions}
    for (region, program), intervals in spans.items():
        if parents[region] is None:
            continue
        around = spans[parents[region], program]
        assert all(any(a <= start and stop <= b for a, b in around) for start, stop in intervals)


def test_sampling_changes_without_compiling_again(run):
    x, out = tensors(4)
    arguments = (nest_kernel, 4, x, out, 20, 0)
    loop = lambda decoded: rows(decoded, next(r.id for r in run.probed.regions if r.kind == "iteration"))
    first = loop(run.go(*arguments, BLOCK=N))
    assert set(first["iteration"]) == set(range(8))  # the capacity
    third = loop(run.go(*arguments, BLOCK=N, sampling=Sampling(loops={-1: Every(3, 1)})))
    assert set(third["iteration"]) == {1, 4, 7, 10, 13, 16, 19}
    last = run.go(*arguments, BLOCK=N, sampling=Sampling(loops={-1: Every(phase=-2)}))
    assert set(loop(last)["iteration"]) == {18, 19}
    some = run.go(*arguments, BLOCK=N, sampling=Sampling(Every(2, 1)), blocks=2)
    assert set(loop(some)["program"]) == {1, 3}
    chosen = run.go(*arguments, BLOCK=N, sampling=Sampling(chosen=(3, 0)), blocks=2)
    assert set(loop(chosen)["program"]) == {0, 3}
    assert run.compiled == 1


def test_what_does_not_fit_is_counted(run):
    x, out = tensors(2)
    losses = run.go(nest_kernel, 2, x, out, 20, 0, BLOCK=N).losses[0]
    everything = run.go(nest_kernel, 2, x, out, 8, 0, BLOCK=N).losses[0]
    assert everything.lost == 0
    assert losses.kept == everything.kept
    assert losses.lost > 0


def test_while_loops_through_the_cursor(run):
    x, out = tensors(3)
    decoded = run.go(while_kernel, 3, x, out, 4, BLOCK=N)
    loop = rows(decoded, next(r.id for r in run.probed.regions if r.kind == "iteration"))
    found = sorted(zip(loop["program"], loop["iteration"]))
    assert found == [(p, i) for p in range(3) for i in range(4 + p)]
    empty = run.go(while_kernel, 1, x, out, 0, BLOCK=N)
    assert not (empty.columns["region"] == loop["region"][0]).any()


def test_the_cursor_goes_through_returns_loops_and_branches(run):
    """The cursor and the iterations of the while loop are values: through a return, a loop and a branch."""
    x, out = tensors(5)
    n = 4
    decoded = run.go(mixed_kernel, 5, x, out, n, BLOCK=N)
    first, second = (rows(decoded, region.id) for region in run.probed.regions if region.kind == "iteration")
    assert sorted(zip(first["program"], first["iteration"])) == [(p, i) for p in range(n) for i in range(n)]
    expected = sorted((p, k) for p in range(n) for i in range(n) for k in range(i))
    assert sorted(zip(second["program"], second["iteration"])) == expected
    branch = next(r for r in run.probed.regions if r.parent == second["region"][0])
    even = sorted((p, k) for p in range(n) for i in range(n) for k in range(i) if (i - k) % 2 == 0)
    found = rows(decoded, branch.id)
    assert sorted(zip(found["program"], found["iteration"])) == even
    check_nesting(run.probed.regions, decoded)
    data = np.arange(n * N, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(out)[: n * N], data * 2)


def test_uncounted_iterations_are_sampled(run):
    x, out = tensors(1)
    loop = lambda decoded: rows(decoded, next(r.id for r in run.probed.regions if r.kind == "iteration"))
    third = run.go(while_kernel, 1, x, out, 20, BLOCK=N, sampling=Sampling(loops={-1: Every(3, 1)}))
    assert loop(third)["iteration"].tolist() == [1, 4, 7, 10, 13, 16, 19]
    late = run.go(while_kernel, 1, x, out, 20, BLOCK=N, sampling=Sampling(loops={-1: Every(phase=17)}))
    assert loop(late)["iteration"].tolist() == [17, 18, 19]
    assert run.compiled == 1


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ("granularity=warp", "granularity warp; possible: program"),
        ("buffer=shared", "buffer shared; possible: global"),
        ("strategy=circular", "strategy circular; possible: exact"),
        ("clock_bits=20", "clock_bits 20; possible: 64, 32"),
    ],
)
def test_what_the_cpu_cannot_record_is_refused(run, records, message):
    x, out = tensors(1)
    run.records = records
    with pytest.raises(UnsupportedError, match=f"records of cpu cannot have {message}"):
        run.go(nest_kernel, 1, x, out, 2, 2, BLOCK=N)


def test_early_return_and_empty_loops(run):
    x, out = tensors(5)
    decoded = run.go(early_kernel, 5, x, out, 3, BLOCK=N)
    kernel = rows(decoded, 0)
    assert sorted(kernel["program"]) == [0, 1, 2, 3, 4]
    stage = rows(decoded, 1)
    assert sorted(stage["program"]) == [0, 1, 2]
    nothing = run.go(nest_kernel, 2, x, out, 0, 0, BLOCK=N)
    assert nothing.losses[0].lost == 0
    assert sorted(rows(nothing, 0)["program"]) == [0, 1]


def test_results_are_those_of_the_unprobed_kernel(run):
    x, out = tensors(4)
    run.go(nest_kernel, 4, x, out, 3, 7, BLOCK=N)
    data = np.arange(4 * N, dtype=np.float32)
    total = np.zeros_like(data)
    for i in range(3):
        for j in range(i, 7, 2):
            total += data * j
        total += i
    np.testing.assert_allclose(np.asarray(out), total, rtol=1e-6)


def test_a_launch_without_parameters_records_nothing(run, monkeypatch):
    x, out = tensors(2)
    run.go(nest_kernel, 2, x, out, 3, 7, BLOCK=N)
    monkeypatch.setattr(run, "parameters", lambda: 0)
    before = run.words.copy()
    nest_kernel[(2,)](x, out, 3, 7, BLOCK=N)
    assert (run.words == before).all()
