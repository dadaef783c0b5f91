"""A region whose instructions the compiler moved is marked with the share that moved, in every report."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from gpu_cases import code, probed

import tileprobe
from tileprobe.session.session import Session
from tileprobe.targets.gpu import evidence
from tileprobe.targets.gpu.amdgcn import read_amdgcn
from tileprobe.targets.gpu.compile import Site
from tileprobe.targets.gpu.machine_code import Code, Instruction
from tileprobe.targets.gpu.placed import placed
from tileprobe.targets.gpu.units import access_bytes, unit_of
from tileprobe.tools.regions import Regions, region_tree
from tileprobe.trace import Trace
from tileprobe.views.chrome import write_chrome
from tileprobe.views.collapsed import Collapsed
from tileprobe.views.csv_table import Csv
from tileprobe.views.hatchet import Hatchet
from tileprobe.views.html import page
from tileprobe.views.json_report import trace_to_json
from tileprobe.views.screen import make_console
from tileprobe.views.speedscope import Speedscope
from tileprobe.views.terminal import print_report


def _code(*parts):
    """Machine code of clocks (numbers: their slots) and of the kernel's instructions on line 7."""
    ops = [
        Instruction(0, "CS2R", "R2, SR_CLOCKLO", "", "tileprobe.record", part + 1)
        if isinstance(part, int)
        else Instruction(0, part, "", "", "kernel.py", 7)
        for part in parts
    ]
    return Code(tuple(ops), 8, 0)


def test_what_one_op_misses_is_not_missed_by_its_neighbours():
    """Two loads of the same kind and one of another; those of the first came too late."""
    sites = [
        Site("ttg.local_load", "kernel.py", 7, n, n + 1, kind) for n, kind in ((0, "a"), (1, "b"), (2, "a"))
    ]
    late = placed(_code(0, 1, "LDSM", 2, "LDS", "LDS", 3, "LDS", "LDS"), sites)
    assert [each.moved for each in late] == [1.0, 0.0, 0.0]
    # Where none of its like has them nobody knows whose they are.
    whose = placed(_code(0, 1, "LDSM", 2, 3, "LDS", "LDS", "LDS"), sites)
    assert [each.moved for each in whose] == [1.0, 0.5, 1.0]


def test_two_narrow_instructions_are_as_much_as_a_wide_one():
    sites = [Site("ttng.tmem_load", "kernel.py", 7, n, n + 1, "x") for n in (0, 1)]
    halves = _code(0, "LDTM.x64", 1, "LDTM.x32", "LDTM.x32", 2)
    assert [each.moved for each in placed(halves, sites)] == [0.0, 0.0]
    late = _code(0, "LDTM.x64", 1, "LDTM.x32", 2, "LDTM.x32")
    assert [each.moved for each in placed(late, sites)] == [0.0, 0.5]


def test_what_an_exchange_between_its_own_records_takes_is_not_missed():
    load = Site("ttg.local_store", "kernel.py", 7, 0, 1, "x")
    gather = Site("tt.gather", "kernel.py", 7, 1, 2, "y")
    code = _code(0, "STS", 1, "STS", "LDS", 2)
    assert [each.moved for each in placed(code, [load, gather])] == [0.0]
    assert [each.moved for each in placed(code, [load])] == [0.5]


def test_what_is_nowhere_was_not_moved():
    """An op of which compilers know that it never runs."""
    sites = [Site("tt.dot", "kernel.py", 7, n, n + 1, "x") for n in (0, 1, 2)]
    two = ("HMMA", "HMMA")
    assert [each.moved for each in placed(_code(0, *two, 1, *two, 2, 3), sites)] == [0.0, 0.0]
    # Whatever line the compiler gives to what it moved.
    ops = _code(0, *two, 1, "HMMA", 2, *two, 3, "HMMA").instructions
    elsewhere = replace(ops[-1], line=9)
    assert [each.moved for each in placed(Code((*ops[:-1], elsewhere), 8, 0), sites)] == [0.0, 0.5, 0.0]
    # To its neighbour: the one that has most shows what each should have.
    found = placed(_code(0, *two, 1, "HMMA", 2, *two, "HMMA", 3), sites)
    assert found[1].moved > found[0].moved > found[2].moved == 0


