"""Sessions around launches: what is recorded, for whom, and that the work itself is what it was."""

import io
import re
import threading

import numpy as np
import pytest
import session_kernels as K
import triton
import triton.language as tl
from triton import knobs

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.session import hooks, progress
from tileprobe.targets.base import launches
from tileprobe.targets.cpu.kernel import CpuKernel
from tileprobe.tools.plan import Plan


def counts(session):
    """Intervals of each region name."""
    frame = session.trace.to_polars()
    return dict(frame.group_by("name").len().iter_rows())


def test_a_session_sees_programs_loops_and_stages():
    plain = K.launch(K.loop_kernel, 3, 5)
    with tileprobe.profile(alternate=False) as session:
        probed = K.launch(K.loop_kernel, 3, 5)
    np.testing.assert_array_equal(plain, probed)
    found = counts(session)
    assert found["loop_kernel"] == 3
    assert found["iteration"] == 15
    assert any(name.startswith("loop @") for name in found)
    (kernel,) = session.trace.kernels
    assert kernel.source.startswith("@triton.jit\ndef loop_kernel")
    assert {"ttir", "tile", "probe", "record", "llir"} <= set(kernel.ir)
    assert session.trace.losses.lost == 0
    assert session.trace.units
    assert all(unit.name.startswith("core ") for unit in session.trace.units)


def test_times_nest_and_iterations_are_in_order():
    with tileprobe.profile(alternate=False) as session:
        K.launch(K.loop_kernel, 2, 7)
    frame = session.trace.intervals
    assert (frame["stop"] >= frame["start"]).all()
    iterations = session.trace.to_polars().filter(name="iteration").sort("program", "start")
    for program in (0, 1):
        mine = iterations.filter(program=program)
        assert mine["iteration"].to_list() == list(range(7))
        assert (mine["start"].to_numpy()[1:] >= mine["stop"].to_numpy()[:-1]).all()


def test_nothing_is_left_behind():
    before = launches.observer
    with tileprobe.profile():
        assert launches.observer is not None
    assert launches.observer is before is None
    assert not hooks._restore


def test_a_pattern_chooses_kernels():
    with tileprobe.profile("scale*") as session:
        K.launch(K.scale_kernel, 2, 2.0)
        K.launch(K.loop_kernel, 2, 2)
    assert [kernel.name for kernel in session.trace.kernels] == ["scale_kernel"]
    assert session.seen == {"scale_kernel": 1, "loop_kernel": 1}


def test_an_unknown_pattern_lists_the_kernels_that_ran():
    def work():
        with tileprobe.profile("*attn*"):
            K.launch(K.scale_kernel, 2, 2.0)
            K.launch(K.loop_kernel, 2, 2)

    with pytest.raises(TileProbeError, match=r"'\*attn\*'.*loop_kernel, scale_kernel"):
        work()


def test_an_exception_in_the_block_is_not_hidden_by_a_pattern():
    with pytest.raises(ZeroDivisionError), tileprobe.profile("nothing"):
        1 / 0


def test_skip_and_take():
    with tileprobe.profile(skip=2, take=3, alternate=False) as session:
        for _ in range(9):
            K.launch(K.scale_kernel, 2, 2.0)
    assert len(session.trace.launches) == 3
    assert session.seen["scale_kernel"] == 9


def test_launches_alternate_and_the_overhead_is_measured():
    with tileprobe.profile() as session:
        for _ in range(13):
            K.launch(K.loop_kernel, 4, 20)
    assert session.trace.launches[0].probed
    (work,) = session.trace.works
    assert (work.ran, work.plain, work.dosed) == (
        13,
        6,
        2,
    )  # two rounds of three and one, whatever their order
    (row,) = session.to_json()["kernels"]
    assert row["overhead"]["percent"] is not None
    assert row["overhead"]["low"] <= row["overhead"]["percent"] <= row["overhead"]["high"]
    assert row["overhead"]["estimated_percent"] > 0
    assert row["record_cost_ns"] > 0
    assert session.trace.kernels[0].calibration["doses"] == [1, 3]


def test_too_few_launches_measure_no_overhead():
    with tileprobe.profile() as session:
        K.launch(K.loop_kernel, 4, 5)
    (row,) = session.to_json()["kernels"]
    assert row["overhead"]["percent"] is None
    assert row["overhead"]["estimated_percent"] > 0


