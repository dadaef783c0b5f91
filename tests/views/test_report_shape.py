"""The shape of a report: kernels first, what matters of each, headlines, and what a reader is warned about."""

import io
from dataclasses import replace

import pytest
from made import attention

from tileprobe.cli import main
from tileprobe.ir.functions import Function
from tileprobe.ir.parts import Part
from tileprobe.tools import load_tool
from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.overhead import overhead
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Work
from tileprobe.views.chrome import chrome_events
from tileprobe.views.html.figures import facts
from tileprobe.views.tables import ROWS, print_table, that_matter
from tileprobe.views.terminal import make_console, print_report


def report(trace, width=120, full=False, tools=("regions", "source")):
    out = io.StringIO()
    print_report(trace, [load_tool(name).read(trace) for name in tools], make_console(out, width), full)
    return out.getvalue()


def kernel_of(stages, name="k", launches=3, ran=None, signature="", parts=None, source=None, **more):
    """A kernel whose stages (name, kind, ns) run one after another in one program."""
    regions = [Region(0, name, "kernel", None, 0, "k.py", 1, len(stages) + 1)]
    starts, stops, ids, numbers = [], [], [], []
    for n, (label, kind, _) in enumerate(stages, 1):
        made = (parts or {}).get(label, ())
        regions.append(Region(n, label, kind, 0, 0, "k.py", n + 1, n + 1, 1, parts=made))
    for launch in range(launches):
        clock = 0
        for n, (_, _, ns) in enumerate(stages, 1):
            starts.append(clock)
            stops.append(clock := clock + ns)
            ids.append(n)
            numbers.append(launch)
        starts.append(0)
        stops.append(clock)
        ids.append(0)
        numbers.append(launch)
    whole = sum(ns for _, _, ns in stages)
    text = source or "\n".join(["def k(x):", *(f"    {label}" for label, _, _ in stages)])
    works = [Work(0, 0, (1,), "", ran, launches, **more)] if ran else []
    return Trace.build(
        {"launch": numbers, "region": ids, "start": starts, "stop": stops},
        kernels=[Kernel(0, name, "cpu", Clock(1e9), "k.py", 1, text, signature=signature)],
        launches=[Launch(n, duration_ns=float(whole)) for n in range(launches)],
        regions=regions,
        works=works,
    )


def test_kernels_come_first_by_total_time():
    quick = kernel_of([("load @ 2", "load", 900)], "quick", ran=3)
    often = kernel_of([("load @ 2", "load", 100)], "often", ran=5000)
    shown = report(Trace.merge(quick, often)).splitlines()
    assert shown[0].split() == ["kernel", "total", "launches", "each", "in", "programs", "recorded", "target"]
    assert shown[1].split()[:2] == ["often", "99"]
    assert "~500 µs" in shown[1]
    assert "5,000" in shown[1]
    assert shown[2].startswith("quick")
    heads = [n for n, line in enumerate(shown) if "  on cpu" in line]
    assert [shown[n].split()[0] for n in heads] == ["often", "quick"]
    assert "kernel   " not in report(quick)  # nothing to rank


def test_specialisations_show_their_signatures():
    a = kernel_of([("load @ 2", "load", 100)], signature="x: *fp32, BLOCK=64")
    b = kernel_of([("load @ 2", "load", 900)], signature="x: *fp32, BLOCK=128")
    shown = report(Trace.merge(a, b))
    assert "k [BLOCK=64]  on cpu  k.py:1\nx: *fp32, BLOCK=64\n" in shown
    assert "k [BLOCK=128]  on cpu  k.py:1\nx: *fp32, BLOCK=128\n" in shown
    assert shown.index("k [BLOCK=128]") < shown.index("k [BLOCK=64]")


