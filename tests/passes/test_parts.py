"""What a region's own time is made of: written into the IR, read back, and spread over lines by the source tool."""

from dataclasses import replace

import pytest
from xdsl.parser import Parser

from tileprobe.ir.blocks import insert_first
from tileprobe.ir.parts import Part, parts_of
from tileprobe.ir.probe import RegionOp
from tileprobe.ir.regions import Region, regions_of
from tileprobe.ir.registry import context
from tileprobe.passes import pipeline

HERE, THERE = ("a b.py", 7), ('odd "name" < x:3.py', 12)


def test_shares_add_up_and_the_small_ones_go():
    parts = parts_of({("exp", (HERE,)): 900.0, ("add", (HERE,)): 99.5, ("mul", (THERE, HERE)): 0.5})
    assert [(p.kind, p.share) for p in parts] == [("exp", 0.9005), ("add", 0.0995)]
    assert parts_of({}) == parts_of({("a", ()): 0.0}) == ()
    many = parts_of({(f"k{n}", (HERE,)): 1.0 for n in range(1000)})
    assert sum(p.share for p in many) == pytest.approx(1.0, abs=0.05)


def test_parts_survive_text_and_json():
    parts = (Part(0.75, "exp", (THERE, HERE)), Part(0.25, "load", (HERE,)))
    op = RegionOp.of(0, "x", "exp+load", None, "a b.py", 7, 7)
    op.set_parts(parts)
    module = Parser(context(), "func.func @k() {\n  func.return\n}").parse_module()
    insert_first(next(iter(module.ops)).regions[0].blocks[0], op)
    assert 'parts [0.75 "exp" at "odd' in str(module)
    (region,) = regions_of(next(iter(Parser(context(), str(module)).parse_module().ops)))
    assert region.parts == parts
    rows = [[0.75, "exp", [list(THERE), list(HERE)]], [0.25, "load", [list(HERE)]]]
    assert Region(0, "x", parts=rows).parts == parts
    assert replace(region, name="y").parts == parts


PROGRAM = """
func.func @k(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    "tt.load"() : () -> () loc(callsite("h.py":3:1 at "a.py":9:1))
    "tt.store"() : () -> () loc("a.py":10:1)
  } loc("a.py":8:1)
  func.return
} loc("a.py":5:1)
"""


def instrumented(select):
    module = Parser(context(), PROGRAM).parse_module()
    for step in pipeline(f"select{{{select}}},instrument").passes:
        step.apply(context(), module)
    return {region.kind: region for region in regions_of(next(iter(module.ops)))}


def test_what_is_not_probed_is_a_part_of_the_region_around():
    regions = instrumented("kinds=none")
    own = {part.frames: part.kind for part in regions["iteration"].parts}
    assert own[("h.py", 3), ("a.py", 9)] == "load"
    assert own[("a.py", 10),] == "store"
    assert own[("a.py", 8),] == "iteration"
    assert not regions["loop"].parts  # its own line, as its first line says
    assert regions["loop"].first_line == 8


def test_what_is_probed_is_not():
    regions = instrumented("kinds=load")
    assert {part.kind for part in regions["iteration"].parts} == {"store", "iteration"}
    (only,) = regions["load"].parts
    assert only == Part(1.0, "load", (("h.py", 3), ("a.py", 9)))
    assert regions["load"].name == "load @ 9"


def test_lines_of_functions_can_be_chosen():
    assert "load" in instrumented('lines="3"')
    assert "store" not in instrumented('lines="3"')
