"""What the HTML page is given, before a browser sees it."""

import json
import sys
import zlib
from dataclasses import replace

import numpy as np
import polars as pl
from made import attention
from made_streams import warp_specialised

from tileprobe.ir.parts import Part
from tileprobe.tools.kernels import kernel_totals
from tileprobe.tools.programs import program_times
from tileprobe.tools.regions import region_times, region_tree
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Work
from tileprobe.views.encodable import encodable
from tileprobe.views.html import embedded, page
from tileprobe.views.html.distributions import distributions
from tileprobe.views.html.figures import facts, findings, launches
from tileprobe.views.html.levels import levels, read_level
from tileprobe.views.html.listing import Places, highlight
from tileprobe.views.html.merging import merge_short
from tileprobe.views.html.packing import pack
from tileprobe.views.html.timeline import timeline
from tileprobe.views.without_source import without_source

TTIR = """#loc = loc("k.py":3:0)
#loc1 = loc(unknown)
#loc2 = loc("k.py":7:12)
#loc3 = loc("x"(#loc2))
#loc4 = loc("lib.py":40:8)
#loc5 = loc(callsite(#loc4 at #loc3))
module {
  tt.func @k(%p: !tt.ptr<f32> loc("p"(#loc))) {
    %0 = tt.load %p : !tt.ptr<f32> loc(#loc5)
    %1 = arith.addf %0, %0 : f32 loc(#loc3)
    %2 = arith.constant 1.0 : f32 loc(#loc1)
  } loc(#loc)
} loc(#loc)"""
PTX = """.version 8.0
\t.file\t1 "/home/k" "k.py"
\t.loc\t1 7 12
\tld.global.f32 %f1, [%rd1];
\t.loc\t1 8 0
\tst.global.f32 [%rd1], %f1;"""
TILE = """module {
  %0 = "arith.constant"() : () -> i32
  tile.nest (%1) in [64] does "load+mul" from "/home/k.py:7,9" {
    %2 = "tt.load"(%1)
  }
  %3 = "arith.constant"() : () -> i32
  tile.dot %4 does "dot" from "/home/k.py:12"
}"""


def unpack(packed, layout):
    """As page/data.js does it."""
    raw = np.frombuffer(zlib.decompress(packed), np.uint8)
    found, at = {}, 0
    for part in layout:
        dtype = np.dtype("<" + part["type"])
        size = part["count"] * dtype.itemsize
        bytes_ = raw[at : at + size].reshape(dtype.itemsize, -1).T if size else raw[:0]
        values = np.ascontiguousarray(bytes_).view(dtype).ravel()
        found[part["name"]] = np.cumsum(values.astype(float)) if part["growing"] else values
        at += size
    return found


def test_columns_survive_packing():
    columns = {
        "start": np.array([5.0, 7.0, 1e10, 3.0]),
        "iteration": np.array([-1, 0, 300, 70_000], np.int32),
        "weight": np.array([1.0, 2.5, 1.0, 1.0], np.float32),
        "value": np.array([np.nan, 1.0, np.inf, -2.0]),
        "kind": np.zeros(0, np.uint8),
    }
    found = unpack(*pack(columns))
    for name, values in columns.items():
        np.testing.assert_array_equal(found[name], values)


def test_rows_of_a_track_nest_and_do_not_overlap():
    for trace in (attention(), warp_specialised()):
        made = timeline(trace)
        t = unpack(made.packed, made.about["columns"])
        assert len(t["start"]) == len(trace) == made.about["drawn"]
        assert sum(track["rows"] for track in made.tracks) == len(t["offsets"]) - 1
        for first, last in zip(t["offsets"][:-1].astype(int), t["offsets"][1:].astype(int)):
            start, stop = t["start"][first:last], t["start"][first:last] + t["length"][first:last]
            assert (start[1:] >= stop[:-1]).all()


def test_what_encloses_is_above():
    made = timeline(attention(launches=1))
    t = unpack(made.packed, made.about["columns"])
    rows = [set(t["region"][int(a) : int(b)]) for a, b in zip(t["offsets"], t["offsets"][1:])]
    assert rows[:4] == [{0}, {1, 2, 9}, {3}, {4, 5, 6, 7, 8}]


def test_kernels_in_turns_share_the_track_of_a_core_and_others_do_not():
    two = Trace.merge(attention(launches=1), attention(launches=1, name="other"))
    assert len(timeline(two).tracks) == 2
    back = 1000.0 * (pl.col("launch") == 1)
    gap = two.intervals.filter(pl.col("launch") == 1)["start_ns"].min() - two.intervals["start_ns"].min()
    two.frame = two.intervals.with_columns(
        (pl.col(name) - gap / 1000 * back).alias(name) for name in ("start_ns", "stop_ns")
    )
    assert len(timeline(two).tracks) == 4


