"""compare: medians, noise and verdicts worked out by hand, what is said beside them; and where a line's time is."""

import math
from dataclasses import replace

import polars as pl
import pytest

from tileprobe.ir.functions import Function
from tileprobe.ir.parts import Part
from tileprobe.tools.compare import compare
from tileprobe.tools.matching import match_kernels, match_regions
from tileprobe.tools.regions import region_tree
from tileprobe.tools.source import Source, function_times, line_times
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Work

REGIONS = [Region(0, "k", "kernel"), Region(1, "dot @ 3", "dot", 0, depth=1)]


def trace_of(dots, *, works=None, grids=None, ran=None, own=100, programs=1, **kernel):
    """One launch for each dot; the kernel takes `own` longer than it."""
    rows = []
    for n, dot in enumerate(dots):
        for program in range(programs):
            at = 1_000_000 * n
            rows += [(n, program, 0, at, at + dot + own), (n, program, 1, at, at + dot)]
    works = works or [0] * len(dots)
    trace = Trace.build(
        dict(zip(("launch", "program", "region", "start", "stop"), zip(*rows))),
        kernels=[replace(Kernel(0, "k", "cpu", Clock(1e9)), **kernel)],
        launches=[
            Launch(n, 0, (grids or {}).get(work, (1,)), duration_ns=1e6, work=work, preempted_ns=0.0)
            for n, work in enumerate(works)
        ],
        regions=REGIONS,
    )
    made = [Work(w, 0, (grids or {}).get(w, (1,)), ran=count) for w, count in (ran or {}).items()]
    return replace(trace, works=made)


def dot_row(a, b):
    return compare(a, b).tables[0].frame.row(1, named=True)


def texts(a, b):
    return [finding.text for finding in compare(a, b).findings]


# -- figures ------------------------------------------------------------------------------------------------------


def test_with_few_launches_noise_is_the_range_that_either_side_covers():
    """Medians 1000 and 1100; A covers 50 and B 90: a change of 10 % against 9 %."""
    row = dot_row(trace_of([1000, 980, 1030]), trace_of([1100, 1050, 1140]))
    assert (row["a_ns"], row["b_ns"], row["change"]) == (1000.0, 1100.0, pytest.approx(0.1))
    assert (row["noise"], row["verdict"]) == (pytest.approx(0.09), "slower")
    assert (row["launches_a"], row["launches_b"], row["estimate"]) == (3, 3, False)
    row = dot_row(trace_of([1000, 980, 1030]), trace_of([1250, 1000, 1250]))
    assert (row["change"], row["noise"], row["verdict"]) == (0.25, 0.25, "within noise")  # as much is no more


def sampled(trace, stride=16, **how):
    sampling = {"programs": {"stride": stride, "phase": 0, "count": 1}} | how
    return replace(trace, launches=[replace(launch, sampling=sampling) for launch in trace.launches])


SLOW = [1000] * 15 + [5000]  # one program of sixteen is slow, and each launch recorded one


@pytest.mark.parametrize("which", [{"stride": 16}, {"stride": 2}, {"stride": 1, "chosen": [3]}])
def test_sampled_programs_that_differ_are_compared_by_their_means(which):
    """Most launches saw no slow program: of medians, 1100 both, nothing would be left of it."""
    a, b = trace_of([1000] * 160), trace_of(SLOW * 10)
    row = compare(sampled(a, **which), sampled(b, **which)).tables[0].frame.row(0, named=True)
    assert (row["a_ns"], row["b_ns"]) == (1100.0, pytest.approx(1350.0))
    assert row["figure"] == "mean"
    error = math.sqrt(15 / 256 * 160 / 159) * 4000 / math.sqrt(160)
    assert row["noise"] == pytest.approx(3 * error / 1100)
    assert row["verdict"] == ("slower" if 3 * error < 250 else "within noise")
    assert any("means of launches are compared" in text for text in texts(sampled(a), sampled(b)))
    assert any("means of launches are compared" in text for text in texts(sampled(b), sampled(a)))
    whole = compare(a, b).tables[0].frame.row(0, named=True)  # launches of all programs: some were slow
    assert (whole["b_ns"], whole["noise"], whole["figure"]) == (1100.0, 0.0, "median")
    assert dot_row(sampled(a, **which), sampled(b, **which))["b_ns"] == pytest.approx(1250.0)
    long = (sampled(trace_of(dots, own=100_000)) for dots in ([1000] * 160, SLOW * 10))
    assert not any("means of" in text for text in texts(*long))  # the whole kernel decides: 0.2 % of it
    alike = [1000, 1010, 990, 1030] * 40
    assert not any("means of" in text for text in texts(sampled(trace_of(alike)), sampled(trace_of(alike))))


