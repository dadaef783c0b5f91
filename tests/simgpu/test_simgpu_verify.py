"""Probes that take no time on a simulated GPU, and the truth beside those that do."""

import json

import numpy as np
import pytest
import triton
import triton.language as tl

import tileprobe
from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.tools.verified import verified


@triton.jit
def grow(x, n, BLOCK: tl.constexpr):
    """Changes its memory in every iteration: a launch that ran twice would be seen in the values."""
    i = tl.arange(0, BLOCK)
    for step in range(n):
        at = x + step * BLOCK + i
        tl.store(at, tl.load(at) + 1.0)


def profiled(launches=9, n=12, alternate=True, x=None, **use):
    x = tileprobe.array(np.zeros(n * 512, np.float32)) if x is None else x
    with (
        tileprobe.use("sim:a100", check=False, **use),
        tileprobe.profile(programs="all", max_overhead=1.0, alternate=alternate, min_cost=0.0) as session,
    ):
        for _ in range(launches):
            grow[(1,)](x, n, BLOCK=512, num_warps=2)
    assert not session.problems, session.problems
    return x.numpy(), session.trace


def lasted(trace, launch, kind):
    """Nanoseconds of the regions of a kind in a launch."""
    ids = [region.id for region in trace.regions if region.kind == kind]
    rows = trace.intervals.filter(
        (trace.intervals["launch"] == launch) & trace.intervals["region"].is_in(ids)
    )
    return (rows["stop_ns"] - rows["start_ns"]).to_numpy()


def test_a_verified_launch_changes_memory_once():
    values, trace = profiled(verify=True)
    np.testing.assert_array_equal(values, 9.0)
    assert sum(launch.probed for launch in trace.launches) >= 3


def test_what_probes_cost_is_told_apart():
    _, trace = profiled(verify=True)
    truth = verified(trace, trace.kernels[0])
    assert truth.overhead_percent == pytest.approx(truth.records_percent + truth.code_percent)
    assert truth.records_percent > 0.5  # twelve iterations of a load and a store: records are seen
    probed = [launch.duration_ns for launch in trace.launches if launch.probed]
    assert truth.probed_ns == pytest.approx(sum(probed))
    assert 0 < truth.plain_ns <= truth.probed_ns


def test_the_truth_of_a_region_is_what_free_records_say():
    # the same memory, cold: where it lies and what caches hold of it depends on what ran before
    x = tileprobe.array(np.zeros(12 * 512, np.float32))
    _, trace = profiled(4, alternate=False, x=x, verify=True, cold=True)
    _, free = profiled(4, alternate=False, x=x, timed=True, probes="free", cold=True)
    truth = {row.region.kind: row for row in verified(trace, trace.kernels[0]).regions}
    found = [lasted(free, launch.id, "iteration") for launch in free.launches]
    assert truth["iteration"].count == sum(map(len, found)) == 4 * 12
    assert truth["iteration"].true_ns == pytest.approx(sum(each.sum() for each in found))


def test_records_that_cost_are_in_the_raw_times():
    _, trace = profiled(verify=True)
    (iterations,) = (
        row for row in verified(trace, trace.kernels[0]).regions if row.region.kind == "iteration"
    )
    assert iterations.raw_ns > 1.01 * iterations.true_ns
    assert iterations.error_percent == pytest.approx(100 * (iterations.corrected_ns / iterations.true_ns - 1))


def test_free_records_take_no_time_but_are_all_there():
    _, free = profiled(timed=True, probes="free")
    _, real = profiled(timed=True, probes="real")
    durations = [
        np.median([launch.duration_ns for launch in trace.launches if launch.probed])
        for trace in (free, real)
    ]
    assert durations[0] < durations[1]
    assert free.kernels[0].calibration["cost_ticks"] == 0.0
    for launch in free.launches:
        if launch.probed:
            assert len(lasted(free, launch.id, "iteration")) == 12


def test_the_same_launch_is_verified_to_the_same_cycle_again():
    x = tileprobe.array(np.zeros(12 * 512, np.float32))
    traces = [profiled(x=x, verify=True, cold=True)[1] for _ in range(2)]
    both = [verified(trace, trace.kernels[0]) for trace in traces]
    cycles = [
        [round(ns * 1.41) for ns in (truth.plain_ns, truth.free_ns, truth.probed_ns)]
        + [round(row.true_ns * 1.41) for row in truth.regions]
        for truth in both
    ]
    assert cycles[0] == cycles[1]


