"""The one thing that is said of a kernel: what dominates, what the time is made of, which times are rough."""

import polars as pl
import pytest

from tileprobe.ir.parts import Part
from tileprobe.tools.headline import headline, made_of, short_regions
from tileprobe.tools.regions import region_tree
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace


def trace_of(stages, own=0, *, kind="kernel", parts=None, calibration=None):
    """A kernel with stages (name, kind, ns) one after another, and `own` ns of its own at the end."""
    regions, rows, at = [Region(0, "k", kind, parts=(parts or {}).get("k", ()))], [], 0
    for n, (name, what, ns) in enumerate(stages, 1):
        regions.append(Region(n, name, what, 0, depth=1, parts=(parts or {}).get(name, ())))
        rows.append((n, at, at := at + ns))
    rows.append((0, 0, at + own))
    return Trace.build(
        dict(zip(("region", "start", "stop"), zip(*rows))),
        kernels=[Kernel(0, "k", "cpu", Clock(1e9), calibration=calibration or {})],
        launches=[Launch(0)],
        regions=regions,
    )


def said(trace):
    (finding,) = headline(trace, trace.kernels[0], region_tree(trace, trace.kernels[0]), "k")
    assert finding.kernel == 0
    return finding


def test_a_stage_that_dominates_is_the_headline():
    found = said(trace_of([("dot @ 3", "dot", 300), ("load @ 2", "load", 250), ("exp @ 4", "exp", 250)], 200))
    assert found.text == "k: 30 % of the time is in dot @ 3"
    assert (found.data["region"], found.data["share"]) == (1, 0.3)
    assert found.data["made_of"] == {"dot": 0.3, "load": 0.25, "exp": 0.25, "starting programs": 0.2}


def test_where_nothing_dominates_the_mixture_is():
    """Six kinds: four are named, the fifth and sixth are the rest."""
    stages = [
        (f"{kind} @ {n}", kind, ns)
        for n, (kind, ns) in enumerate(
            (("dot", 290), ("load+mul", 250), ("exp", 200), ("store", 150), ("max", 100), ("sum", 10))
        )
    ]
    found = said(trace_of(stages))
    assert found.text == (
        "k: no stage dominates; the time is made of about dot 29 %, load + mul 25 %, exp 20 %, store 15 %, "
        "the rest 11 %"
    )
    assert list(found.data["made_of"]) == ["dot", "load+mul", "exp", "store", "max", "sum"]


def test_a_rest_of_less_than_a_hundredth_is_not_named():
    stages = [("a", "a", 2900), ("b", "b", 2800), ("c", "c", 2200), ("d", "d", 2010), ("e", "e", 90)]
    assert said(trace_of(stages)).text.endswith("a 29 %, b 28 %, c 22 %, d 20 %")
    stages[-1] = ("e", "e", 101)
    assert said(trace_of(stages)).text.endswith("a 29 %, b 28 %, c 22 %, d 20 %, the rest 1 %")


def test_a_large_rest_is_said_as_it_is():
    stages = [(f"{n}", f"kind{n}", 100) for n in range(10)]
    assert said(trace_of(stages)).text.endswith("kind3 10 %, the rest 60 %")


def test_copies_of_a_stage_are_one():
    """An unrolled loop leaves three copies of 150 ns each; a load of 200 has less."""
    stages = [("dot @ 3", "dot", 150)] * 3 + [("load @ 2", "load", 200)]
    assert said(trace_of(stages)).text == "k: 69 % of the time is in dot @ 3 (3 copies)"


def test_two_copies_are_copies():
    stages = [("dot @ 3", "dot", 150)] * 2 + [("load @ 2", "load", 200)]
    assert said(trace_of(stages)).text == "k: 60 % of the time is in dot @ 3 (2 copies)"


def test_loops_are_no_copies_of_each_other():
    regions = [
        Region(0, "k", "kernel"),
        Region(1, "loop @ 3", "loop", 0, depth=1),
        Region(2, "loop @ 3", "loop", 0, depth=1),
        Region(3, "dot @ 4", "dot", 0, depth=1),
    ]
    rows = {"region": [1, 2, 3, 0], "start": [0, 200, 400, 0], "stop": [200, 400, 700, 700]}
    kernels = [Kernel(0, "k", "cpu", Clock(1e9))]
    trace = Trace.build(rows, kernels=kernels, launches=[Launch(0)], regions=regions)
    assert said(trace).text == "k: 43 % of the time is in dot @ 3".replace("@ 3", "@ 4")