ROOT_2 = math.sqrt(2)


@pytest.mark.parametrize(
    ("error", "noise"),
    [(0.0, 0.0), (2.0, 1.96 * 0.1 * 60 * ROOT_2 / 40), (200.0, 1.96 * 60 * ROOT_2 / 40)],
)
def test_what_is_in_doubt_of_a_record_is_noise_though_all_launches_agree(error, noise):
    """A region of 100 ticks of which 60 are a record's, 20 ticks each, in every launch of either run alike."""
    calibration = {"cost_ticks": 20.0, "error_ticks": error, "doses": [1, 3]}
    sides = []
    for more in (0, 5):
        plain = trace_of([100 + more] * 4, calibration=calibration)
        cost = 60 * (pl.col("region") == 1)
        columns = {"stop_ns": pl.col("stop_ns") - cost, "probes_ns": cost.cast(pl.Float32)}
        sides.append(replace(plain, frame=plain.intervals.with_columns(**columns)))
    row = dot_row(*sides)
    assert (row["a_ns"], row["b_ns"], row["change"]) == (40.0, 45.0, pytest.approx(0.125))
    assert row["noise"] == pytest.approx(noise, abs=1e-3)
    assert row["verdict"] == ("slower" if not error else "within noise")


def test_with_many_launches_noise_is_three_errors_of_the_medians():
    """Ten launches of 990 and 1010 in turns: a deviation of 14.826, and a median is less sure than a mean."""
    a, b = trace_of([990, 1010] * 5), trace_of([490, 510] * 5)
    row = dot_row(a, b)
    assert (row["a_ns"], row["b_ns"], row["change"], row["verdict"]) == (1000.0, 500.0, -0.5, "faster")
    error = 1.4826 * 10 * math.sqrt(math.pi / 2 / 10)
    assert row["noise"] == pytest.approx(3 * math.hypot(error, error) / 1000)
    nine = dot_row(trace_of([990, 1010] * 4 + [990]), b)
    assert nine["noise"] == pytest.approx(20 / 990)


def test_two_launches_tell_nothing():
    a, b = trace_of([1000, 1000]), trace_of([1000] * 5)
    assert (dot_row(a, b)["noise"], dot_row(a, b)["verdict"]) == (None, "too few launches")
    (found,) = compare(a, b).findings
    assert found.text == "k: too few launches to tell a change from noise; 3 on each side are needed"
    assert (found.level, found.data) == ("warning", {"launches": [2, 5]})


def test_each_work_is_held_against_itself_and_counts_as_often_as_it_ran():
    """The short work ran 10 + 20 times, the long one 5 + 5: three quarters and one."""
    grids = {0: (1,), 1: (2,)}
    a = trace_of([100] * 3 + [1000] * 3, works=[0] * 3 + [1] * 3, grids=grids, ran={0: 10, 1: 5})
    b = trace_of([2000] * 3 + [120] * 3, works=[1] * 3 + [0] * 3, grids=grids, ran={0: 20, 1: 5})
    row = dot_row(a, b)
    assert row["a_ns"] == pytest.approx(0.75 * 100 + 0.25 * 1000)
    assert row["b_ns"] == pytest.approx(0.75 * 120 + 0.25 * 2000)
    assert (row["launches_a"], row["launches_b"]) == (6, 6)


def test_a_work_with_enough_launches_goes_before_one_with_too_few():
    grids = {0: (1,), 1: (2,)}
    a = trace_of([100] * 3 + [1000] * 2, works=[0] * 3 + [1] * 2, grids=grids, ran={0: 3, 1: 2})
    b = trace_of([150] * 3 + [9000] * 3, works=[0] * 3 + [1] * 3, grids=grids, ran={0: 3, 1: 3})
    row = dot_row(a, b)
    assert (row["a_ns"], row["b_ns"], row["launches_a"]) == (100.0, 150.0, 3)