def test_the_same_work_is_told_from_other_work():
    """Two grids in turns: each has its own first launch, which is probed."""
    with tileprobe.profile() as session:
        for _ in range(2):
            K.launch(K.scale_kernel, 2, 2.0)
            K.launch(K.scale_kernel, 3, 2.0)
    assert [(run.grid[0], run.probed) for run in session.trace.launches[:2]] == [(2, True), (3, True)]
    assert {work.grid[0]: work.ran for work in session.trace.works} == {2: 2, 3: 2}


def test_nested_sessions_share_a_launch():
    with tileprobe.profile(alternate=False) as outer:
        K.launch(K.scale_kernel, 2, 2.0)
        with tileprobe.profile(alternate=False, tools=("iterations",)) as inner:
            K.launch(K.loop_kernel, 2, 3)
        K.launch(K.scale_kernel, 2, 2.0)
    assert [kernel.name for kernel in inner.trace.kernels] == ["loop_kernel"]
    assert {kernel.name for kernel in outer.trace.kernels} == {"scale_kernel", "loop_kernel"}
    assert counts(inner)["iteration"] == counts(outer)["iteration"] == 6
    assert len(outer.trace.launches) == 3


def test_a_session_is_used_once():
    with tileprobe.profile() as session:
        pass
    with pytest.raises(TileProbeError, match="used once"):
        session.__enter__()


def test_threads():
    def work():
        for _ in range(5):
            K.launch(K.loop_kernel, 3, 4)

    with tileprobe.profile(alternate=False, programs="all") as session:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(session.trace.launches) == 15
    assert counts(session)["iteration"] == 15 * 3 * 4


def test_tuning_runs_are_left_out():
    configs = [triton.Config({"BLOCK": block}) for block in (256, 512)]

    @triton.autotune(configs, key=["n"])
    @triton.jit
    def tuned_kernel(x, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

    x, out = K.arrays(2)
    n = 2 * K.BLOCK
    with tileprobe.profile(alternate=False) as session:
        tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert session.seen == {"tuned_kernel": 1}
    assert len(session.trace.launches) == 1


def test_launch_hooks_of_others_still_run(monkeypatch):
    calls = []
    enter, leave = lambda data: calls.append("enter"), lambda data: calls.append("exit")
    knobs.runtime.launch_enter_hook.add(enter)
    knobs.runtime.launch_exit_hook.add(leave)
    try:
        with tileprobe.profile():
            K.launch(K.scale_kernel, 2, 2.0)
    finally:
        knobs.runtime.launch_enter_hook.remove(enter)
        knobs.runtime.launch_exit_hook.remove(leave)
    assert calls == ["enter", "exit"]


def test_the_knobs_of_triton_stay_as_they_are():
    before = knobs.compilation.instrumentation_mode
    with tileprobe.profile():
        K.launch(K.scale_kernel, 2, 2.0)
        assert knobs.compilation.instrumentation_mode == before
    assert knobs.compilation.instrumentation_mode == before


def test_profiled_functions(capsys):
    @tileprobe.profiled(alternate=False)
    def step():
        """Does a step."""
        return K.launch(K.scale_kernel, 2, 3.0)

    assert step().shape == (2 * K.BLOCK,)
    assert step.__doc__ == "Does a step."
    assert "scale_kernel" in capsys.readouterr().out
    assert len(step.profile.trace.launches) == 1


def test_a_plan_of_ones_own():
    with tileprobe.profile(plan=Plan(), alternate=False) as session:
        K.launch(K.loop_kernel, 2, 3)
    assert counts(session) == {"loop_kernel": 2}


def test_a_failing_kernel_leaves_its_trace():
    @triton.jit
    def failing_kernel(x, out, BLOCK: tl.constexpr):
        pid = tl.program_id(0)
        tl.device_assert(pid < 2, "too many programs")
        at = pid * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at))

    x, out = K.arrays(4)
    with (
        tileprobe.profile(alternate=False) as session,
        pytest.raises(AssertionError, match="too many programs"),
    ):
        failing_kernel[(4,)](x, out, BLOCK=K.BLOCK, debug=True)
    assert len(session.trace.launches) == 1


def test_notebooks_get_html():
    with tileprobe.profile() as session:
        K.launch(K.scale_kernel, 2, 2.0)
    shown = session._repr_html_()
    assert shown.lstrip().startswith("<")
    assert "scale_kernel" in shown


def test_wrong_options_are_explained():
    for options, message in (
        ({"programs": "some"}, "cannot read 'some'"),
        ({"programs": "0%"}, "cannot be recorded"),
        ({"iterations": "often:3"}, "cannot read the iterations"),
        ({"take": 0}, "take .*is a whole number from 1"),
        ({"tools": ("nonsense",)}, "there is no tool 'nonsense'"),
    ):
        with pytest.raises(TileProbeError, match=message):
            tileprobe.profile(**options)