def test_what_a_fused_stage_mostly_does():
    at = (("k.py", 4),)
    fused = {"exp + mul @ 4": (Part(0.3, "exp", at), Part(0.3, "exp", (("k.py", 5),)), Part(0.4, "mul", at))}
    stages = [("exp + mul @ 4", "exp+mul", 700), ("load @ 2", "load", 300)]
    assert (
        said(trace_of(stages, parts=fused)).text
        == "k: 70 % of the time is in exp + mul @ 4, about 60 % of it exp"
    )
    fused = {"exp + mul @ 4": (Part(0.49, "exp", at), Part(0.3, "mul", at), Part(0.21, "add", at))}
    assert said(trace_of(stages, parts=fused)).text == "k: 70 % of the time is in exp + mul @ 4"
    fused = {"exp + mul @ 4": (Part(1.0, "exp", at),)}
    assert said(trace_of(stages, parts=fused)).text == "k: 70 % of the time is in exp + mul @ 4"


def test_time_outside_of_stages_is_the_kernels_own():
    assert said(trace_of([("dot @ 3", "dot", 200)], 800)).text == "k: 80 % of the time is in k itself"


def test_time_in_stages_without_probes_says_what_they_do():
    parts = {"k": (Part(0.9, "exp+mul", (("k.py", 4),)), Part(0.1, "kernel", (("k.py", 1),)))}
    found = said(trace_of([("dot @ 3", "dot", 200)], 800, parts=parts))
    assert found.text == (
        "k: 80 % of the time is in k, in stages that are too short for probes of their own: mostly exp + mul"
    )
    assert found.data["made_of"] == pytest.approx({"exp+mul": 0.72, "dot": 0.2, "starting programs": 0.08})


def test_many_kinds_of_stages_without_probes_are_a_mixture():
    """The kernel's own time has four fifths, and of that no kind more than 28 %."""
    kinds = [
        Part(0.35, "exp", (("k.py", 4),)),
        Part(0.35, "mul", (("k.py", 5),)),
        Part(0.3, "add", (("k.py", 6),)),
    ]
    found = said(trace_of([("dot @ 3", "dot", 200)], 800, parts={"k": tuple(kinds)}))
    assert found.text.startswith(
        "k: no stage dominates; the time is made of about exp 28 %, mul 28 %, add 24 %, dot"
    )


def test_an_iterations_own_time_is_said_of_its_loop():
    regions = [
        Region(0, "k", "kernel"),
        Region(1, "loop @ 3", "loop", 0, depth=1),
        Region(2, "iteration", "iteration", 1, depth=2),
    ]
    rows = {"region": [2, 1, 0], "start": [0, 0, 0], "stop": [90, 95, 100]}
    kernels = [Kernel(0, "k", "cpu", Clock(1e9))]
    trace = Trace.build(rows, kernels=kernels, launches=[Launch(0)], regions=regions)
    assert said(trace).text == "k: 90 % of the time is in loop @ 3 itself"
    assert said(trace).data["made_of"] == pytest.approx({"loops": 0.95, "starting programs": 0.05})


def test_nothing_is_said_of_a_kernel_that_took_no_time():
    trace = trace_of([], 0)
    tree = region_tree(trace, trace.kernels[0])
    assert headline(trace, trace.kernels[0], tree, "k") == []
    assert headline(trace, trace.kernels[0], tree.clear(), "k") == []
    assert made_of(trace, tree) == {}


def test_parts_need_not_add_up_to_one():
    parts = {"a": (Part(0.2, "x", (("k.py", 1),)), Part(0.6, "y", (("k.py", 2),)))}
    trace = trace_of([("a", "x+y", 400)], parts=parts)
    assert made_of(trace, region_tree(trace, trace.kernels[0])) == pytest.approx({"y": 0.75, "x": 0.25})


def test_regions_shorter_than_four_records_are_named_up_to_three():
    """A record of 10 ns on a clock of 1 GHz: below 40 ns a time is rough. Marks have no time at all."""
    stages = [(f"s{n}", "dot", 39) for n in range(4)] + [("long", "dot", 40), ("here", "mark", 1)]
    trace = trace_of(stages, calibration={"cost_ticks": 10.0})
    (found,) = short_regions(trace.kernels[0], region_tree(trace, trace.kernels[0]), "k")
    assert found.text == "k: s0, s1, s2 ...: shorter than four records (40 ns), so read the times as rough"
    assert (found.level, found.data, found.kernel) == ("warning", {"regions": [1, 2, 3, 4]}, 0)
    trace = trace_of(stages[:3], calibration={"cost_ticks": 10.0})
    (found,) = short_regions(trace.kernels[0], region_tree(trace, trace.kernels[0]), "k")
    assert found.text == "k: s0, s1, s2: shorter than four records (40 ns), so read the times as rough"


def test_nothing_is_rough_where_the_cost_of_a_record_is_not_known():
    trace = trace_of([("s", "dot", 1)])
    tree = region_tree(trace, trace.kernels[0])
    assert short_regions(trace.kernels[0], tree, "k") == []
    kernel = Kernel(0, "k", "cpu", Clock(1e9), calibration={"cost_ticks": 10.0})
    assert short_regions(kernel, tree.with_columns(total_ns=pl.lit(0.0)), "k") == []