def test_many_kernels_are_counted_and_not_all_shown():
    names = [f"kernel_{n}" for n in range(30)]
    trace = Trace.merge(
        *(kernel_of([("load @ 2", "load", 10_000 - 300 * n)], name) for n, name in enumerate(names))
    )
    shown = report(trace)
    assert shown.count("  on cpu") == 8
    assert "+ 14 more kernels" in shown
    assert "the rest is about the first 8; 22 kernels with" in shown
    full = report(trace, full=True)
    assert full.count("  on cpu") == 30
    assert "more kernels" not in full


def test_a_kernel_with_many_regions_shows_those_that_matter():
    stages = [(f"load @ {n + 2}", "load", 10_000 if n == 150 else 10 + n) for n in range(300)]
    trace = kernel_of(stages)
    shown = report(trace, tools=("regions",))
    assert len(shown.splitlines()) < ROWS + 15
    assert "load @ 152 " in shown
    assert "+ 280 more regions, " in shown
    assert "--full shows all" in shown
    assert len(report(trace, tools=("regions",), full=True).splitlines()) > 300
    source = report(trace, tools=("source",))
    assert len(source.splitlines()) < 100
    assert "... " in source
    assert " lines, " in source
    assert len(report(trace, tools=("source",), full=True).splitlines()) > 300


def test_copies_of_a_stage_are_one_row():
    """As an unrolled loop leaves them."""
    stages = [("exp @ 7" if n % 3 else "sin @ 8", "exp" if n % 3 else "sin", 100) for n in range(60)]
    trace = kernel_of(stages, launches=2)
    shown = report(trace, tools=("regions",))
    assert "├╴20 x sin @ 8    33 %" in shown
    assert "└╴40 x exp @ 7    67 %" in shown
    assert "• 67 % of the time is in exp @ 7 (40 copies)" in shown
    assert "more regions" not in shown
    row = that_matter(load_tool("regions").read(trace).tables[0].frame).row(2, named=True)
    assert (row["total_ns"], row["count"], row["mean_ns"]) == (8000.0, 80, 100.0)
    assert report(trace, tools=("regions",), full=True).count("exp @ 7") == 41


def test_rows_that_matter_keep_what_is_around_them():
    trace = kernel_of([(f"load @ {n}", "load", 10 + n) for n in range(100)])
    regions = [Region(200, "loop @ 1", "loop", 0, 0, "k.py", 1, 9, 1)]
    trace.regions = [
        trace.regions[0],
        *regions,
        *(replace(r, parent=200, depth=2) for r in trace.regions[1:]),
    ]
    frame = load_tool("regions").read(trace).tables[0].frame
    kept = that_matter(frame)
    assert kept["name"][0] == "k"
    assert kept.height == ROWS + 1
    assert set(kept["name"][1:]) == {f"load @ {n}" for n in range(80, 100)}
    assert that_matter(frame[:25]).height == 25


def test_a_headline_where_nothing_dominates():
    def parts(**shares):
        return tuple(Part(share, kind, (("k.py", 2),)) for kind, share in shares.items())

    stages = [(f"stage {n}", "load+exp+mul", 100) for n in range(10)]
    trace = kernel_of(stages, parts={f"stage {n}": parts(load=0.5, exp=0.3, mul=0.2) for n in range(10)})
    assert "• no stage dominates; the time is made of about load 50 %, exp 30 %, mul 20 %" in report(trace)
    whole = kernel_of(
        [(f"s {n}", ("load", "store", "dot", "sin", "cos", "exp")[n % 6], 100) for n in range(12)]
    )
    assert "about load 17 %, store 17 %, dot 17 %, sin 17 %, the rest 33 %" in report(whole)
    assert "• 36 % of the time is in dot @ 35" in report(attention())
    border = [("top", "dot", 300), *((f"s {n}", "load", 175) for n in range(4))]
    assert "• 30 % of the time is in top" in report(kernel_of(border))


def test_a_headline_for_what_has_no_probes():
    trace = kernel_of([("load @ 2", "load", 100)])
    trace.frame = trace.intervals.with_columns(stop_ns=trace.intervals["start_ns"] + 1000)
    trace.frame = trace.frame.with_columns(
        stop_ns=trace.frame["start_ns"] + (trace.frame["region"] == 0).cast(int) * 1000 + 100
    )
    trace.regions[0] = replace(trace.regions[0], parts=(Part(1.0, "sin", (("k.py", 2),)),))
    shown = report(trace)
    assert "in k, in stages that are too short for probes of their own: mostly sin" in shown