def test_a_kernel_that_cannot_be_probed_still_runs(monkeypatch, capsys):
    def refuse(kernel, pipeline):
        raise TileProbeError("no room")

    monkeypatch.setattr(CpuKernel, "compile", refuse)
    with tileprobe.profile() as session:
        out = K.launch(K.scale_kernel, 2, 2.0)
    assert out.any()
    assert not session.trace.launches
    session.report()
    assert "scale_kernel could not be probed: no room" in capsys.readouterr().out


def test_a_trace_says_how_it_came_to_be(tmp_path):
    with tileprobe.profile("scale*", skip=1, programs="50%", alternate=False) as session:
        for _ in range(3):
            K.launch(K.scale_kernel, 2, 2.0)
    session.save(tmp_path / "trace.parquet")
    meta = tileprobe.Trace.load(tmp_path / "trace.parquet").meta
    assert meta["kernels"] == ["scale*"]
    assert meta["launches"]["skip"] == 1
    assert meta["sampling"]["programs"] == "50%"
    assert meta["kernels_seen"] == {"scale_kernel": 3}


def test_progress_is_shown_on_a_terminal_and_nowhere_else(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        with tileprobe.profile(progress=True):
            K.launch(K.scale_kernel, 2, 2.0)
        assert ("1 launches, now scale_kernel" in stream.getvalue()) == shown


def test_narrow_clocks_tell_the_same():
    """32 bits turn over every second or two; the header's wide clock says in which turn a program began."""
    with tileprobe.profile(
        alternate=False, programs="all", records={"clock_bits": 32}, min_cost=0.0
    ) as session:
        K.launch(K.loop_kernel, 3, 4)
    trace = session.trace
    assert trace.kernels[0].layout["clock_bits"] == 32
    frame = trace.to_polars()
    assert frame.filter(region_kind="iteration").group_by("program").len()["len"].to_list() == [4, 4, 4]
    assert (frame["stop"] >= frame["start"]).all()
    assert 0 < frame["stop"].max() - frame["start"].min() < 2**32


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ({"granularity": "warp"}, "loop_kernel could not be probed.*warp"),
        ({"strategy": "circular"}, "loop_kernel could not be probed.*circular"),
        ({"clock_bits": 20}, "loop_kernel could not be probed.*20"),
    ],
)
def test_records_that_the_cpu_cannot_write_are_refused(records, said, capsys):
    with tileprobe.profile(records=records) as session:
        assert K.launch(K.loop_kernel, 3, 4).any()
    assert not session.trace.launches
    session.report()
    assert re.search(said, " ".join(capsys.readouterr().out.split()))


@pytest.mark.parametrize(
    "records",
    [{"colour": "red"}, {"buffer": "heap"}, *({"clock_bits": n} for n in ("wide", 33, 0, "9" * 5000))],
)
def test_records_that_nobody_has_are_refused_at_once(records):
    with pytest.raises(TileProbeError, match=next(iter(records))):
        tileprobe.profile(records=records)


@pytest.mark.parametrize(("lines", "said"), [("1000-2000", True), ("1-2000", False)])
def test_lines_that_no_kernel_has_are_said(lines, said):
    with tileprobe.profile(plan=Plan(loops=True, kinds=("all",), lines=(lines,))) as session:
        K.launch(K.loop_kernel, 3, 4)
    notes = session.trace.meta.get("notes", [])
    assert ("loop_kernel: no loop and no stage in the lines 1000-2000" in notes) == said


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ("0,3,1000", "loop_kernel: no program 3, 1,000; its largest grid has 3, counted from 0"),
        ("2", None),
        ("random:8", None),
    ],
)
def test_programs_that_no_grid_has_are_said(programs, said):
    with tileprobe.profile(programs=programs) as session:
        K.launch(K.loop_kernel, 2, 4)
        K.launch(K.loop_kernel, 3, 4)
    assert session.trace.meta.get("notes", []) == ([said] if said else [])


def test_a_launch_knows_what_the_system_took_from_it():
    with tileprobe.profile() as session:
        for _ in range(4):
            K.launch(K.loop_kernel, 3, 4)
    taken = [launch.preempted_ns for launch in session.trace.launches]
    assert all(ns is not None and ns >= 0 for ns in taken)


def test_a_session_measures_its_own_time():
    with tileprobe.profile() as session:
        for _ in range(4):
            K.launch(K.loop_kernel, 3, 4)
    (work,) = session.trace.works
    assert work.session_us is not None
    assert 1 < work.session_us < 1e6