def test_works_that_nobody_else_has_are_compared_all_together():
    a = trace_of([100] * 3, grids={0: (1,)}, ran={0: 3})
    b = trace_of([200] * 3, grids={0: (2,)}, ran={0: 3})
    assert dot_row(a, b)["change"] == pytest.approx(1.0)
    assert "k: no grid with the same arguments is in both: different work is compared" in texts(a, b)
    assert not any("no grid" in text for text in texts(a, a))


def test_a_regions_time_is_that_of_one_program():
    row = dot_row(trace_of([100] * 3, programs=4), trace_of([100] * 3, programs=2))
    assert (row["a_ns"], row["b_ns"], row["verdict"]) == (100.0, 100.0, "within noise")


def test_a_region_that_some_launches_do_not_reach_took_no_time_there():
    b = trace_of([100] * 4)
    b.frame = b.intervals.filter((b.intervals["region"] == 0) | (b.intervals["launch"] == 0))
    row = dot_row(trace_of([100] * 4), b)
    assert (row["a_ns"], row["b_ns"], row["change"]) == (100.0, 0.0, -1.0)


def test_what_took_no_time_before_has_no_change():
    a = trace_of([0] * 4)
    row = dot_row(a, trace_of([100] * 4))
    assert (row["change"], row["noise"], row["verdict"]) == (0.0, None, "too few launches")


# -- in words -----------------------------------------------------------------------------------------------------


def test_the_verdict_is_about_the_whole_kernel():
    a = trace_of([900, 900, 900])
    clear = trace_of([1150, 1150, 1160])
    assert texts(a, clear)[0] == "k: B is 25.0 % slower than A, noise 1.0 %"
    assert compare(a, clear).findings[0].data == {"change": 0.25, "noise": pytest.approx(0.01)}
    assert texts(clear, a)[0] == "k: B is 20.0 % faster than A, noise 0.8 %"
    assert texts(a, trace_of([900, 1400, 900]))[0] == "k: no change beyond the noise of 50.0 %"
    assert texts(a, trace_of([900, 910, 900]))[0] == "k: no change beyond the noise of 1.0 %"


def test_what_else_differs_is_said():
    a = trace_of([100] * 3, target="cpu", signature="BLOCK=1", source="def k():\n    dot()\n")
    b = trace_of([100] * 3, target="sim:a100", signature="BLOCK=2", source="def k():\n    exp()\n")
    assert texts(a, b)[1:] == [
        "k: the signatures differ: A BLOCK=1; B BLOCK=2",
        "k: A ran on cpu, B on sim:a100",
        "k: the code differs; regions that did not change are matched first",
    ]
    assert [f.level for f in compare(a, b).findings] == ["info", "info", "warning", "info"]
    assert "k: A ran on sim:a100, B on cpu" in texts(b, a)
    unknown = trace_of([100] * 3, signature="", source="def k():\n    dot()  # the same\n")
    assert len(texts(a, unknown)) == 1


def test_a_disturbed_side_is_named():
    """The operating system took 300 ns somewhere in the last launch, which took that much longer."""
    b = trace_of([1000, 1000, 1000, 1300])
    b.launches[3] = replace(b.launches[3], preempted_ns=300.0 + 1e6)
    (warning,) = [f for f in compare(trace_of([1000] * 4), b).findings if f.level == "warning"]
    assert warning.text.startswith("k: in B the operating system took up to ")


def test_up_to_three_regions_without_a_partner_are_named():
    b = trace_of([100] * 3)
    kinds = ("exp", "max", "sum", "sqrt")
    b.regions = [*b.regions, *(Region(n, f"{k} @ {n}", k, 0, depth=1) for n, k in enumerate(kinds, 2))]
    (found,) = [f for f in compare(trace_of([100] * 3), b).findings if "only in" in f.text]
    assert found.text == "k: only in B: exp @ 2, max @ 3, sum @ 4 ..."
    assert found.data == {"count": 4}
    b.regions = b.regions[:-1]
    assert texts(b, trace_of([100] * 3))[1] == "k: only in A: exp @ 2, max @ 3, sum @ 4"