def test_functions_follow_the_kernel_and_the_call_is_marked():
    here, there = ("k.py", 2), ("h.py", 8)
    parts = {"call": (Part(0.75, "exp", (there, here)), Part(0.25, "add", (here,)))}
    trace = kernel_of([("call", "exp+add", 1000)], parts=parts)
    helper = Function("helper", "h.py", 7, "def helper(v):\n    return exp(v)")
    trace.kernels = [replace(trace.kernels[0], functions=(helper,))]
    shown = report(trace)
    call = next(line for line in shown.splitlines() if "│     call" in line)
    assert call.split()[:5] == [">", "3.00", "µs", "100", "%"]
    assert "helper  h.py:7" in shown
    own = next(line for line in shown.splitlines() if "return exp(v)" in line)
    assert own.split()[:4] == ["~", "2.25", "µs", "75"]
    assert "> in functions that are called there" in shown


def test_a_loop_has_its_own_time_at_its_line():
    trace = attention(launches=1)
    frame = trace.intervals
    longer = (frame["region"] == 3).cast(int) * 5000  # iterations take 5 us more than what is in them
    trace.frame = frame.with_columns(stop_ns=frame["stop_ns"] + longer)
    line = next(line for line in report(trace).splitlines() if "for at in range(0, n_ctx, BLOCK):" in line)
    assert line.split()[:2] == ["240", "µs"]


def test_what_was_not_recorded_is_said():
    shown = report(kernel_of([("load @ 2", "load", 100)], launches=4, ran=1000, unrecorded=700))
    assert "1,000 launches, 4 of them recorded" in shown
    assert "! the room for records is spent: 700 launches were not recorded (--budget-mb)" in shown
    assert "of all launches; 0.4 % of the time was recorded" in shown


def test_estimates_and_intervals_are_marked():
    trace = attention(launches=6, noise=0.05)
    trace.frame = trace.intervals.with_columns(weight=4.0 * trace.intervals["weight"])
    shown = report(trace, 200)
    dot = next(line for line in shown.splitlines() if "dot @ 35" in line and "├" in line)
    assert "~" in dot.split("█")[-1]
    assert "±" in dot
    assert "~ is scaled up from a part of the programs or iterations" in shown
    assert "± is a 95 % interval of this run" in shown
    assert "~" not in next(line for line in report(attention(), 150).splitlines() if "├╴dot @ 35" in line)


def test_works_are_told_apart():
    trace = kernel_of([("load @ 2", "load", 100)], launches=4)
    trace.works = [Work(0, 0, (1,), "n=1", 7, 2), Work(1, 0, (1,), "n=9", 5, 2)]
    trace.launches = [replace(launch, work=launch.id % 2) for launch in trace.launches]
    shown = report(trace)
    assert "  7 launches, 2 recorded, 100 ns each: grid 1, n=1\n" in shown
    assert "12 launches, 4 of them recorded" in shown
    frame = kernel_totals(trace)
    assert frame["total_ns"].to_list() == [1200.0]
    assert frame["estimate"].to_list() == [True]