def test_reports_have_the_truth(tmp_path, capsys):
    script, said = tmp_path / "script.py", tmp_path / "report.json"
    script.write_text(
        "import numpy as np\nimport tileprobe\nfrom examples.kernels import softmax\n"
        "x, out = (tileprobe.array(np.zeros((4, 64), np.float32)) for _ in range(2))\n"
        "for _ in range(8):\n    softmax.softmax(x, out)\n"
    )
    assert main(["run", "--target", "sim:h100", "--verify", "--json", str(said), str(script)]) == 0
    (kernel,) = json.loads(said.read_text())["kernels"]
    parts = kernel["verified"]
    assert kernel["overhead_percent"] == pytest.approx(100 * (parts["probed_ns"] / parts["plain_ns"] - 1))
    assert kernel["region_error_percent"] is not None
    assert {"name", "true_ns", "raw_ns", "corrected_ns", "error_percent"} <= set(parts["regions"][0])
    assert "verified on" in capsys.readouterr().out


def test_what_a_trace_says_of_the_truth_is_not_believed_blindly():
    from dataclasses import replace

    _, trace = profiled(verify=True)
    kernel = trace.kernels[0]
    for wrong in ({}, {"regions": 3}, {"regions": [{"region": 99}], "plain_ns": 1}, {"plain_ns": "x"}):
        assert verified(trace, replace(kernel, calibration={"verified": wrong})) is None


@pytest.mark.parametrize("words", [["--probes", "free"], ["--target", "cpu", "--verify"]])
def test_probes_and_truth_are_for_simulated_gpus_with_time(words, tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("")
    assert main(["run", "--target", "sim:a100", *words, str(script)]) != 0
    assert "is for simulated GPUs with time" in capsys.readouterr().err


def test_other_words_for_probes_are_refused():
    with pytest.raises(TileProbeError, match="free or real"):
        tileprobe.use("sim:a100", timed=True, probes="cheap")


def test_lines_of_assembly_that_are_mended_keep_their_numbers():
    from tileprobe.targets.simgpu.lines import mended

    ptx = "a\n// begin inline asm\n.loc 1 5\nx\n.loc 1 6\ny\n// end inline asm\n.loc 1 9\nb"
    made = mended(ptx).split("\n")
    assert len(made) == len(ptx.split("\n"))
    assert [line for line in made if line.startswith(".loc")] == [".loc 1 5", ".loc 1 9"]
    assert made[5] == "y" and made[-1] == "b"


def test_assembly_whose_first_instruction_comes_late_is_placed_by_its_first_line():
    """As Triton's waits are written; LLVM counts on from the line of the source."""
    from tileprobe.targets.simgpu.lines import mended

    ptx = ".loc 1 5\n// begin inline asm\n\n{\n.reg .pred p;\n.loc 1 8 3 // a.py:8:3\nx\n.loc 1 9\ny\n// end inline asm"
    assert [line for line in mended(ptx).split("\n") if line.startswith(".loc")] == [
        ".loc 1 5",
        ".loc 1 5 3 // a.py:8:3",
    ]


def test_names_of_files_are_ascii_for_ptxas_and_come_back():
    from tileprobe.targets.simgpu.lines import mended, read

    ptx = '.file 1 "/a/\\303\\251\\346\\274\\242 b\\\\c.py"\n.loc 1 5 0 // \u6f22.py:5:0'
    made = mended(ptx)
    assert made.isascii()
    assert read(made) == '.file 1 "/a/\u00e9\u6f22 b\\\\c.py"\n.loc 1 5 0 // \u6f22.py:5:0'


def test_no_record_is_missed_where_assembly_has_many_lines(monkeypatch):
    """Which instructions are records is known by lines of the PTX."""
    from benchmarks._gpu_kernels import attention

    held = [tileprobe.array(np.zeros((128, 64), np.float16)) for _ in range(4)]
    with tileprobe.use("sim:a100", timed=True, probes="free", check=False), tileprobe.profile() as session:
        attention[(1,)](*held, 128, 0.125, D=64, BM=128, BN=64)
    assert not [note for note in session.trace.meta.get("notes", ()) if "took out" in note]