# -- matching -----------------------------------------------------------------------------------------------------


def kernels(*rows):
    """(name, target, signature, source, kinds of its stages) each."""
    regions: list[Region] = []
    made = []
    for n, (name, target, signature, source, kinds) in enumerate(rows):
        made.append(Kernel(n, name, target, Clock(1e9), source=source, signature=signature))
        for kind in kinds:
            regions.append(Region(len(regions), kind, kind, None, n))
    return Trace.build({"region": [], "start": [], "stop": []}, kernels=made, launches=[], regions=regions)


def pairs(a, b):
    matched = match_kernels(a, b)
    return [(x.id, y.id) for x, y in matched.pairs]


def test_kernels_are_matched_by_the_strictest_key_first():
    one = ("k", "cpu", "B=1", "def k(): a()", ("load",))
    other_target = ("k", "hip", "B=1", "def k(): a()", ("load",))
    other_code = ("k", "cpu", "B=1", "def k(): b()", ("load",))
    other_tree = ("k", "cpu", "B=1", "def k(): a()", ("load", "dot"))
    other_name = ("j", "cpu", "B=1", "def k(): a()", ("load",))
    rest = ("k", "cpu", "B=7", "def k(): c()", ("exp",))  # so that nobody is the only one left
    more = ("k", "cpu", "B=8", "def k(): c()", ("exp",))
    assert pairs(kernels(one, rest), kernels(other_tree, one, more)) == [(0, 1)]
    assert pairs(kernels(one, rest), kernels(other_code, other_tree, more)) == [(0, 1)]
    assert pairs(kernels(one, rest), kernels(other_target, other_code, more)) == [(0, 1)]
    assert pairs(kernels(one, rest), kernels(other_target, more, rest)) == [(0, 0), (1, 2)]
    assert pairs(kernels(one), kernels(other_name)) == [(0, 0)]  # renamed
    assert pairs(kernels(one), kernels(other_name, ("i", *other_name[1:]))) == []  # to one of two
    assert pairs(kernels(one), kernels(("j", *other_code[1:]))) == []
    tall = ("k", "cpu", "B=1", "def k(): a()", ("load", "dot", "exp", "store"))
    assert pairs(kernels(tall), kernels(("j", "cpu", "B=1", "def j(): b()", tall[4]))) == [(0, 0)]
    assert pairs(kernels(tall), kernels(("j", "cpu", "B=2", "def j(): b()", tall[4]))) == []
    assert pairs(kernels(one), kernels(rest)) == [(0, 0)]  # the only ones of their name
    assert pairs(kernels(one, one), kernels(rest)) == []


def test_kernels_without_signatures_are_matched_by_structure():
    a, b = ("k", "cpu", "", "x", ("load",)), ("k", "cpu", "", "y", ("dot",))
    signed = ("k", "cpu", "B=1", "x", ("load",))
    assert pairs(
        kernels(a, b), kernels(("k", "hip", "", "z", ("dot",)), ("k", "hip", "", "z", ("load",)))
    ) == [
        (0, 1),
        (1, 0),
    ]
    assert pairs(kernels(a, b), kernels(signed, ("k", "cpu", "B=2", "y", ("dot",)))) == []


def staged(*kinds, source=""):
    """Stages one a line, from line 2 on."""
    regions = [Region(0, "k", "kernel", None, 0, "k.py", 1, 9)]
    regions += [Region(n, f"{k} @ {n + 1}", k, 0, 0, "k.py", n + 1, n + 1, 1) for n, k in enumerate(kinds, 1)]
    text = source or "def k():\n" + "\n".join(f"    {kind}()" for kind in kinds)
    return Trace.build(
        {"region": [], "start": [], "stop": []},
        kernels=[Kernel(0, "k", "cpu", Clock(1e9), "k.py", 1, text)],
        launches=[],
        regions=regions,
    )


def matched(a, b):
    found = match_regions(a, a.kernels[0], b, b.kernels[0])
    return [(x.name, y.name) for x, y in found.pairs[1:]], found