def test_works_of_several_processes_that_are_alike_are_one():
    trace = kernel_of([("load @ 2", "load", 100)], launches=6)
    alike = [Work(n, 0, (1,), "n=1", 4, 2) for n in range(2)]
    trace.works = [*alike, Work(2, 0, (1,), "n=9", 5, 2)]
    trace.launches = [replace(launch, work=launch.id // 2) for launch in trace.launches]
    shown = report(trace)
    assert "  8 launches, 4 recorded, 100 ns each: grid 1, n=1\n" in shown
    assert shown.count("n=1\n") == 1


def test_launches_that_differ_have_no_single_length():
    trace = kernel_of([("load @ 2", "load", 100)], launches=6)
    trace.launches = [replace(each, duration_ns=100.0 if each.id % 2 else 900.0) for each in trace.launches]
    assert "500 ns each (most 100 ns to 900 ns)" in report(trace)


def test_remarks_of_the_session_are_shown_with_a_file(tmp_path, capsys):
    trace = attention()
    trace.meta = {"problems": {"k": "k runs without probes: no room"}, "notes": ["a note"]}
    trace.save(tmp_path / "t.parquet")
    assert main(["report", str(tmp_path / "t.parquet"), "--full"]) == 0
    shown = capsys.readouterr().out
    assert "! k runs without probes: no room" in shown
    assert "! a note" in shown


def test_kernels_of_which_nothing_was_recorded_are_named():
    trace = attention()
    trace.meta = {"kernels": ["*"], "kernels_seen": {"attention": 5, "other": 1200}}
    assert "! other: 1,200 launches, none recorded" in report(trace)
    trace.meta["kernels"] = ["att*"]
    assert "none recorded" not in report(trace)
    trace.meta = {"kernels": 3, "kernels_seen": ["x"], "notes": [], "problems": ["p"]}
    assert "! p" in report(trace)


def with_durations(plain, probed):
    trace = attention(launches=len(probed))
    lengths = [*probed, *plain]
    trace.launches = [Launch(n, 0, (8,), None, ns, n < len(probed)) for n, ns in enumerate(lengths)]
    return trace


def test_an_overhead_that_cannot_be_measured_is_not_printed_as_one():
    shown = report(with_durations([1e5, 9e5, 2e5, 5e5], [4e5, 1e5, 8e5, 2e5]))
    assert "what probes cost is not measurable here: launches of the same work differ by more" in shown
    assert "(estimated)" in shown
    assert "measured)" not in shown
    sure = report(with_durations([1e5] * 6, [1.02e5] * 6))
    assert "probes cost 2.0 % (2.0 to 2.0, measured)" in sure
    few = report(with_durations([1e5], [1.02e5]))
    assert "probes cost about 0.0 % (estimated)" in few
    assert "measurable" not in few


def test_launches_without_a_duration_measure_nothing():
    trace = with_durations([1e5] * 3, [1.02e5] * 3)
    trace.launches = [replace(launch, duration_ns=None) for launch in trace.launches]
    found = overhead(trace, trace.kernels[0])
    assert found.percent is None
    assert found.why == "3 launches of a work with and without probes are needed, not 0"


def test_programs_that_took_no_time_have_a_cost_by_the_record_alone():
    """An empty kernel: the correction leaves nothing, which the cost could be held against."""

    def on_the_page(**calibration):
        trace.kernels = [replace(trace.kernels[0], layout={}, calibration=calibration)]
        found = facts(trace, trace.kernels[0], kernel_totals(trace).row(0, named=True))
        return next(fact for fact in found if fact["name"] == "probes cost")

    trace = attention(launches=1)
    trace.frame = trace.intervals.with_columns(stop_ns=trace.intervals["start_ns"])
    assert "\n12.0 ns a record\n" in report(trace)
    said = on_the_page(cost_ticks=24.0)
    assert (said["value"], said["note"]) == ("?", "12.0 ns a record")
    assert on_the_page(cost_ticks=0.0)["note"].startswith("records are free")
    assert on_the_page()["note"] == ""


def test_interruptions_are_told():
    trace = attention(launches=4)
    frame = trace.intervals
    taken = (frame["region"] == 0).cast(float) * 5000.0
    trace.frame = frame.with_columns(taken_ns=taken.cast(frame["taken_ns"].dtype))
    trace.launches = [replace(launch, preempted_ns=8 * 5000.0) for launch in trace.launches]
    shown = report(trace)
    assert "32 programs, 5.0 % of the time, were interrupted and taken out" in shown
    assert "! " not in shown
    waited = attention(launches=4)
    waited.launches = [replace(launch, preempted_ns=n * 1e6) for n, launch in enumerate(waited.launches)]
    grown = (waited.intervals["region"] == 0).cast(float) * waited.intervals["launch"] * 1e5
    waited.frame = waited.intervals.with_columns(stop_ns=waited.intervals["stop_ns"] + grown)
    assert "! the operating system took up to" in report(waited)
    assert "the shares cannot be trusted" in report(waited, 200)


def test_what_does_not_add_up_is_told():
    trace = attention(launches=3)
    trace.launches = [replace(launch, duration_ns=2 * launch.duration_ns) for launch in trace.launches]
    assert "\nprograms account for 50 % of the launches' time on 2 threads\n" in report(trace)
    trace.launches = [replace(launch, duration_ns=2 * launch.duration_ns) for launch in trace.launches]
    assert "25 % of the launches' time on 2 threads: starting them, idle threads" in report(trace, 200)
    trace.kernels = [replace(trace.kernels[0], target="sim:a100")]  # no threads there
    assert "25 % of the launches' time, 2 at a time: starting them" in report(trace, 200)
    trace.kernels[0].calibration["residual_share"] = 0.25
    assert "! 25 % of what the probes cost could not be taken out: short times are rough" in report(trace)
    one = report(attention(launches=1, noise=0.01), 200)
    assert "± is a 95 % interval of this run, from the programs of one launch" in one


def test_the_python_cost_of_a_launch_is_shown():
    shown = report(kernel_of([("load @ 2", "load", 100)], ran=9, session_us=47.5))
    assert "\n47.5 µs of Python a recorded launch" in shown


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_it_fits_any_width(width):
    many = Trace.merge(attention(unprobed=3), kernel_of([(f"load @ {n}", "load", 10 + n) for n in range(60)]))
    for trace in (many, attention(launches=0)):
        shown = report(trace, width, tools=("regions", "source", "iterations", "programs", "units"))
        assert max(len(line.rstrip()) for line in shown.splitlines()) <= width


def test_every_tool_and_view_tells_specialisations_apart():
    both = Trace.merge(
        kernel_of([("load @ 2", "load", 100)], signature="BLOCK=64"),
        kernel_of([("load @ 2", "load", 900)], signature="BLOCK=128"),
    )
    for tool in ("regions", "source", "programs"):
        titles = [table.title for table in load_tool(tool).read(both).tables]
        assert any("k [BLOCK=64]" in title for title in titles)
        assert any("k [BLOCK=128]" in title for title in titles)
    assert "k [BLOCK=128] on cpu" in "".join(chrome_events(both))


def test_what_a_tool_says_is_said_once():
    trace = attention()
    trace.meta = {"notes": ["the clock drifts"]}
    assert report(trace, tools=("regions", "units")).count("the clock drifts") == 1
    assert report(trace).count("! the clock drifts") == 1


def test_many_kinds_of_work_are_counted():
    trace = kernel_of([("load @ 2", "load", 100)], launches=6)
    trace.works = [Work(n, 0, (1,), f"n={n}", 10 - n, 1) for n in range(6)]
    trace.launches = [replace(launch, work=launch.id) for launch in trace.launches]
    shown = report(trace)
    assert "grid 1, n=3\n" in shown
    assert "n=4" not in shown
    assert "\n  and 2 more kinds of work\n" in shown


def test_a_table_has_the_columns_that_fit():
    table = load_tool("programs").read(attention()).tables[0]

    def lines(width):
        out = io.StringIO()
        print_table(table, make_console(out, width))
        return [line.rstrip() for line in out.getvalue().splitlines()]

    whole = lines(200)[0]
    assert whole.endswith("slowest")
    assert lines(len(whole))[0] == whole
    assert not any("too narrow" in line for line in lines(len(whole)))
    narrow = lines(len(whole) - 1)
    assert narrow[0] == whole.removesuffix("slowest").rstrip() and narrow[-1] == "too narrow for: slowest"
    assert " ".join(lines(40)).endswith("p95, slowest") and "too narrow for: " in " ".join(lines(40))