def test_merging_keeps_every_interval_and_all_of_its_time():
    frame = pl.DataFrame(
        {
            "place": [0] * 6 + [1] * 3,
            "start_ns": [0.0, 10, 20, 40, 1000, 1010, 0, 10, 5000],
            "stop_ns": [10.0, 20, 30, 900, 1010, 1030, 4, 12, 5001],
            "launch": [0] * 9,
            "region": [1, 2, 1, 3, 1, 2, 5, 6, 7],
            "kind": pl.Series(["region"] * 9, dtype=pl.Enum(["region", "async", "wait", "mark", "value"])),
        }
    )
    merged = merge_short(frame, 6)
    assert merged.counts.sum() == 9
    assert merged.covered_ns.sum() == (frame["stop_ns"] - frame["start_ns"]).sum()
    assert merged.frame.height <= 6
    long = merged.frame.filter(pl.col("region") == 3)
    assert long["stop_ns"].item() == 900  # what is long stays as it is
    assert (merged.frame["start_ns"][1:] >= merged.frame["stop_ns"][:-1])[:2].all()
    assert merge_short(frame, 9).count == 0


def test_launches_and_kinds_are_never_put_together():
    """Six short neighbours in one step of time: two launches, and waits among them."""
    kinds = ["region", "region", "wait", "wait", "wait", "wait"]
    frame = pl.DataFrame(
        {
            "place": [0] * 6,
            "start_ns": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5],
            "stop_ns": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
            "launch": [0, 0, 0, 0, 1, 1],
            "region": [1] * 6,
            "kind": pl.Series(kinds, dtype=pl.Enum(["region", "async", "wait", "mark", "value"])),
        }
    )
    merged = merge_short(frame, 3)
    rows = merged.frame.select("launch", pl.col("kind").cast(pl.String)).rows()
    assert rows == [(0, "region"), (0, "wait"), (1, "wait")] and merged.counts.tolist() == [2, 2, 2]


def test_arcs_that_a_page_has_no_room_for_are_counted(monkeypatch):
    trace = warp_specialised()
    about = timeline(trace).about
    assert about["edges"] == about["edges_drawn"] == trace.edges.height > 2
    monkeypatch.setattr(sys.modules[timeline.__module__], "EDGES", 2)
    made = timeline(trace)
    assert (made.about["edges"], made.about["edges_drawn"]) == (trace.edges.height, 2)
    assert len(unpack(made.packed, made.about["columns"])["edge_start"]) == 2


def places(text):
    return {line.strip().split(" ")[0]: where for line, where in read_level(text)}


def test_lines_of_ttir_know_their_places_and_lose_their_locations():
    found = dict(read_level(TTIR))
    assert found["    %0 = tt.load %p : !tt.ptr<f32>"] == {("k.py", 7), ("lib.py", 40)}
    assert found["    %1 = arith.addf %0, %0 : f32"] == {("k.py", 7)}
    assert found["    %2 = arith.constant 1.0 : f32"] == set()
    assert not any("loc" in line for line in found)


def test_lines_of_a_stage_belong_to_it():
    found = places(TILE)
    assert found["%2"] == {("/home/k.py", 7), ("/home/k.py", 9)}
    assert found["%3"] == set()
    assert found["tile.dot"] == {("/home/k.py", 12)}


def test_assembly_follows_its_loc():
    found = places(PTX)
    assert found["ld.global.f32"] == {("/home/k/k.py", 7)}
    assert found["st.global.f32"] == {("/home/k/k.py", 8)}


def test_names_of_folders_are_not_shown():
    """Of files that are listed, of libraries, and those that assembly says apart."""
    ptx = PTX.replace(
        "\t.loc\t1 8", '\t.file\t2 "/opt/python/site-packages/triton/language/standard.py"\n\t.loc\t1 8'
    )
    kernel = replace(attention().kernels[0], file="/home/k/k.py", ir={"ptx": ptx, "tile": TILE})
    places = Places()
    places.add(("/home/k/k.py", 7))
    assembly, scheduled = levels(kernel, places)
    assert assembly["lines"][1] == '\t.file\t1 "k.py"' and '\t.file\t2 "standard.py"' in assembly["lines"]
    assert not any("/" in line for line in (*assembly["lines"], *scheduled["lines"]))
    assert assembly["links"][3] == [0]


def test_a_location_that_refers_to_itself_is_no_endless_loop():
    assert read_level("#loc1 = loc(#loc2)\n#loc2 = loc(#loc1)\nx loc(#loc1)") == [("x", set())]