def test_stages_that_do_half_the_same_are_the_same_changed():
    assert matched(staged("load+exp"), staged("load+exp+max+sum"))[0] == [
        ("load+exp @ 2", "load+exp+max+sum @ 2")
    ]
    assert matched(staged("load+exp"), staged("load+exp+max+sum+mul"))[0] == []
    assert matched(staged("load"), staged("dot"))[0] == []  # single kinds are the same, or not
    one = matched(staged("load+exp", "load+max"), staged("load+exp+max"))[0]
    assert one == [("load+exp @ 2", "load+exp+max @ 2")]  # nobody is taken twice
    names, found = matched(staged("load+exp", "dot+mul"), staged("max", "dot+mul+add", "load+exp+sum"))
    assert names == [("load+exp @ 2", "load+exp+sum @ 4")]  # in order, so the second has none left
    assert [r.name for r in found.only_a] == ["dot+mul @ 3"]
    assert [r.name for r in found.only_b] == ["max @ 2", "dot+mul+add @ 3"]


def test_the_same_code_goes_before_the_same_kind():
    """Two loads on either side, in another order: each is known by its line of code."""
    a = staged("load", "load", "dot", source="def k():\n    x = load(a)\n    y = load(b)\n    dot(x, y)\n")
    b = staged("load", "dot", "load", source="def k():\n    y = load(b)\n    dot(x, y)\n    x = load(a)\n")
    assert sorted(matched(a, b)[0]) == [
        ("dot @ 4", "dot @ 3"),
        ("load @ 2", "load @ 4"),
        ("load @ 3", "load @ 2"),
    ]


# -- lines --------------------------------------------------------------------------------------------------------

SOURCE = "@jit\ndef k():\n    x = load()\n\n    # a comment\n    for i in n:\n        x = help(x)\n"
HELPER = Function("help", "lib/h.py", 50, "def help(x):\n    return exp(x)\n")


def lined(regions, rows):
    """`rows` are (region, start, stop)."""
    return Trace.build(
        dict(zip(("region", "start", "stop"), zip(*rows))),
        kernels=[Kernel(0, "k", "cpu", Clock(1e9), "k.py", 10, SOURCE, functions=(HELPER,))],
        launches=[Launch(0)],
        regions=regions,
    )


def helped(share=0.75):
    """The kernel's own 100 ns, a load of 200 on lines 12 to 14, and a loop whose stage of 400 is mostly in a helper."""
    call = (("lib/h.py", 51), ("k.py", 16))
    parts = (Part(share, "exp", call), Part(1 - share, "mul", (("k.py", 16),)))
    regions = [
        Region(0, "k", "kernel", None, 0, "k.py", 10, 16),
        Region(1, "load @ 12", "load", 0, 0, "k.py", 12, 14, 1),
        Region(2, "loop @ 15", "loop", 0, 0, "k.py", 15, 16, 1),
        Region(3, "exp + mul @ 16", "exp+mul", 2, 0, "k.py", 16, 16, 2, parts=parts),
    ]
    return lined(regions, [(0, 0, 800), (1, 0, 200), (2, 200, 700), (3, 200, 600)])


def test_time_is_at_the_lines_it_was_spent_in():
    trace = helped()
    by_line = {row["line"]: row for row in line_times(trace, trace.kernels[0]).to_dicts()}
    assert list(by_line) == [10, 11, 12, 13, 14, 15, 16]
    assert (by_line[11]["ns"], by_line[11]["text"]) == (100.0, "def k():")  # the kernel's own, at its `def`
    assert (by_line[12]["ns"], by_line[13]["ns"], by_line[14]["ns"]) == (
        200.0,
        None,
        None,
    )  # blank, and a comment
    assert by_line[15]["ns"] == 100.0  # the loop's own
    assert (by_line[16]["ns"], by_line[16]["called_ns"]) == (400.0, 300.0)
    assert [by_line[n]["share"] for n in (11, 12, 16)] == [0.125, 0.25, 0.5]
    assert [by_line[n]["estimate"] for n in (11, 12, 15, 16)] == [False, False, False, True]


def test_a_function_that_is_called_has_its_own_lines():
    trace = helped()
    ((function, frame),) = function_times(trace, trace.kernels[0])
    assert function is HELPER
    assert frame["line"].to_list() == [50, 51]
    assert frame["ns"].to_list() == [None, 300.0]
    tables = Source().read(trace).tables
    assert [table.title for table in tables] == ["k", "help  h.py:50"]