@pytest.mark.parametrize(
    ("op", "own", "other"),
    [
        ("tt.load", "LDG.E.128", "LDGSTS.E.BYPASS.128"),
        ("tt.load", "global_load_dwordx4", "buffer_load_lds_dwordx4"),
        ("ttg.async_copy_global_to_local", "buffer_load_lds_dwordx4", "buffer_load_dwordx4"),
        ("tt.atomic_rmw", "RED.E.ADD.F32", "REDUX.SUM"),
        ("tt.atomic_rmw", "ATOMG.E.ADD", "ATOMS.POPC.INC.32"),
    ],
)
def test_instructions_of_other_ops_on_the_line_are_not_missed(op, own, other):
    (found,) = placed(_code(0, own, 1, other, other), [Site(op, "kernel.py", 7, 0, 1, "x")])
    assert found.inside > 0
    assert found.moved == 0
    (found,) = placed(_code(0, other, 1, own), [Site(op, "kernel.py", 7, 0, 1, "x")])
    assert found.moved == 1


def test_buffer_loads_that_go_to_shared_memory_are_copies():
    listing = (
        "\tbuffer_load_dwordx4 v1, s[4:7], 0 offen lds\n\tbuffer_load_dwordx4 v[2:5], v1, s[4:7], 0 offen\n"
    )
    copy, load = read_amdgcn(listing).instructions
    assert (unit_of(copy.opcode), unit_of(load.opcode)) == ("async copy", "global memory")
    assert access_bytes(copy.opcode) == access_bytes(load.opcode) == 16


def test_an_instruction_behind_its_clock_marks_its_region(monkeypatch):
    """One HMMA of a product stands behind the record that ends it: so much of this region moved, and of no other."""
    made = probed("matmul", "sm80")
    assert evidence.moved_regions(made) == {}
    whole = code(made.kernel)
    site = next(at.site for at in placed(whole, made.sites) if at.site.op == "tt.dot" and at.moved == 0)
    ops = list(whole.instructions)
    clocks = {op.slot: n for n, op in enumerate(ops) if op.slot >= 0 and op.reads_clock}
    first, last = clocks[site.before], clocks[site.after]
    product = next(n for n in range(first, last) if ops[n].opcode.startswith("HMMA"))
    there = sum(op.opcode.startswith("HMMA") for op in ops[first:last])
    ops.insert(last, ops.pop(product))  # now behind the clock
    monkeypatch.setattr(
        evidence, "read_code", lambda _: type(whole)(tuple(ops), whole.registers, whole.spill_bytes)
    )
    assert (first < product < last) and there > 1
    shares = {made.regions[number].kind: share for number, share in evidence.moved_regions(made).items()}
    assert set(shares) == {"dot"}
    assert 0 < shares["dot"] <= 1 / there
    # Inspect's JSON has a share for each product of the line, the remark of a session the largest.
    found = [at for at in placed(evidence.read_code(made.kernel), made.sites) if at.moved > 0]
    assert {at.site.op for at in found} == {"tt.dot"}
    (lost,) = [at for at in found if at.site == site]
    assert len(found) == 1
    assert lost.moved == pytest.approx(1 / there)
    rows = evidence._probed(made, evidence.side(made.kernel))["moved"]
    assert {(row["op"], row["line"], row["share"]) for row in rows} == {
        ("tt.dot", at.site.line, round(at.moved, 3)) for at in found
    }
    assert evidence.remarks(made) == [
        f"line {site.line}: the compiler moved {lost.moved:.0%} of tt.dot out of its region"
    ]