def test_highlighting_changes_no_text():
    lines = [
        "@triton.jit",
        "def k(x):  # é",
        '    """two',
        "    lines\t\x0c",
        "",
        "    return x * 1.5e-3 if x else '\\n'",
    ]
    assert ["".join(text for _, text in pieces) for pieces in highlight(lines)] == lines
    assert ["d", "@triton"] in highlight(lines)[0] or highlight(lines)[0][0][0] == "d"


def test_json_in_a_script_element_cannot_end_it():
    text = embedded({"a": "</script><!--", "b": float("inf"), "c": [float("nan"), 1.5]})
    assert "<" not in text
    assert json.loads(text) == {"a": "</script><!--", "b": None, "c": [None, 1.5]}


def test_halves_of_characters_become_escapes():
    trace = attention(launches=1, name="a\ud800b")
    clean = encodable(trace)
    assert clean.kernels[0].name == clean.regions[0].name == "a\\ud800b"
    assert clean.regions[4] == trace.regions[4]


def test_a_page_lets_no_code_but_its_own_run():
    text = page(attention(launches=1))
    policy = text.split('Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src 'none'" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe" not in policy
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_distributions_are_over_executions_iterations_and_programs():
    found = distributions(attention(noise=0.05, programs=6), attention().kernels[0])[4]
    assert sum(found["histogram"]["counts"]) + found["histogram"]["beyond"] == 5 * 6 * 6
    assert found["iterations"]["at"] == list(range(6))
    assert (
        found["iterations"]["p50"][0] > 1.8 * found["iterations"]["p50"][1]
    )  # the first load misses the cache
    assert found["programs"]["shape"] == [6]
    np.testing.assert_allclose(found["programs"]["ns"], 7 * 900, rtol=0.1)


def test_a_program_stands_for_itself_on_the_map_of_the_grid():
    """Half of the programs recorded, each standing for two; a quarter of the iterations, each standing for four."""
    trace = Trace.build(
        {
            "program": [0, 0, 2, 2],
            "region": [0, 1, 0, 1],
            "iteration": [-1, 0, -1, 0],
            "start": [0, 0, 0, 0],
            "stop": [1000, 200, 1000, 100],
            "weight": [2.0, 8.0, 2.0, 8.0],
        },
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (4,))],
        regions=[Region(0, "k", "kernel"), Region(1, "dot", "dot", 0)],
    )
    found = distributions(trace, trace.kernels[0])
    assert found[1]["programs"]["ns"] == [800.0, None, 400.0, None]
    assert found[0]["programs"]["ns"] == [1000.0, None, 1000.0, None]