def test_functions_whose_text_is_not_known_are_shown_by_their_lines():
    """The most expensive first: what is in other.py took 300 ns, what is in the helper 100."""
    parts = (
        Part(0.75, "exp", (("other.py", 7), ("k.py", 12))),
        Part(0.25, "mul", (("lib/h.py", 51), ("k.py", 12))),
    )
    regions = [Region(0, "k", "kernel"), Region(1, "exp @ 12", "exp", 0, 0, "k.py", 12, 12, 1, parts=parts)]
    trace = lined(regions, [(0, 0, 400), (1, 0, 400)])
    found = [
        (f.name, f.file, f.first_line, frame["ns"].to_list())
        for f, frame in function_times(trace, trace.kernels[0])
    ]
    assert found == [("?", "other.py", 7, [300.0]), ("help", "lib/h.py", 50, [None, 100.0])]


def test_what_rounding_leaves_of_a_region_is_nothing():
    """A part in a million of the whole is not shown; a little more is."""
    regions = [
        Region(0, "k", "kernel", None, 0, "k.py", 10),
        Region(1, "load @ 12", "load", 0, 0, "k.py", 12, 12, 1),
    ]
    for own, shown in ((1, None), (2, 2.0)):
        trace = lined(regions, [(0, 0, 1_000_000), (1, 0, 1_000_000 - own)])
        frame = line_times(trace, trace.kernels[0])
        assert frame.filter(line=11)["ns"].to_list() == [shown]


def test_a_kernel_without_text_has_no_lines():
    trace = helped()
    trace.kernels[0] = replace(trace.kernels[0], source="")
    assert Source().read(trace).tables == []


def test_a_machine_that_changes_its_pace_is_noise():
    """Half of A's launches ran while the machine was slower by a tenth: two such runs may differ by a twentieth."""
    row = dot_row(trace_of([1000, 1002] * 10 + [1100, 1102] * 10), trace_of([1100, 1102] * 20))
    assert row["noise"] > 0.04
    assert dot_row(trace_of([1000, 1002] * 20), trace_of([1100, 1102] * 20))["noise"] < 0.01


def test_a_kernel_whose_place_is_not_known_counts_its_lines_from_one():
    trace = helped()
    trace.kernels[0] = replace(trace.kernels[0], first_line=0)
    assert line_times(trace, trace.kernels[0])["line"].to_list()[:7] == list(range(1, 8))


def test_regions_are_told_apart_by_their_numbers_on_each_side():
    """Region 1 of A is region 2 of B and the other way round; a third one of A has nobody."""
    a, b = staged("load", "dot", "exp"), staged("dot", "load")
    names, matching = matched(a, b)
    assert sorted(names) == [("dot @ 3", "dot @ 2"), ("load @ 2", "load @ 3")]
    assert ([r.name for r in matching.only_a], matching.only_b) == (["exp @ 4"], [])


def test_a_kernel_without_text_does_not_hide_the_next():
    trace = helped()
    trace.kernels = [replace(trace.kernels[0], source=""), replace(trace.kernels[0], id=1, name="j")]
    trace.regions += [
        replace(r, id=r.id + 4, kernel=1, parent=r.parent and r.parent + 4) for r in trace.regions
    ]
    trace.regions[5:7] = [replace(r, parent=4) for r in trace.regions[5:7]]
    trace.launches.append(Launch(1, 1))
    rows = trace.intervals
    more = rows.with_columns(rows["launch"] + 1, rows["region"] + 4)
    trace.frame = pl.concat([rows, more])
    assert [table.title for table in Source().read(trace).tables][:1] == ["j"]


def test_a_kernel_that_took_no_time_has_no_shares():
    trace = lined(
        [Region(0, "k", "kernel"), Region(1, "load @ 12", "load", 0, depth=1)], [(0, 5, 5), (1, 5, 5)]
    )
    assert region_tree(trace, trace.kernels[0])["share"].to_list() == [0.0, 0.0]
    assert set(line_times(trace, trace.kernels[0])["share"]) == {0.0}