@pytest.fixture(scope="module")
def trace():
    """Of a kernel of whose stores the compiler is said to have moved a quarter."""
    from kernels_session import add

    original = evidence.placed
    patch = pytest.MonkeyPatch()
    patch.setattr(
        evidence,
        "placed",
        lambda *a: [
            replace(p, inside=0.75 * p.expected) if p.site.op == "tt.store" else p for p in original(*a)
        ],
    )
    x = np.arange(256, dtype=np.float32)
    with patch.context(), tileprobe.use("sim:a100"), Session(min_cost=0.0, programs="all") as session:
        held, out = tileprobe.array(x), tileprobe.array(np.zeros(256, np.float32))
        for _ in range(4):
            add[(2,)](held, out, 256, BLOCK=128)
    patch.undo()
    return session.trace


def test_in_the_trace(trace, tmp_path):
    trace.save(tmp_path / "t.parquet")
    found = {r.kind: r.moved for r in Trace.open(tmp_path / "t.parquet").regions}
    assert found["store"] == 0.25
    assert found["kernel"] == 0.0


def test_in_the_terminal(trace):
    out = io.StringIO()
    print_report(trace, [Regions().read(trace)], make_console(out, 100))
    rows = [line for line in out.getvalue().splitlines() if "moved" in line or "store" in line]
    assert any("region" in row and "moved" in row for row in rows)
    assert any("store" in row and "25 %" in row for row in rows)
    assert "that the compiler put outside of its records" in " ".join(out.getvalue().split())


def test_in_json(trace):
    (kernel,) = trace_to_json(trace)["kernels"]
    assert {row["kind"]: row["moved"] for row in kernel["regions"]}["store"] == 0.25
    assert [row["moved"] for row in kernel["regions"] if row["kind"] == "kernel"] == [None]


def test_on_the_page_and_in_exports(trace, tmp_path):
    text = page(trace)
    assert '"moved":0.25' in text.replace(" ", "")
    assert "moved out" in json.dumps([r.remark for r in trace.regions])
    write_chrome(trace, tmp_path / "chrome.json")
    events = json.loads((tmp_path / "chrome.json").read_text())["traceEvents"]
    said = {e["args"].get("source", "") for e in events if e.get("cat") == "store"}
    assert all("25% moved out by the compiler" in source for source in said)
    assert said


def test_in_formats_without_timelines(trace, tmp_path):
    for view, suffix in (
        (Csv(), "csv"),
        (Hatchet(), "hatchet"),
        (Collapsed(), "folded"),
        (Speedscope(), "json"),
    ):
        view.write(trace, tmp_path / f"t.{suffix}")
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    assert {(row["region_kind"], row["moved"]) for row in rows} >= {("store", "0.25"), ("kernel", "")}
    (root,) = json.loads((tmp_path / "t.hatchet").read_text())
    nodes = [root]
    for node in nodes:
        nodes += node["children"]
    said = {node["frame"]["type"]: node["frame"].get("moved") for node in nodes}
    assert (said["store"], said["kernel"]) == (0.25, None)
    marked = "store @ 11 (25% moved out by the compiler)"
    assert marked in (tmp_path / "t.folded").read_text()
    assert marked in {f["name"] for f in json.loads((tmp_path / "t.json").read_text())["shared"]["frames"]}


def test_copies_of_a_stage_keep_the_mark(trace):
    frame = region_tree(trace, trace.kernels[0])
    assert frame["moved"].to_list().count(0.25) == 1


def test_in_perfettos_own_format(trace):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

    from tileprobe.views.perfetto import perfetto

    read = proto.Trace()
    read.ParseFromString(b"".join(perfetto(trace)))
    (names,) = [p.interned_data for p in read.packet if p.interned_data.event_names]
    store = next(r.id for r in trace.regions if r.kind == "store")
    said = {one.iid: one.str.decode() for one in names.debug_annotation_string_values}
    assert "25% moved out by the compiler" in said[store + 1]
    used = {a.string_value_iid for p in read.packet for a in p.track_event.debug_annotations}
    assert store + 1 in used