def test_a_page_of_many_kernels_and_large_grids_stays_small():
    """Each of 100 kernels has a map of 4,096 programs for ten regions: four million numbers, were all kept."""
    one = attention(launches=1, programs=256, iterations=2, noise=0.1)
    wide = replace(one, launches=[replace(launch, grid=(4096,)) for launch in one.launches])
    kernels = [replace(wide.kernels[0], name=f"k{n}", id=n) for n in range(100)]
    many = replace(wide, kernels=kernels)
    found = distributions(many, kernels[0])
    assert len(found) == 8
    assert all(len(region["programs"]["ns"]) <= 600_000 // (100 * 8) for region in found.values())
    assert len(distributions(wide, wide.kernels[0])[5]["programs"]["ns"]) > 2000


def test_quantiles_of_a_histogram_are_those_of_the_tree():
    """Two launches, one of them stands for nine and is slow; in each, one of two executions stands for four."""
    trace = Trace.build(
        {
            "launch": [0, 0, 1, 1],
            "region": [0, 0, 0, 0],
            "start": [0, 100, 1000, 1500],
            "stop": [10, 120, 1300, 1900],
            "weight": [1.0, 4.0, 1.0, 4.0],
        },
        kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
        launches=[Launch(0, 0, (5,), work=0), Launch(1, 0, (7,), work=1)],
        regions=[Region(0, "k", "kernel")],
        works=[Work(0, 0, (5,), ran=1, probed=1), Work(1, 0, (7,), ran=9, probed=1)],
    )
    found = distributions(trace, trace.kernels[0])[0]["histogram"]
    row = region_tree(trace, trace.kernels[0]).row(0, named=True)
    assert found["quantiles"] == [20.0, row["p50_ns"], row["p95_ns"]] == [20.0, 400.0, 400.0]
    assert sum(found["counts"]) + found["beyond"] == row["count"] == 50


def test_what_a_unit_did_is_all_its_own_on_the_map():
    """Units without a kernel around their work are there once: what was sampled of it does not make two of them."""
    trace = Trace.build(
        {"program": [0, 1], "region": [1, 1], "start": [0, 0], "stop": [100, 50], "weight": [2.0, 2.0]},
        kernels=[Kernel(0, "k: units", "cambricon:s", Clock(1e9, "simulated"))],
        launches=[Launch(0, 0, (2,), 0.0, 200.0)],
        regions=[Region(1, "array read", "hardware")],
    )
    assert distributions(trace, trace.kernels[0])[1]["programs"]["ns"] == [200.0, 100.0]
    runs = program_times(trace, trace.kernels[0])
    assert runs["weight"].to_list() == [1.0, 1.0]


def test_launches_say_how_much_of_them_was_recorded():
    some = attention(launches=2)
    some.launches[1] = replace(some.launches[1], losses=Losses(20, 60, 20))
    assert [launch["part"] for launch in launches(some)] == [1.0, 0.2]
    some.launches[1] = replace(some.launches[1], losses=Losses())  # nobody counted
    assert [launch["part"] for launch in launches(some)] == [1.0, 1.0]


def test_a_page_of_nothing_is_called_so():
    nothing = Trace.build({"region": [], "start": [], "stop": []}, kernels=[], launches=[], regions=[])
    assert "<title>an empty trace · TileProbe</title>" in page(nothing)


def test_a_wide_spread_has_a_logarithmic_axis():
    def axis(times):
        trace = Trace.build(
            {"region": [0] * len(times), "start": [0] * len(times), "stop": times},
            kernels=[Kernel(0, "k", "cpu", Clock(1e9))],
            launches=[Launch(0, 0, (1,))],
            regions=[Region(0, "k", "kernel")],
        )
        return distributions(trace, trace.kernels[0])[0]["histogram"]

    wide = axis([10, 10, 100, 1000, 1000])
    assert wide["log"] and (wide["from"], wide["to"]) == (10.0, 1000.0)
    assert [n for n, count in enumerate(wide["counts"]) if count] == [0, 20, 39]  # halves of the axis
    near = axis([100, 100, 200, 500, 500])
    assert not near["log"] and [n for n, count in enumerate(near["counts"]) if count] == [0, 10, 39]


def test_tools_that_found_nothing_are_no_finding():
    """Nobody asked for them by name; what the machine says of itself is shown."""
    trace = replace(warp_specialised(), meta={"notes": ["ws: limited by the channels"]})
    said = [finding["text"] for finding in findings(trace, region_times(trace))]
    assert "ws: limited by the channels" in said and any("stand still" in text for text in said)
    assert not any("no iterations" in text or "nothing runs beside" in text for text in said)


def test_records_that_were_lost_are_a_warning():
    some = attention(launches=1)
    for losses, note, warning in (
        (Losses(10), "none lost", False),
        (Losses(10, 20), "20 left out by sampling", False),
        (Losses(10, 20, 30), "20 left out by sampling, 30 lost for lack of room", True),
    ):
        some.launches[0] = replace(some.launches[0], losses=losses)
        total = kernel_totals(some).row(0, named=True)
        (fact,) = [
            fact for fact in facts(some, some.kernels[0], total) if fact["name"] in ("records", "intervals")
        ]
        assert (fact["value"], fact["note"], fact["warning"]) == ("10", note, warning)


def test_a_trace_without_source_has_no_ir_parts_command_or_folder():
    trace = attention(launches=1)
    kernel = replace(trace.kernels[0], ir={"ttir": "module {}"}, file="/home/k/k.py")
    part = Part(1.0, "load", (("/home/k/k.py", 7),))
    regions = [replace(region, file="/home/k/k.py", parts=(part,)) for region in trace.regions]
    whole = replace(
        trace, kernels=[kernel], regions=regions, meta={"command": ["tileprobe", "/home/k/k.py"], "seed": 1}
    )
    bare = without_source(whole)
    assert not bare.kernels[0].ir and not bare.kernels[0].source and bare.meta == {"seed": 1}
    assert not any(region.parts for region in bare.regions)
    assert {bare.kernels[0].file, *(region.file for region in bare.regions)} == {"k.py"}


def test_warnings_come_last_and_places_end_with_their_function():
    trace = replace(attention(launches=2), meta={"problems": {"a": "something went wrong"}})
    levels_ = [finding["level"] for finding in findings(trace, region_times(trace))]
    assert levels_ == sorted(levels_) and levels_[0] == "info" and levels_[-1] == "warning"
    text = '  ; from "/h/k.py:7"\n  %1 = load\n}\ndefine void @other() {\n  ret void\n}'
    assert [frames for _, frames in read_level(text)] == [{("/h/k.py", 7)}, set(), set(), set(), set()]
    places = Places()
    places.add(("/h/k.py", 7))
    shown = levels(replace(trace.kernels[0], ir={"x": "call /h/k.py here"}), places)
    assert shown[0]["lines"] == ["call k.py here"]
